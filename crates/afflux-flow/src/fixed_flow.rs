//! Flow that the problem determines, as sums that are maintained while the network changes.
//!
//! The flow of an arc is fixed if its bounds are equal, or if it is a loop, whose flow follows from
//! the sign of its cost. Such flow counts as supply of the ends of its arc. The arcs of a pinned
//! task have a fixed flow; where most arcs have one, scans skip them.

use crate::node_sums::NodeSums;
use crate::problem::Arc;

/// The supply that free arcs have to route, and the cost of all fixed flow.
#[derive(Debug, Clone, Default)]
pub(crate) struct FixedFlow {
    /// By node, its supply less the fixed flow that it sends.
    pub due: NodeSums,
    /// The total cost. It may wrap around on the way to a total that fits.
    pub cost: i128,
}

impl FixedFlow {
    /// The sums for arcs in a network with these supplies.
    pub fn new(supply: &[i64], arcs: impl Iterator<Item = Arc>) -> Self {
        let mut sums = Self {
            due: NodeSums::of(supply.iter().copied()),
            cost: 0,
        };
        arcs.for_each(|arc| sums.add(&arc));
        sums
    }

    #[inline]
    pub fn add(&mut self, arc: &Arc) {
        self.count(arc, arc.fixed_flow().unwrap_or(0));
    }

    #[inline]
    pub fn remove(&mut self, arc: &Arc) {
        self.count(arc, -arc.fixed_flow().unwrap_or(0));
    }

    /// Changes the cost of an arc with a fixed flow of `units`.
    #[inline]
    pub fn reprice(&mut self, units: i64, before: i64, now: i64) {
        let more = i128::from(units) * i128::from(now - before);
        self.cost = self.cost.wrapping_add(more);
    }

    #[inline]
    fn count(&mut self, arc: &Arc, units: i64) {
        if units != 0 {
            let more = i128::from(units) * i128::from(arc.cost);
            self.cost = self.cost.wrapping_add(more);
            self.due.transfer(arc.tail, arc.head, units);
        }
    }
}
