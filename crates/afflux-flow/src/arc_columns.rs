//! All arcs, column by column.
//!
//! Bounds and costs take 32 bits each, so that an arc takes 20 bytes. The first that does not fit
//! makes all of them take 64. A bit beside each says whether it has a choice, so that scans can pass
//! over those that have none.

use std::fmt::Debug;
use std::ops::Range;

use crate::bits::Bits;
use crate::problem::{Arc, Terms};

/// All arcs of a network, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arcs {
    tail: Vec<u32>,
    head: Vec<u32>,
    terms: Kept,
    /// Those that have a choice, and how many they are.
    free: Bits,
    count: usize,
}

/// Terms of arcs, as wide as they have to be.
#[derive(Debug, Clone)]
enum Kept {
    Narrow(Columns<i32>),
    Wide(Columns<i64>),
}

/// Terms of arcs.
#[derive(Debug, Clone, Default)]
struct Columns<W> {
    lower: Vec<W>,
    capacity: Vec<W>,
    cost: Vec<W>,
}

/// Something to be done with many arcs. It is compiled for each width, so that a scan need not ask
/// for it arc by arc.
pub(crate) trait Scan {
    /// What it comes to.
    type Found;

    /// Looks at arcs with their numbers.
    fn over(self, arcs: impl Iterator<Item = (usize, Arc)>) -> Self::Found;
}

/// What bounds and costs are kept in.
pub(crate) trait Width: Copy + Debug + Default + Into<i64> + Send + Sync {
    /// A number that is known to fit.
    fn of(number: i64) -> Self;
}

impl Width for i32 {
    #[inline]
    fn of(number: i64) -> Self {
        debug_assert!(Self::try_from(number).is_ok());
        number as Self
    }
}

impl Width for i64 {
    #[inline]
    fn of(number: i64) -> Self {
        number
    }
}

impl Arcs {
    pub fn len(&self) -> usize {
        self.tail.len()
    }

    #[inline]
    pub fn ends(&self, index: usize) -> (usize, usize) {
        (self.tail[index] as usize, self.head[index] as usize)
    }

    #[inline]
    pub fn terms(&self, index: usize) -> Terms {
        match &self.terms {
            Kept::Narrow(columns) => columns.get(index),
            Kept::Wide(columns) => columns.get(index),
        }
    }

    #[inline]
    pub fn get(&self, index: usize) -> Arc {
        let (tail, head) = self.ends(index);
        Arc::new(tail, head, self.terms(index))
    }

    /// Whether an arc has a choice that the rest of the network must know about.
    #[inline]
    pub fn is_free(&self, index: usize) -> bool {
        self.free.has(index)
    }

    /// How many have one.
    pub fn free(&self) -> usize {
        self.count
    }

    /// Notes whether an arc has a choice, which takes bounds that differ.
    #[inline]
    fn set_free(&mut self, index: usize, differ: bool) {
        let is_free = differ & (self.tail[index] != self.head[index]);
        self.count = self.count + usize::from(is_free) - usize::from(self.free.has(index));
        self.free.put(index, is_free);
    }

    /// Looks at all arcs in a row, in order.
    pub fn scan<S: Scan>(&self, range: Range<usize>, scan: S) -> S::Found {
        match &self.terms {
            Kept::Narrow(columns) => scan.over(self.within(columns, range)),
            Kept::Wide(columns) => scan.over(self.within(columns, range)),
        }
    }

    /// Whether terms take 32 bits.
    pub fn is_narrow(&self) -> bool {
        matches!(self.terms, Kept::Narrow(_))
    }

    /// Whether most have none, so that it is worth passing over them.
    pub fn are_mostly_forced(&self) -> bool {
        2 * self.count < self.len()
    }

    /// Looks at those with a choice.
    pub fn scan_free<S: Scan>(&self, range: Range<usize>, scan: S) -> S::Found {
        match (&self.terms, self.are_mostly_forced()) {
            (Kept::Narrow(columns), true) => scan.over(self.free_within(columns, range)),
            (Kept::Wide(columns), true) => scan.over(self.free_within(columns, range)),
            (Kept::Narrow(columns), false) => scan.over(only_free(self.within(columns, range))),
            (Kept::Wide(columns), false) => scan.over(only_free(self.within(columns, range))),
        }
    }

