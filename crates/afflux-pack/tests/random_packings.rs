//! Invariants of the search on random packings, counted independently.

mod cluster;
mod packing;
#[path = "../../proptest_cases.rs"]
mod proptest_cases;

use afflux_account::{DeviceRequest, Unit};
use afflux_pack::{Gang, Items, Packing, ScratchStart};
use cluster::Cluster;
use packing::{Problem, cost, placed, run};
use proptest::prelude::*;
use proptest_cases::cases;

const RESOURCES: usize = 2;

/// The input that the generator draws before anything is placed.
#[derive(Clone, Debug)]
struct Draft {
    requests: Vec<Vec<i64>>,
    devices: Vec<Option<DeviceRequest>>,
    admitted: Vec<Vec<bool>>,
    cost: Vec<Vec<i64>>,
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
        let request = prop::collection::vec(0_i64..=6, RESOURCES);
        let admitted = prop::collection::vec(prop::bool::weighted(0.8), machines);
        let cost = prop::collection::vec(0_i64..=50, machines);
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
                prop::collection::vec(admitted, classes),
                prop::collection::vec(cost, classes),
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
fn put(packing: &mut Packing, order: &[usize], class: usize, count: i64) -> i64 {
    let mut placed = 0;
    for &machine in order.iter().cycle().take(order.len() * 3) {
        if placed < count {
            placed += packing.place(class, machine, 1);
        }
    }
    placed
}

/// A valid packing of a part of the drawn items.
fn start(draft: Draft) -> Problem {
    let count = draft.requests.len();
    let mut cluster = Cluster {
        requests: draft.requests,
        devices: draft.devices,
        admitted: draft.admitted,
        cost: draft.cost,
        free: Vec::new(),
        free_devices: Vec::new(),
        slope: Vec::new(),
    };
    for (free, devices, slope) in draft.offered {
        cluster.free.push(free);
        cluster.free_devices.push(vec![1000; devices]);
        cluster.slope.push(slope);
    }
    let mut packing = cluster.packing(RESOURCES);
    let order = &draft.order;
    let fixed: Vec<i64> = (0..count)
        .map(|class| put(&mut packing, order, class, draft.fixed[class]))
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
        let before = packing.clone();
        let placed = need
            .iter()
            .all(|&(class, count)| put(&mut packing, order, class, count) == count);
        if !placed {
            packing = before;
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
        put(&mut packing, order, class, wanted);
    }
    let first = draft.first.map(|bits| ScratchStart {
        singles: singles.iter().map(|worths| worths.len() as i64).collect(),
        gangs: (0..gangs.len()).map(|gang| bits >> gang & 1 == 1).collect(),
    });
    packing.account_mut().commit();
    Problem {
        cluster,
        packing,
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

fn units(packing: &Packing) -> Vec<Vec<Unit>> {
    let account = packing.account();
    (0..account.machines())
        .map(|machine| account.units(machine).to_vec())
        .collect()
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn worth_never_falls_cost_never_rises_at_equal_worth_and_everything_fits(before in problem(), seed in any::<u64>()) {
        before.cluster.assert_exact(&before.packing);
        let worth_before = worth(&before).expect("the start is valid");
        let after = run(&before, seed);
        after.cluster.assert_exact(&after.packing);
        prop_assert_eq!(cost(&after), after.packing.cost());
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
        prop_assert_eq!(units(&one.packing), units(&other.packing));
        let free = |problem: &Problem| problem.packing.account().resources().all().to_vec();
        prop_assert_eq!(free(&one), free(&other));
        let placed = |problem: &Problem| -> Vec<bool> {
            problem.items.gangs.iter().map(|gang| gang.placed).collect()
        };
        prop_assert_eq!(placed(&one), placed(&other));
    }
}
