//! Machines and classes as plain tables, and a check of the account that trusts only the units.

use afflux_account::{Account, Class, DeviceRequest, Devices, Resources};
use afflux_pack::{Packing, PairColumns};

/// What the machines offer and what a task of each class asks for, before anything is placed.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// By class, the amount of each resource.
    pub requests: Vec<Vec<i64>>,
    /// By class.
    pub devices: Vec<Option<DeviceRequest>>,
    /// By class and machine.
    pub admitted: Vec<Vec<bool>>,
    /// By class and machine.
    pub cost: Vec<Vec<i64>>,
    /// By machine, the free amount of each resource.
    pub free: Vec<Vec<i64>>,
    /// By machine, the free thousandths of each device.
    pub free_devices: Vec<Vec<i64>>,
    /// By machine.
    pub slope: Vec<i64>,
}

impl Cluster {
    /// An empty packing of this cluster, which has `width` resources.
    pub fn packing(&self, width: usize) -> Packing {
        let classes = self
            .requests
            .iter()
            .zip(&self.devices)
            .map(|(row, &devices)| Class {
                request: (0..)
                    .zip(row.iter().copied())
                    .filter(|&(_, asked)| asked > 0)
                    .collect(),
                devices,
                ..Class::default()
            })
            .collect();
        let account = Account::new(
            classes,
            Resources::new(width, self.free.concat()),
            Devices::new(self.free_devices.clone()),
            self.free.len(),
        );
        let (mut first, mut machine, mut cost) = (vec![0], Vec::new(), Vec::new());
        for (admitted, costs) in self.admitted.iter().zip(&self.cost) {
            for index in (0..admitted.len()).filter(|&index| admitted[index]) {
                machine.push(index as i32);
                cost.push(costs[index]);
            }
            first.push(machine.len() as i64);
        }
        let pairs = PairColumns {
            first: &first,
            machine: &machine,
            cost: &cost,
            room: None,
        };
        let largest = |column: usize| self.requests.iter().map(|row| row[column]).max();
        let scale = (0..width).map(|column| largest(column).unwrap_or(0).max(1) as f64);
        let mut packing = Packing::new(account, pairs, scale.collect());
        packing.set_slope(self.slope.clone());
        packing
    }

    /// Asserts that no capacity is exceeded, that machines admit their units, that the devices of a
    /// unit differ, and that the account counts as free exactly what the units leave.
    pub fn assert_exact(&self, packing: &Packing) {
        for machine in 0..self.free.len() {
            let mut free = self.free[machine].clone();
            let mut devices = self.free_devices[machine].clone();
            for unit in packing.account().units(machine) {
                assert!(self.admitted[unit.class][machine]);
                for (left, asked) in free.iter_mut().zip(&self.requests[unit.class]) {
                    *left -= asked;
                }
                let mut different = unit.devices.clone();
                different.sort_unstable();
                different.dedup();
                let wanted = self.devices[unit.class];
                assert_eq!(different.len(), wanted.map_or(0, |wanted| wanted.count));
                assert_eq!(unit.devices.len(), different.len());
                for &index in &unit.devices {
                    devices[index as usize] -= wanted.expect("it has devices").milli;
                }
            }
            for unit in packing.account().units(machine) {
                let used = self.requests[unit.class].iter().zip(&free);
                for (&asked, &left) in used {
                    assert!(
                        asked == 0 || left >= 0,
                        "machine {machine} is over capacity"
                    );
                }
            }
            assert!(devices.iter().all(|&left| left >= 0));
            assert_eq!(packing.account().resources().of(machine), free);
            assert_eq!(packing.account().devices().of(machine), devices);
        }
    }
}
