//! Invariants of the search on random packings, counted independently.

mod packing;
#[path = "../../proptest_cases.rs"]
mod proptest_cases;

use afflux_pack::{Classes, DeviceRequest, Gang, Items, Machine, ScratchStart};
use packing::{Problem, cost, placed, run};
use proptest::prelude::*;
use proptest_cases::cases;

const RESOURCES: usize = 2;

/// The input that the generator draws before anything is placed.
#[derive(Clone, Debug)]
struct Draft {
    requests: Vec<Vec<i64>>,
    devices: Vec<Option<DeviceRequest>>,
    admitted: Vec<bool>,
    cost: Vec<i64>,
    offered: Vec<(Vec<i64>, usize, i64)>,
    fixed: Vec<i64>,
    singles: Vec<Vec<i64>>,
    gangs: Vec<(Vec<i64>, i64)>,
    order: Vec<usize>,
    first: Option<u64>,
}

fn device_request() -> impl Strategy<Value = Option<DeviceRequest>> {
    let some = (1_usize..=2, prop::sample::select(vec![250, 400, 500, 1000]));
    prop_oneof![
        3 => Just(None),
        1 => some.prop_map(|(count, milli)| Some(DeviceRequest { count, milli })),
    ]
}

fn draft() -> impl Strategy<Value = Draft> {
    (1_usize..=4, 1_usize..=6).prop_flat_map(|(classes, machines)| {
        let table = classes * machines;
        let request = prop::collection::vec(0_i64..=6, RESOURCES);
        let offer = (
            prop::collection::vec(-2_i64..=12, RESOURCES),
            0_usize..=3,
            0_i64..=20,
        );
        let gang = (prop::collection::vec(0_i64..=2, classes), 1_i64..=400);
        (
            (
                prop::collection::vec(request, classes),
                prop::collection::vec(device_request(), classes),
                prop::collection::vec(prop::bool::weighted(0.8), table),
                prop::collection::vec(0_i64..=50, table),
                prop::collection::vec(offer, machines),
            ),
            (
                prop::collection::vec(0_i64..=2, classes),
                prop::collection::vec(prop::collection::vec(1_i64..=100, 0..=5), classes),
                prop::collection::vec(gang, 0..=3),
                prop::collection::vec(0_usize..machines, 1..=40),
                prop::option::of(any::<u64>()),
            ),
        )
            .prop_map(
                |(
                    (requests, devices, admitted, cost, offered),
                    (fixed, singles, gangs, order, first),
                )| {
                    Draft {
                        requests,
                        devices,
                        admitted,
                        cost,
                        offered,
                        fixed,
                        singles,
                        gangs,
                        order,
                        first,
                    }
                },
            )
    })
}

/// Places units of a class where they fit, trying machines in the drawn order.
fn put(
    classes: &Classes,
    machines: &mut [Machine],
    order: &[usize],
    class: usize,
    count: i64,
) -> i64 {
    let mut placed = 0;
    for &index in order.iter().cycle().take(order.len() * 3) {
        let allowed = classes.admitted[class * classes.machines + index];
        let (request, devices) = (classes.request(class), classes.devices[class]);
        if placed < count && allowed && machines[index].fits(request, devices) {
            let request = request.to_vec();
            machines[index].place(class, &request, devices);
            placed += 1;
        }
    }
    placed
}

/// A valid packing of a part of the drawn items.
fn start(draft: Draft) -> Problem {
    let count = draft.requests.len();
    let classes = Classes {
        resources: RESOURCES,
        machines: draft.offered.len(),
        requests: draft.requests.concat(),
        devices: draft.devices,
        admitted: draft.admitted,
        cost: draft.cost,
    };
    let mut machines: Vec<Machine> = draft
        .offered
        .into_iter()
        .map(|(free, devices, slope)| Machine {
            free,
            free_devices: vec![1000; devices],
            slope,
            units: Vec::new(),
        })
        .collect();
    let order = &draft.order;
    let fixed: Vec<i64> = (0..count)
        .map(|class| put(&classes, &mut machines, order, class, draft.fixed[class]))
        .collect();
    let mut gangs = Vec::new();
    for (need, worth) in draft.gangs {
        let need: Vec<(usize, i64)> = need
            .into_iter()
            .enumerate()
            .filter(|&(_, count)| count > 0)
            .collect();
        if need.is_empty() {
            continue;
        }
        let before = machines.clone();
        let placed = need
            .iter()
            .all(|&(class, count)| put(&classes, &mut machines, order, class, count) == count);
        if !placed {
            machines = before;
        }
        gangs.push(Gang {
            need,
            worth,
            placed,
        });
    }
    let mut singles = draft.singles;
    for (class, worths) in singles.iter_mut().enumerate() {
        worths.sort_by(|a, b| b.cmp(a));
        let wanted = worths.len() as i64 / 2;
        put(&classes, &mut machines, order, class, wanted);
    }
    let first = draft.first.map(|bits| ScratchStart {
        singles: singles.iter().map(|worths| worths.len() as i64).collect(),
        gangs: (0..gangs.len()).map(|gang| bits >> gang & 1 == 1).collect(),
    });
    Problem {
        classes,
        machines,
        items: Items {
            fixed,
            singles,
            gangs,
        },
        first,
    }
}

