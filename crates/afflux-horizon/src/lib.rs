//! Room over time: when does a group fit, and what is left if it starts then.
//!
//! # Problem
//! Machines have room for a number of tasks of one class, more of it as what runs there ends. At
//! what time can `count` tasks start that each run for `run` seconds, given that others have been
//! promised a start before?
//!
//! # Method
//! The sum over all machines is a step function of time. What runs only ever ends, so a machine that
//! takes a task at an instant takes it for as long as it likes, unless promises come in between:
//! `count` tasks fit from `t` on if and only if the step function is at least `count` throughout
//! `[t, t + run)`. That is exact for one class: in the order of their starts, every promise finds as
//! many machines with room as the function says, whatever machines were taken before. With several
//! classes it is a bound: nobody fits earlier.
//!
//! The first step is *at once*, before anything else ends. What ends now, or should have ended
//! already, is a step of its own at the same time: a group that needs it cannot start yet, but is
//! expected to at any moment.
//!
//! Whether a group of several classes fits is a question of packing; [`least_free`] says what there
//! is to pack it into: what every machine has free throughout a span of time.
//!
//! # Cost
//! The rows of machines that changed are replaced, each in time logarithmic in the number of steps;
//! a pass over the queue begins with a copy of the steps, and a question is one scan of them.

mod least;

use std::collections::BTreeMap;

pub use least::{Amounts, Ending, Seat, least_free};

/// A time that can be ordered; NaN is refused at the door.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time(f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// From `at` until the next step there is room for so many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Seconds on the caller's clock.
    pub at: f64,
    /// Tasks; negative where more was promised than there is.
    pub room: i64,
}

/// One machine: its room at once, and by how much it grows at which times.
#[derive(Clone, Debug, Default)]
struct Row {
    room: i64,
    growth: Vec<(f64, i64)>,
}

/// A start that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// When, in seconds on the caller's clock.
    pub at: f64,
    /// Whether nothing has to end before.
    pub at_once: bool,
}

/// The room of one class of tasks over time. There is always a step: nobody asks about no time.
#[derive(Clone, Debug)]
pub struct Timeline {
    rows: Vec<Row>,
    room: i64,
    growth: BTreeMap<Time, i64>,
    steps: Vec<Step>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            room: 0,
            growth: BTreeMap::new(),
            steps: vec![Step { at: 0.0, room: 0 }],
        }
    }
}

impl Timeline {
    /// Says what a machine has room for: at once, and how much more from which times on.
    pub fn set_row(&mut self, row: usize, room: i64, growth: Vec<(f64, i64)>) {
        if row >= self.rows.len() {
            self.rows.resize(row + 1, Row::default());
        }
        let before = std::mem::replace(&mut self.rows[row], Row { room, growth });
        self.room += room - before.room;
        for &(at, more) in &before.growth {
            self.grow(at, -more);
        }
        let now = std::mem::take(&mut self.rows[row].growth);
        for &(at, more) in &now {
            self.grow(at, more);
        }
        self.rows[row].growth = now;
    }

    /// Begins a pass at this time: nobody has been started or promised anything.
    pub fn begin(&mut self, now: f64) {
        self.steps.clear();
        self.steps.push(Step {
            at: now,
            room: self.room,
        });
        let mut room = self.room;
        for (&Time(at), &more) in &self.growth {
            room += more;
            let at = at.max(now);
            let later = self.steps.len() > 1;
            match self.steps.last_mut() {
                Some(last) if later && last.at == at => last.room = room,
                _ => self.steps.push(Step { at, room }),
            }
        }
    }

    /// The first time not before `not_before` from which on `count` tasks fit for `run` seconds.
    #[must_use]
    pub fn earliest(&self, count: i64, run: f64, not_before: f64) -> Option<Start> {
        // Of the two steps that may begin now, the first is at once.
        let mut first = match not_before <= self.steps[0].at {
            true => 0,
            false => self.index_at(not_before),
        };
        'candidates: while first < self.steps.len() {
            let at = self.steps[first].at.max(not_before);
            let end = at + run;
            for (index, step) in self.steps.iter().enumerate().skip(first) {
                if index > first && step.at >= end {
                    break;
                }
                if step.room < count {
                    first = index + 1;
                    continue 'candidates;
                }
            }
            let at_once = first == 0;
            return Some(Start { at, at_once });
        }
        None
    }

    /// Whether `count` tasks fit from this start on for `run` seconds.
    #[must_use]
    pub fn fits(&self, count: i64, run: f64, start: Start) -> bool {
        let first = self.first(start);
        let end = start.at + run;
        self.steps[first..]
            .iter()
            .enumerate()
            .take_while(|(index, step)| *index == 0 || step.at < end)
            .all(|(_, step)| step.room >= count)
    }

    /// Takes room for `count` tasks (negative gives it back) from this start on for `run` seconds.
    pub fn take(&mut self, count: i64, run: f64, start: Start) {
        let first = match start.at_once {
            true => 0,
            false => self.split(start.at),
        };
        let end = start.at + run;
        let last = match end.is_finite() {
            true => self.split(end),
            false => self.steps.len(),
        };
        for step in &mut self.steps[first..last.max(first)] {
            step.room -= count;
        }
    }

    /// The steps of this pass.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn grow(&mut self, at: f64, more: i64) {
        let sum = self.growth.entry(Time(at)).or_insert(0);
        *sum += more;
        if *sum == 0 {
            self.growth.remove(&Time(at));
        }
    }

    fn first(&self, start: Start) -> usize {
        match start.at_once {
            true => 0,
            false => self.index_at(start.at),
        }
    }

    /// The step that holds at this time: the last one that does not begin later.
    fn index_at(&self, at: f64) -> usize {
        self.steps
            .partition_point(|step| step.at <= at)
            .saturating_sub(1)
    }

    /// The index of a step that begins exactly then, made if there is none.
    fn split(&mut self, at: f64) -> usize {
        let index = self.index_at(at);
        let step = self.steps[index];
        if step.at >= at {
            return index;
        }
        let room = step.room;
        self.steps.insert(index + 1, Step { at, room });
        index + 1
    }
}
