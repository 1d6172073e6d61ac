//! With the rules of placed units protected, a unit fits exactly if no unit, the new one included,
//! would then be refused where it is.

#[path = "../../proptest_cases.rs"]
mod proptest_cases;

use std::cell::Cell;

use afflux_account::{Account, Class, Devices, Domains, Part, Resources, Rule, Topology};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use proptest_cases::cases;

const MACHINES: usize = 5;
const COUNTERS: usize = 3;
const CAPACITY: i64 = 4;

/// A class whose rules say truly whether they count its own units.
fn class() -> impl Strategy<Value = Class> {
    let near = prop::collection::vec(0..COUNTERS, 1..=2).prop_map(|counters| Rule::Near {
        counters,
        or_first: true,
    });
    let spread = (0..COUNTERS, 1_i64..=2, 1_usize..=3).prop_map(|(counter, max_skew, domains)| {
        Rule::Spread {
            counter,
            max_skew,
            min_domains: domains,
            counts_itself: true,
        }
    });
    let counted = prop::collection::vec(any::<bool>(), COUNTERS);
    let rules = prop::collection::vec(prop_oneof![near, spread], 0..=2);
    (rules, counted).prop_map(|(mut rules, counted)| {
        for rule in &mut rules {
            match rule {
                Rule::Near { counters, or_first } => {
                    *or_first = counters.iter().all(|&c| counted[c])
                }
                Rule::Spread {
                    counter,
                    counts_itself,
                    ..
                } => *counts_itself = counted[*counter],
                Rule::Apart { .. } => {}
            }
        }
        Class {
            request: vec![(0, 1)],
            rules,
            counted_by: (0..COUNTERS).filter(|&counter| counted[counter]).collect(),
            ..Class::default()
        }
    })
}

fn account() -> impl Strategy<Value = Account> {
    let domain = prop_oneof![6 => (0_u32..3).prop_map(Some), 1 => Just(None)];
    let topologies = prop::collection::vec(prop::collection::vec(domain, MACHINES), 2);
    let counters = prop::collection::vec((0_usize..2, 0_i64..=1), COUNTERS);
    let classes = prop::collection::vec(class(), 2..=4);
    (topologies, counters, classes).prop_map(|(topologies, counters, classes)| {
        let first_domains: Vec<Option<u32>> = topologies.iter().map(|each| each[0]).collect();
        let topologies = topologies
            .into_iter()
            .map(|each| Topology::new(each, Vec::new()));
        let mut domains = Domains::new(topologies.collect());
        for (topology, tasks) in counters {
            let ran = first_domains[topology].map(|domain| (domain, tasks));
            domains.add_counter(topology, ran.as_slice());
        }
        let free = Resources::new(1, vec![CAPACITY; MACHINES]);
        Account::new(classes, free, Devices::default(), MACHINES)
            .with_domains(domains)
            .with_placed_rules()
    })
}

/// How many units fit one after the other, each time with no unit refused where it is.
fn room_by_trying(account: &Account, class: usize, machine: usize) -> i64 {
    let mut tried = account.clone();
    let mut room = 0;
    while tried.resources().of(machine)[0] > 0 {
        assert!(tried.take(class, machine, None, 0));
        if !tried.violations().is_empty() {
            break;
        }
        room += 1;
    }
    room
}

#[test]
fn a_unit_fits_if_nothing_is_refused_where_it_is_afterwards() {
    let broken = Cell::new(0);
    let asked = Cell::new(0);
    let place = (any::<prop::sample::Index>(), 0..MACHINES);
    let drawn = (account(), prop::collection::vec(place, 1..=20));
    let judged = |(mut account, steps): (Account, Vec<(prop::sample::Index, usize)>)| {
        for (class, machine) in steps {
            let class = class.index(account.classes().len());
            let room = room_by_trying(&account, class, machine);
            assert_eq!(account.room(class, machine), room);
            assert_eq!(account.fits(class, machine), room > 0);
            let refusals: Vec<Part> = account.refusals(class, machine).collect();
            broken.set(broken.get() + u32::from(refusals == [Part::PlacedRule]));
            asked.set(asked.get() + 1);
            if room > 0 {
                assert!(account.take(class, machine, None, 0));
                assert!(account.violations().is_empty());
            }
        }
        let before = account.clone();
        let mark = account.mark();
        for machine in 0..MACHINES {
            for class in 0..account.classes().len() {
                let _ = account.fits(class, machine) && account.take(class, machine, None, 0);
            }
        }
        account.rollback(mark);
        for machine in 0..MACHINES {
            for class in 0..account.classes().len() {
                assert_eq!(account.room(class, machine), before.room(class, machine));
            }
        }
        Ok(())
    };
    let result = TestRunner::new(cases(2_000)).run(&drawn, judged);
    result.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(40 * broken.get() > asked.get(), "{broken:?} of {asked:?}");
}
