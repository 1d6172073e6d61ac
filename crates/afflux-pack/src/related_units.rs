//! Places units with constraints between tasks together: all of them, or none.
//!
//! Units are judged after all are there, each with the others in place, so that units that require
//! each other can start together. The search places one unit after the other. It prefers units
//! that fit where the ones before them are, and for each the machines where it fits; after these it
//! tries the machines where the unit will fit once the units that it requires have followed. What
//! was placed is judged at the end, and the search goes back to the last choice if a unit would be
//! refused.
//!
//! Machines in the same domains differ only in room and cost, so few of them are tried. The search
//! is exact for small clusters, and bounded for large ones.

use afflux_account::{Account, Unit};

use crate::packing::Packing;

/// Limits of one search: units that it places one by one, and machines it tries.
const MAX_UNITS: i64 = 512;
const MAX_TRIES: usize = 4_000;
/// How often one search may ask whether a machine admits a unit, beside once for each unit, class
/// and machine; five million take about 0.1 s.
const MAX_CHECKS: usize = 5_000_000;
/// On a cluster with more machines for a class, so many machines of the same domains are tried.
const MAX_EXACT_MACHINES: usize = 16;
const TRIED_PER_DOMAINS: usize = 2;
const MAX_TRIED_MACHINES: usize = 64;

/// Places all units, given by class and count, or leaves the packing as it was.
#[must_use]
pub fn place_related(packing: &mut Packing, need: &[(usize, i64)]) -> bool {
    if need.iter().map(|&(_, count)| count).sum::<i64>() > MAX_UNITS {
        return place_in_order(packing, need);
    }
    let mark = packing.account().mark();
    let pairs = need
        .iter()
        .map(|&(class, _)| packing.machines_of(class).len());
    let once = pairs.sum::<usize>() * need.iter().map(|&(_, count)| count as usize).sum::<usize>();
    let mut search = Search {
        packing,
        missing: need.to_vec(),
        mark,
        tries_left: MAX_TRIES,
        checks_left: MAX_CHECKS + once,
    };
    let placed = search.place_rest();
    if !placed && search.is_exhausted() {
        packing.note_cut_search();
    }
    placed
}

/// Places these units, each with its machine, or leaves the packing as it was: each machine has to
/// admit its class and to have capacity, and each unit to meet its rules with all of them in place.
/// A unit without devices gets the fullest ones that fit.
#[must_use]
pub fn place_together(packing: &mut Packing, units: Vec<(Unit, usize)>) -> bool {
    let mark = packing.account().mark();
    let admitted = units
        .iter()
        .all(|(unit, machine)| packing.cost_on(unit.class, *machine).is_some());
    if !admitted {
        return false;
    }
    let account = packing.account_mut();
    let have_capacity = units.into_iter().all(|(unit, machine)| {
        let devices = Some(unit.devices).filter(|devices| !devices.is_empty());
        account.has_capacity(unit.class, machine) && account.take(unit.class, machine, devices, 0)
    });
    let placed = have_capacity && meet_rules(packing, mark);
    if !placed {
        packing.account_mut().rollback(mark);
    }
    placed
}

/// Class by class, without going back; for groups that are too large for the search.
fn place_in_order(packing: &mut Packing, need: &[(usize, i64)]) -> bool {
    let mark = packing.account().mark();
    let whole = need
        .iter()
        .all(|&(class, count)| packing.place_cheapest(class, count) == count);
    let whole = whole && meet_rules(packing, mark);
    if !whole {
        packing.account_mut().rollback(mark);
        packing.note_cut_search();
    }
    whole
}

/// Whether every unit placed since the mark meets its rules with the others in place, and none
/// breaks a rule of a unit that was placed before.
fn meet_rules(packing: &mut Packing, mark: usize) -> bool {
    let mut placed: Vec<(usize, usize)> = packing
        .account()
        .taken_since(mark)
        .into_iter()
        .map(|(class, machine, _)| (class, machine))
        .collect();
    placed.sort_unstable();
    placed.dedup();
    let account = packing.account_mut();
    placed.into_iter().all(|(class, machine)| {
        account.meets_rules(class, machine) && account.keeps_placed_rules(class, machine)
    })
}

