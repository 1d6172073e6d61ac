//! The account: all parts together, the units on every machine, and a log to roll back.

mod together;

use std::collections::HashMap;

use crate::devices::{DeviceRequest, Devices};
use crate::disks::{DiskRequest, Disks};
use crate::domains::{Domains, Rule};
use crate::placed_rules::PlacedRules;
use crate::resources::{Request, Resources, UNLIMITED};

/// What one task of a class asks for.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Columns and amounts, without zeros.
    pub request: Request,
    /// The devices, if any.
    pub devices: Option<DeviceRequest>,
    /// What it does on disks, if anything.
    pub disks: Option<DiskRequest>,
    /// What it requires of the tasks in the domains of the machine.
    pub rules: Vec<Rule>,
    /// The counters that count its units, each once.
    pub counted_by: Vec<usize>,
}

impl Class {
    /// Whether constraints between tasks concern it: its own, or those of others that count it.
    #[must_use]
    pub fn is_related(&self) -> bool {
        !(self.rules.is_empty() && self.counted_by.is_empty())
    }
}

/// The parts of the account, as reasons against a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Too little is free of the resource in this column.
    Resource(u32),
    /// Too few devices have a large enough share free.
    Devices,
    /// The disks are not known, or too little of their bandwidth is left.
    Disks,
    /// The domains of the machine do not meet the rule of the class with this index.
    Rule(usize),
    /// A unit that is placed already would be refused where it is.
    PlacedRule,
}

/// A task of a class on a machine, with its devices and disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its class.
    pub class: usize,
    /// Indices of the devices of which it has shares, then for each volume the index of its disk;
    /// no disks where it takes nothing of them.
    pub devices: Vec<u32>,
}

/// A change, so that it can be undone.
#[derive(Clone, Debug)]
enum Change {
    Taken {
        class: usize,
        machine: usize,
    },
    /// The unit was at this position among those of the machine.
    Released {
        unit: Unit,
        machine: usize,
        position: usize,
    },
}

