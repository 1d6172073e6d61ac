//! Many changes in one call: all of them or, if one is refused, none.

use std::hint::black_box;

use super::{ArcId, GONE, Network, NodeId, check_count};
use crate::error::FlowError;
use crate::problem::{ARCS, NODES, Terms, check_bounds, check_cost, check_terms, cost_limit};
use crate::rows::{CONVEX, as_row};

/// How many arcs are read before the first of them is removed.
const SOME: usize = 32;

/// An arc to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewArc {
    /// Where it starts.
    pub tail: NodeId,
    /// Where it ends.
    pub head: NodeId,
    /// What it may carry, and at what cost.
    pub terms: Terms,
}

impl Network {
    /// Adds nodes with these supplies.
    pub fn add_nodes(&mut self, supplies: &[i64]) -> Result<Vec<NodeId>, FlowError> {
        let new = supplies.len().saturating_sub(self.free_nodes.len());
        check_count("nodes", self.supply.len() + new, NODES)?;
        self.reserve(supplies.len(), 0);
        supplies.iter().map(|&units| self.add_node(units)).collect()
    }

    /// Adds arcs. An error names an arc by its position among them, from 0.
    pub fn add_arcs(
        &mut self,
        arcs: impl ExactSizeIterator<Item = NewArc> + Clone,
    ) -> Result<Vec<ArcId>, FlowError> {
        let count = arcs.len();
        let new = count.saturating_sub(self.free_arcs.len());
        check_count("arcs", self.arcs.len() + new, ARCS)?;
        let limit = cost_limit(self.supply.len());
        for (position, arc) in arcs.clone().enumerate() {
            for (end, node) in [("tail", arc.tail), ("head", arc.head)] {
                self.check_end(position, end, node)?;
            }
            check_terms(position, arc.terms, limit)?;
        }
        self.reserve(0, count);
        let put = |arc: NewArc| self.put_arc(arc.tail, arc.head, arc.terms);
        Ok(arcs.map(put).collect())
    }

    /// Whether a node can be an end of an arc to be added.
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

    /// Removes arcs and what flows along them; none may be named twice.
    pub fn remove_arcs(&mut self, arcs: &[ArcId]) -> Result<(), FlowError> {
        // Those that were found do not exist for those that follow.
        let mut rows: Vec<usize> = Vec::new();
        for (position, &arc) in arcs.iter().enumerate() {
            let found = self.find_row(arc).map(|row| match row {
                Some(row) => rows.push(row),
                None => self.exists.put(arc as usize, false),
            });
            if let Err(error) = found {
                self.bring_back(&arcs[..position]);
                return Err(error);
            }
        }
        rows.sort_unstable();
        if let Some(pair) = rows.windows(2).find(|pair| pair[0] == pair[1]) {
            self.bring_back(arcs);
            let arc = CONVEX + pair[0] as ArcId;
            return Err(FlowError::UnknownArc { arc });
        }
        for some in arcs.chunks(SOME) {
            let others = || some.iter().copied().filter(|&arc| as_row(arc).is_none());
            self.prefetch(others());
            others().for_each(|arc| self.drop_arc(arc));
        }
        rows.into_iter().for_each(|row| self.drop_convex(row));
        Ok(())
    }

    /// These exist after all.
    fn bring_back(&mut self, arcs: &[ArcId]) {
        for &arc in arcs.iter().filter(|&&arc| as_row(arc).is_none()) {
            self.exists.put(arc as usize, true);
        }
    }

    /// Prefetches all about some arcs and their ends. These are a dozen places in memory for each arc,
    /// which would be waited for one after the other when it is removed.
    fn prefetch(&self, arcs: impl Iterator<Item = ArcId> + Clone) {
        let arcs = arcs.map(|arc| arc as usize);
        let mut seen = 0;
        for index in arcs.clone() {
            let terms = self.arcs.terms(index);
            seen |= terms.lower | terms.capacity | terms.cost | self.state.flow[index];
        }
        for (tail, head) in arcs.map(|index| self.arcs.ends(index)) {
            for node in [tail, head] {
                seen |= i64::from(self.degree[node]) | self.forced.due.glance(node);
                seen |= self.state.glance(node);
            }
        }
        black_box(seen);
    }

    /// Removes nodes; none may be named twice or still have arcs.
    pub fn remove_nodes(&mut self, nodes: &[NodeId]) -> Result<(), FlowError> {
        for (position, &node) in nodes.iter().enumerate() {
            let error = match self.find_node(node) {
                Ok(index) if self.degree[index] == 0 => {
                    self.degree[index] = GONE;
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

    /// Changes by how much nodes send more than they receive.
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
            match self.find_row(arc)? {
                Some(row) => self.check_convex_bounds(row, (lower, capacity))?,
                None => check_bounds(arc as usize, lower, capacity)?,
            }
        }
        for (arc, lower, capacity) in changes {
            match as_row(arc) {
                Some(row) => self.bound_convex(row, (lower, capacity)),
                None => self.change_bounds(arc as usize, (lower, capacity)),
            }
        }
        Ok(())
    }

    /// Changes what a unit costs on arcs.
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

    /// What flows along arcs since the last solve; changes may have cut it since.
    pub fn flows(&self, arcs: impl Iterator<Item = ArcId>) -> Result<Vec<i64>, FlowError> {
        arcs.map(|arc| self.flow(arc)).collect()
    }
}
