//! The problem as it is given, checked once.

use std::borrow::Cow;
use std::ops::Range;

use crate::arcs::{Arcs, Scan};
use crate::error::FlowError;
use crate::forced::Forced;
use crate::rows::{CONVEX, Margin, Rows, as_row};

/// The largest magnitude of a scaled cost: leaves room for differences of prices beside it.
const SCALED_COST_LIMIT: i64 = i64::MAX / 16;

/// How many nodes there may be: their numbers are i32.
pub(crate) const NODES: usize = i32::MAX as usize;

/// How many arcs, since numbers beyond are those of convex ones; each has two entries in a list that
/// is addressed by u32.
pub(crate) const ARCS: usize = CONVEX as usize;

/// How many units convex arcs may have costs for: together with all arcs, they have as many entries.
pub(crate) const UNITS: usize = ARCS - 1;

/// A minimum-cost flow problem.
///
/// A value of this type is well formed: every id names a node, every arc has
/// `0 <= lower <= capacity`, supplies add up to zero and costs can be scaled without overflow. It
/// may still be infeasible.
#[derive(Debug, Clone)]
pub struct Problem<'a> {
    supply: &'a [i64],
    arcs: Cow<'a, Arcs>,
    /// Convex ones.
    rows: Cow<'a, Rows>,
    forced: Cow<'a, Forced>,
}

/// One arc of a [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arc {
    /// Where it starts.
    pub tail: usize,
    /// Where it ends.
    pub head: usize,
    /// How much it must carry.
    pub lower: i64,
    /// How much it can carry.
    pub capacity: i64,
    /// What a unit costs.
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

    /// Whether there is a choice that the rest of the network must know about.
    pub(crate) fn is_free(&self) -> bool {
        (self.tail != self.head) & (self.lower < self.capacity)
    }

    /// What it carries if there is none.
    #[inline]
    pub(crate) fn forced(&self) -> Option<i64> {
        let is_tempting = self.tail == self.head && self.cost < 0;
        let units = if is_tempting {
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

/// What an arc may carry, and at what cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How much it must carry.
    pub lower: i64,
    /// How much it can carry.
    pub capacity: i64,
    /// What a unit costs.
    pub cost: i64,
}

impl Terms {
    pub(crate) const NOTHING: Self = Self {
        lower: 0,
        capacity: 0,
        cost: 0,
    };

    /// Lower bounds are never beyond capacities, and nothing is made of costs but sums in 64 bits.
    pub(crate) fn fit_32_bits(&self) -> bool {
        self.capacity <= i64::from(i32::MAX) && i32::try_from(self.cost).is_ok()
    }
}

impl<'a> Problem<'a> {
    /// From columns: one value per node in `supply`, one per arc in all others.
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
        for (what, count, limit) in [("nodes", supply.len(), NODES), ("arcs", tail.len(), ARCS)] {
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
            forced: Cow::Owned(Forced::new(supply, all)),
            arcs: Cow::Owned(arcs),
            rows: Cow::Owned(Rows::default()),
        };
        check_sum(supply.iter().map(|&units| i128::from(units)).sum())?;
        Ok(problem)
    }

    /// Of what was checked value by value.
    pub(crate) fn trusted(
        supply: &'a [i64],
        arcs: &'a Arcs,
        rows: &'a Rows,
        forced: &'a Forced,
    ) -> Self {
        Self {
            supply,
            arcs: Cow::Borrowed(arcs),
            rows: Cow::Borrowed(rows),
            forced: Cow::Borrowed(forced),
        }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.supply.len()
    }

    /// How much each node sends more than it receives.
    pub fn supply(&self) -> &'a [i64] {
        self.supply
    }

    /// All arcs but convex ones, in the order given.
    pub fn arcs(&self) -> impl ExactSizeIterator<Item = Arc> + DoubleEndedIterator {
        (0..self.arcs.len()).map(|index| self.arcs.get(index))
    }

    /// All arcs; convex ones after all others, as arcs of one unit each.
    pub(crate) fn all_arcs(&self) -> impl Iterator<Item = Arc> {
        self.arcs().chain(self.rows.pieces())
    }

    /// The convex ones.
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// How many arcs and convex arcs there are in all.
    pub(crate) fn places(&self) -> usize {
        self.arcs.len() + self.rows.len()
    }

    /// Which arcs, and which convex arcs, are in a range of these.
    pub(crate) fn split(&self, range: Range<usize>) -> [Range<usize>; 2] {
        let arcs = self.arcs.len();
        [
            range.start.min(arcs)..range.end.min(arcs),
            range.start.max(arcs) - arcs..range.end.max(arcs) - arcs,
        ]
    }

    /// Looks at some arcs; the quickest way to look at many.
    pub(crate) fn scan<S: Scan>(&self, range: Range<usize>, scan: S) -> S::Found {
        self.arcs.scan(range, scan)
    }

    /// Looks at those that have a choice.
    pub(crate) fn scan_free<S: Scan>(&self, range: Range<usize>, scan: S) -> S::Found {
        self.arcs.scan_free(range, scan)
    }

    /// How many a look at those reads, and at convex ones.
    pub(crate) fn looks(&self) -> usize {
        let arcs = match self.is_mostly_forced() {
            true => self.arcs.free(),
            false => self.arcs.len(),
        };
        arcs + self.rows.len()
    }

    /// Whether bounds and costs of all arcs fit 32 bits, and so does what they carry.
    pub(crate) fn is_narrow(&self) -> bool {
        self.arcs.is_narrow() && self.rows.are_narrow()
    }

    /// Whether most have none.
    pub(crate) fn is_mostly_forced(&self) -> bool {
        self.arcs.are_mostly_forced()
    }

    /// What the others come to.
    pub(crate) fn forced(&self) -> &Forced {
        &self.forced
    }

    /// Where an arc begins and ends, convex or not.
    pub(crate) fn ends(&self, number: u32) -> (usize, usize) {
        match as_row(number) {
            Some(row) => self.rows.get(row).ends(),
            None => self.arcs.ends(number as usize),
        }
    }

    /// How much an arc, convex or not, must and can carry.
    pub(crate) fn bounds(&self, number: u32) -> (i64, i64) {
        match as_row(number).map(|row| self.rows.get(row)) {
            Some(row) => (row.lower.into(), row.capacity.into()),
            None => {
                let terms = self.arcs.terms(number as usize);
                (terms.lower, terms.capacity)
            }
        }
    }

    /// What an arc, convex or not, can gain by when it carries so much.
    pub(crate) fn margin(&self, number: u32, flow: i64) -> Margin {
        match as_row(number) {
            Some(row) => self.rows.margin(self.rows.get(row), flow),
            None => {
                let terms = self.arcs.terms(number as usize);
                Margin {
                    last: (flow > terms.lower).then_some(terms.cost),
                    next: (flow < terms.capacity).then_some(terms.cost),
                }
            }
        }
    }

    /// One arc that is not convex.
    pub(crate) fn arc(&self, index: usize) -> Arc {
        self.arcs.get(index)
    }

    /// How many ends of arcs each node has, where there are no convex ones.
    pub(crate) fn degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0; self.nodes()];
        for arc in self.arcs() {
            degrees[arc.tail] += 1;
            degrees[arc.head] += 1;
        }
        degrees
    }

    /// A capacity that is as good as none: larger by one than all supply together with all flow
    /// that lower bounds force and negative arcs can attract.
    ///
    /// A flow splits into paths from supply to demand and cycles. Paths and cycles with a forced or
    /// a negative arc carry less than this together, so an optimal flow that fills an arc up to
    /// this has a cycle of arcs that cost nothing less than zero through it. Their reduced costs
    /// are at most zero and add up to the cycle's cost, so all are zero: the prices prove the
    /// answer without this limit too.
    pub(crate) fn most(&self) -> i64 {
        let supply: i128 = self.supply.iter().map(|&s| i128::from(s.max(0))).sum();
        let forced: i128 = self.all_arcs().map(|arc| i128::from(arc.lower)).sum();
        let attracted: i128 = self
            .all_arcs()
            .filter(|arc| arc.cost < 0 && arc.is_free())
            .map(|arc| i128::from(arc.capacity - arc.lower))
            .sum();
        i64::try_from(supply + forced + attracted + 1).unwrap_or(i64::MAX)
    }

    /// The largest magnitude of a cost.
    pub(crate) fn cost_limit(&self) -> i64 {
        cost_limit(self.nodes())
    }

    /// Whether there are too many nodes by now for what arcs cost.
    pub(crate) fn check_costs(&self) -> Result<(), FlowError> {
        let limit = self.cost_limit();
        self.arcs()
            .enumerate()
            .try_for_each(|(index, arc)| check_terms(index, arc.terms(), limit))?;
        self.rows
            .range(0..self.rows.len())
            .try_for_each(|(row, arc)| {
                let costs = self.rows.costs_of(arc).iter();
                let number = row + CONVEX as usize;
                costs
                    .filter(|_| arc.exists())
                    .try_for_each(|&cost| check_cost(number, cost, limit))
            })
    }
}

