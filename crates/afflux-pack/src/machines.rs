//! Exact accounting: the free resources and devices of a machine, and the units on it.

use crate::classes::{Classes, DeviceRequest};

/// A task of a class on a machine, with its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its class.
    pub class: usize,
    /// Indices of its devices, empty if it needs none.
    pub devices: Vec<usize>,
}

/// A machine during the search.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The free amount of each resource, with the units on it; may be negative for a resource that
    /// no task asks for.
    pub free: Vec<i64>,
    /// The free thousandths of each device, with the units on it.
    pub free_devices: Vec<i64>,
    /// The increase of the cost from each unit to the next.
    pub slope: i64,
    /// The units that may be moved.
    pub units: Vec<Unit>,
}

impl Machine {
    /// Whether one more task with this request fits. A resource with request zero is not checked.
    pub fn fits(&self, request: &[i64], devices: Option<DeviceRequest>) -> bool {
        let enough = self
            .free
            .iter()
            .zip(request)
            .all(|(&free, &asked)| asked == 0 || free >= asked);
        enough
            && devices.is_none_or(|wanted| {
                let usable = self.free_devices.iter().filter(|&&d| d >= wanted.milli);
                usable.count() >= wanted.count
            })
    }

    /// Places a task on the machine, on the tightest devices; it must fit.
    pub fn place(&mut self, class: usize, request: &[i64], devices: Option<DeviceRequest>) {
        for (free, asked) in self.free.iter_mut().zip(request) {
            *free -= asked;
        }
        let mut chosen = Vec::new();
        if let Some(wanted) = devices {
            let mut usable: Vec<usize> = (0..self.free_devices.len())
                .filter(|&i| self.free_devices[i] >= wanted.milli)
                .collect();
            usable.sort_by_key(|&i| (self.free_devices[i], i));
            usable.truncate(wanted.count);
            for &index in &usable {
                self.free_devices[index] -= wanted.milli;
            }
            chosen = usable;
        }
        self.units.push(Unit {
            class,
            devices: chosen,
        });
    }

    /// Removes all units from the machine.
    pub fn clear(&mut self, classes: &Classes) -> Vec<Unit> {
        let units = std::mem::take(&mut self.units);
        for unit in &units {
            self.release(classes, unit);
        }
        units
    }

    /// Removes the unit that was placed last.
    pub fn remove_last(&mut self, classes: &Classes) {
        if let Some(unit) = self.units.pop() {
            self.release(classes, &unit);
        }
    }

    fn release(&mut self, classes: &Classes, unit: &Unit) {
        for (free, asked) in self.free.iter_mut().zip(classes.request(unit.class)) {
            *free += asked;
        }
        if let Some(wanted) = classes.devices[unit.class] {
            for &index in &unit.devices {
                self.free_devices[index] += wanted.milli;
            }
        }
    }

    /// The cost of its units, with the increase by slope.
    pub fn cost(&self, classes: &Classes, machine: usize) -> i64 {
        let count = self.units.len() as i64;
        let slots = self.slope * (count * (count - 1) / 2);
        let units: i64 = self
            .units
            .iter()
            .map(|unit| classes.cost_on(unit.class, machine))
            .sum();
        units + slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: DeviceRequest = DeviceRequest {
        count: 1,
        milli: 500,
    };

    fn classes() -> Classes {
        Classes {
            resources: 2,
            machines: 1,
            requests: vec![3, 0, 1, 2],
            devices: vec![Some(HALF), None],
            admitted: vec![true, true],
            cost: vec![7, 5],
        }
    }

    fn machine(free: [i64; 2], devices: &[i64]) -> Machine {
        Machine {
            free: free.to_vec(),
            free_devices: devices.to_vec(),
            slope: 10,
            units: Vec::new(),
        }
    }

    #[test]
    fn an_exact_fit_fits_and_one_unit_more_does_not() {
        let machine = machine([3, 0], &[500]);
        assert!(machine.fits(&[3, 0], Some(HALF)));
        assert!(!machine.fits(&[4, 0], None));
        assert!(!machine.fits(&[0, 1], None));
    }

    #[test]
    fn resources_with_request_zero_are_not_checked() {
        assert!(machine([-4, 1], &[]).fits(&[0, 1], None));
        assert!(!machine([-4, 1], &[]).fits(&[1, 1], None));
    }

    #[test]
    fn a_task_gets_different_devices() {
        let two = DeviceRequest {
            count: 2,
            milli: 400,
        };
        assert!(!machine([9, 9], &[1000]).fits(&[0, 0], Some(two)));
        assert!(machine([9, 9], &[400, 1000]).fits(&[0, 0], Some(two)));
    }

    #[test]
    fn the_tightest_device_is_used_and_clear_returns_everything() {
        let classes = classes();
        let mut machine = machine([9, 9], &[1000, 600, 200]);
        machine.place(0, classes.request(0), classes.devices[0]);
        machine.place(1, classes.request(1), None);
        assert_eq!(machine.units[0].devices, [1]);
        assert_eq!(machine.free, [5, 7]);
        assert_eq!(machine.free_devices, [1000, 100, 200]);
        assert_eq!(machine.cost(&classes, 0), 7 + 5 + 10);
        assert_eq!(machine.clear(&classes).len(), 2);
        assert_eq!(machine.free, [9, 9]);
        assert_eq!(machine.free_devices, [1000, 600, 200]);
        assert_eq!(machine.cost(&classes, 0), 0);
    }
}
