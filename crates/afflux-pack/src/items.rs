//! What is to be packed: units that have to be there, single tasks that may, gangs all or nothing.

/// A gang: so many units of each class, all or none.
#[derive(Clone, Debug)]
pub struct Gang {
    /// Classes and counts.
    pub need: Vec<(usize, i64)>,
    /// What placing it is worth.
    pub worth: i64,
    /// Whether it is placed.
    pub placed: bool,
}

/// Units of one class are interchangeable: a packing is counted, not labelled.
///
/// `fixed + gangs that are placed <= units of a class <= the same + single tasks`, always.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Units of each class that have to be there, apart from gangs.
    pub fixed: Vec<i64>,
    /// For each class what each single task is worth; the first are placed first.
    pub singles: Vec<Vec<i64>>,
    /// Groups that are placed whole or not at all.
    pub gangs: Vec<Gang>,
}

/// How many units there are of each class, what that is worth, and what has to be there.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Units that are placed.
    pub placed: Vec<i64>,
    /// Units that have to be placed: fixed ones and those of placed gangs.
    pub floor: Vec<i64>,
    /// `earned[class][n]`: what the first n single tasks of a class are worth together.
    earned: Vec<Vec<i64>>,
}

impl Tally {
    pub fn new(demand: &Demand, placed: Vec<i64>) -> Self {
        let mut floor = demand.fixed.clone();
        for gang in demand.gangs.iter().filter(|gang| gang.placed) {
            for &(class, count) in &gang.need {
                floor[class] += count;
            }
        }
        let earned = demand
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
            earned,
        }
    }

    /// The largest number of units of a class.
    pub fn ceiling(&self, class: usize) -> i64 {
        self.floor[class] + self.earned[class].len() as i64 - 1
    }

    /// Whether every class has as many units as it must and no more than it may.
    pub fn is_valid(&self) -> bool {
        (0..self.placed.len())
            .all(|c| self.floor[c] <= self.placed[c] && self.placed[c] <= self.ceiling(c))
    }

    /// What the placed single tasks are worth.
    pub fn worth_of_singles(&self) -> i64 {
        let classes = self.placed.iter().zip(&self.floor).zip(&self.earned);
        classes
            .map(|((placed, floor), earned)| earned[(placed - floor) as usize])
            .sum()
    }

    /// A gang is opened (its units must be there) or closed (they need not).
    pub fn turn(&mut self, gang: &Gang, open: bool) {
        for &(class, count) in &gang.need {
            self.floor[class] += if open { count } else { -count };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_lie_between_what_must_and_what_may_be_placed() {
        let gang = Gang {
            need: vec![(0, 2)],
            worth: 9,
            placed: true,
        };
        let demand = Demand {
            fixed: vec![1, 0],
            singles: vec![vec![5, 4], vec![]],
            gangs: vec![gang.clone()],
        };
        let mut tally = Tally::new(&demand, vec![4, 0]);
        assert_eq!(tally.floor, [3, 0]);
        assert_eq!((tally.ceiling(0), tally.ceiling(1)), (5, 0));
        assert!(tally.is_valid());
        assert_eq!(tally.worth_of_singles(), 5);
        tally.turn(&gang, false);
        assert_eq!(tally.floor, [1, 0]);
        assert!(!tally.is_valid(), "three singles of two");
        tally.turn(&gang, true);
        tally.placed[0] = 2;
        assert!(!tally.is_valid(), "one less than the floor");
    }
}
