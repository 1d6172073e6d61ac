//! All arcs of a network, in columns.
//!
//! Bounds and costs take 32 bits each, so that an arc takes 20 bytes. The first value that does not
//! fit widens all columns to 64 bits. One bit per arc says whether the arc is free or has a fixed
//! flow (see `fixed_flow`), so that scans can skip arcs with fixed flow.

use std::fmt::Debug;
use std::ops::Range;

use crate::bitset::BitSet;
use crate::problem::{Arc, Terms};

/// All arcs of a network, by arc id.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arcs {
    tail: Vec<u32>,
    head: Vec<u32>,
    terms: TermColumns,
    /// The free arcs, and their number.
    free: BitSet,
    free_count: usize,
}

/// Terms of arcs in the narrower type that fits them.
#[derive(Debug, Clone)]
enum TermColumns {
    Narrow(TermsOf<i32>),
    Wide(TermsOf<i64>),
}

/// Terms of arcs, one column per term.
#[derive(Debug, Clone, Default)]
struct TermsOf<W> {
    lower: Vec<W>,
    capacity: Vec<W>,
    cost: Vec<W>,
}

/// An operation on many arcs. It is compiled once per integer width, so that a scan does not check
/// the width for each arc.
pub(crate) trait Scan {
    type Output;

    /// Runs over arcs with their ids.
    fn run(self, arcs: impl Iterator<Item = (usize, Arc)>) -> Self::Output;
}

/// The integer type that stores bounds and costs.
pub(crate) trait IntWidth: Copy + Debug + Default + Into<i64> + Send + Sync {
    /// Converts a number that is known to fit.
    fn cast(number: i64) -> Self;
}

impl IntWidth for i32 {
    #[inline]
    fn cast(number: i64) -> Self {
        debug_assert!(Self::try_from(number).is_ok());
        number as Self
    }
}

impl IntWidth for i64 {
    #[inline]
    fn cast(number: i64) -> Self {
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
            TermColumns::Narrow(columns) => columns.get(index),
            TermColumns::Wide(columns) => columns.get(index),
        }
    }

    #[inline]
    pub fn get(&self, index: usize) -> Arc {
        let (tail, head) = self.ends(index);
        Arc::new(tail, head, self.terms(index))
    }

    /// Whether an arc is free: neither a loop nor an arc with equal bounds.
    #[inline]
    pub fn is_free(&self, index: usize) -> bool {
        self.free.contains(index)
    }

    pub fn free(&self) -> usize {
        self.free_count
    }

    /// Records whether an arc is free, given whether its bounds differ.
    #[inline]
    fn set_free(&mut self, index: usize, differ: bool) {
        let is_free = differ & (self.tail[index] != self.head[index]);
        self.free_count =
            self.free_count + usize::from(is_free) - usize::from(self.free.contains(index));
        self.free.set(index, is_free);
    }

    /// Scans all arcs of a range, in order.
    pub fn scan<S: Scan>(&self, range: Range<usize>, scan: S) -> S::Output {
        match &self.terms {
            TermColumns::Narrow(columns) => scan.run(self.in_range(columns, range)),
            TermColumns::Wide(columns) => scan.run(self.in_range(columns, range)),
        }
    }

    /// Whether terms are stored in 32 bits.
    pub fn is_narrow(&self) -> bool {
        matches!(self.terms, TermColumns::Narrow(_))
    }

    /// Whether most arcs have a fixed flow, so that skipping them is faster than reading them.
    pub fn have_mostly_fixed_flow(&self) -> bool {
        2 * self.free_count < self.len()
    }

    /// Scans the free arcs of a range, in order.
    pub fn scan_free<S: Scan>(&self, range: Range<usize>, scan: S) -> S::Output {
        match (&self.terms, self.have_mostly_fixed_flow()) {
            (TermColumns::Narrow(columns), true) => scan.run(self.free_in_range(columns, range)),
            (TermColumns::Wide(columns), true) => scan.run(self.free_in_range(columns, range)),
            (TermColumns::Narrow(columns), false) => {
                scan.run(only_free(self.in_range(columns, range)))
            }
            (TermColumns::Wide(columns), false) => {
                scan.run(only_free(self.in_range(columns, range)))
            }
        }
    }

    #[inline]
    fn free_in_range<W: IntWidth>(
        &self,
        columns: &TermsOf<W>,
        range: Range<usize>,
    ) -> impl Iterator<Item = (usize, Arc)> {
        let free = self.free.in_range(range);
        free.map(|index| {
            let (tail, head) = self.ends(index);
            (index, Arc::new(tail, head, columns.get(index)))
        })
    }

    #[inline]
    fn in_range<W: IntWidth>(
        &self,
        columns: &TermsOf<W>,
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
            TermColumns::Narrow(columns) if terms.fit_32_bits() => columns.set(index, terms),
            TermColumns::Wide(columns) => columns.set(index, terms),
            TermColumns::Narrow(_) => {
                self.terms.widen();
                self.set_terms(index, terms);
            }
        }
    }

    pub fn set_bounds(&mut self, index: usize, (lower, capacity): (i64, i64)) {
        self.set_free(index, lower < capacity);
        match &mut self.terms {
            TermColumns::Narrow(columns) if i32::try_from(capacity).is_ok() => {
                columns.set_bounds(index, lower, capacity);
            }
            TermColumns::Wide(columns) => columns.set_bounds(index, lower, capacity),
            TermColumns::Narrow(_) => {
                self.terms.widen();
                self.set_bounds(index, (lower, capacity));
            }
        }
    }

    pub fn set_cost(&mut self, index: usize, cost: i64) {
        match &mut self.terms {
            TermColumns::Narrow(columns) if i32::try_from(cost).is_ok() => {
                columns.cost[index] = cost as i32
            }
            TermColumns::Wide(columns) => columns.cost[index] = cost,
            TermColumns::Narrow(_) => {
                self.terms.widen();
                self.set_cost(index, cost);
            }
        }
    }

    pub fn push(&mut self, arc: &Arc) {
        let terms = arc.terms();
        if !terms.fit_32_bits() {
            self.terms.widen();
        }
        let index = self.len();
        self.tail.push(arc.tail as u32);
        self.head.push(arc.head as u32);
        self.free.grow_to(index);
        self.set_free(index, terms.lower < terms.capacity);
        match &mut self.terms {
            TermColumns::Narrow(columns) => columns.push(terms),
            TermColumns::Wide(columns) => columns.push(terms),
        }
    }

    /// Reserves memory for exactly `more` arcs.
    pub fn reserve(&mut self, more: usize) {
        self.tail.reserve_exact(more);
        self.head.reserve_exact(more);
        match &mut self.terms {
            TermColumns::Narrow(columns) => columns.reserve(more),
            TermColumns::Wide(columns) => columns.reserve(more),
        }
    }
}

