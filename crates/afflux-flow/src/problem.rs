//! The problem as given by the caller, checked once.

use std::borrow::Cow;
use std::ops::Range;

use crate::arc_columns::{Arcs, Scan};
use crate::convex_arcs::{ConvexArcs, FIRST_CONVEX_ID, MarginalCosts, convex_slot};
use crate::error::FlowError;
use crate::fixed_flow::FixedFlow;

/// The largest magnitude of a scaled cost: leaves room for differences of prices.
const SCALED_COST_LIMIT: i64 = i64::MAX / 16;

/// The maximum number of nodes: ids are i32.
pub(crate) const MAX_NODES: usize = i32::MAX as usize;

/// The maximum number of arcs: larger ids belong to convex arcs, and each arc has two entries in a
/// list that is indexed by u32.
pub(crate) const MAX_ARCS: usize = FIRST_CONVEX_ID as usize;

/// The maximum number of costs of convex arcs: together with all arcs, they need as many entries.
pub(crate) const MAX_CONVEX_COSTS: usize = MAX_ARCS - 1;

/// A minimum-cost flow problem.
///
/// A value of this type is well formed: every id names a node, every arc has `0 <= lower <=
/// capacity`, supplies add up to zero and costs can be scaled without overflow. The problem may
/// still be infeasible.
#[derive(Debug, Clone)]
pub struct Problem<'a> {
    supply: &'a [i64],
    arcs: Cow<'a, Arcs>,
    convex_arcs: Cow<'a, ConvexArcs>,
    fixed_flow: Cow<'a, FixedFlow>,
}

/// One arc of a [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arc {
    /// The node where it starts.
    pub tail: usize,
    /// The node where it ends.
    pub head: usize,
    /// Its lower bound.
    pub lower: i64,
    /// Its capacity.
    pub capacity: i64,
    /// Its cost per unit.
    pub cost: i64,
}

impl Arc {
    pub(crate) fn new(tail: usize, head: usize, terms: Terms) -> Self {
        let Terms {
            lower,
            capacity,
            cost,
        } = terms;
        Self {
            tail,
            head,
            lower,
            capacity,
            cost,
        }
    }

    /// Whether the arc is free: neither a loop nor an arc with equal bounds.
    pub(crate) fn is_free(&self) -> bool {
        (self.tail != self.head) & (self.lower < self.capacity)
    }

    /// Its flow, if equal bounds or the sign of the cost of a loop determine it.
    #[inline]
    pub(crate) fn fixed_flow(&self) -> Option<i64> {
        let is_negative_loop = self.tail == self.head && self.cost < 0;
        let units = if is_negative_loop {
            self.capacity
        } else {
            self.lower
        };
        (!self.is_free()).then_some(units)
    }

    pub(crate) fn terms(&self) -> Terms {
        Terms {
            lower: self.lower,
            capacity: self.capacity,
            cost: self.cost,
        }
    }
}

/// Bounds and cost of an arc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The lower bound.
    pub lower: i64,
    /// The capacity.
    pub capacity: i64,
    /// The cost per unit.
    pub cost: i64,
}

impl Terms {
    pub(crate) const NOTHING: Self = Self {
        lower: 0,
        capacity: 0,
        cost: 0,
    };

    /// Whether all terms fit 32 bits. Lower bounds never exceed capacities, and costs are only
    /// summed in 64 bits.
    pub(crate) fn fit_32_bits(&self) -> bool {
        self.capacity <= i64::from(i32::MAX) && i32::try_from(self.cost).is_ok()
    }
}

impl<'a> Problem<'a> {
    /// A problem in columns: one value per node in `supply`, one per arc in all others.
    pub fn new(
        supply: &'a [i64],
        tail: &[i32],
        head: &[i32],
        lower: &[i64],
        capacity: &[i64],
        cost: &[i64],
    ) -> Result<Self, FlowError> {
        for (name, length) in [
            ("head", head.len()),
            ("lower", lower.len()),
            ("capacity", capacity.len()),
            ("cost", cost.len()),
        ] {
            if length != tail.len() {
                return Err(FlowError::LengthMismatch {
                    name,
                    length,
                    arcs: tail.len(),
                });
            }
        }
        for (what, count, limit) in [
            ("nodes", supply.len(), MAX_NODES),
            ("arcs", tail.len(), MAX_ARCS),
        ] {
            if count > limit {
                return Err(FlowError::TooLarge { what, count, limit });
            }
        }
        let (nodes, limit) = (supply.len(), cost_limit(supply.len()));
        let mut arcs = Arcs::default();
        arcs.reserve(tail.len());
        for index in 0..tail.len() {
            let find = |end, node: i32| match usize::try_from(node) {
                Ok(found) if found < nodes => Ok(found),
                _ => Err(FlowError::DanglingNode {
                    arc: index,
                    end,
                    node,
                    nodes,
                }),
            };
            let arc = Arc {
                tail: find("tail", tail[index])?,
                head: find("head", head[index])?,
                lower: lower[index],
                capacity: capacity[index],
                cost: cost[index],
            };
            check_terms(index, arc.terms(), limit)?;
            arcs.push(&arc);
        }
        let all = (0..arcs.len()).map(|index| arcs.get(index));
        let problem = Self {
            supply,
            fixed_flow: Cow::Owned(FixedFlow::new(supply, all)),
            arcs: Cow::Owned(arcs),
            convex_arcs: Cow::Owned(ConvexArcs::default()),
        };
        check_balance(supply.iter().map(|&units| i128::from(units)).sum())?;
        Ok(problem)
    }

