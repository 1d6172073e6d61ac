//! One exact sum per node: 64 bits each, and a table for the few sums that do not fit 64 bits.

use std::collections::BTreeMap;

/// Marks a sum that is stored in the table.
const OVERFLOWED: i64 = i64::MIN;

/// One sum per node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeSums {
    narrow: Vec<i64>,
    large: BTreeMap<usize, i128>,
}

impl NodeSums {
    /// One sum for each of the values.
    pub fn of(values: impl Iterator<Item = i64>) -> Self {
        let mut sums = Self::default();
        for (node, value) in values.enumerate() {
            sums.push();
            sums.set(node, i128::from(value));
        }
        sums
    }

    pub fn push(&mut self) {
        self.narrow.push(0);
    }

    pub fn reserve(&mut self, more: usize) {
        self.narrow.reserve_exact(more);
    }

    /// Reads the memory of a sum to bring it into the cache. The returned value has no meaning.
    #[inline]
    pub fn prefetch(&self, node: usize) -> i64 {
        self.narrow[node]
    }

    #[inline]
    pub fn get(&self, node: usize) -> i128 {
        match self.narrow[node] {
            OVERFLOWED => self.large[&node],
            sum => i128::from(sum),
        }
    }

    #[inline]
    pub fn set(&mut self, node: usize, sum: i128) {
        if self.narrow[node] == OVERFLOWED {
            self.large.remove(&node);
        }
        self.narrow[node] = match i64::try_from(sum) {
            Ok(sum) if sum != OVERFLOWED => sum,
            _ => {
                self.large.insert(node, sum);
                OVERFLOWED
            }
        };
    }

    #[inline]
    pub fn add(&mut self, node: usize, more: i64) {
        let narrow = &mut self.narrow[node];
        match narrow.checked_add(more) {
            Some(sum) if *narrow != OVERFLOWED && sum != OVERFLOWED => *narrow = sum,
            _ => self.add_slow(node, i128::from(more)),
        }
    }

    /// `add` where the old sum, the new sum or the value may not fit 64 bits.
    #[cold]
    fn add_slow(&mut self, node: usize, more: i128) {
        self.set(node, self.get(node) + more);
    }

    /// Replaces one summand of a sum by another value.
    #[inline]
    pub fn replace(&mut self, node: usize, before: i64, now: i64) {
        match now.checked_sub(before) {
            Some(more) => self.add(node, more),
            None => self.add_slow(node, i128::from(now) - i128::from(before)),
        }
    }

    /// Moves `units` from one sum to another. `units` must not be -2^63.
    #[inline]
    pub fn transfer(&mut self, from: usize, to: usize, units: i64) {
        self.add(from, -units);
        self.add(to, units);
    }

    #[inline]
    pub fn is_zero(&self, node: usize) -> bool {
        self.narrow[node] == 0
    }

    /// All sums as a slice, if all of them fit 64 bits.
    pub fn narrow(&self) -> Option<&[i64]> {
        self.large.is_empty().then_some(&self.narrow)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::NodeSums;

    proptest! {
        #[test]
        fn sums_are_exact_however_large(
            values in prop::collection::vec(
                prop_oneof![-5_i64..5, Just(i64::MIN), Just(i64::MAX)], 1..5,
            ),
            steps in prop::collection::vec((0_usize..5, 0_usize..5, -i64::MAX..=i64::MAX), 0..40),
        ) {
            let mut sums = NodeSums::of(values.iter().copied());
            let mut expected: Vec<i128> = values.iter().map(|&value| i128::from(value)).collect();
            for (from, to, units) in steps {
                let (from, to) = (from % expected.len(), to % expected.len());
                sums.transfer(from, to, units);
                expected[from] -= i128::from(units);
                expected[to] += i128::from(units);
            }
            let found: Vec<i128> = (0..expected.len()).map(|node| sums.get(node)).collect();
            prop_assert_eq!(&found, &expected);
            let zero = (0..expected.len()).all(|node| sums.is_zero(node) == (expected[node] == 0));
            prop_assert!(zero);
            let fit = expected.iter().all(|&sum| sum > i128::from(i64::MIN) && i64::try_from(sum).is_ok());
            prop_assert_eq!(sums.narrow().is_some(), fit);
        }
    }
}
