//! Time limits and cancellation.

use std::fmt;
use std::time::{Duration, Instant};

/// Work between two checks of the clock, in arcs scanned: well under a millisecond.
const WORK_BETWEEN_CHECKS: usize = 1 << 16;

/// Limits of a solve. The default is no limit.
#[derive(Default, Clone, Copy)]
pub struct Limits<'a> {
    /// After this time the solve returns the best flow found so far.
    pub budget: Option<Duration>,
    /// The solve calls it about every millisecond and stops when it returns true, as if the budget
    /// were used up.
    pub interrupted: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("budget", &self.budget)
            .field("interrupted", &self.interrupted.map(|_| "callback"))
            .finish()
    }
}

/// The limits of a solve that has started.
pub(crate) struct Deadline<'a> {
    deadline: Option<Instant>,
    interrupted: Option<&'a (dyn Fn() -> bool + Sync)>,
    work: usize,
    is_expired: bool,
}

impl<'a> Deadline<'a> {
    pub fn start(limits: &Limits<'a>) -> Self {
        Self {
            // A budget that the clock cannot represent is no limit.
            deadline: limits.budget.and_then(|b| Instant::now().checked_add(b)),
            interrupted: limits.interrupted,
            work: 0,
            is_expired: false,
        }
    }

    pub fn is_limited(&self) -> bool {
        self.deadline.is_some() || self.interrupted.is_some()
    }

    /// Adds to the work done; returns whether to stop. Once true, it stays true.
    pub fn is_expired(&mut self, work: usize) -> bool {
        self.work += work;
        if self.work >= WORK_BETWEEN_CHECKS && !self.is_expired && self.is_limited() {
            self.work = 0;
            let is_late = self.deadline.is_some_and(|end| Instant::now() >= end);
            self.is_expired = is_late
                || self
                    .interrupted
                    .is_some_and(|is_interrupted| is_interrupted());
        }
        self.is_expired
    }
}
