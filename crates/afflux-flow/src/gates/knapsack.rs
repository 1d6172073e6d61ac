//! Which gates to turn round for the least loss, by dynamic programming over units.

use std::ops::Range;

/// A gate that may be turned round.
pub(super) struct Turn {
    pub gate: usize,
    /// What that costs by itself; not negative.
    pub loss: i64,
    /// How many units more that makes.
    pub step: i64,
}

/// The least losses: for each number of gates that are settled, and each number of units more that
/// they make, what the other gates and the valley add at least.
pub(super) struct Table {
    rows: Vec<i64>,
    width: usize,
    /// The place of no units more, in each row.
    zero: usize,
    /// Losses of this and more are all the same.
    most: i64,
}

impl Table {
    /// `valley` is the loss by so many units more in the end; none if that cannot be.
    pub fn new(turns: &[Turn], most: i64, valley: impl Fn(i64) -> Option<i128>) -> Self {
        let total = |sign: i64| -> i64 { turns.iter().map(|turn| (turn.step * sign).max(0)).sum() };
        let zero = total(-1);
        let width = (zero + total(1)) as usize + 1;
        let mut rows = vec![most; width * (turns.len() + 1)];
        for (place, value) in rows[width * turns.len()..].iter_mut().enumerate() {
            let loss = valley(place as i64 - zero).and_then(|loss| i64::try_from(loss).ok());
            *value = loss.map_or(most, |loss| loss.min(most));
        }
        for (index, turn) in turns.iter().enumerate().rev() {
            let (before, after) = rows.split_at_mut(width * (index + 1));
            let (row, next) = (&mut before[width * index..], &after[..width]);
            row.copy_from_slice(next);
            let (from, to) = moved(width, turn.step);
            for (value, &then) in row[from].iter_mut().zip(&next[to]) {
                *value = (*value).min(turn.loss + then);
            }
        }
        Self {
            rows,
            width,
            zero: zero as usize,
            most,
        }
    }

    /// The least loss, if it is less than the most.
    pub fn least(&self) -> Option<i64> {
        Some(self.rows[self.zero]).filter(|&least| least < self.most)
    }

    /// The gates to turn round for the least loss.
    pub fn trace(&self, turns: &[Turn]) -> Vec<usize> {
        let mut place = self.zero;
        let mut gates = Vec::new();
        for (index, turn) in turns.iter().enumerate() {
            if self.row(index)[place] < self.row(index + 1)[place] {
                gates.push(turn.gate);
                place = (place as i64 + turn.step) as usize;
            }
        }
        gates
    }

    /// For each gate, the least loss when it stays as it is and when it is turned round.
    pub fn losses(&self, turns: &[Turn]) -> Vec<[i64; 2]> {
        // By units more, the least loss of the gates so far.
        let mut so_far = vec![self.most; self.width];
        so_far[self.zero] = 0;
        let mut turned = vec![self.most; self.width];
        let mut losses = Vec::with_capacity(turns.len());
        for (index, turn) in turns.iter().enumerate() {
            let (from, to) = moved(self.width, turn.step);
            turned.fill(self.most);
            for (value, &loss) in turned[to].iter_mut().zip(&so_far[from]) {
                *value = (loss + turn.loss).min(self.most);
            }
            losses.push([&so_far, &turned].map(|before| {
                let rest = self.row(index + 1);
                let sums = before.iter().zip(rest).map(|(&loss, &rest)| loss + rest);
                sums.min().unwrap_or(self.most).min(self.most)
            }));
            for (value, &turned) in so_far.iter_mut().zip(&turned) {
                *value = (*value).min(turned);
            }
        }
        losses
    }

    fn row(&self, index: usize) -> &[i64] {
        &self.rows[self.width * index..][..self.width]
    }
}

/// The places from which a step stays within a row, and the places where it leads.
fn moved(width: usize, step: i64) -> (Range<usize>, Range<usize>) {
    let size = step.unsigned_abs() as usize;
    match step >= 0 {
        true => (0..width - size, size..width),
        false => (size..width, 0..width - size),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Table, Turn};

    const MOST: i64 = 60;

    fn valley(units: i64) -> Option<i128> {
        (-9..=4)
            .contains(&units)
            .then(|| i128::from((units - 1).abs() * 3))
    }

    proptest! {
        #[test]
        fn the_table_agrees_with_trying_everything(
            drawn in prop::collection::vec((0_i64..30, -6_i64..7), 0..9),
        ) {
            let turn = |(gate, &(loss, step))| Turn { gate, loss, step };
            let turns: Vec<Turn> = drawn.iter().enumerate().map(turn).collect();
            let table = Table::new(&turns, MOST, valley);
            let loss = |set: u32| {
                let turned = || turns.iter().filter(|turn| set >> turn.gate & 1 == 1);
                let units = turned().map(|turn| turn.step).sum();
                let loss = turned().map(|turn| turn.loss).sum::<i64>();
                valley(units).map_or(MOST, |more| (loss + more as i64).min(MOST))
            };
            let least = |has: &dyn Fn(u32) -> bool| {
                (0..1 << turns.len()).filter(|&set| has(set)).map(loss).min().unwrap_or(MOST)
            };
            prop_assert_eq!(table.least().unwrap_or(MOST), least(&|_| true));
            let traced = table.trace(&turns).iter().fold(0, |set, gate| set | 1 << gate);
            prop_assert!(table.least().is_none() || loss(traced) == least(&|_| true));
            for (gate, losses) in table.losses(&turns).into_iter().enumerate() {
                for way in [0, 1] {
                    prop_assert_eq!(losses[way as usize], least(&|set| set >> gate & 1 == way));
                }
            }
        }
    }
}