/// What is free on every machine, and the units that were taken there.
#[derive(Clone, Debug)]
pub struct Account {
    classes: Vec<Class>,
    resources: Resources,
    devices: Devices,
    disks: Disks,
    domains: Domains,
    placed_rules: PlacedRules,
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
            disks: Disks::default(),
            domains: Domains::default(),
            placed_rules: PlacedRules::default(),
            units: vec![Vec::new(); machines],
            log: Vec::new(),
        }
    }

    /// The account of machines with these disks. Nothing may have been taken yet.
    #[must_use]
    pub fn with_disks(mut self, disks: Disks) -> Self {
        self.disks = disks;
        self
    }

    /// The account with the topologies and counters that its classes name. Nothing may have been
    /// taken yet.
    #[must_use]
    pub fn with_domains(mut self, mut domains: Domains) -> Self {
        for class in &mut self.classes {
            domains.prepare(&class.rules);
            class.counted_by.sort_unstable();
        }
        self.domains = domains;
        self
    }

    /// The account with the rules of placed units protected: a unit that would break one of them
    /// does not fit. Without this, only the rules of the unit itself count. Nothing may have been
    /// taken yet.
    #[must_use]
    pub fn with_placed_rules(mut self) -> Self {
        self.placed_rules = PlacedRules::new(&self.classes);
        self
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

    /// The part that tracks the bandwidth of disks.
    #[must_use]
    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// The part that counts tasks in domains.
    #[must_use]
    pub fn domains(&self) -> &Domains {
        &self.domains
    }

    /// The units on a machine, in the order in which they were taken.
    #[must_use]
    pub fn units(&self, machine: usize) -> &[Unit] {
        &self.units[machine]
    }

    /// Whether one more task of the class fits.
    #[must_use]
    pub fn fits(&self, class: usize, machine: usize) -> bool {
        let rules = &self.classes[class].rules;
        self.has_capacity(class, machine)
            && (rules.is_empty() || self.domains.fits_all(rules, machine))
            && (self.placed_rules.is_empty() || self.broken_placed_rule(class, machine).is_none())
    }

    /// Whether constraints between tasks decide where units of the class fit: its own rules, or
    /// those of others that its units may break.
    #[must_use]
    pub fn has_rules(&self, class: usize) -> bool {
        !self.classes[class].rules.is_empty() || self.placed_rules.may_break(class)
    }

    /// Whether the rules of all placed units are kept, after units of the class have been placed on
    /// the machine together with others, such that they did not fit one after the other.
    #[must_use]
    pub fn keeps_placed_rules(&self, class: usize, machine: usize) -> bool {
        self.placed_rules.is_empty() || self.placed_rules.are_kept(class, machine, &self.domains)
    }

    /// The rule of a placed unit that one more unit of the class on the machine would break.
    #[must_use]
    #[inline(never)]
    pub fn broken_placed_rule(&self, class: usize, machine: usize) -> Option<&Rule> {
        if !self.placed_rules.may_break(class) {
            return None;
        }
        let counted_by = &self.classes[class].counted_by;
        self.placed_rules
            .broken(class, counted_by, machine, &self.domains)
    }

    /// Whether one more task of the class fits, whatever its rules say.
    #[must_use]
    #[inline]
    pub fn has_capacity(&self, class: usize, machine: usize) -> bool {
        let class = &self.classes[class];
        self.resources.fits(&class.request, machine)
            && class
                .devices
                .is_none_or(|asked| self.devices.fits(asked, machine))
            && class
                .disks
                .as_ref()
                .is_none_or(|asked| self.disks.fits(asked, machine))
    }

    /// Whether one more task of the class fits, if the tasks that it requires come to its domains.
    #[must_use]
    pub fn fits_with_company(&self, class: usize, machine: usize) -> bool {
        let rules = self.classes[class].rules.iter();
        let mut others = rules.filter(|rule| !matches!(rule, Rule::Near { .. }));
        self.has_capacity(class, machine) && others.all(|rule| self.domains.fits(rule, machine))
    }

    /// Whether a unit of the class may fit in company where it does not fit alone: it has required
    /// affinity, or might break a rule of a placed unit that others could keep.
    #[must_use]
    pub fn may_need_company(&self, class: usize) -> bool {
        let mut rules = self.classes[class].rules.iter();
        rules.any(|rule| matches!(rule, Rule::Near { .. })) || self.placed_rules.may_break(class)
    }

    /// Whether the unit of the class that was taken last on the machine meets its rules with
    /// everything else in place; also true if there is none.
    #[must_use]
    pub fn meets_rules(&mut self, class: usize, machine: usize) -> bool {
        if self.classes[class].rules.is_empty() {
            return true;
        }
        let Some((unit, position)) = self.remove(class, machine) else {
            return true;
        };
        let meets = self.domains.fits_all(&self.classes[class].rules, machine);
        self.put(unit, machine, position);
        meets
    }

    /// How many more tasks of the class fit, if nothing else is placed.
    #[must_use]
    pub fn room(&self, class: usize, machine: usize) -> i64 {
        let mut room = self.capacity(class, machine);
        let Class {
            rules, counted_by, ..
        } = &self.classes[class];
        if room > 0 && !rules.is_empty() {
            room = room.min(self.domains.room(rules, counted_by, machine));
        }
        if room > 0 && self.placed_rules.may_break(class) {
            let domains = &self.domains;
            let kept = self.placed_rules.room(class, counted_by, machine, domains);
            room = room.min(kept);
        }
        room
    }

    /// How many more tasks of the class fit, whatever its rules say.
    #[must_use]
    #[inline]
    pub fn capacity(&self, class: usize, machine: usize) -> i64 {
        let class = &self.classes[class];
        let room = self.resources.room(&class.request, machine).min(UNLIMITED);
        let room = match class.devices.filter(|_| room > 0) {
            Some(asked) => room.min(self.devices.room(asked, machine)),
            None => room,
        };
        match class.disks.as_ref().filter(|_| room > 0) {
            Some(asked) => self.disks.room(asked, machine, room),
            None => room,
        }
    }

    /// The parts that refuse one more task of the class; none if it fits.
    pub fn refusals(&self, class: usize, machine: usize) -> impl Iterator<Item = Part> {
        let breaks = self.broken_placed_rule(class, machine).is_some();
        let class = &self.classes[class];
        let free = self.resources.of(machine);
        let lacking = class
            .request
            .iter()
            .filter(|&&(column, asked)| free[column as usize] < asked);
        let devices = class
            .devices
            .filter(|&asked| !self.devices.fits(asked, machine));
        let disks = class.disks.as_ref();
        let disks = disks.filter(|asked| !self.disks.fits(asked, machine));
        let rules = (0..class.rules.len())
            .filter(move |&rule| !self.domains.fits(&class.rules[rule], machine));
        lacking
            .map(|&(column, _)| Part::Resource(column))
            .chain(devices.map(|_| Part::Devices))
            .chain(disks.map(|_| Part::Disks))
            .chain(rules.map(Part::Rule))
            .chain(breaks.then_some(Part::PlacedRule))
    }

    /// Takes one unit, which must fit. Without `devices` (see [`Unit`]) it gets the fullest ones that
    /// leave room for `further` units, and likewise disks, if none are given. False, and nothing is
    /// taken, if there are no devices or disks for it.
    #[must_use]
    pub fn take(
        &mut self,
        class: usize,
        machine: usize,
        devices: Option<Vec<u32>>,
        further: i64,
    ) -> bool {
        let Some(devices) = self.chosen(class, machine, devices, further) else {
            return false;
        };
        let position = self.units[machine].len();
        self.put(Unit { class, devices }, machine, position);
        self.log.push(Change::Taken { class, machine });
        true
    }

    /// The devices and disks of one more unit: the given ones, and the best where none are given.
    #[inline]
    fn chosen(
        &self,
        class: usize,
        machine: usize,
        given: Option<Vec<u32>>,
        further: i64,
    ) -> Option<Vec<u32>> {
        let class = &self.classes[class];
        let mut chosen = match (class.devices, given) {
            (None, None) => Vec::new(),
            (None, Some(_)) if class.disks.is_none() => Vec::new(),
            (_, Some(given)) => given,
            (Some(asked), None) => self.devices.choose(asked, machine, further)?,
        };
        if let Some(asked) = &class.disks {
            if shares_and_disks(class, &chosen).1.is_empty() {
                chosen.extend(self.disks.choose(asked, machine, further)?);
            }
        }
        Some(chosen)
    }

    /// Releases the unit of the class that was taken last on the machine; false if there is none.
    #[must_use]
    pub fn release(&mut self, class: usize, machine: usize) -> bool {
        let Some((unit, position)) = self.remove(class, machine) else {
            return false;
        };
        self.log.push(Change::Released {
            unit,
            machine,
            position,
        });
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
                Some(Change::Released {
                    unit,
                    machine,
                    position,
                }) => self.put(unit, machine, position),
                None => return,
            }
        }
    }

    /// Forgets the log: earlier marks are no longer valid.
    pub fn commit(&mut self) {
        self.log.clear();
    }

    /// The units taken since the mark: class, machine and devices. Nothing may have been released
    /// since then.
    #[must_use]
    pub fn taken_since(&self, mark: usize) -> Vec<(usize, usize, Vec<u32>)> {
        let mut seen: HashMap<(usize, usize), usize> = HashMap::new();
        let mut found = Vec::new();
        for change in self.log[mark..].iter().rev() {
            if let Change::Taken { class, machine } = *change {
                let later = seen.entry((class, machine)).or_default();
                let mut own = self.units[machine]
                    .iter()
                    .rev()
                    .filter(|unit| unit.class == class);
                if let Some(unit) = own.nth(*later) {
                    found.push((class, machine, unit.devices.clone()));
                }
                *later += 1;
            }
        }
        found.reverse();
        found
    }

    #[inline]
    fn put(&mut self, unit: Unit, machine: usize, position: usize) {
        let class = &self.classes[unit.class];
        self.resources.take(&class.request, machine, 1);
        let (shares, disks) = shares_and_disks(class, &unit.devices);
        if let Some(asked) = class.devices {
            self.devices.take(machine, shares, asked.milli);
        }
        if let Some(asked) = &class.disks {
            self.disks.take(machine, asked, disks);
        }
        if !class.counted_by.is_empty() {
            self.domains.take(&class.counted_by, machine, 1);
        }
        if !self.placed_rules.is_empty() {
            self.placed_rules.add(unit.class, machine, 1, &self.domains);
        }
        self.units[machine].insert(position, unit);
    }

    /// Removes the unit of the class that was taken last; returns it and its position.
    fn remove(&mut self, class: usize, machine: usize) -> Option<(Unit, usize)> {
        let there = &self.units[machine];
        let last = there.iter().rposition(|unit| unit.class == class)?;
        Some((self.remove_at(machine, last), last))
    }

    #[inline]
    fn remove_at(&mut self, machine: usize, position: usize) -> Unit {
        let unit = self.units[machine].remove(position);
        let class = &self.classes[unit.class];
        self.resources.take(&class.request, machine, -1);
        let (shares, disks) = shares_and_disks(class, &unit.devices);
        if let Some(asked) = class.devices {
            self.devices.take(machine, shares, -asked.milli);
        }
        if let Some(asked) = &class.disks {
            self.disks.release(machine, asked, disks);
        }
        if !class.counted_by.is_empty() {
            self.domains.take(&class.counted_by, machine, -1);
        }
        if !self.placed_rules.is_empty() {
            self.placed_rules
                .add(unit.class, machine, -1, &self.domains);
        }
        unit
    }
}

/// The devices of a unit of a class: first those of which it has shares, then its disks.
fn shares_and_disks<'a>(class: &Class, devices: &'a [u32]) -> (&'a [u32], &'a [u32]) {
    let shares = class.devices.map_or(0, |asked| asked.count);
    devices.split_at(shares.min(devices.len()))
}