/// Whether supplies that come to this can be routed at all.
pub(crate) fn check_sum(sum: i128) -> Result<(), FlowError> {
    match sum {
        0 => Ok(()),
        sum => Err(FlowError::Unbalanced { sum }),
    }
}

/// The largest magnitude of a cost in a network of so many nodes: solvers multiply costs by one
/// more than that, so that a flow that is optimal up to 1 in scaled costs is optimal.
pub(crate) fn cost_limit(nodes: usize) -> i64 {
    SCALED_COST_LIMIT / (nodes as i64 + 1)
}

/// Whether an arc that carries so much could carry more or less at a gain, by its reduced cost or the
/// sign of it.
#[inline]
pub(crate) fn gains(reduced: i64, flow: i64, (lower, capacity): (i64, i64)) -> bool {
    ((reduced < 0) & (flow < capacity)) | ((reduced > 0) & (flow > lower))
}

/// Checks one arc by itself.
pub(crate) fn check_terms(arc: usize, terms: Terms, limit: i64) -> Result<(), FlowError> {
    check_bounds(arc, terms.lower, terms.capacity)?;
    check_cost(arc, terms.cost, limit)
}

/// Checks how much an arc must and can carry.
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

/// Checks what a unit costs on an arc.
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
    use crate::rows::Rows;

    #[test]
    fn a_range_of_places_is_arcs_and_then_convex_arcs() {
        let none = [0, 0, 0];
        let mut problem =
            Problem::new(&[0, 0], &none, &[1, 1, 1], &[0; 3], &[1; 3], &[0; 3]).unwrap();
        let mut rows = Rows::default();
        rows.place((0, 1), 4);
        rows.place((1, 0), 2);
        problem.rows = Cow::Owned(rows);
        assert_eq!(problem.places(), 5);
        assert_eq!(problem.split(0..2), [0..2, 0..0]);
        assert_eq!(problem.split(2..5), [2..3, 0..2]);
        assert_eq!(problem.split(3..5), [3..3, 0..2]);
        assert_eq!(problem.split(4..5), [3..3, 1..2]);
        assert_eq!(problem.split(5..5), [3..3, 2..2]);
    }
}