    /// A problem whose values have been checked one by one.
    pub(crate) fn from_checked(
        supply: &'a [i64],
        arcs: &'a Arcs,
        convex_arcs: &'a ConvexArcs,
        fixed_flow: &'a FixedFlow,
    ) -> Self {
        Self {
            supply,
            arcs: Cow::Borrowed(arcs),
            convex_arcs: Cow::Borrowed(convex_arcs),
            fixed_flow: Cow::Borrowed(fixed_flow),
        }
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.supply.len()
    }

    /// The supply of each node.
    pub fn supply(&self) -> &'a [i64] {
        self.supply
    }

    /// All arcs except convex ones, in the order given.
    pub fn arcs(&self) -> impl ExactSizeIterator<Item = Arc> + DoubleEndedIterator {
        (0..self.arcs.len()).map(|index| self.arcs.get(index))
    }

    /// All arcs; convex arcs follow all others, as arcs of one unit each.
    pub(crate) fn all_arcs(&self) -> impl Iterator<Item = Arc> {
        self.arcs().chain(self.convex_arcs.unit_arcs())
    }

    pub(crate) fn convex_arcs(&self) -> &ConvexArcs {
        &self.convex_arcs
    }

    /// The number of arcs and convex arcs.
    pub(crate) fn arc_and_convex_count(&self) -> usize {
        self.arcs.len() + self.convex_arcs.len()
    }

    /// Splits a range over arcs and convex arcs into a range of arcs and a range of slots.
    pub(crate) fn split_range(&self, range: Range<usize>) -> [Range<usize>; 2] {
        let arcs = self.arcs.len();
        [
            range.start.min(arcs)..range.end.min(arcs),
            range.start.max(arcs) - arcs..range.end.max(arcs) - arcs,
        ]
    }

    /// Scans the arcs of a range; the fastest way to read many.
    pub(crate) fn scan<S: Scan>(&self, range: Range<usize>, scan: S) -> S::Output {
        self.arcs.scan(range, scan)
    }

    /// Scans the free arcs of a range.
    pub(crate) fn scan_free<S: Scan>(&self, range: Range<usize>, scan: S) -> S::Output {
        self.arcs.scan_free(range, scan)
    }

    /// The number of arcs that a scan of all free arcs and convex arcs reads.
    pub(crate) fn scan_length(&self) -> usize {
        let arcs = match self.has_mostly_fixed_flow() {
            true => self.arcs.free(),
            false => self.arcs.len(),
        };
        arcs + self.convex_arcs.len()
    }

    /// Whether bounds and costs of all arcs, and therefore their flows, fit 32 bits.
    pub(crate) fn is_narrow(&self) -> bool {
        self.arcs.is_narrow() && self.convex_arcs.fit_32_bits()
    }

    pub(crate) fn has_mostly_fixed_flow(&self) -> bool {
        self.arcs.have_mostly_fixed_flow()
    }

    pub(crate) fn fixed_flow(&self) -> &FixedFlow {
        &self.fixed_flow
    }

    /// Tail and head of an arc, convex or not.
    pub(crate) fn ends(&self, id: u32) -> (usize, usize) {
        match convex_slot(id) {
            Some(slot) => self.convex_arcs.get(slot).ends(),
            None => self.arcs.ends(id as usize),
        }
    }

    /// Lower bound and capacity of an arc, convex or not.
    pub(crate) fn bounds(&self, id: u32) -> (i64, i64) {
        match convex_slot(id).map(|slot| self.convex_arcs.get(slot)) {
            Some(convex) => (convex.lower.into(), convex.capacity.into()),
            None => {
                let terms = self.arcs.terms(id as usize);
                (terms.lower, terms.capacity)
            }
        }
    }

    /// The marginal costs of an arc, convex or not, at a flow.
    pub(crate) fn margin(&self, id: u32, flow: i64) -> MarginalCosts {
        match convex_slot(id) {
            Some(slot) => self.convex_arcs.margin(self.convex_arcs.get(slot), flow),
            None => {
                let terms = self.arcs.terms(id as usize);
                MarginalCosts {
                    last: (flow > terms.lower).then_some(terms.cost),
                    next: (flow < terms.capacity).then_some(terms.cost),
                }
            }
        }
    }

    /// An arc that is not convex.
    pub(crate) fn arc(&self, index: usize) -> Arc {
        self.arcs.get(index)
    }

    /// The degree of each node, in a problem without convex arcs.
    pub(crate) fn degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0; self.nodes()];
        for arc in self.arcs() {
            degrees[arc.tail] += 1;
            degrees[arc.head] += 1;
        }
        degrees
    }

    /// A capacity that is as good as infinite: one more than all supply, all flow that lower bounds
    /// force and all flow that negative arcs can attract.
    ///
    /// A flow decomposes into cycles and paths from supply to demand. Paths and cycles with a lower
    /// bound or a negative arc carry less than this together, so an optimal flow that fills an arc
    /// up to this limit has a cycle of nonnegative arcs through it. Their reduced costs are at most
    /// zero and add up to the cost of the cycle, so all are zero: the prices prove the answer
    /// without this limit too.
    pub(crate) fn flow_limit(&self) -> i64 {
        let supply: i128 = self.supply.iter().map(|&s| i128::from(s.max(0))).sum();
        let forced: i128 = self.all_arcs().map(|arc| i128::from(arc.lower)).sum();
        let attracted: i128 = self
            .all_arcs()
            .filter(|arc| arc.cost < 0 && arc.is_free())
            .map(|arc| i128::from(arc.capacity - arc.lower))
            .sum();
        i64::try_from(supply + forced + attracted + 1).unwrap_or(i64::MAX)
    }

    pub(crate) fn cost_limit(&self) -> i64 {
        cost_limit(self.nodes())
    }

    /// Checks the costs of all arcs against the current number of nodes.
    pub(crate) fn check_costs(&self) -> Result<(), FlowError> {
        let limit = self.cost_limit();
        self.arcs()
            .enumerate()
            .try_for_each(|(index, arc)| check_terms(index, arc.terms(), limit))?;
        self.convex_arcs
            .range(0..self.convex_arcs.len())
            .try_for_each(|(slot, arc)| {
                let costs = self.convex_arcs.costs_of(arc).iter();
                let id = slot + FIRST_CONVEX_ID as usize;
                costs
                    .filter(|_| arc.exists())
                    .try_for_each(|&cost| check_cost(id, cost, limit))
            })
    }
}

