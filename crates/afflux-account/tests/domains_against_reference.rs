//! Domains compared with a reference that knows only the units and counts everything anew.

#[path = "../../proptest_cases.rs"]
mod proptest_cases;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use afflux_account::{Account, Class, Devices, Domains, Part, Resources, Rule, Topology};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use proptest_cases::cases;

const MACHINES: usize = 5;
const TOPOLOGIES: usize = 3;
const COUNTERS: usize = 4;
/// What a machine has; every task asks for one.
const CAPACITY: i64 = 8;

/// The machines and classes, and the units as class and machine, in the order of their start.
#[derive(Clone, Debug)]
struct Reference {
    /// By topology and machine.
    domain_of: Vec<Vec<Option<u32>>>,
    /// By topology and machine; empty if tasks count everywhere.
    counted_on: Vec<Vec<bool>>,
    /// By counter: its topology, and the machines of tasks that ran before.
    counters: Vec<(usize, Vec<usize>)>,
    /// Rules, and counters that count a unit.
    classes: Vec<(Vec<Rule>, Vec<usize>)>,
    units: Vec<(usize, usize)>,
}

impl Reference {
    fn account(&self) -> Account {
        let topologies = self.domain_of.iter().zip(&self.counted_on);
        let topologies =
            topologies.map(|(domains, counted)| Topology::new(domains.clone(), counted.clone()));
        let mut domains = Domains::new(topologies.collect());
        for (topology, ran) in &self.counters {
            let mut start = BTreeMap::new();
            for &machine in ran.iter().filter(|&&m| self.counts(*topology, m)) {
                if let Some(domain) = self.domain_of[*topology][machine] {
                    *start.entry(domain).or_insert(0) += 1;
                }
            }
            let start: Vec<(u32, i64)> = start.into_iter().collect();
            domains.add_counter(*topology, &start);
        }
        let classes = self.classes.iter().map(|(rules, counted_by)| Class {
            request: vec![(0, 1)],
            rules: rules.clone(),
            counted_by: counted_by.clone(),
            ..Class::default()
        });
        let free = Resources::new(1, vec![CAPACITY; MACHINES]);
        Account::new(classes.collect(), free, Devices::default(), MACHINES).with_domains(domains)
    }

    fn counts(&self, topology: usize, machine: usize) -> bool {
        self.counted_on[topology].is_empty() || self.counted_on[topology][machine]
    }

    fn domain(&self, counter: usize, machine: usize) -> Option<u32> {
        self.domain_of[self.counters[counter].0][machine]
    }

    /// The domains in which the counter counts tasks, with one entry for each task.
    fn tasks(&self, counter: usize) -> Vec<u32> {
        let (topology, ran) = &self.counters[counter];
        let placed = self.units.iter().filter(|(class, _)| {
            let counted_by = &self.classes[*class].1;
            counted_by.contains(&counter)
        });
        ran.iter()
            .copied()
            .chain(placed.map(|&(_, machine)| machine))
            .filter(|&machine| self.counts(*topology, machine))
            .filter_map(|machine| self.domain_of[*topology][machine])
            .collect()
    }

    fn count(&self, counter: usize, domain: u32) -> i64 {
        let tasks = self.tasks(counter);
        tasks.iter().filter(|&&each| each == domain).count() as i64
    }

