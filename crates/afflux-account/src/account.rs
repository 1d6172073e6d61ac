//! The account: all parts together, the units on every machine, and a log to roll back.

use crate::devices::{DeviceRequest, Devices};
use crate::resources::{Request, Resources, UNLIMITED};

/// What one task of a class asks for.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Columns and amounts, without zeros.
    pub request: Request,
    /// The devices, if any.
    pub devices: Option<DeviceRequest>,
}

/// The parts of the account, as reasons against a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Too little is free of the resource in this column.
    Resource(u32),
    /// Too few devices have a large enough share free.
    Devices,
}

/// A task of a class on a machine, with its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its class.
    pub class: usize,
    /// Indices of its devices, empty if it needs none.
    pub devices: Vec<u32>,
}

/// A change, so that it can be undone.
#[derive(Clone, Debug)]
enum Change {
    Taken { class: usize, machine: usize },
    Released { unit: Unit, machine: usize },
}

/// What is free on every machine, and the units that were taken there.
#[derive(Clone, Debug)]
pub struct Account {
    classes: Vec<Class>,
    resources: Resources,
    devices: Devices,
    units: Vec<Vec<Unit>>,
    log: Vec<Change>,
}

impl Account {
    /// The account of machines on which nothing has been taken yet.
    #[must_use]
    pub fn new(
        classes: Vec<Class>,
        resources: Resources,
        devices: Devices,
        machines: usize,
    ) -> Self {
        Self {
            classes,
            resources,
            devices,
            units: vec![Vec::new(); machines],
            log: Vec::new(),
        }
    }

    /// The classes, by their number.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The number of machines.
    #[must_use]
    pub fn machines(&self) -> usize {
        self.units.len()
    }

    /// The part that counts amounts.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The part that tracks devices.
    #[must_use]
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// The units on a machine, in the order in which they were taken.
    #[must_use]
    pub fn units(&self, machine: usize) -> &[Unit] {
        &self.units[machine]
    }

    /// Whether one more task of the class fits.
    #[must_use]
    pub fn fits(&self, class: usize, machine: usize) -> bool {
        let Class { request, devices } = &self.classes[class];
        self.resources.fits(request, machine)
            && devices.is_none_or(|asked| self.devices.fits(asked, machine))
    }

    /// How many more tasks of the class fit, if nothing else is placed.
    #[must_use]
    pub fn room(&self, class: usize, machine: usize) -> i64 {
        let Class { request, devices } = &self.classes[class];
        let room = self.resources.room(request, machine);
        match devices {
            Some(asked) if room > 0 => room.min(self.devices.room(*asked, machine)),
            _ => room.min(UNLIMITED),
        }
    }

    /// The parts that refuse one more task of the class; none if it fits.
    pub fn refusals(&self, class: usize, machine: usize) -> impl Iterator<Item = Part> {
        let Class { request, devices } = &self.classes[class];
        let free = self.resources.of(machine);
        let lacking = request
            .iter()
            .filter(|&&(column, asked)| free[column as usize] < asked);
        let devices = devices.filter(|&asked| !self.devices.fits(asked, machine));
        lacking
            .map(|&(column, _)| Part::Resource(column))
            .chain(devices.map(|_| Part::Devices))
    }

    /// Takes one unit, which must fit. Without `devices` it gets the fullest ones that leave room
    /// for `further` units. False, and nothing is taken, if there are no devices for it.
    #[must_use]
    pub fn take(
        &mut self,
        class: usize,
        machine: usize,
        devices: Option<Vec<u32>>,
        further: i64,
    ) -> bool {
        let devices = match (self.classes[class].devices, devices) {
            (None, _) => Vec::new(),
            (Some(_), Some(chosen)) => chosen,
            (Some(asked), None) => match self.devices.choose(asked, machine, further) {
                Some(chosen) => chosen,
                None => return false,
            },
        };
        self.put(Unit { class, devices }, machine);
        self.log.push(Change::Taken { class, machine });
        true
    }

    /// Releases the unit of the class that was taken last on the machine; false if there is none.
    #[must_use]
    pub fn release(&mut self, class: usize, machine: usize) -> bool {
        let Some(unit) = self.remove(class, machine) else {
            return false;
        };
        self.log.push(Change::Released { unit, machine });
        true
    }

    /// A point to roll back to.
    #[must_use]
    pub fn mark(&self) -> usize {
        self.log.len()
    }

    /// Undoes everything taken and released since the mark, devices included.
    pub fn rollback(&mut self, mark: usize) {
        while self.log.len() > mark {
            match self.log.pop() {
                Some(Change::Taken { class, machine }) => {
                    self.remove(class, machine);
                }
                Some(Change::Released { unit, machine }) => self.put(unit, machine),
                None => return,
            }
        }
    }

    /// Forgets the log: earlier marks are no longer valid.
    pub fn commit(&mut self) {
        self.log.clear();
    }

    /// The machines that have changed since the mark; some may be named more than once.
    pub fn changed_since(&self, mark: usize) -> impl Iterator<Item = usize> {
        self.log[mark..].iter().map(|change| match change {
            Change::Taken { machine, .. } | Change::Released { machine, .. } => *machine,
        })
    }

    /// Devices for every unit if these units, by class and count, fit on the machine together;
    /// none if they do not.
    #[must_use]
    pub fn fits_together(&self, machine: usize, units: &[(usize, i64)]) -> Option<Vec<Unit>> {
        let mut asked = vec![0; self.resources.width()];
        let mut found = Vec::new();
        let mut requests = Vec::new();
        for &(class, count) in units {
            for &(column, amount) in &self.classes[class].request {
                asked[column as usize] += count * amount;
            }
            for _ in 0..count {
                found.push(Unit {
                    class,
                    devices: Vec::new(),
                });
                requests.extend(self.classes[class].devices);
            }
        }
        let free = self.resources.of(machine);
        if asked
            .iter()
            .zip(free)
            .any(|(&asked, &free)| asked > 0 && asked > free)
        {
            return None;
        }
        let mut packed = self.devices.pack(&requests, machine)?.into_iter();
        for unit in &mut found {
            if self.classes[unit.class].devices.is_some() {
                unit.devices = packed.next()?;
            }
        }
        Some(found)
    }

    fn put(&mut self, unit: Unit, machine: usize) {
        let class = &self.classes[unit.class];
        self.resources.take(&class.request, machine, 1);
        if let Some(asked) = class.devices {
            self.devices.take(machine, &unit.devices, asked.milli);
        }
        self.units[machine].push(unit);
    }

    fn remove(&mut self, class: usize, machine: usize) -> Option<Unit> {
        let there = &mut self.units[machine];
        let last = there.iter().rposition(|unit| unit.class == class)?;
        let unit = there.remove(last);
        let class = &self.classes[class];
        self.resources.take(&class.request, machine, -1);
        if let Some(asked) = class.devices {
            self.devices.take(machine, &unit.devices, -asked.milli);
        }
        Some(unit)
    }
}