/// The free arcs among these.
#[inline]
fn only_free(arcs: impl Iterator<Item = (usize, Arc)>) -> impl Iterator<Item = (usize, Arc)> {
    arcs.filter(|(_, arc)| arc.is_free())
}

impl Default for TermColumns {
    fn default() -> Self {
        Self::Narrow(TermsOf::default())
    }
}

impl TermColumns {
    /// Widens all columns to 64 bits.
    #[cold]
    fn widen(&mut self) {
        if let Self::Narrow(columns) = self {
            *self = Self::Wide(TermsOf {
                lower: widened(&mut columns.lower),
                capacity: widened(&mut columns.capacity),
                cost: widened(&mut columns.cost),
            });
        }
    }
}

/// The same values in 64 bits; frees the memory of the narrow column.
fn widened(column: &mut Vec<i32>) -> Vec<i64> {
    let column = std::mem::take(column);
    let mut wide = Vec::with_capacity(column.capacity());
    wide.extend(column.iter().map(|&value| i64::from(value)));
    wide
}

impl<W: IntWidth> TermsOf<W> {
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
        self.cost[index] = W::cast(terms.cost);
    }

    fn set_bounds(&mut self, index: usize, lower: i64, capacity: i64) {
        self.lower[index] = W::cast(lower);
        self.capacity[index] = W::cast(capacity);
    }

    fn push(&mut self, terms: Terms) {
        self.lower.push(W::cast(terms.lower));
        self.capacity.push(W::cast(terms.capacity));
        self.cost.push(W::cast(terms.cost));
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

    /// Collects all arcs.
    struct Collect;

    impl Scan for Collect {
        type Output = Vec<(usize, Arc)>;

        fn run(self, arcs: impl Iterator<Item = (usize, Arc)>) -> Self::Output {
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
        // Mostly equal bounds.
        let part = prop_oneof![3 => Just(1), 1 => Just(2)];
        (capacity, part, cost).prop_map(|(capacity, part, cost)| Terms {
            lower: capacity / part,
            capacity,
            cost,
        })
    }

    proptest! {
        #[test]
        fn columns_return_what_was_written_at_any_width(
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
