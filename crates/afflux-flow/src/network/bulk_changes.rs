//! Bulk changes: each call changes everything or, if it returns an error, nothing.

use std::hint::black_box;

use super::{ArcId, Network, NodeId, REMOVED, check_count};
use crate::convex_arcs::{FIRST_CONVEX_ID, convex_slot};
use crate::error::FlowError;
use crate::problem::{
    MAX_ARCS, MAX_NODES, Terms, check_bounds, check_cost, check_terms, cost_limit,
};

/// The number of arcs whose memory is prefetched before they are removed.
const PREFETCH_BATCH: usize = 32;

/// An arc to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewArc {
    /// The node where it starts.
    pub tail: NodeId,
    /// The node where it ends.
    pub head: NodeId,
    /// Its bounds and cost.
    pub terms: Terms,
}

impl Network {
    /// Adds nodes with these supplies.
    pub fn add_nodes(&mut self, supplies: &[i64]) -> Result<Vec<NodeId>, FlowError> {
        let new = supplies.len().saturating_sub(self.free_nodes.len());
        check_count("nodes", self.supply.len() + new, MAX_NODES)?;
        self.reserve(supplies.len(), 0);
        supplies.iter().map(|&units| self.add_node(units)).collect()
    }

    /// Adds arcs. An error names an arc by its position in the call, from 0.
    pub fn add_arcs(
        &mut self,
        arcs: impl ExactSizeIterator<Item = NewArc> + Clone,
    ) -> Result<Vec<ArcId>, FlowError> {
        let count = arcs.len();
        let new = count.saturating_sub(self.free_arcs.len());
        check_count("arcs", self.arcs.len() + new, MAX_ARCS)?;
        let limit = cost_limit(self.supply.len());
        for (position, arc) in arcs.clone().enumerate() {
            for (end, node) in [("tail", arc.tail), ("head", arc.head)] {
                self.check_end(position, end, node)?;
            }
            check_terms(position, arc.terms, limit)?;
        }
        self.reserve(0, count);
        let set = |arc: NewArc| self.insert_arc(arc.tail, arc.head, arc.terms);
        Ok(arcs.map(set).collect())
    }

    /// Checks an end of an arc to be added.
    pub(super) fn check_end(
        &self,
        arc: usize,
        end: &'static str,
        node: NodeId,
    ) -> Result<(), FlowError> {
        match self.find_node(node) {
            Ok(_) => Ok(()),
            Err(_) => Err(FlowError::UnknownEnd { arc, end, node }),
        }
    }

    /// Removes arcs and their flow; no arc may be named twice.
    pub fn remove_arcs(&mut self, arcs: &[ArcId]) -> Result<(), FlowError> {
        // Each arc found is marked as removed, so that a duplicate is not found.
        let mut convex_arcs: Vec<usize> = Vec::new();
        for (position, &arc) in arcs.iter().enumerate() {
            let found = self.find_convex(arc).map(|slot| match slot {
                Some(slot) => convex_arcs.push(slot),
                None => self.exists.set(arc as usize, false),
            });
            if let Err(error) = found {
                self.restore_existence(&arcs[..position]);
                return Err(error);
            }
        }
        convex_arcs.sort_unstable();
        if let Some(pair) = convex_arcs.windows(2).find(|pair| pair[0] == pair[1]) {
            self.restore_existence(arcs);
            let arc = FIRST_CONVEX_ID + pair[0] as ArcId;
            return Err(FlowError::UnknownArc { arc });
        }
        for batch in arcs.chunks(PREFETCH_BATCH) {
            let others = || {
                batch
                    .iter()
                    .copied()
                    .filter(|&arc| convex_slot(arc).is_none())
            };
            self.prefetch(others());
            others().for_each(|arc| self.remove_found_arc(arc));
        }
        convex_arcs
            .into_iter()
            .for_each(|slot| self.remove_found_convex(slot));
        Ok(())
    }

    /// Marks arcs as existing again.
    fn restore_existence(&mut self, arcs: &[ArcId]) {
        for &arc in arcs.iter().filter(|&&arc| convex_slot(arc).is_none()) {
            self.exists.set(arc as usize, true);
        }
    }

    /// Prefetches the memory of arcs and of their ends: a dozen places for each arc, which would
    /// otherwise be waited for one after the other.
    fn prefetch(&self, arcs: impl Iterator<Item = ArcId> + Clone) {
        let arcs = arcs.map(|arc| arc as usize);
        let mut seen = 0;
        for index in arcs.clone() {
            let terms = self.arcs.terms(index);
            seen |= terms.lower | terms.capacity | terms.cost | self.state.flow[index];
        }
        for (tail, head) in arcs.map(|index| self.arcs.ends(index)) {
            for node in [tail, head] {
                seen |= i64::from(self.degree[node]) | self.fixed_flow.due.prefetch(node);
                seen |= self.state.prefetch(node);
            }
        }
        black_box(seen);
    }

    /// Removes nodes; no node may be named twice or still have arcs.
    pub fn remove_nodes(&mut self, nodes: &[NodeId]) -> Result<(), FlowError> {
        for (position, &node) in nodes.iter().enumerate() {
            let error = match self.find_node(node) {
                Ok(index) if self.degree[index] == 0 => {
                    self.degree[index] = REMOVED;
                    continue;
                }
                Ok(index) => FlowError::NodeHasArcs {
                    node,
                    ends: self.degree[index],
                },
                Err(error) => error,
            };
            for &node in &nodes[..position] {
                self.degree[node as usize] = 0;
            }
            return Err(error);
        }
        for &node in nodes {
            self.change_supply(node as usize, 0);
        }
        self.free_nodes.extend(nodes);
        Ok(())
    }

    /// Changes the supplies of nodes.
    pub fn set_supplies(
        &mut self,
        changes: impl Iterator<Item = (NodeId, i64)> + Clone,
    ) -> Result<(), FlowError> {
        for (node, _) in changes.clone() {
            self.find_node(node)?;
        }
        for (node, supply) in changes {
            self.change_supply(node as usize, supply);
        }
        Ok(())
    }

    /// Changes lower bounds and capacities of arcs.
    pub fn set_all_bounds(
        &mut self,
        changes: impl Iterator<Item = (ArcId, i64, i64)> + Clone,
    ) -> Result<(), FlowError> {
        for (arc, lower, capacity) in changes.clone() {
            match self.find_convex(arc)? {
                Some(slot) => self.check_convex_bounds(slot, (lower, capacity))?,
                None => check_bounds(arc as usize, lower, capacity)?,
            }
        }
        for (arc, lower, capacity) in changes {
            match convex_slot(arc) {
                Some(slot) => self.apply_convex_bounds(slot, (lower, capacity)),
                None => self.change_bounds(arc as usize, (lower, capacity)),
            }
        }
        Ok(())
    }

    /// Changes the costs of arcs.
    pub fn set_costs(
        &mut self,
        changes: impl Iterator<Item = (ArcId, i64)> + Clone,
    ) -> Result<(), FlowError> {
        let limit = cost_limit(self.supply.len());
        for (arc, cost) in changes.clone() {
            check_cost(self.find_arc(arc)?, cost, limit)?;
        }
        for (arc, cost) in changes {
            self.change_cost(arc as usize, cost);
        }
        Ok(())
    }

    /// The flow of arcs in the last solve; later changes may have reduced it.
    pub fn flows(&self, arcs: impl Iterator<Item = ArcId>) -> Result<Vec<i64>, FlowError> {
        arcs.map(|arc| self.flow(arc)).collect()
    }
}