struct Search<'a> {
    packing: &'a mut Packing,
    /// The units that are not placed yet, by class.
    missing: Vec<(usize, i64)>,
    /// Where the search began in the log of the account.
    mark: usize,
    tries_left: usize,
    checks_left: usize,
}

impl Search<'_> {
    /// Places the missing units; false, with everything as before, if that is impossible.
    fn place_rest(&mut self) -> bool {
        let Some((index, fitting)) = self.next_choice() else {
            let is_whole = self.missing.iter().all(|&(_, count)| count == 0);
            return is_whole && meet_rules(self.packing, self.mark);
        };
        if self.place_on_one_of(index, &fitting) {
            return true;
        }
        let class = self.missing[index].0;
        if self.is_exhausted() || !self.packing.account().may_need_company(class) {
            return false;
        }
        let mut others = self.candidates(class, Account::fits_with_company);
        others.retain(|machine| !fitting.contains(machine));
        self.place_on_one_of(index, &others)
    }

    /// Places a unit of this class on one of the machines, and then the rest.
    fn place_on_one_of(&mut self, index: usize, machines: &[usize]) -> bool {
        let class = self.missing[index].0;
        for &machine in machines {
            if self.is_exhausted() {
                return false;
            }
            self.tries_left -= 1;
            let before = self.packing.account().mark();
            if !self.packing.account_mut().take(class, machine, None, 0) {
                continue;
            }
            self.missing[index].1 -= 1;
            if self.place_rest() {
                return true;
            }
            self.missing[index].1 += 1;
            self.packing.account_mut().rollback(before);
        }
        false
    }

    fn is_exhausted(&self) -> bool {
        self.tries_left == 0 || self.checks_left == 0
    }

    /// The class that is placed next, as an index, and the machines where a unit fits, the best
    /// first; the class with the fewest of them, then one that fits nowhere yet. None if nothing is
    /// missing, or if no missing unit can be placed even in company.
    fn next_choice(&mut self) -> Option<(usize, Vec<usize>)> {
        let waiting = (0..self.missing.len()).filter(|&index| self.missing[index].1 > 0);
        let waiting: Vec<usize> = waiting.collect();
        let mut scarcest: Option<(usize, Vec<usize>)> = None;
        for &index in &waiting {
            let machines = self.candidates(self.missing[index].0, Account::fits);
            let is_scarcer = |best: &(usize, Vec<usize>)| machines.len() < best.1.len();
            if !machines.is_empty() && scarcest.as_ref().is_none_or(is_scarcer) {
                scarcest = Some((index, machines));
            }
        }
        let account = self.packing.account();
        scarcest.or_else(|| {
            let mut in_company = waiting
                .into_iter()
                .filter(|&index| account.may_need_company(self.missing[index].0));
            in_company.next().map(|index| (index, Vec::new()))
        })
    }

    /// The machines that admit one more unit, the cheapest first, and few of those that are in the
    /// same domains.
    fn candidates(
        &mut self,
        class: usize,
        admits: fn(&Account, usize, usize) -> bool,
    ) -> Vec<usize> {
        let checks = self.packing.machines_of(class).len();
        self.checks_left = self.checks_left.saturating_sub(checks);
        let account = self.packing.account();
        let costs = self.packing.costs_of(class).iter();
        let pairs = self.packing.machines_of(class).iter().zip(costs);
        let mut found: Vec<(i64, usize)> = pairs
            .map(|(&machine, &cost)| (machine as usize, cost))
            .filter(|&(machine, _)| admits(account, class, machine))
            .map(|(machine, cost)| (self.packing.marginal_cost(machine, cost), machine))
            .collect();
        found.sort_unstable();
        if found.len() <= MAX_EXACT_MACHINES {
            return found.into_iter().map(|(_, machine)| machine).collect();
        }
        let mut tried = std::collections::HashMap::new();
        let few = found.into_iter().filter(|&(_, machine)| {
            let domains = account
                .domains()
                .of_class(&account.classes()[class], machine);
            let tries: &mut usize = tried.entry(domains).or_default();
            *tries += 1;
            *tries <= TRIED_PER_DOMAINS
        });
        few.map(|(_, machine)| machine)
            .take(MAX_TRIED_MACHINES)
            .collect()
    }
}
