//! Convex arcs: added, changed and removed.

use super::{ArcId, Network, NodeId, check_count};
use crate::convex_arcs::{FIRST_CONVEX_ID, convex_slot};
use crate::error::FlowError;
use crate::problem::{MAX_ARCS, MAX_CONVEX_COSTS, check_bounds, check_cost, cost_limit};

/// Bounds and costs of a convex arc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvexTerms<'a> {
    /// Its lower bound.
    pub lower: i64,
    /// Its capacity: at most the number of costs.
    pub capacity: i64,
    /// The cost of each unit; costs must not fall.
    pub costs: &'a [i64],
}

/// A convex arc to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewConvexArc<'a> {
    /// The node where it starts.
    pub tail: NodeId,
    /// The node where it ends, which differs from the tail.
    pub head: NodeId,
    /// Its bounds and costs.
    pub terms: ConvexTerms<'a>,
}

impl Network {
    /// Adds convex arcs: each unit costs at least as much as the unit before. An error names an arc
    /// by its position in the call, from 0.
    ///
    /// A convex arc is equivalent to parallel arcs of one unit each, but a solve reads few of its
    /// units. Bounds, flow and removal work as for any arc; priority levels and gates do not accept
    /// convex arcs.
    ///
    /// ```
    /// use afflux_flow::{ConvexTerms, Limits, Network, NewConvexArc};
    ///
    /// let mut network = Network::new();
    /// let (tasks, machines) = (network.add_node(4)?, [network.add_node(-2)?, network.add_node(-2)?]);
    /// let arcs = machines.map(|head| NewConvexArc {
    ///     tail: tasks,
    ///     head,
    ///     terms: ConvexTerms { lower: 0, capacity: 3, costs: &[1, 2, 7] },
    /// });
    /// let arcs = network.add_convex_arcs(arcs.into_iter())?;
    /// assert_eq!(network.solve(&Limits::default())?.cost, 1 + 2 + 1 + 2);
    /// assert_eq!(network.flow(arcs[0])?, 2);
    /// # Ok::<(), afflux_flow::FlowError>(())
    /// ```
    pub fn add_convex_arcs<'a>(
        &mut self,
        arcs: impl ExactSizeIterator<Item = NewConvexArc<'a>> + Clone,
    ) -> Result<Vec<ArcId>, FlowError> {
        check_count("convex arcs", self.convex_arcs.len() + arcs.len(), MAX_ARCS)?;
        let limit = cost_limit(self.supply.len());
        let mut units = 0;
        for (position, arc) in arcs.clone().enumerate() {
            for (end, node) in [("tail", arc.tail), ("head", arc.head)] {
                self.check_end(position, end, node)?;
            }
            if arc.tail == arc.head {
                return Err(FlowError::ConvexLoop {
                    arc: position,
                    node: arc.tail,
                });
            }
            check_convex(position, arc.terms, limit)?;
            units += arc.terms.costs.len();
        }
        check_count(
            "costs of convex arcs",
            self.convex_arcs.units() + units,
            MAX_CONVEX_COSTS,
        )?;
        self.convex_arcs.reserve(arcs.len(), units);
        Ok(arcs.map(|arc| self.insert_convex(arc)).collect())
    }

    /// Changes bounds and costs of convex arcs; the number of costs must stay the same.
    pub fn set_convex<'a>(
        &mut self,
        changes: impl Iterator<Item = (ArcId, ConvexTerms<'a>)> + Clone,
    ) -> Result<(), FlowError> {
        let limit = cost_limit(self.supply.len());
        for (arc, terms) in changes.clone() {
            let slot = self.find_convex(arc)?.ok_or(FlowError::NotConvex { arc })?;
            let length = self.convex_arcs.get(slot).length() as usize;
            if terms.costs.len() != length {
                return Err(FlowError::ConvexLength {
                    arc,
                    costs: terms.costs.len(),
                    expected: length,
                });
            }
            check_convex(arc as usize, terms, limit)?;
        }
        for (arc, terms) in changes {
            self.update_largest_cost(terms.costs);
            if let Some(slot) = convex_slot(arc) {
                self.convex_arcs.set_costs(slot, terms.costs);
                self.apply_convex_bounds(slot, (terms.lower, terms.capacity));
            }
        }
        Ok(())
    }

    /// Bounds and costs of a convex arc.
    pub fn convex_terms(&self, arc: ArcId) -> Result<ConvexTerms<'_>, FlowError> {
        let slot = self.find_convex(arc)?.ok_or(FlowError::NotConvex { arc })?;
        let convex = self.convex_arcs.get(slot);
        Ok(ConvexTerms {
            lower: convex.lower.into(),
            capacity: convex.capacity.into(),
            costs: self.convex_arcs.costs_of(convex),
        })
    }

    fn insert_convex(&mut self, arc: NewConvexArc<'_>) -> ArcId {
        let NewConvexArc { tail, head, terms } = arc;
        let length = terms.costs.len() as u32;
        let slot = self.convex_arcs.place((tail, head), length);
        self.convex_arcs.set_costs(slot, terms.costs);
        self.update_largest_cost(terms.costs);
        if slot == self.state.convex_flow.len() {
            self.state.convex_flow.push(0);
        }
        self.degree[tail as usize] += 1;
        self.degree[head as usize] += 1;
        self.apply_convex_bounds(slot, (terms.lower, terms.capacity));
        FIRST_CONVEX_ID + slot as u32
    }

    /// Removes a convex arc that exists.
    pub(super) fn remove_found_convex(&mut self, slot: usize) {
        let removed = *self.convex_arcs.get(slot);
        let (tail, head) = removed.ends();
        let flow = std::mem::take(&mut self.state.convex_flow[slot]);
        self.convex_arcs.remove(slot);
        self.degree[tail] -= 1;
        self.degree[head] -= 1;
        if flow != 0 {
            self.state.send(tail, head, -flow);
            self.state.mark_changed(tail);
            self.state.mark_changed(head);
        }
    }

    pub(super) fn check_convex_bounds(
        &self,
        slot: usize,
        bounds: (i64, i64),
    ) -> Result<(), FlowError> {
        let arc = FIRST_CONVEX_ID as usize + slot;
        check_convex_capacity(arc, bounds, self.convex_arcs.get(slot).length() as usize)
    }

    /// Sets checked bounds of a convex arc and clamps its flow. Its costs may have changed before.
    pub(super) fn apply_convex_bounds(&mut self, slot: usize, bounds: (i64, i64)) {
        self.convex_arcs.set_bounds(slot, bounds);
        let convex = self.convex_arcs.get(slot);
        let (tail, head) = convex.ends();
        let flow = self.state.convex_flow[slot];
        let new = convex.clamp_flow(flow);
        if new != flow {
            self.state.convex_flow[slot] = new;
            self.state.send(tail, head, new - flow);
            self.state.mark_changed(tail);
            self.state.mark_changed(head);
            return;
        }
        self.mark_if_convex_violating(slot);
    }

    /// Marks an end of a convex arc as changed if the arc violates optimality.
    pub(super) fn mark_if_convex_violating(&mut self, slot: usize) {
        let convex = self.convex_arcs.get(slot);
        let (tail, head) = convex.ends();
        let end = self.end_of_lower_degree(tail, head);
        if self.state.needs_repair(end) {
            return;
        }
        let fall = self.state.price[tail] - self.state.price[head];
        let margin = self
            .convex_arcs
            .margin(convex, self.state.convex_flow[slot]);
        if margin.improving_cost(fall).is_some() {
            self.state.mark_changed(end);
        }
    }

    /// The slot of a convex arc, none for another arc; an error if the arc does not exist.
    pub(super) fn find_convex(&self, arc: ArcId) -> Result<Option<usize>, FlowError> {
        match convex_slot(arc) {
            None => self.find_arc(arc).map(|_| None),
            Some(slot) if slot < self.convex_arcs.len() && self.convex_arcs.get(slot).exists() => {
                Ok(Some(slot))
            }
            Some(_) => Err(FlowError::UnknownArc { arc }),
        }
    }

    fn update_largest_cost(&mut self, costs: &[i64]) {
        // The costs rise, so the first and the last are the extremes.
        let ends = [costs.first(), costs.last()].into_iter().flatten();
        let largest = ends.map(|cost| cost.abs()).max().unwrap_or(0);
        self.largest_cost = self.largest_cost.max(largest);
    }
}

fn check_convex(arc: usize, terms: ConvexTerms<'_>, limit: i64) -> Result<(), FlowError> {
    let ConvexTerms {
        lower,
        capacity,
        costs,
    } = terms;
    check_convex_capacity(arc, (lower, capacity), costs.len())?;
    let (Some(&first), Some(&last)) = (costs.first(), costs.last()) else {
        return Err(FlowError::ConvexEmpty { arc });
    };
    if let Some(unit) = costs.windows(2).position(|pair| pair[1] < pair[0]) {
        return Err(FlowError::ConvexFalls {
            arc,
            unit: unit + 1,
            costs: [costs[unit], costs[unit + 1]],
        });
    }
    check_cost(arc, first, limit)?;
    check_cost(arc, last, limit)
}

/// Checks bounds of a convex arc with this number of costs.
fn check_convex_capacity(
    arc: usize,
    (lower, capacity): (i64, i64),
    costs: usize,
) -> Result<(), FlowError> {
    check_bounds(arc, lower, capacity)?;
    match usize::try_from(capacity) {
        Ok(units) if units <= costs => Ok(()),
        _ => Err(FlowError::ConvexCapacity {
            arc,
            capacity,
            costs,
        }),
    }
}
