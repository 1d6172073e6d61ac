//! The problem as it is given: borrowed columns, checked once.

use std::ops::Range;

use crate::error::FlowError;

/// The largest magnitude of a scaled cost: leaves room for differences of prices beside it.
const SCALED_COST_LIMIT: i64 = i64::MAX / 16;

/// A minimum-cost flow problem over columns that the caller owns.
///
/// A value of this type is well formed: every id names a node, every arc has
/// `0 <= lower <= capacity`, supplies add up to zero and costs can be scaled without overflow. It
/// may still be infeasible.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    supply: &'a [i64],
    tail: &'a [i32],
    head: &'a [i32],
    lower: &'a [i64],
    capacity: &'a [i64],
    cost: &'a [i64],
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
    /// Whether there is a choice that the rest of the network must know about.
    pub(crate) fn is_free(&self) -> bool {
        self.tail != self.head && self.lower < self.capacity
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

impl<'a> Problem<'a> {
    /// Checks the columns: one value per node in `supply`, one per arc in all others.
    pub fn new(
        supply: &'a [i64],
        tail: &'a [i32],
        head: &'a [i32],
        lower: &'a [i64],
        capacity: &'a [i64],
        cost: &'a [i64],
    ) -> Result<Self, FlowError> {
        let problem = Self::trusted(supply, tail, head, lower, capacity, cost);
        problem.check_sizes()?;
        problem.check_arcs()?;
        problem.check_sum()?;
        Ok(problem)
    }

    /// The same without checks, for columns that were checked value by value.
    pub(crate) fn trusted(
        supply: &'a [i64],
        tail: &'a [i32],
        head: &'a [i32],
        lower: &'a [i64],
        capacity: &'a [i64],
        cost: &'a [i64],
    ) -> Self {
        Self {
            supply,
            tail,
            head,
            lower,
            capacity,
            cost,
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

    /// All arcs, in the order given.
    pub fn arcs(&self) -> impl ExactSizeIterator<Item = Arc> + DoubleEndedIterator + use<'a> {
        let ends = self.tail.iter().zip(self.head);
        let bounds = self.lower.iter().zip(self.capacity);
        ends.zip(bounds)
            .zip(self.cost)
            .map(|(((&tail, &head), (&lower, &capacity)), &cost)| Arc {
                tail: tail as usize,
                head: head as usize,
                lower,
                capacity,
                cost,
            })
    }

    /// The same nodes with some of the arcs.
    pub(crate) fn within(&self, arcs: Range<usize>) -> Self {
        Self {
            supply: self.supply,
            tail: &self.tail[arcs.clone()],
            head: &self.head[arcs.clone()],
            lower: &self.lower[arcs.clone()],
            capacity: &self.capacity[arcs.clone()],
            cost: &self.cost[arcs],
        }
    }

    /// One arc.
    pub(crate) fn arc(&self, index: usize) -> Arc {
        Arc {
            tail: self.tail[index] as usize,
            head: self.head[index] as usize,
            lower: self.lower[index],
            capacity: self.capacity[index],
            cost: self.cost[index],
        }
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
        let forced: i128 = self.lower.iter().map(|&lower| i128::from(lower)).sum();
        let attracted: i128 = self
            .arcs()
            .filter(|arc| arc.cost < 0 && arc.is_free())
            .map(|arc| i128::from(arc.capacity - arc.lower))
            .sum();
        i64::try_from(supply + forced + attracted + 1).unwrap_or(i64::MAX)
    }

    /// The largest magnitude of a cost.
    pub(crate) fn cost_limit(&self) -> i64 {
        cost_limit(self.nodes())
    }

    pub(crate) fn check_sum(&self) -> Result<(), FlowError> {
        let sum: i128 = self.supply.iter().map(|&units| i128::from(units)).sum();
        match sum {
            0 => Ok(()),
            sum => Err(FlowError::Unbalanced { sum }),
        }
    }

    fn check_sizes(&self) -> Result<(), FlowError> {
        let arcs = self.tail.len();
        for (name, length) in [
            ("head", self.head.len()),
            ("lower", self.lower.len()),
            ("capacity", self.capacity.len()),
            ("cost", self.cost.len()),
        ] {
            if length != arcs {
                return Err(FlowError::LengthMismatch { name, length, arcs });
            }
        }
        // Nodes are i32; each arc has two entries in a list that is addressed by u32.
        for (what, count, limit) in [
            ("nodes", self.supply.len(), i32::MAX as usize),
            ("arcs", arcs, i32::MAX as usize),
        ] {
            if count > limit {
                return Err(FlowError::TooLarge { what, count, limit });
            }
        }
        Ok(())
    }

    pub(crate) fn check_arcs(&self) -> Result<(), FlowError> {
        let nodes = self.nodes();
        let limit = self.cost_limit();
        let dangling = |node: i32| usize::try_from(node).map_or(true, |node| node >= nodes);
        for arc in 0..self.tail.len() {
            for (end, node) in [("tail", self.tail[arc]), ("head", self.head[arc])] {
                if dangling(node) {
                    return Err(FlowError::DanglingNode {
                        arc,
                        end,
                        node,
                        nodes,
                    });
                }
            }
            let terms = Terms {
                lower: self.lower[arc],
                capacity: self.capacity[arc],
                cost: self.cost[arc],
            };
            check_terms(arc, terms, limit)?;
        }
        Ok(())
    }
}

/// The largest magnitude of a cost in a network of so many nodes: solvers multiply costs by one
/// more than that, so that a flow that is optimal up to 1 in scaled costs is optimal.
pub(crate) fn cost_limit(nodes: usize) -> i64 {
    SCALED_COST_LIMIT / (nodes as i64 + 1)
}

/// Whether an arc that carries so much could carry more or less at a gain, by its reduced cost or the
/// sign of it.
pub(crate) fn gains(reduced: i64, flow: i64, (lower, capacity): (i64, i64)) -> bool {
    (reduced < 0 && flow < capacity) || (reduced > 0 && flow > lower)
}

/// Checks one arc by itself.
pub(crate) fn check_terms(arc: usize, terms: Terms, limit: i64) -> Result<(), FlowError> {
    let Terms {
        lower,
        capacity,
        cost,
    } = terms;
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
    if cost.unsigned_abs() > limit.unsigned_abs() {
        return Err(FlowError::CostOverflow { arc, cost, limit });
    }
    Ok(())
}