fn problem() -> impl Strategy<Value = Problem> {
    draft().prop_map(start)
}

/// The worth of placed single tasks and gangs; none if a class has too few or too many units.
fn worth(problem: &Problem) -> Option<i64> {
    let mut floor = problem.items.fixed.clone();
    let mut worth = 0;
    for gang in problem.items.gangs.iter().filter(|gang| gang.placed) {
        worth += gang.worth;
        for &(class, count) in &gang.need {
            floor[class] += count;
        }
    }
    for (class, &units) in placed(problem).iter().enumerate() {
        let taken = usize::try_from(units - floor[class]).ok()?;
        worth += problem.items.singles[class]
            .get(..taken)?
            .iter()
            .sum::<i64>();
    }
    Some(worth)
}

/// The capacity of a machine without its units.
fn capacity(classes: &Classes, machine: &Machine) -> (Vec<i64>, Vec<i64>) {
    let (mut free, mut devices) = (machine.free.clone(), machine.free_devices.clone());
    for unit in &machine.units {
        for (left, asked) in free.iter_mut().zip(classes.request(unit.class)) {
            *left += asked;
        }
        for &index in &unit.devices {
            devices[index] += classes.devices[unit.class].expect("it takes devices").milli;
        }
    }
    (free, devices)
}

/// Asserts that no capacity is exceeded, that machines admit their units, and that devices differ.
fn assert_fits(problem: &Problem) {
    let classes = &problem.classes;
    for (index, machine) in problem.machines.iter().enumerate() {
        for unit in &machine.units {
            assert!(classes.admitted[unit.class * classes.machines + index]);
            for (left, &asked) in machine.free.iter().zip(classes.request(unit.class)) {
                assert!(asked == 0 || *left >= 0, "machine {index} is over capacity");
            }
            let mut devices = unit.devices.clone();
            devices.sort_unstable();
            devices.dedup();
            let wanted = classes.devices[unit.class].map_or(0, |wanted| wanted.count);
            assert_eq!(devices.len(), wanted);
            assert_eq!(unit.devices.len(), wanted);
        }
        assert!(machine.free_devices.iter().all(|&left| left >= 0));
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn worth_never_falls_cost_never_rises_at_equal_worth_and_everything_fits(before in problem(), seed in any::<u64>()) {
        assert_fits(&before);
        let worth_before = worth(&before).expect("the start is valid");
        let after = run(&before, seed);
        assert_fits(&after);
        for (old, new) in before.machines.iter().zip(&after.machines) {
            prop_assert_eq!(capacity(&before.classes, old), capacity(&before.classes, new));
        }
        // `worth` is none if a floor is violated or a gang is incomplete.
        let worth_after = worth(&after).expect("every class between its floor and its ceiling");
        prop_assert!(worth_after >= worth_before);
        if worth_after == worth_before {
            prop_assert!(cost(&after) <= cost(&before));
        }
        prop_assert_eq!(&before.items.fixed, &after.items.fixed);
        prop_assert_eq!(&before.items.singles, &after.items.singles);
        for (old, new) in before.items.gangs.iter().zip(&after.items.gangs) {
            prop_assert_eq!((&old.need, old.worth), (&new.need, new.worth));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_answer(before in problem(), seed in any::<u64>()) {
        let (one, other) = (run(&before, seed), run(&before, seed));
        for (left, right) in one.machines.iter().zip(&other.machines) {
            prop_assert_eq!(&left.units, &right.units);
            prop_assert_eq!(&left.free, &right.free);
        }
        let placed = |problem: &Problem| -> Vec<bool> {
            problem.items.gangs.iter().map(|gang| gang.placed).collect()
        };
        prop_assert_eq!(placed(&one), placed(&other));
    }
}
