//! The part that counts amounts: CPU, memory, pods, ports, attached volumes.

/// The room of a class that asks for nothing: more tasks than any machine holds.
pub const UNLIMITED: i64 = 1 << 31;

/// What one task of a class asks for, without zeros, as columns and amounts.
pub type Request = Vec<(u32, i64)>;

/// The free amounts of every machine: row after row.
#[derive(Clone, Debug)]
pub struct Resources {
    width: usize,
    free: Vec<i64>,
}

impl Resources {
    /// The free amounts, `width` of them for every machine; they may be negative.
    #[must_use]
    pub fn new(width: usize, free: Vec<i64>) -> Self {
        Self { width, free }
    }

    /// The number of resources.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The free amounts of one machine.
    #[must_use]
    pub fn of(&self, machine: usize) -> &[i64] {
        &self.free[machine * self.width..(machine + 1) * self.width]
    }

    /// The free amounts of all machines, row after row.
    #[must_use]
    pub fn all(&self) -> &[i64] {
        &self.free
    }

    /// Whether one more task fits; exactly what is free is enough.
    #[must_use]
    pub fn fits(&self, request: &Request, machine: usize) -> bool {
        let free = self.of(machine);
        request
            .iter()
            .all(|&(column, asked)| free[column as usize] >= asked)
    }

    /// How many more tasks fit one after the other.
    #[must_use]
    pub fn room(&self, request: &Request, machine: usize) -> i64 {
        let free = self.of(machine);
        let each = request
            .iter()
            .map(|&(column, asked)| free[column as usize].max(0) / asked);
        each.min().unwrap_or(UNLIMITED)
    }

    /// Takes the amounts of `count` tasks, or gives them back if `count` is negative.
    pub fn take(&mut self, request: &Request, machine: usize, count: i64) {
        let free = &mut self.free[machine * self.width..(machine + 1) * self.width];
        for &(column, asked) in request {
            free[column as usize] -= count * asked;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_fit_fits_and_one_unit_more_does_not() {
        let resources = Resources::new(2, vec![3, 0]);
        assert!(resources.fits(&vec![(0, 3)], 0));
        assert!(!resources.fits(&vec![(0, 4)], 0));
        assert!(!resources.fits(&vec![(1, 1)], 0));
        assert_eq!(resources.room(&vec![(0, 1)], 0), 3);
    }

    #[test]
    fn an_overcommitted_resource_matters_only_to_tasks_that_ask_for_it() {
        let resources = Resources::new(2, vec![-4, 1]);
        assert!(resources.fits(&vec![(1, 1)], 0));
        assert!(!resources.fits(&vec![(0, 1), (1, 1)], 0));
        assert_eq!(resources.room(&vec![(0, 1)], 0), 0);
        assert_eq!(resources.room(&Vec::new(), 0), UNLIMITED);
    }

    #[test]
    fn what_was_taken_is_free_again_after_it_was_given_back() {
        let mut resources = Resources::new(1, vec![9, 9]);
        resources.take(&vec![(0, 2)], 1, 3);
        assert_eq!(resources.all(), [9, 3]);
        resources.take(&vec![(0, 2)], 1, -3);
        assert_eq!(resources.of(1), [9]);
    }
}
