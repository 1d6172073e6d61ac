//! The classes of tasks: what a task of each class needs, which machines it may use, at what cost.

/// The devices that a task needs: `count` different ones, with `milli` thousandths free on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRequest {
    /// The number of devices.
    pub count: usize,
    /// The share of each device, in thousandths.
    pub milli: i64,
}

/// The classes of tasks. Tables are stored row by row, one row per class.
#[derive(Clone, Debug)]
pub struct Classes {
    /// Number of resources: the length of a row of `requests`.
    pub resources: usize,
    /// Number of machines: the length of a row of `admitted` and `cost`.
    pub machines: usize,
    /// The request of one task.
    pub requests: Vec<i64>,
    /// The devices that one task needs, if any; one entry per class.
    pub devices: Vec<Option<DeviceRequest>>,
    /// Whether the machine admits the class.
    pub admitted: Vec<bool>,
    /// The cost of a task on the machine.
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

    /// The request of one task of a class.
    pub fn request(&self, class: usize) -> &[i64] {
        &self.requests[class * self.resources..(class + 1) * self.resources]
    }

    /// The divisor of each resource when sizes are compared: its largest request.
    pub(crate) fn scale(&self) -> Vec<f64> {
        let largest = |r| (0..self.len()).map(|c| self.request(c)[r]).max();
        (0..self.resources)
            .map(|r| largest(r).unwrap_or(0).max(1) as f64)
            .collect()
    }

    /// The size of one task of each class: the sum of its scaled requests.
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

#[cfg(test)]
mod tests {
    use super::Classes;

    #[test]
    fn sizes_are_scaled_by_the_largest_request_of_each_resource() {
        let classes = Classes {
            resources: 2,
            machines: 1,
            requests: vec![3, 0, 1, 2],
            devices: vec![None, None],
            admitted: vec![true, true],
            cost: vec![7, 5],
        };
        let scale = classes.scale();
        assert_eq!(scale, [3.0, 2.0]);
        assert_eq!(classes.sizes(&scale), [1.0, 1.0 / 3.0 + 1.0]);
        assert_eq!(classes.len(), 2);
        assert!(!classes.is_empty());
    }
}
