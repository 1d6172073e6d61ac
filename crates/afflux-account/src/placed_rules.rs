//! The rules of placed units that a further unit might break.
//!
//! Rules are judged with everything in place, so that a unit may also be refused because of a unit
//! that was placed before: a spread rule is broken by more counted tasks in the same domain, and
//! the rule that admits the first task of a group by a counted task in another domain. Affinity is
//! never broken by more tasks, and tasks that anti-affinity repels have their own rule against it.
//!
//! A class that has the same rule itself needs no such look: its own rule refuses. Only units that
//! are placed together without fitting one after the other are judged against it.

use std::collections::HashMap;

use crate::account::Class;
use crate::domains::{Domains, Rule};
use crate::resources::UNLIMITED;

/// A rule that some class may break without having it.
#[derive(Clone, Debug)]
struct Protected {
    rule: Rule,
    /// The placed units that have the rule: for a spread rule by domain, else by machine.
    units: HashMap<u32, i64>,
}

impl Protected {
    /// Whether the placed units with the rule would still be admitted if `more` counted units came
    /// to the machine, by which each counter grows as given.
    fn is_kept(
        &self,
        machine: usize,
        more: i64,
        growth: impl Fn(usize) -> i64,
        domains: &Domains,
    ) -> bool {
        match &self.rule {
            Rule::Spread { counter, .. } => {
                let domain = domains.counted_domain(*counter, machine);
                domain
                    .filter(|domain| self.units.contains_key(domain))
                    .is_none_or(|domain| {
                        domains.skew_fits(&self.rule, domain, more - own(&self.rule))
                    })
            }
            // Two units that are near the same tasks are near each other: only one alone may have
            // been the first.
            Rule::Near { .. } if more > 0 && self.units.len() > 1 => true,
            Rule::Near { counters, .. } => self
                .units
                .keys()
                .all(|&home| remains_near(counters, home as usize, machine, &growth, domains)),
            Rule::Apart { .. } => true,
        }
    }
}

/// The protected rules, those that each class has, and those that it may break.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlacedRules {
    protected: Vec<Protected>,
    /// By class, as positions in `protected`.
    had_by: Vec<Vec<usize>>,
    threatened_by: Vec<Vec<usize>>,
}

impl PlacedRules {
    /// Nothing is placed yet.
    pub(crate) fn new(classes: &[Class]) -> Self {
        let mut found = Self {
            protected: Vec::new(),
            had_by: vec![Vec::new(); classes.len()],
            threatened_by: vec![Vec::new(); classes.len()],
        };
        let mut rules: Vec<&Rule> = Vec::new();
        for rule in classes.iter().flat_map(|class| &class.rules) {
            if is_breakable(rule) && !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        for rule in rules {
            let threatens = |class: &Class| {
                let counts = |counter: &usize| class.counted_by.contains(counter);
                rule.counters().iter().any(counts) && !class.rules.contains(rule)
            };
            let is_near = matches!(rule, Rule::Near { .. });
            if !is_near && !classes.iter().any(threatens) {
                continue;
            }
            let number = found.protected.len();
            found.protected.push(Protected {
                rule: rule.clone(),
                units: HashMap::new(),
            });
            for (index, class) in classes.iter().enumerate() {
                if class.rules.contains(rule) {
                    found.had_by[index].push(number);
                } else if threatens(class) {
                    found.threatened_by[index].push(number);
                }
            }
        }
        found
    }

    /// Whether no class may break a rule of another.
    pub(crate) fn is_empty(&self) -> bool {
        self.protected.is_empty()
    }

    /// Whether units of this class may break a rule of others.
    pub(crate) fn may_break(&self, class: usize) -> bool {
        !self.is_empty() && !self.threatened_by[class].is_empty()
    }

    /// Counts `units` more units of a class on a machine, or fewer if the number is negative.
    pub(crate) fn add(&mut self, class: usize, machine: usize, units: i64, domains: &Domains) {
        for &number in &self.had_by[class] {
            let Protected { rule, units: there } = &mut self.protected[number];
            let key = match rule {
                Rule::Spread { counter, .. } => domains.domain(*counter, machine),
                _ => Some(machine as u32),
            };
            let Some(key) = key else { continue };
            let after = there.get(&key).copied().unwrap_or(0) + units;
            match after {
                0 => there.remove(&key),
                _ => there.insert(key, after),
            };
        }
    }

    /// The first rule for which a placed unit would not be admitted any more where it is, with
    /// everything else in place, if one more unit of the class were placed on the machine.
    pub(crate) fn broken(
        &self,
        class: usize,
        counted_by: &[usize],
        machine: usize,
        domains: &Domains,
    ) -> Option<&Rule> {
        let threatened = self.threatened_by[class].iter();
        let mut rules = threatened.map(|&number| &self.protected[number]);
        let growth = |counter| domains.growth(counter, counted_by, machine);
        rules
            .find(|each| !each.is_kept(machine, 1, growth, domains))
            .map(|each| &each.rule)
    }

    /// Whether the rules of all placed units are kept, after units of the class have been placed on
    /// the machine together with others, such that they did not fit one after the other.
    pub(crate) fn are_kept(&self, class: usize, machine: usize, domains: &Domains) -> bool {
        let own = self.had_by[class].iter();
        let own = own.filter(|&&number| matches!(self.protected[number].rule, Rule::Near { .. }));
        let threatened = self.threatened_by[class].iter();
        threatened
            .chain(own)
            .all(|&number| self.protected[number].is_kept(machine, 0, |_| 0, domains))
    }

    /// How many more units of the class can be placed on the machine one after the other.
    pub(crate) fn room(
        &self,
        class: usize,
        counted_by: &[usize],
        machine: usize,
        domains: &Domains,
    ) -> i64 {
        let broken = self.broken(class, counted_by, machine, domains);
        if broken.is_some() {
            return 0;
        }
        let rooms = self.threatened_by[class].iter().map(|&number| {
            let Protected { rule, units } = &self.protected[number];
            let &Rule::Spread { counter, .. } = rule else {
                return UNLIMITED;
            };
            if units.is_empty() {
                return UNLIMITED;
            }
            domains
                .counted_domain(counter, machine)
                .filter(|domain| units.contains_key(domain))
                .map_or(UNLIMITED, |domain| {
                    domains.units_within_skew(rule, domain) + own(rule)
                })
        });
        rooms.min().unwrap_or(UNLIMITED)
    }
}

fn is_breakable(rule: &Rule) -> bool {
    matches!(
        rule,
        Rule::Spread { .. } | Rule::Near { or_first: true, .. }
    )
}

/// How often a unit with this spread rule is counted by it.
fn own(rule: &Rule) -> i64 {
    match rule {
        Rule::Spread { counts_itself, .. } => i64::from(*counts_itself),
        _ => 0,
    }
}

/// Whether the only unit with a near rule, which matches it, stays the first one or has company in
/// its domains, if each counter grows by this much on the machine.
fn remains_near(
    counters: &[usize],
    home: usize,
    machine: usize,
    growth: impl Fn(usize) -> i64,
    domains: &Domains,
) -> bool {
    let is_first = |&counter: &usize| domains.total(counter) - 1 + growth(counter) == 0;
    let is_near = |&counter: &usize| {
        let there = domains.domain(counter, home);
        let grows = there == domains.domain(counter, machine);
        let more = if grows { growth(counter) } else { 0 };
        there.is_some_and(|domain| domains.count(counter, domain) - 1 + more > 0)
    };
    counters.iter().all(is_first) || counters.iter().all(is_near)
}
