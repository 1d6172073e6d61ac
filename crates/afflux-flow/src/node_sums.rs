//! Sums by node: 64 bits each, and a table for the few that do not fit.

use std::collections::BTreeMap;

/// Marks a sum that is in the table.
const LARGE: i64 = i64::MIN;

/// A sum for each node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    small: Vec<i64>,
    large: BTreeMap<usize, i128>,
}

impl Sums {
    /// These.
    pub fn of(values: impl Iterator<Item = i64>) -> Self {
        let mut sums = Self::default();
        for (node, value) in values.enumerate() {
            sums.push();
            sums.set(node, i128::from(value));
        }
        sums
    }

    /// Zero for one more.
    pub fn push(&mut self) {
        self.small.push(0);
    }

    pub fn reserve(&mut self, more: usize) {
        self.small.reserve_exact(more);
    }

    /// Reads a sum; what it answers means nothing.
    #[inline]
    pub fn glance(&self, node: usize) -> i64 {
        self.small[node]
    }

    #[inline]
    pub fn get(&self, node: usize) -> i128 {
        match self.small[node] {
            LARGE => self.large[&node],
            sum => i128::from(sum),
        }
    }

    #[inline]
    pub fn set(&mut self, node: usize, sum: i128) {
        if self.small[node] == LARGE {
            self.large.remove(&node);
        }
        self.small[node] = match i64::try_from(sum) {
            Ok(sum) if sum != LARGE => sum,
            _ => {
                self.large.insert(node, sum);
                LARGE
            }
        };
    }

    #[inline]
    pub fn add(&mut self, node: usize, more: i64) {
        let small = &mut self.small[node];
        match small.checked_add(more) {
            Some(sum) if *small != LARGE && sum != LARGE => *small = sum,
            _ => self.add_much(node, i128::from(more)),
        }
    }

    /// The same, where sums or what is added are large.
    #[cold]
    fn add_much(&mut self, node: usize, more: i128) {
        self.set(node, self.get(node) + more);
    }

    /// One value that went into a sum is another one now.
    #[inline]
    pub fn replace(&mut self, node: usize, before: i64, now: i64) {
        match now.checked_sub(before) {
            Some(more) => self.add(node, more),
            None => self.add_much(node, i128::from(now) - i128::from(before)),
        }
    }

    /// One sum falls by as much as another grows, which is not -2^63.
    #[inline]
    pub fn shift(&mut self, from: usize, to: usize, units: i64) {
        self.add(from, -units);
        self.add(to, units);
    }

    #[inline]
    pub fn is_zero(&self, node: usize) -> bool {
        self.small[node] == 0
    }

    /// All of them, if none is large.
    pub fn small(&self) -> Option<&[i64]> {
        self.large.is_empty().then_some(&self.small)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Sums;

    proptest! {
        #[test]
        fn are_exact_however_large(
            values in prop::collection::vec(
                prop_oneof![-5_i64..5, Just(i64::MIN), Just(i64::MAX)], 1..5,
            ),
            steps in prop::collection::vec((0_usize..5, 0_usize..5, -i64::MAX..=i64::MAX), 0..40),
        ) {
            let mut sums = Sums::of(values.iter().copied());
            let mut expected: Vec<i128> = values.iter().map(|&value| i128::from(value)).collect();
            for (from, to, units) in steps {
                let (from, to) = (from % expected.len(), to % expected.len());
                sums.shift(from, to, units);
                expected[from] -= i128::from(units);
                expected[to] += i128::from(units);
            }
            let found: Vec<i128> = (0..expected.len()).map(|node| sums.get(node)).collect();
            prop_assert_eq!(&found, &expected);
            let zero = (0..expected.len()).all(|node| sums.is_zero(node) == (expected[node] == 0));
            prop_assert!(zero);
            let fit = expected.iter().all(|&sum| sum > i128::from(i64::MIN) && i64::try_from(sum).is_ok());
            prop_assert_eq!(sums.small().is_some(), fit);
        }
    }
}
