//! The items to pack: fixed units, single tasks, and gangs.

/// A gang: a number of units of each class, placed all or none.
#[derive(Clone, Debug)]
pub struct Gang {
    /// Classes and counts.
    pub need: Vec<(usize, i64)>,
    /// The worth of placing it.
    pub worth: i64,
    /// Whether it is placed.
    pub placed: bool,
}

/// The items to pack. Units of one class are interchangeable, so a packing has counts, not
/// identities.
///
/// For each class, always `fixed + placed gangs <= placed units <= fixed + placed gangs + singles`.
#[derive(Clone, Debug)]
pub struct Items {
    /// Units of each class that must be placed, without gangs.
    pub fixed: Vec<i64>,
    /// By class, the worth of each single task; the first ones are placed first.
    pub singles: Vec<Vec<i64>>,
    /// Groups that are placed as a whole or not at all.
    pub gangs: Vec<Gang>,
}

/// The number of placed units of each class, their bounds, and their worth.
#[derive(Clone, Debug)]
pub(crate) struct UnitCounts {
    /// By class, units that are placed.
    pub placed: Vec<i64>,
    /// By class, units that must be placed: fixed ones and those of placed gangs.
    pub floor: Vec<i64>,
    /// `cumulative_worth[class][n]`: the total worth of the first n single tasks of a class.
    cumulative_worth: Vec<Vec<i64>>,
}

impl UnitCounts {
    pub fn new(items: &Items, placed: Vec<i64>) -> Self {
        let mut floor = items.fixed.clone();
        for gang in items.gangs.iter().filter(|gang| gang.placed) {
            for &(class, count) in &gang.need {
                floor[class] += count;
            }
        }
        let cumulative_worth = items
            .singles
            .iter()
            .map(|worths| {
                let sums = worths.iter().scan(0, |sum, worth| {
                    *sum += worth;
                    Some(*sum)
                });
                std::iter::once(0).chain(sums).collect()
            })
            .collect();
        Self {
            placed,
            floor,
            cumulative_worth,
        }
    }

    /// The maximum number of units of a class.
    pub fn ceiling(&self, class: usize) -> i64 {
        self.floor[class] + self.cumulative_worth[class].len() as i64 - 1
    }

    /// Whether the number of units of every class is within its bounds.
    pub fn is_valid(&self) -> bool {
        (0..self.placed.len())
            .all(|c| self.floor[c] <= self.placed[c] && self.placed[c] <= self.ceiling(c))
    }

    /// The worth of the placed single tasks.
    pub fn worth_of_singles(&self) -> i64 {
        let classes = self
            .placed
            .iter()
            .zip(&self.floor)
            .zip(&self.cumulative_worth);
        classes
            .map(|((placed, floor), cumulative_worth)| cumulative_worth[(placed - floor) as usize])
            .sum()
    }

    /// Adds the units of a gang to the floor when it is placed, removes them when it is not.
    pub fn flip(&mut self, gang: &Gang, is_placed: bool) {
        for &(class, count) in &gang.need {
            self.floor[class] += if is_placed { count } else { -count };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_counts_stay_between_floor_and_ceiling() {
        let gang = Gang {
            need: vec![(0, 2)],
            worth: 9,
            placed: true,
        };
        let items = Items {
            fixed: vec![1, 0],
            singles: vec![vec![5, 4], vec![]],
            gangs: vec![gang.clone()],
        };
        let mut counts = UnitCounts::new(&items, vec![4, 0]);
        assert_eq!(counts.floor, [3, 0]);
        assert_eq!((counts.ceiling(0), counts.ceiling(1)), (5, 0));
        assert!(counts.is_valid());
        assert_eq!(counts.worth_of_singles(), 5);
        counts.flip(&gang, false);
        assert_eq!(counts.floor, [1, 0]);
        assert!(!counts.is_valid(), "three singles of two");
        counts.flip(&gang, true);
        counts.placed[0] = 2;
        assert!(!counts.is_valid(), "one less than the floor");
    }
}
