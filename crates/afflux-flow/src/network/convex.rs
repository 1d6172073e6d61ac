//! Convex arcs: added, changed and removed.

use super::{ArcId, Network, NodeId, check_count};
use crate::error::FlowError;
use crate::problem::{ARCS, UNITS, check_bounds, check_cost, cost_limit};
use crate::rows::{CONVEX, as_row};

/// What a convex arc may carry, and at what cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvexTerms<'a> {
    /// How much it must carry.
    pub lower: i64,
    /// How much it can carry: no more than there are costs.
    pub capacity: i64,
    /// What the first unit costs, the second and so on: none less than the one before.
    pub costs: &'a [i64],
}

/// A convex arc to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewConvexArc<'a> {
    /// Where it starts.
    pub tail: NodeId,
    /// Where it ends: at another node.
    pub head: NodeId,
    /// What it may carry, and at what cost.
    pub terms: ConvexTerms<'a>,
}

impl Network {
    /// Adds convex arcs, of which each unit costs as much as the one before, or more. An error names an
    /// arc by its position among them, from 0.
    ///
    /// One such arc is what parallel arcs of one unit each would be, and a solve looks at few of its
    /// units. Bounds, flow and removal are those of any arc; levels and gates know other arcs only.
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
        check_count("convex arcs", self.rows.len() + arcs.len(), ARCS)?;
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
        check_count("costs of convex arcs", self.rows.units() + units, UNITS)?;
        self.rows.reserve(arcs.len(), units);
        Ok(arcs.map(|arc| self.put_convex(arc)).collect())
    }

    /// Changes bounds and costs of convex arcs, to as many costs as they had.
    pub fn set_convex<'a>(
        &mut self,
        changes: impl Iterator<Item = (ArcId, ConvexTerms<'a>)> + Clone,
    ) -> Result<(), FlowError> {
        let limit = cost_limit(self.supply.len());
        for (arc, terms) in changes.clone() {
            let row = self.find_row(arc)?.ok_or(FlowError::NotConvex { arc })?;
            let length = self.rows.get(row).length() as usize;
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
            self.note_costs(terms.costs);
            if let Some(row) = as_row(arc) {
                self.rows.set_costs(row, terms.costs);
                self.bound_convex(row, (terms.lower, terms.capacity));
            }
        }
        Ok(())
    }

    /// What a convex arc may carry, and at what cost.
    pub fn convex_terms(&self, arc: ArcId) -> Result<ConvexTerms<'_>, FlowError> {
        let row = self.find_row(arc)?.ok_or(FlowError::NotConvex { arc })?;
        let row = self.rows.get(row);
        Ok(ConvexTerms {
            lower: row.lower.into(),
            capacity: row.capacity.into(),
            costs: self.rows.costs_of(row),
        })
    }

    fn put_convex(&mut self, arc: NewConvexArc<'_>) -> ArcId {
        let NewConvexArc { tail, head, terms } = arc;
        let length = terms.costs.len() as u32;
        let row = self.rows.place((tail, head), length);
        self.rows.set_costs(row, terms.costs);
        self.note_costs(terms.costs);
        if row == self.state.carried.len() {
            self.state.carried.push(0);
        }
        self.degree[tail as usize] += 1;
        self.degree[head as usize] += 1;
        self.bound_convex(row, (terms.lower, terms.capacity));
        CONVEX + row as u32
    }

    /// Removes a convex arc that exists.
    pub(super) fn drop_convex(&mut self, row: usize) {
        let gone = *self.rows.get(row);
        let (tail, head) = gone.ends();
        let flow = std::mem::take(&mut self.state.carried[row]);
        self.rows.remove(row);
        self.degree[tail] -= 1;
        self.degree[head] -= 1;
        if flow != 0 {
            self.state.send(tail, head, -flow);
            self.state.touch(tail);
            self.state.touch(head);
        }
    }

    /// Whether a convex arc can have these bounds.
    pub(super) fn check_convex_bounds(
        &self,
        row: usize,
        bounds: (i64, i64),
    ) -> Result<(), FlowError> {
        let arc = CONVEX as usize + row;
        check_length(arc, bounds, self.rows.get(row).length() as usize)
    }

    /// Changes the bounds of a convex arc, which were checked, and keeps its flow within them. Its costs
    /// may have changed before.
    pub(super) fn bound_convex(&mut self, row: usize, bounds: (i64, i64)) {
        self.rows.set_bounds(row, bounds);
        let convex = self.rows.get(row);
        let (tail, head) = convex.ends();
        let flow = self.state.carried[row];
        let new = convex.clamped(flow);
        if new != flow {
            self.state.carried[row] = new;
            self.state.send(tail, head, new - flow);
            self.state.touch(tail);
            self.state.touch(head);
            return;
        }
        self.touch_if_tempted(row);
    }

    /// Touches an end of a convex arc that could carry more or less at a gain.
    pub(super) fn touch_if_tempted(&mut self, row: usize) {
        let convex = self.rows.get(row);
        let (tail, head) = convex.ends();
        let end = self.lesser_end(tail, head);
        if self.state.is_touched(end) {
            return;
        }
        let fall = self.state.price[tail] - self.state.price[head];
        let margin = self.rows.margin(convex, self.state.carried[row]);
        if margin.tempting(fall).is_some() {
            self.state.touch(end);
        }
    }

    /// The place of an arc among convex ones, if it is one; an error if there is no such arc.
    pub(super) fn find_row(&self, arc: ArcId) -> Result<Option<usize>, FlowError> {
        match as_row(arc) {
            None => self.find_arc(arc).map(|_| None),
            Some(row) if row < self.rows.len() && self.rows.get(row).exists() => Ok(Some(row)),
            Some(_) => Err(FlowError::UnknownArc { arc }),
        }
    }

    fn note_costs(&mut self, costs: &[i64]) {
        // They rise.
        let ends = [costs.first(), costs.last()].into_iter().flatten();
        let largest = ends.map(|cost| cost.abs()).max().unwrap_or(0);
        self.largest_cost = self.largest_cost.max(largest);
    }
}

/// Checks a convex arc by itself.
fn check_convex(arc: usize, terms: ConvexTerms<'_>, limit: i64) -> Result<(), FlowError> {
    let ConvexTerms {
        lower,
        capacity,
        costs,
    } = terms;
    check_length(arc, (lower, capacity), costs.len())?;
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

/// Checks bounds of a convex arc with so many costs.
fn check_length(arc: usize, (lower, capacity): (i64, i64), costs: usize) -> Result<(), FlowError> {
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
