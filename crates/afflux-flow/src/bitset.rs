//! A set of small integers, one bit each.
//!
//! The solver uses it to skip entries: most entries of a node have no residual capacity at any
//! time. Their bits lie in few cache lines, the entries themselves in many.

use std::ops::Range;

#[derive(Debug, Clone, Default)]
pub(crate) struct BitSet(Vec<u64>);

const WORD_BITS: usize = u64::BITS as usize;

impl BitSet {
    /// The empty set with room for the numbers below `length`.
    pub fn empty(length: usize) -> Self {
        Self(vec![0; length.div_ceil(WORD_BITS)])
    }

    /// Makes room for a number; does not insert it.
    pub fn grow_to(&mut self, index: usize) {
        let words = index / WORD_BITS + 1;
        if words > self.0.len() {
            self.0.resize(words, 0);
        }
    }

    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.0[index / WORD_BITS] >> (index % WORD_BITS) & 1 == 1
    }

    pub fn set(&mut self, index: usize, is_member: bool) {
        let (word, place) = (&mut self.0[index / WORD_BITS], index % WORD_BITS);
        *word = *word & !(1 << place) | u64::from(is_member) << place;
    }

    /// All members in ascending order.
    pub fn iter(&self) -> BitIter<'_> {
        self.in_range(0..WORD_BITS * self.0.len())
    }

    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The smallest member in a range.
    pub fn first_in(&self, range: Range<usize>) -> Option<usize> {
        self.in_range(range).next()
    }

    /// The members in a range, in ascending order.
    pub fn in_range(&self, range: Range<usize>) -> BitIter<'_> {
        let at = range.start / WORD_BITS;
        let word = match range.is_empty() {
            true => 0,
            false => self.0[at] & (u64::MAX << (range.start % WORD_BITS)),
        };
        BitIter {
            words: &self.0,
            at,
            word,
            end: range.end,
        }
    }
}

/// An iterator over the members of a set.
pub(crate) struct BitIter<'a> {
    words: &'a [u64],
    at: usize,
    /// The bits of the word at `at` that have not been returned yet.
    word: u64,
    end: usize,
}

impl Iterator for BitIter<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            self.at += 1;
            if self.at * WORD_BITS >= self.end {
                return None;
            }
            self.word = self.words[self.at];
        }
        let index = self.at * WORD_BITS + self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        (index < self.end).then_some(index)
    }

    /// Two nested loops are faster than repeated calls of `next`, which reload the position each
    /// time.
    #[inline]
    fn fold<B, F: FnMut(B, usize) -> B>(self, init: B, mut f: F) -> B {
        let mut folded = init;
        let (mut at, mut word) = (self.at, self.word);
        loop {
            while word != 0 {
                let index = at * WORD_BITS + word.trailing_zeros() as usize;
                if index >= self.end {
                    return folded;
                }
                word &= word - 1;
                folded = f(folded, index);
            }
            at += 1;
            if at * WORD_BITS >= self.end {
                return folded;
            }
            word = self.words[at];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::BitSet;

    proptest! {
        #[test]
        fn bitset_behaves_like_a_set(
            steps in prop::collection::vec((0_usize..300, any::<bool>()), 0..200),
            start in 0_usize..310,
            length in 0_usize..310,
        ) {
            let mut bits = BitSet::empty(300);
            let mut set = BTreeSet::new();
            for (index, is_member) in steps {
                bits.set(index, is_member);
                if is_member { set.insert(index); } else { set.remove(&index); }
                prop_assert_eq!(bits.contains(index), is_member);
            }
            let range = start.min(300)..(start + length).min(300);
            let found: Vec<usize> = bits.in_range(range.clone()).collect();
            let expected: Vec<usize> = set.range(range.clone()).copied().collect();
            let mut each = Vec::new();
            bits.in_range(range.clone()).for_each(|index| each.push(index));
            prop_assert_eq!(bits.first_in(range), expected.first().copied());
            prop_assert_eq!(&each, &expected);
            prop_assert_eq!(found, expected);
        }
    }
}
