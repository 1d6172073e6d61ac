//! A bit per entry, to pass over entries without looking at them.
//!
//! Most entries of a node lead nowhere at any time. Their bits are next to each other; they
//! themselves fill many cache lines.

use std::ops::Range;

/// A set of small numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bits(Vec<u64>);

const WIDTH: usize = u64::BITS as usize;

impl Bits {
    /// None of the numbers below `length`.
    pub fn none(length: usize) -> Self {
        Self(vec![0; length.div_ceil(WIDTH)])
    }

    /// Makes room for a number, which is not in the set.
    pub fn reach(&mut self, index: usize) {
        let words = index / WIDTH + 1;
        if words > self.0.len() {
            self.0.resize(words, 0);
        }
    }

    #[inline]
    pub fn has(&self, index: usize) -> bool {
        self.0[index / WIDTH] >> (index % WIDTH) & 1 == 1
    }

    pub fn put(&mut self, index: usize, is_in: bool) {
        let (word, place) = (&mut self.0[index / WIDTH], index % WIDTH);
        *word = *word & !(1 << place) | u64::from(is_in) << place;
    }

    /// All of them, in order.
    pub fn all(&self) -> Within<'_> {
        self.within(0..WIDTH * self.0.len())
    }

    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The first number in a range that is in the set.
    pub fn first(&self, range: Range<usize>) -> Option<usize> {
        self.within(range).next()
    }

    /// The numbers in a range that are in the set, in order.
    pub fn within(&self, range: Range<usize>) -> Within<'_> {
        let at = range.start / WIDTH;
        let word = match range.is_empty() {
            true => 0,
            false => self.0[at] & (u64::MAX << (range.start % WIDTH)),
        };
        Within {
            words: &self.0,
            at,
            word,
            end: range.end,
        }
    }
}

/// An iterator over the numbers of a set.
pub(crate) struct Within<'a> {
    words: &'a [u64],
    at: usize,
    /// What is left of the word at `at`.
    word: u64,
    end: usize,
}

impl Iterator for Within<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            self.at += 1;
            if self.at * WIDTH >= self.end {
                return None;
            }
            self.word = self.words[self.at];
        }
        let index = self.at * WIDTH + self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        (index < self.end).then_some(index)
    }

    /// One loop within another, so that nothing has to be kept between two of them.
    #[inline]
    fn fold<B, F: FnMut(B, usize) -> B>(self, init: B, mut f: F) -> B {
        let mut folded = init;
        let (mut at, mut word) = (self.at, self.word);
        loop {
            while word != 0 {
                let index = at * WIDTH + word.trailing_zeros() as usize;
                if index >= self.end {
                    return folded;
                }
                word &= word - 1;
                folded = f(folded, index);
            }
            at += 1;
            if at * WIDTH >= self.end {
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

    use super::Bits;

    proptest! {
        #[test]
        fn is_a_set(
            steps in prop::collection::vec((0_usize..300, any::<bool>()), 0..200),
            start in 0_usize..310,
            length in 0_usize..310,
        ) {
            let mut bits = Bits::none(300);
            let mut set = BTreeSet::new();
            for (index, is_in) in steps {
                bits.put(index, is_in);
                if is_in { set.insert(index); } else { set.remove(&index); }
                prop_assert_eq!(bits.has(index), is_in);
            }
            let range = start.min(300)..(start + length).min(300);
            let found: Vec<usize> = bits.within(range.clone()).collect();
            let expected: Vec<usize> = set.range(range.clone()).copied().collect();
            let mut each = Vec::new();
            bits.within(range.clone()).for_each(|index| each.push(index));
            prop_assert_eq!(bits.first(range), expected.first().copied());
            prop_assert_eq!(&each, &expected);
            prop_assert_eq!(found, expected);
        }
    }
}