    #[inline]
    fn free_within<W: Width>(
        &self,
        columns: &Columns<W>,
        range: Range<usize>,
    ) -> impl Iterator<Item = (usize, Arc)> {
        let free = self.free.within(range);
        free.map(|index| {
            let (tail, head) = self.ends(index);
            (index, Arc::new(tail, head, columns.get(index)))
        })
    }

    #[inline]
    fn within<W: Width>(
        &self,
        columns: &Columns<W>,
        range: Range<usize>,
    ) -> impl Iterator<Item = (usize, Arc)> {
        let tail = self.tail[range.clone()].iter();
        let ends = tail.zip(&self.head[range.clone()]);
        let lower = columns.lower[range.clone()].iter();
        let bounds = lower.zip(&columns.capacity[range.clone()]);
        let terms = bounds.zip(&columns.cost[range.clone()]);
        range
            .zip(ends.zip(terms))
            .map(|(index, ((&tail, &head), ((&lower, &capacity), &cost)))| {
                let arc = Arc {
                    tail: tail as usize,
                    head: head as usize,
                    lower: lower.into(),
                    capacity: capacity.into(),
                    cost: cost.into(),
                };
                (index, arc)
            })
    }

    pub fn set(&mut self, index: usize, arc: &Arc) {
        (self.tail[index], self.head[index]) = (arc.tail as u32, arc.head as u32);
        self.set_terms(index, arc.terms());
    }

    pub fn set_terms(&mut self, index: usize, terms: Terms) {
        self.set_free(index, terms.lower < terms.capacity);
        match &mut self.terms {
            Kept::Narrow(columns) if terms.fit_32_bits() => columns.set(index, terms),
            Kept::Wide(columns) => columns.set(index, terms),
            Kept::Narrow(_) => {
                self.terms.widen();
                self.set_terms(index, terms);
            }
        }
    }

    pub fn set_bounds(&mut self, index: usize, (lower, capacity): (i64, i64)) {
        self.set_free(index, lower < capacity);
        match &mut self.terms {
            Kept::Narrow(columns) if i32::try_from(capacity).is_ok() => {
                columns.set_bounds(index, lower, capacity);
            }
            Kept::Wide(columns) => columns.set_bounds(index, lower, capacity),
            Kept::Narrow(_) => {
                self.terms.widen();
                self.set_bounds(index, (lower, capacity));
            }
        }
    }

    pub fn set_cost(&mut self, index: usize, cost: i64) {
        match &mut self.terms {
            Kept::Narrow(columns) if i32::try_from(cost).is_ok() => {
                columns.cost[index] = cost as i32
            }
            Kept::Wide(columns) => columns.cost[index] = cost,
            Kept::Narrow(_) => {
                self.terms.widen();
                self.set_cost(index, cost);
            }
        }
    }

    /// Adds an arc.
    pub fn push(&mut self, arc: &Arc) {
        let terms = arc.terms();
        if !terms.fit_32_bits() {
            self.terms.widen();
        }
        let index = self.len();
        self.tail.push(arc.tail as u32);
        self.head.push(arc.head as u32);
        self.free.reach(index);
        self.set_free(index, terms.lower < terms.capacity);
        match &mut self.terms {
            Kept::Narrow(columns) => columns.push(terms),
            Kept::Wide(columns) => columns.push(terms),
        }
    }

    /// Makes room for so many more, and not for others.
    pub fn reserve(&mut self, more: usize) {
        self.tail.reserve_exact(more);
        self.head.reserve_exact(more);
        match &mut self.terms {
            Kept::Narrow(columns) => columns.reserve(more),
            Kept::Wide(columns) => columns.reserve(more),
        }
    }
}

/// Of these arcs, those with a choice.
#[inline]
fn only_free(arcs: impl Iterator<Item = (usize, Arc)>) -> impl Iterator<Item = (usize, Arc)> {
    arcs.filter(|(_, arc)| arc.is_free())
}

impl Default for Kept {
    fn default() -> Self {
        Self::Narrow(Columns::default())
    }
}

impl Kept {
    /// Makes room for terms that do not fit 32 bits.
    #[cold]
    fn widen(&mut self) {
        if let Self::Narrow(columns) = self {
            *self = Self::Wide(Columns {
                lower: widened(&mut columns.lower),
                capacity: widened(&mut columns.capacity),
                cost: widened(&mut columns.cost),
            });
        }
    }
}