    fn meets(&self, rule: &Rule, machine: usize) -> bool {
        match *rule {
            Rule::Near {
                ref counters,
                or_first,
            } => {
                let has_keys = counters.iter().all(|&c| self.domain(c, machine).is_some());
                let is_near = |&counter: &usize| {
                    let domain = self.domain(counter, machine);
                    domain.is_some_and(|domain| self.count(counter, domain) > 0)
                };
                let is_empty = |&counter: &usize| self.tasks(counter).is_empty();
                has_keys
                    && (counters.iter().all(is_near) || or_first && counters.iter().all(is_empty))
            }
            Rule::Apart { counter } => match self.domain(counter, machine) {
                Some(domain) => self.count(counter, domain) == 0,
                None => true,
            },
            Rule::Spread {
                counter,
                max_skew,
                min_domains,
                counts_itself,
            } => {
                let Some(domain) = self.domain(counter, machine) else {
                    return false;
                };
                let topology = self.counters[counter].0;
                let eligible: BTreeSet<u32> = (0..MACHINES)
                    .filter(|&each| self.counts(topology, each))
                    .filter_map(|each| self.domain(counter, each))
                    .collect();
                let fewest = match eligible.len() < min_domains {
                    true => None,
                    false => eligible.iter().map(|&each| self.count(counter, each)).min(),
                };
                self.count(counter, domain) + i64::from(counts_itself) - fewest.unwrap_or(0)
                    <= max_skew
            }
        }
    }

    fn refusals(&self, class: usize, machine: usize) -> Vec<Part> {
        let there = self.units.iter().filter(|unit| unit.1 == machine).count();
        let is_full = there as i64 >= CAPACITY;
        let full = is_full.then_some(Part::Resource(0));
        let rules = &self.classes[class].0;
        let refused = (0..rules.len()).filter(|&rule| !self.meets(&rules[rule], machine));
        full.into_iter().chain(refused.map(Part::Rule)).collect()
    }

    fn room(&self, class: usize, machine: usize) -> i64 {
        let mut with = self.clone();
        let mut room = 0;
        while with.refusals(class, machine).is_empty() {
            with.units.push((class, machine));
            room += 1;
        }
        room
    }

    fn without(&self, position: usize) -> Self {
        let mut without = self.clone();
        without.units.remove(position);
        without
    }

    /// The refusals of every unit that would be refused where it is.
    fn violations(&self) -> Vec<(usize, usize, Part)> {
        let judged = self.units.iter().enumerate();
        let mut found: Vec<(usize, usize, Part)> = judged
            .flat_map(|(position, &(class, machine))| {
                let refusals = self.without(position).refusals(class, machine);
                refusals.into_iter().map(move |part| (class, machine, part))
            })
            .collect();
        found.sort_by_key(|&(_, machine, _)| machine);
        found
    }

    /// Whether these units fit on the machine, each judged with the others in place.
    fn fit_together(&self, machine: usize, units: &[(usize, i64)]) -> bool {
        let mut with = self.clone();
        for &(class, count) in units {
            with.units
                .extend(std::iter::repeat_n((class, machine), count as usize));
        }
        (self.units.len()..with.units.len()).all(|position| {
            let (class, machine) = with.units[position];
            with.without(position).refusals(class, machine).is_empty()
        })
    }
}

/// How often each kind of question was answered with no and with yes.
#[derive(Default)]
struct Verdicts(BTreeMap<&'static str, [u32; 2]>);

impl Verdicts {
    fn add(&mut self, kind: &'static str, verdict: bool) {
        self.0.entry(kind).or_default()[usize::from(verdict)] += 1;
    }

    /// Asserts that each of the verdicts is at least a twentieth of them.
    fn assert_both_are_frequent(&self, kinds: usize) {
        assert_eq!(self.0.len(), kinds, "{:?}", self.0);
        for (kind, [no, yes]) in &self.0 {
            assert!(
                20 * no.min(yes) >= no + yes,
                "{kind}: {no} times no, {yes} times yes"
            );
        }
    }
}

fn kind(rule: &Rule) -> &'static str {
    match rule {
        Rule::Near { or_first: true, .. } => "near or first",
        Rule::Near { .. } => "near",
        Rule::Apart { .. } => "apart",
        Rule::Spread { .. } => "spread",
    }
}

