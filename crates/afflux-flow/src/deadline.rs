//! When to stop looking for something better.

use std::fmt;
use std::time::{Duration, Instant};

/// Work between two looks at the clock, in looks at arcs: well under a millisecond.
const PATIENCE: usize = 1 << 16;

/// How long a solve may take. The default is as long as it needs.
#[derive(Default, Clone, Copy)]
pub struct Limits<'a> {
    /// After this time the best flow found so far has to do.
    pub budget: Option<Duration>,
    /// Asked now and then from within; when it answers true, it is as if the budget were used up.
    pub interrupted: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("budget", &self.budget)
            .field("interrupted", &self.interrupted.map(|_| "asked"))
            .finish()
    }
}

/// Limits that have begun to count.
pub(crate) struct Clock<'a> {
    deadline: Option<Instant>,
    interrupted: Option<&'a (dyn Fn() -> bool + Sync)>,
    work: usize,
    expired: bool,
}

impl<'a> Clock<'a> {
    pub fn start(limits: &Limits<'a>) -> Self {
        Self {
            // A budget beyond what the clock can count is none.
            deadline: limits.budget.and_then(|b| Instant::now().checked_add(b)),
            interrupted: limits.interrupted,
            work: 0,
            expired: false,
        }
    }

    /// Whether there are limits at all.
    pub fn is_limited(&self) -> bool {
        self.deadline.is_some() || self.interrupted.is_some()
    }

    /// Counts work; answers whether it is time to stop, which does not change any more.
    pub fn expired(&mut self, work: usize) -> bool {
        self.work += work;
        if self.work >= PATIENCE && !self.expired && self.is_limited() {
            self.work = 0;
            let late = self.deadline.is_some_and(|end| Instant::now() >= end);
            self.expired = late || self.interrupted.is_some_and(|asked| asked());
        }
        self.expired
    }
}
