//! Exact accounts: what is free on a machine, and which units of a round are on it.

/// Devices that a task needs: `count` different ones, of each `milli` thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRequest {
    /// How many devices.
    pub count: usize,
    /// How much of each.
    pub milli: i64,
}

/// What is known of the classes; tables are row by row, one row per class.
#[derive(Clone, Debug)]
pub struct Classes {
    /// Number of resources: the length of a row of `requests`.
    pub resources: usize,
    /// Number of machines: the length of a row of `admitted` and `cost`.
    pub machines: usize,
    /// What one task asks for.
    pub requests: Vec<i64>,
    /// Devices that one task needs, if any; one entry per class.
    pub devices: Vec<Option<DeviceRequest>>,
    /// Whether the class may go to the machine.
    pub admitted: Vec<bool>,
    /// What a task costs on the machine.
    pub cost: Vec<i64>,
}

impl Classes {
    /// The number of classes.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// What one task of a class asks for.
    pub fn request(&self, class: usize) -> &[i64] {
        &self.requests[class * self.resources..(class + 1) * self.resources]
    }

    /// What a unit of each resource weighs when sizes are compared: the largest request is 1.
    pub(crate) fn scale(&self) -> Vec<f64> {
        let largest = |r| (0..self.len()).map(|c| self.request(c)[r]).max();
        (0..self.resources)
            .map(|r| largest(r).unwrap_or(0).max(1) as f64)
            .collect()
    }

    /// The size of one task of each class.
    pub(crate) fn sizes(&self, scale: &[f64]) -> Vec<f64> {
        let asked = |c| self.request(c).iter().zip(scale);
        (0..self.len())
            .map(|c| asked(c).map(|(&a, &s)| a as f64 / s).sum())
            .collect()
    }

    pub(crate) fn admits(&self, class: usize, machine: usize) -> bool {
        self.admitted[class * self.machines + machine]
    }

    pub(crate) fn cost_on(&self, class: usize, machine: usize) -> i64 {
        self.cost[class * self.machines + machine]
    }
}

/// One task of a class on a machine, and the devices it takes there.
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
    /// What is free of each resource, with the units on it; may be negative where nobody asks.
    pub free: Vec<i64>,
    /// What is free of each device, with the units on it.
    pub free_devices: Vec<i64>,
    /// By how much each further unit costs more than the one before.
    pub slope: i64,
    /// The units that may be moved.
    pub units: Vec<Unit>,
}

impl Machine {
    /// Whether one more task with this request fits; a resource not asked for never lacks.
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

    /// Put a task on the machine, on the tightest devices; it must fit.
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

    /// Take every unit off the machine.
    pub fn clear(&mut self, classes: &Classes) -> Vec<Unit> {
        let units = std::mem::take(&mut self.units);
        for unit in &units {
            self.release(classes, unit);
        }
        units
    }

    /// Take the unit that came last off the machine.
    pub fn take_last(&mut self, classes: &Classes) {
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

    /// What its units cost, slots included.
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
    fn an_exact_fit_fits_and_one_more_does_not() {
        let machine = machine([3, 0], &[500]);
        assert!(machine.fits(&[3, 0], Some(HALF)));
        assert!(!machine.fits(&[4, 0], None));
        assert!(!machine.fits(&[0, 1], None));
    }

    #[test]
    fn what_is_not_asked_for_never_lacks() {
        assert!(machine([-4, 1], &[]).fits(&[0, 1], None));
        assert!(!machine([-4, 1], &[]).fits(&[1, 1], None));
    }

    #[test]
    fn devices_of_one_task_differ() {
        let two = DeviceRequest {
            count: 2,
            milli: 400,
        };
        assert!(!machine([9, 9], &[1000]).fits(&[0, 0], Some(two)));
        assert!(machine([9, 9], &[400, 1000]).fits(&[0, 0], Some(two)));
    }

    #[test]
    fn the_tightest_device_is_taken_and_clearing_gives_everything_back() {
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

    #[test]
    fn the_largest_request_of_each_resource_is_the_measure() {
        let classes = classes();
        let scale = classes.scale();
        assert_eq!(scale, [3.0, 2.0]);
        assert_eq!(classes.sizes(&scale), [1.0, 1.0 / 3.0 + 1.0]);
        assert_eq!(classes.len(), 2);
        assert!(!classes.is_empty());
    }
}
