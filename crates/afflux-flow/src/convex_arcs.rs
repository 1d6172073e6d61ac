//! Convex arcs: each unit costs as much as the one before, or more.
//!
//! Such an arc is the same as parallel arcs of one unit each, but nobody has to look at all of them:
//! the cheapest units are carried, so that it can only gain by the last unit that it carries, or by
//! the next. What it costs is written as a row, one number for each unit; so a convex arc is called a
//! [`Row`] here, and lies apart from all other arcs.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::problem::Arc;

/// Convex arcs have numbers from here on, all others have smaller ones.
pub(crate) const CONVEX: u32 = 1 << 30;

/// The place of a convex arc among all of them, by its number; none if it is another arc.
#[inline]
pub(crate) fn as_row(number: u32) -> Option<usize> {
    number.checked_sub(CONVEX).map(|row| row as usize)
}

/// A convex arc.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Row {
    pub tail: u32,
    /// Never the tail; one that was removed has node 0 at both ends.
    pub head: u32,
    pub lower: u32,
    pub capacity: u32,
    /// Where its costs are.
    first: u32,
    length: u32,
}

impl Row {
    pub fn exists(&self) -> bool {
        self.tail != self.head
    }

    pub fn ends(&self) -> (usize, usize) {
        (self.tail as usize, self.head as usize)
    }

    /// A unit of it that has a choice and costs so much, as an arc of its own.
    #[inline]
    pub fn unit(&self, cost: i64) -> Arc {
        Arc {
            tail: self.tail as usize,
            head: self.head as usize,
            lower: 0,
            capacity: 1,
            cost,
        }
    }

    /// For how many units it has costs.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// So much, or as much of it as the bounds admit.
    pub fn clamped(&self, flow: i64) -> i64 {
        flow.clamp(self.lower.into(), self.capacity.into())
    }
}

/// What an arc, convex or not, could gain by: its last unit and its next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Margin {
    /// What the last unit costs, if it could be taken back.
    pub last: Option<i64>,
    /// What one more would cost, if there is room for it.
    pub next: Option<i64>,
}

impl Margin {
    /// What the unit costs that one more or one less would gain by, where prices fall by so much along
    /// the arc.
    #[inline]
    pub fn tempting(&self, fall: i64) -> Option<i64> {
        let next = self.next.filter(|cost| cost + fall < 0);
        next.or(self.last.filter(|cost| cost + fall > 0))
    }
}

/// All convex arcs of a network, by number less [`CONVEX`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    costs: Vec<i64>,
    /// Those that were removed, by length: others with as many costs take their places.
    removed: BTreeMap<u32, Vec<u32>>,
    count: usize,
    /// Whether there has been a cost beyond 32 bits.
    is_wide: bool,
}

impl Rows {
    /// How many there are, with those that were removed.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many exist.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many costs there are, with those of arcs that were removed.
    pub fn units(&self) -> usize {
        self.costs.len()
    }

    /// Whether all costs fit 32 bits; capacities do.
    pub fn are_narrow(&self) -> bool {
        !self.is_wide
    }

    #[inline]
    pub fn get(&self, row: usize) -> &Row {
        &self.rows[row]
    }

    /// Some of them, with their places.
    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = (usize, &Row)> {
        range.clone().zip(&self.rows[range])
    }

    /// What each unit costs that an arc can carry.
    #[inline]
    pub fn open_costs(&self, row: &Row) -> &[i64] {
        &self.costs[row.first as usize..][..row.capacity as usize]
    }

    /// What each unit costs that it could carry with another capacity.
    pub fn costs_of(&self, row: &Row) -> &[i64] {
        &self.costs[row.first as usize..][..row.length as usize]
    }

    /// What all units cost of all that exist.
    pub fn every_cost(&self) -> impl Iterator<Item = i64> {
        let rows = self.rows.iter().filter(|row| row.exists());
        rows.flat_map(|row| self.costs_of(row)).copied()
    }

    /// What it can gain by when it carries so much.
    #[inline]
    pub fn margin(&self, row: &Row, flow: i64) -> Margin {
        let costs = self.open_costs(row);
        let at = |unit: i64| costs.get(unit as usize).copied();
        Margin {
            last: (flow > row.lower.into()).then(|| at(flow - 1)).flatten(),
            next: at(flow),
        }
    }

    /// What so many units cost together.
    #[inline]
    pub fn cost_of(&self, row: &Row, flow: i64) -> i128 {
        let units = &self.open_costs(row)[..flow as usize];
        units.iter().map(|&cost| i128::from(cost)).sum()
    }

    /// One arc for each unit of all of them, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Arc> {
        self.rows.iter().flat_map(|row| {
            let costs = self.open_costs(row).iter();
            costs.enumerate().map(|(unit, &cost)| Arc {
                lower: i64::from(unit < row.lower as usize),
                ..row.unit(cost)
            })
        })
    }

    /// The place for one more arc of so many costs; nothing is known of it yet.
    pub fn place(&mut self, ends: (u32, u32), length: u32) -> usize {
        self.count += 1;
        let removed = self.removed.get_mut(&length).and_then(Vec::pop);
        let row = removed.map_or(self.rows.len(), |row| row as usize);
        if row == self.rows.len() {
            let first = self.costs.len() as u32;
            self.costs.resize(self.costs.len() + length as usize, 0);
            self.rows.push(Row {
                first,
                length,
                ..Row::default()
            });
        }
        (self.rows[row].tail, self.rows[row].head) = ends;
        row
    }

    pub fn remove(&mut self, row: usize) {
        let gone = &mut self.rows[row];
        *gone = Row {
            first: gone.first,
            length: gone.length,
            ..Row::default()
        };
        self.removed
            .entry(gone.length)
            .or_default()
            .push(row as u32);
        self.count -= 1;
    }

    pub fn set_bounds(&mut self, row: usize, (lower, capacity): (i64, i64)) {
        let row = &mut self.rows[row];
        (row.lower, row.capacity) = (lower as u32, capacity as u32);
    }

    /// As many costs as the arc has.
    pub fn set_costs(&mut self, row: usize, costs: &[i64]) {
        let Row { first, length, .. } = self.rows[row];
        self.costs[first as usize..][..length as usize].copy_from_slice(costs);
        let is_wide = |&cost: &i64| i32::try_from(cost).is_err();
        // They rise.
        self.is_wide |= costs.first().is_some_and(is_wide) || costs.last().is_some_and(is_wide);
    }

    /// Makes room for so many more arcs with so many costs.
    pub fn reserve(&mut self, more: usize, units: usize) {
        self.rows.reserve(more);
        self.costs.reserve(units);
    }
}