/// The same values; the column gives its memory away.
fn widened(column: &mut Vec<i32>) -> Vec<i64> {
    let column = std::mem::take(column);
    let mut wide = Vec::with_capacity(column.capacity());
    wide.extend(column.iter().map(|&value| i64::from(value)));
    wide
}

impl<W: Width> Columns<W> {
    #[inline]
    fn get(&self, index: usize) -> Terms {
        Terms {
            lower: self.lower[index].into(),
            capacity: self.capacity[index].into(),
            cost: self.cost[index].into(),
        }
    }

    fn set(&mut self, index: usize, terms: Terms) {
        self.set_bounds(index, terms.lower, terms.capacity);
        self.cost[index] = W::of(terms.cost);
    }

    fn set_bounds(&mut self, index: usize, lower: i64, capacity: i64) {
        self.lower[index] = W::of(lower);
        self.capacity[index] = W::of(capacity);
    }

    fn push(&mut self, terms: Terms) {
        self.lower.push(W::of(terms.lower));
        self.capacity.push(W::of(terms.capacity));
        self.cost.push(W::of(terms.cost));
    }

    fn reserve(&mut self, more: usize) {
        for column in [&mut self.lower, &mut self.capacity, &mut self.cost] {
            column.reserve_exact(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Arcs, Scan};
    use crate::problem::{Arc, Terms};

    /// All of them.
    struct Collect;

    impl Scan for Collect {
        type Found = Vec<(usize, Arc)>;

        fn over(self, arcs: impl Iterator<Item = (usize, Arc)>) -> Self::Found {
            arcs.collect()
        }
    }

    fn terms() -> impl Strategy<Value = Terms> {
        let capacity = prop_oneof![9 => 0_i64..100, 1 => Just(i64::from(i32::MAX) + 1)];
        let edges = [i32::MIN, i32::MAX].map(i64::from);
        let cost = prop_oneof![
            9 => -100_i64..100,
            1 => prop::sample::select(vec![edges[0], edges[1], edges[0] - 1, edges[1] + 1]),
        ];
        // Mostly without a choice.
        let part = prop_oneof![3 => Just(1), 1 => Just(2)];
        (capacity, part, cost).prop_map(|(capacity, part, cost)| Terms {
            lower: capacity / part,
            capacity,
            cost,
        })
    }

    proptest! {
        #[test]
        fn are_what_was_said_of_them_at_any_width(
            steps in prop::collection::vec((0_usize..5, 0_usize..30, 0_usize..9, terms()), 1..60),
        ) {
            let mut arcs = Arcs::default();
            let mut expected: Vec<Arc> = Vec::new();
            for (kind, index, end, terms) in steps {
                let Some(index) = index.checked_rem(expected.len()).filter(|_| kind > 0) else {
                    let arc = Arc::new(end, end + 1, terms);
                    arcs.push(&arc);
                    expected.push(arc);
                    continue;
                };
                let arc = &mut expected[index];
                match kind {
                    1 => {
                        arcs.set_terms(index, terms);
                        *arc = Arc::new(arc.tail, arc.head, terms);
                    }
                    2 => {
                        let bounds = (terms.lower, terms.capacity);
                        arcs.set_bounds(index, bounds);
                        (arc.lower, arc.capacity) = bounds;
                    }
                    3 => {
                        arcs.set_cost(index, terms.cost);
                        arc.cost = terms.cost;
                    }
                    _ => {
                        *arc = Arc::new(end, 0, terms);
                        arcs.set(index, arc);
                    }
                }
                prop_assert_eq!(arcs.get(index), *arc);
            }
            let all: Vec<_> = expected.iter().copied().enumerate().collect();
            prop_assert_eq!(arcs.scan(0..arcs.len(), Collect), &all[..]);
            let half = all.len() / 2;
            prop_assert_eq!(arcs.scan(half..arcs.len(), Collect), &all[half..]);
            let is_free = |(_, arc): &&(usize, Arc)| arc.is_free();
            prop_assert_eq!(arcs.free(), all.iter().filter(is_free).count());
            for range in [0..half, half..arcs.len()] {
                let free = all[range.clone()].iter().filter(is_free);
                let free: Vec<_> = free.copied().collect();
                prop_assert_eq!(arcs.scan_free(range, Collect), free);
            }
        }
    }
}
