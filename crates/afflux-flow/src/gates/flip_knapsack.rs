//! Which gates to flip for the minimum loss, by dynamic programming over units.

use std::ops::Range;

/// A gate that may be flipped from open to closed or from closed to open.
pub(super) struct Flip {
    pub gate: usize,
    /// The cost of the flip by itself; not negative.
    pub loss: i64,
    /// The change of the number of units.
    pub step: i64,
}

/// Minimum losses: for each number of gates already decided and each change of the number of units
/// that these cause, the minimum loss of the other gates and of the pool cost.
pub(super) struct KnapsackTable {
    /// Row after row, one row for each number of decided gates.
    losses: Vec<i64>,
    width: usize,
    /// The column for a change of zero, in each row.
    zero_column: usize,
    /// Losses are capped at this value.
    max_loss: i64,
}

impl KnapsackTable {
    /// `pool_cost` is the loss for a change of the number of units; none if that change is
    /// impossible.
    pub fn new(flips: &[Flip], max_loss: i64, pool_cost: impl Fn(i64) -> Option<i128>) -> Self {
        let total = |sign: i64| -> i64 { flips.iter().map(|flip| (flip.step * sign).max(0)).sum() };
        let zero_column = total(-1);
        let width = (zero_column + total(1)) as usize + 1;
        let mut losses = vec![max_loss; width * (flips.len() + 1)];
        for (place, value) in losses[width * flips.len()..].iter_mut().enumerate() {
            let loss =
                pool_cost(place as i64 - zero_column).and_then(|loss| i64::try_from(loss).ok());
            *value = loss.map_or(max_loss, |loss| loss.min(max_loss));
        }
        for (index, flip) in flips.iter().enumerate().rev() {
            let (before, after) = losses.split_at_mut(width * (index + 1));
            let (row, next) = (&mut before[width * index..], &after[..width]);
            row.copy_from_slice(next);
            let (from, to) = shifted_ranges(width, flip.step);
            for (value, &then) in row[from].iter_mut().zip(&next[to]) {
                *value = (*value).min(flip.loss + then);
            }
        }
        Self {
            losses,
            width,
            zero_column: zero_column as usize,
            max_loss,
        }
    }

    /// The minimum loss, if it is below the cap.
    pub fn min_loss(&self) -> Option<i64> {
        Some(self.losses[self.zero_column]).filter(|&min_loss| min_loss < self.max_loss)
    }

    /// The gates to flip for the minimum loss.
    pub fn flipped_gates(&self, flips: &[Flip]) -> Vec<usize> {
        let mut place = self.zero_column;
        let mut gates = Vec::new();
        for (index, flip) in flips.iter().enumerate() {
            if self.row(index)[place] < self.row(index + 1)[place] {
                gates.push(flip.gate);
                place = (place as i64 + flip.step) as usize;
            }
        }
        gates
    }

    /// For each gate, the minimum loss when it keeps its state and when it is flipped.
    pub fn losses_by_state(&self, flips: &[Flip]) -> Vec<[i64; 2]> {
        // By change of the number of units, the minimum loss of the gates so far.
        let mut prefix = vec![self.max_loss; self.width];
        prefix[self.zero_column] = 0;
        let mut flipped = vec![self.max_loss; self.width];
        let mut by_state = Vec::with_capacity(flips.len());
        for (index, flip) in flips.iter().enumerate() {
            let (from, to) = shifted_ranges(self.width, flip.step);
            flipped.fill(self.max_loss);
            for (value, &loss) in flipped[to].iter_mut().zip(&prefix[from]) {
                *value = (loss + flip.loss).min(self.max_loss);
            }
            by_state.push([&prefix, &flipped].map(|before| {
                let rest = self.row(index + 1);
                let sums = before.iter().zip(rest).map(|(&loss, &rest)| loss + rest);
                sums.min().unwrap_or(self.max_loss).min(self.max_loss)
            }));
            for (value, &flipped) in prefix.iter_mut().zip(&flipped) {
                *value = (*value).min(flipped);
            }
        }
        by_state
    }

    fn row(&self, index: usize) -> &[i64] {
        &self.losses[self.width * index..][..self.width]
    }
}

/// The columns from which a step stays within a row, and the columns to which it leads.
fn shifted_ranges(width: usize, step: i64) -> (Range<usize>, Range<usize>) {
    let size = step.unsigned_abs() as usize;
    match step >= 0 {
        true => (0..width - size, size..width),
        false => (size..width, 0..width - size),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Flip, KnapsackTable};

    const MAX_LOSS: i64 = 60;

    fn pool_cost(units: i64) -> Option<i128> {
        (-9..=4)
            .contains(&units)
            .then(|| i128::from((units - 1).abs() * 3))
    }

    proptest! {
        #[test]
        fn table_agrees_with_exhaustive_search(
            drawn in prop::collection::vec((0_i64..30, -6_i64..7), 0..9),
        ) {
            let flip = |(gate, &(loss, step))| Flip { gate, loss, step };
            let flips: Vec<Flip> = drawn.iter().enumerate().map(flip).collect();
            let table = KnapsackTable::new(&flips, MAX_LOSS, pool_cost);
            let loss = |set: u32| {
                let flipped = || flips.iter().filter(|flip| set >> flip.gate & 1 == 1);
                let units = flipped().map(|flip| flip.step).sum();
                let loss = flipped().map(|flip| flip.loss).sum::<i64>();
                pool_cost(units).map_or(MAX_LOSS, |more| (loss + more as i64).min(MAX_LOSS))
            };
            let min_loss = |has: &dyn Fn(u32) -> bool| {
                (0..1 << flips.len()).filter(|&set| has(set)).map(loss).min().unwrap_or(MAX_LOSS)
            };
            prop_assert_eq!(table.min_loss().unwrap_or(MAX_LOSS), min_loss(&|_| true));
            let traced = table.flipped_gates(&flips).iter().fold(0, |set, gate| set | 1 << gate);
            prop_assert!(table.min_loss().is_none() || loss(traced) == min_loss(&|_| true));
            for (gate, losses) in table.losses_by_state(&flips).into_iter().enumerate() {
                for way in [0, 1] {
                    prop_assert_eq!(losses[way as usize], min_loss(&|set| set >> gate & 1 == way));
                }
            }
        }
    }
}
