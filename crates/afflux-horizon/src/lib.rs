//! Free capacity over time: when does a group fit, and what is left if it starts then.
//!
//! # Problem
//! Machines have room for a number of tasks of one class, and more when running tasks end. When can
//! `count` tasks start that each run for `run` seconds, given the reservations of other groups?
//!
//! # Method
//! The room summed over all machines is a step function of time. Running tasks only end, so a
//! machine that takes a task at some time can keep it for any duration, unless a reservation begins
//! in between: `count` tasks fit from `t` on if and only if the step function is at least `count`
//! throughout `[t, t + run)`. For one class this is exact: in the order of their starts, every
//! reservation finds as many machines with room as the function says, whichever machines were taken
//! before. With several classes it is a bound: no group fits earlier.
//!
//! The first step is *at once*, before any running task ends. Tasks that end now, or are overdue,
//! are a separate step at the same time: a group that needs their room cannot start yet, but is
//! expected to start at any moment.
//!
//! Whether a group of several classes fits is a packing problem; [`least_free`] computes the input:
//! the amounts that every machine has free throughout a span of time.
//!
//! # Cost
//! Only the rows of changed machines are replaced, each in time logarithmic in the number of steps.
//! A pass over the queue begins with a copy of the steps, and each query is one scan of them.

mod least_free;

use std::collections::BTreeMap;

pub use least_free::{Amounts, Ending, Occupancy, least_free};

/// A time with a total order; callers reject NaN.
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

/// A step: the room from `at` until the next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Seconds on the caller's clock.
    pub at: f64,
    /// Tasks; negative where reservations exceed the capacity.
    pub room: i64,
}

/// One machine: its room at once, and the increases of its room with their times.
#[derive(Clone, Debug, Default)]
struct Row {
    room: i64,
    growth: Vec<(f64, i64)>,
}

/// A possible start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// Seconds on the caller's clock.
    pub at: f64,
    /// Whether no running task has to end first.
    pub at_once: bool,
}

/// The room for tasks of one class over time. There is always at least one step.
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
    /// Sets the room of a machine: at once, and its increases with their times.
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

    /// Begins a pass at this time, without started groups and reservations.
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

    /// The earliest start, not before `not_before`, from which `count` tasks fit for `run` seconds.
    #[must_use]
    pub fn earliest(&self, count: i64, run: f64, not_before: f64) -> Option<Start> {
        // Two steps may begin now; the first is the one at once.
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

    /// Takes room for `count` tasks (returns it if negative) from this start on for `run` seconds.
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

    /// The step at this time: the last one that does not begin later.
    fn index_at(&self, at: f64) -> usize {
        self.steps
            .partition_point(|step| step.at <= at)
            .saturating_sub(1)
    }

    /// The index of the step that begins at this time; inserts it if there is none.
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
