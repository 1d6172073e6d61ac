//! What arcs without a choice come to.
//!
//! An arc whose bounds are equal carries what it must, and so does a loop, which carries what its
//! cost says. They are part of the problem rather than of an answer: what they carry is counted as
//! supply of their ends. Where they are most of all, scans pass over them: a pinned task is such an
//! arc, and so is the place it took from all others.

use crate::problem::Arc;
use crate::sums::Sums;

/// What is left for arcs with a choice, and what the others cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forced {
    /// What each node has to send along arcs with a choice.
    pub due: Sums,
    /// What all other arcs cost. It may wrap around on the way to a total that fits.
    pub cost: i128,
}

impl Forced {
    /// Of arcs in a network with these supplies.
    pub fn new(supply: &[i64], arcs: impl Iterator<Item = Arc>) -> Self {
        let mut forced = Self {
            due: Sums::of(supply.iter().copied()),
            cost: 0,
        };
        arcs.for_each(|arc| forced.add(&arc));
        forced
    }

    /// One more arc.
    #[inline]
    pub fn add(&mut self, arc: &Arc) {
        self.count(arc, arc.forced().unwrap_or(0));
    }

    /// One arc less.
    #[inline]
    pub fn remove(&mut self, arc: &Arc) {
        self.count(arc, -arc.forced().unwrap_or(0));
    }

    /// An arc that carries so much has another cost now.
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
            self.due.shift(arc.tail, arc.head, units);
        }
    }
}