/// Checks that supplies with this sum are balanced.
pub(crate) fn check_balance(sum: i128) -> Result<(), FlowError> {
    match sum {
        0 => Ok(()),
        sum => Err(FlowError::Unbalanced { sum }),
    }
}

/// The largest magnitude of a cost in a network of this size: the solver multiplies costs by one
/// more than the number of nodes, so that a flow that is 1-optimal in scaled costs is optimal.
pub(crate) fn cost_limit(nodes: usize) -> i64 {
    SCALED_COST_LIMIT / (nodes as i64 + 1)
}

/// Whether an arc violates optimality at a flow, by its reduced cost or the sign of it.
#[inline]
pub(crate) fn violates_optimality(reduced: i64, flow: i64, (lower, capacity): (i64, i64)) -> bool {
    ((reduced < 0) & (flow < capacity)) | ((reduced > 0) & (flow > lower))
}

pub(crate) fn check_terms(arc: usize, terms: Terms, limit: i64) -> Result<(), FlowError> {
    check_bounds(arc, terms.lower, terms.capacity)?;
    check_cost(arc, terms.cost, limit)
}

pub(crate) fn check_bounds(arc: usize, lower: i64, capacity: i64) -> Result<(), FlowError> {
    for (bound, value) in [("capacity", capacity), ("lower bound", lower)] {
        if value < 0 {
            return Err(FlowError::NegativeBound { arc, bound, value });
        }
    }
    if lower > capacity {
        return Err(FlowError::LowerAboveCapacity {
            arc,
            lower,
            capacity,
        });
    }
    Ok(())
}

pub(crate) fn check_cost(arc: usize, cost: i64, limit: i64) -> Result<(), FlowError> {
    match cost.unsigned_abs() > limit.unsigned_abs() {
        true => Err(FlowError::CostOverflow { arc, cost, limit }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::Problem;
    use crate::convex_arcs::ConvexArcs;

    #[test]
    fn a_range_splits_into_arcs_and_then_convex_arcs() {
        let none = [0, 0, 0];
        let mut problem =
            Problem::new(&[0, 0], &none, &[1, 1, 1], &[0; 3], &[1; 3], &[0; 3]).unwrap();
        let mut convex_arcs = ConvexArcs::default();
        convex_arcs.place((0, 1), 4);
        convex_arcs.place((1, 0), 2);
        problem.convex_arcs = Cow::Owned(convex_arcs);
        assert_eq!(problem.arc_and_convex_count(), 5);
        assert_eq!(problem.split_range(0..2), [0..2, 0..0]);
        assert_eq!(problem.split_range(2..5), [2..3, 0..2]);
        assert_eq!(problem.split_range(3..5), [3..3, 0..2]);
        assert_eq!(problem.split_range(4..5), [3..3, 1..2]);
        assert_eq!(problem.split_range(5..5), [3..3, 2..2]);
    }
}