/// Asserts that every answer of the account is that of the reference.
fn assert_equal(account: &mut Account, reference: &Reference, verdicts: &mut Verdicts) {
    for counter in 0..COUNTERS {
        for domain in 0..MACHINES as u32 {
            let count = account.domains().count(counter, domain);
            assert_eq!(count, reference.count(counter, domain));
        }
    }
    for (class, (rules, _)) in reference.classes.iter().enumerate() {
        for machine in 0..MACHINES {
            for rule in rules {
                let verdict = reference.meets(rule, machine);
                assert_eq!(account.domains().fits(rule, machine), verdict, "{rule:?}");
                verdicts.add(kind(rule), verdict);
            }
            let refusals: Vec<Part> = account.refusals(class, machine).collect();
            assert_eq!(refusals, reference.refusals(class, machine));
            assert_eq!(account.fits(class, machine), refusals.is_empty());
            let room = reference.room(class, machine);
            assert_eq!(account.room(class, machine), room);
            if room > 0 && !rules.is_empty() {
                let there = account.units(machine).len() as i64;
                verdicts.add("room for all", room == CAPACITY - there);
            }
        }
    }
    for (position, &(class, machine)) in reference.units.iter().enumerate() {
        let others = reference.without(position);
        let (rules, counted_by) = &reference.classes[class];
        for rule in rules {
            let verdict = others.meets(rule, machine);
            let found = account.domains().fits_in_place(rule, counted_by, machine);
            assert_eq!(found, verdict, "{rule:?}");
        }
    }
    let violations = account.violations();
    assert_eq!(violations, reference.violations());
    verdicts.add("violations", violations.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    /// Takes a unit if it fits, or, if forced, also where a rule is broken.
    Take {
        class: prop::sample::Index,
        machine: usize,
        forced: bool,
    },
    Release {
        class: prop::sample::Index,
        machine: usize,
    },
    Mark,
    /// Rolls back to one of the valid marks.
    Rollback(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let class = any::<prop::sample::Index>;
    let forced = prop::bool::weighted(0.3);
    prop_oneof![
        8 => (class(), 0..MACHINES, forced).prop_map(|(class, machine, forced)| Step::Take {
            class, machine, forced,
        }),
        2 => (class(), 0..MACHINES).prop_map(|(class, machine)| Step::Release { class, machine }),
        2 => Just(Step::Mark),
        1 => class().prop_map(Step::Rollback),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let near = (
        prop::collection::vec(0..COUNTERS, 1..=2),
        prop::bool::weighted(0.6),
    );
    let spread = (0..COUNTERS, 0_i64..=2, 1_usize..=3, any::<bool>());
    prop_oneof![
        near.prop_map(|(counters, or_first)| Rule::Near { counters, or_first }),
        (0..COUNTERS).prop_map(|counter| Rule::Apart { counter }),
        spread.prop_map(
            |(counter, max_skew, min_domains, counts_itself)| Rule::Spread {
                counter,
                max_skew,
                min_domains,
                counts_itself,
            }
        ),
    ]
}

fn class() -> impl Strategy<Value = (Vec<Rule>, Vec<usize>)> {
    let counted_by = prop::collection::vec(any::<bool>(), COUNTERS).prop_map(|counted| {
        let counted = (0..COUNTERS).zip(counted).filter(|&(_, counted)| counted);
        counted.map(|(counter, _)| counter).collect()
    });
    (prop::collection::vec(rule(), 0..=2), counted_by)
}

fn clusters() -> impl Strategy<Value = Reference> {
    // The first topology is that of the hosts.
    let hosts: Vec<Option<u32>> = (0..MACHINES as u32).map(Some).collect();
    let domain = prop_oneof![5 => (0_u32..3).prop_map(Some), 1 => Just(None)];
    let domain_of = prop::collection::vec(domain, MACHINES);
    let counted_on = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(prop::bool::weighted(0.7), MACHINES),
    ];
    let ran = prop_oneof![Just(Vec::new()), prop::collection::vec(0..MACHINES, 0..=3)];
    (
        prop::collection::vec(domain_of, TOPOLOGIES - 1),
        prop::collection::vec(counted_on, TOPOLOGIES),
        prop::collection::vec((0..TOPOLOGIES, ran), COUNTERS),
        prop::collection::vec(class(), 1..=4),
    )
        .prop_map(
            move |(domain_of, counted_on, counters, classes)| Reference {
                domain_of: std::iter::once(hosts.clone()).chain(domain_of).collect(),
                counted_on,
                counters,
                classes,
                units: Vec::new(),
            },
        )
}

/// The account and the reference side by side, and the valid marks.
struct Pair {
    account: Account,
    reference: Reference,
    marks: Vec<(usize, Reference)>,
}

impl Pair {
    fn of(reference: Reference) -> Self {
        Self {
            account: reference.account(),
            reference,
            marks: Vec::new(),
        }
    }

    fn apply(&mut self, step: &Step) {
        let classes = self.reference.classes.len();
        match step {
            Step::Take {
                class,
                machine,
                forced,
            } => {
                let class = class.index(classes);
                let refusals = self.reference.refusals(class, *machine);
                let is_full = refusals.first() == Some(&Part::Resource(0));
                if refusals.is_empty() || *forced && !is_full {
                    assert!(self.account.take(class, *machine, None, 0));
                    self.reference.units.push((class, *machine));
                }
            }
            Step::Release { class, machine } => {
                let unit = (class.index(classes), *machine);
                let units = &mut self.reference.units;
                let last = units.iter().rposition(|&each| each == unit);
                assert_eq!(self.account.release(unit.0, unit.1), last.is_some());
                last.map(|last| units.remove(last));
            }
            Step::Mark => {
                let mark = (self.account.mark(), self.reference.clone());
                self.marks.push(mark);
            }
            Step::Rollback(index) if !self.marks.is_empty() => {
                self.marks.truncate(index.index(self.marks.len()) + 1);
                let (mark, reference) = &self.marks[self.marks.len() - 1];
                self.account.rollback(*mark);
                self.reference = reference.clone();
            }
            Step::Rollback(_) => {}
        }
    }
}

#[test]
fn every_answer_matches_a_recount_after_any_sequence_of_changes() {
    let verdicts = RefCell::new(Verdicts::default());
    let drawn = (clusters(), prop::collection::vec(step(), 1..=30));
    let judged = |(reference, steps): (Reference, Vec<Step>)| {
        let mut pair = Pair::of(reference);
        let verdicts = &mut verdicts.borrow_mut();
        assert_equal(&mut pair.account, &pair.reference, verdicts);
        for step in &steps {
            pair.apply(step);
            assert_equal(&mut pair.account, &pair.reference, verdicts);
        }
        Ok(())
    };
    let result = TestRunner::new(cases(500)).run(&drawn, judged);
    result.unwrap_or_else(|failure| panic!("{failure}"));
    verdicts.borrow().assert_both_are_frequent(6);
}

#[test]
fn units_fit_together_if_each_is_admitted_with_the_others_in_place() {
    let verdicts = RefCell::new(Verdicts::default());
    let count = (any::<prop::sample::Index>(), 0_i64..=2);
    let drawn = (
        clusters(),
        prop::collection::vec(step(), 0..=6),
        prop::collection::vec(count, 1..=3),
    );
    let judged = |(reference, steps, counts): (Reference, Vec<Step>, Vec<_>)| {
        let classes = reference.classes.len();
        let counts: Vec<(usize, i64)> = counts
            .into_iter()
            .map(|(class, count): (prop::sample::Index, i64)| (class.index(classes), count))
            .collect();
        let mut pair = Pair::of(reference);
        steps.iter().for_each(|step| pair.apply(step));
        for machine in 0..MACHINES {
            let expected = pair.reference.fit_together(machine, &counts);
            let found = pair.account.fits_together(machine, &counts);
            prop_assert_eq!(found.is_some(), expected);
            verdicts.borrow_mut().add("together", expected);
        }
        Ok(())
    };
    let result = TestRunner::new(cases(2000)).run(&drawn, judged);
    result.unwrap_or_else(|failure| panic!("{failure}"));
    verdicts.borrow().assert_both_are_frequent(1);
}
