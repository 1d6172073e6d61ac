//! What the account says about several units together, and about units with all others in place.

use super::{Account, Part, Unit};

impl Account {
    /// Devices and disks for every unit if these units, by class and count, fit on the machine together;
    /// none if they do not.
    ///
    /// Rules are judged after all of the units are there: for each unit, with the others in place.
    /// Units that require each other fit together although neither fits alone. The rules of units
    /// that were placed before are not judged again; [`Self::violations`] judges all units.
    #[must_use]
    pub fn fits_together(&self, machine: usize, units: &[(usize, i64)]) -> Option<Vec<Unit>> {
        let mut asked = vec![0; self.resources.width()];
        let mut found = Vec::new();
        let (mut requests, mut volumes) = (Vec::new(), Vec::new());
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
                volumes.extend(self.classes[class].disks.as_ref());
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
        if !self.rules_hold_together(machine, units) {
            return None;
        }
        let mut packed = self.devices.pack(&requests, machine)?.into_iter();
        let mut disks = match volumes.is_empty() {
            true => Vec::new(),
            false => self.disks.pack(&volumes, machine)?,
        }
        .into_iter();
        for unit in &mut found {
            let class = &self.classes[unit.class];
            if class.devices.is_some() {
                unit.devices = packed.next()?;
            }
            if class.disks.is_some() {
                unit.devices.extend(disks.next()?);
            }
        }
        Some(found)
    }

    /// Whether every one of these units meets its rules with the others in place.
    fn rules_hold_together(&self, machine: usize, units: &[(usize, i64)]) -> bool {
        let growth = |class: usize, counter| {
            let counted_by = &self.classes[class].counted_by;
            self.domains.growth(counter, counted_by, machine)
        };
        let placed = units.iter().filter(|&&(_, count)| count > 0);
        placed.into_iter().all(|&(class, _)| {
            self.classes[class].rules.iter().all(|rule| {
                self.domains.fits_with(rule, machine, |counter| {
                    let each = units
                        .iter()
                        .map(|&(other, count)| count * growth(other, counter));
                    each.sum::<i64>() - growth(class, counter)
                })
            })
        })
    }

    /// The units that their rules would refuse where they are, as class, machine and the part that
    /// refuses: each unit is taken out, judged with everything else in place, and put back.
    #[must_use]
    pub fn violations(&mut self) -> Vec<(usize, usize, Part)> {
        let mut found = Vec::new();
        for machine in 0..self.units.len() {
            for position in 0..self.units[machine].len() {
                if self.classes[self.units[machine][position].class]
                    .rules
                    .is_empty()
                {
                    continue;
                }
                let unit = self.remove_at(machine, position);
                let class = unit.class;
                let parts = self.refusals(class, machine);
                let own = parts.filter(|&part| part != Part::PlacedRule);
                found.extend(own.map(|part| (class, machine, part)));
                self.put(unit, machine, position);
            }
        }
        found
    }
}
