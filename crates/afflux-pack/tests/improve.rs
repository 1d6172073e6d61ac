//! What the search promises, on random packings: everything counted again from the outside.

use afflux_pack::{Classes, Demand, DeviceRequest, First, Gang, Limits, Machine, Unit, improve};
use proptest::prelude::*;

const RESOURCES: usize = 2;

#[derive(Clone, Debug)]
struct Problem {
    classes: Classes,
    machines: Vec<Machine>,
    demand: Demand,
    first: Option<First>,
}

/// What the generator draws before anything is placed.
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

/// Put units of a class where they fit, looking at machines in the drawn order.
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

/// A valid packing of a part of what was drawn.
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
    let first = draft.first.map(|bits| First {
        singles: singles.iter().map(|worths| worths.len() as i64).collect(),
        gangs: (0..gangs.len()).map(|gang| bits >> gang & 1 == 1).collect(),
    });
    Problem {
        classes,
        machines,
        demand: Demand {
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

fn placed(problem: &Problem) -> Vec<i64> {
    let mut placed = vec![0; problem.classes.len()];
    for unit in problem.machines.iter().flat_map(|machine| &machine.units) {
        placed[unit.class] += 1;
    }
    placed
}

/// Units that have to be there, and what the rest is worth; None if the numbers are wrong.
fn worth(problem: &Problem) -> Option<i64> {
    let mut floor = problem.demand.fixed.clone();
    let mut worth = 0;
    for gang in problem.demand.gangs.iter().filter(|gang| gang.placed) {
        worth += gang.worth;
        for &(class, count) in &gang.need {
            floor[class] += count;
        }
    }
    for (class, &units) in placed(problem).iter().enumerate() {
        let taken = usize::try_from(units - floor[class]).ok()?;
        worth += problem.demand.singles[class]
            .get(..taken)?
            .iter()
            .sum::<i64>();
    }
    Some(worth)
}

fn cost(problem: &Problem) -> i64 {
    let mut total = 0;
    for (index, machine) in problem.machines.iter().enumerate() {
        for (position, unit) in machine.units.iter().enumerate() {
            total += problem.classes.cost[unit.class * problem.classes.machines + index];
            total += position as i64 * machine.slope;
        }
    }
    total
}

/// What a machine offers without any units.
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

/// Nothing over capacity, every unit where it may be and on as many different devices as it needs.
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

fn run(problem: &Problem, seed: u64) -> Problem {
    let mut after = problem.clone();
    let limits = Limits {
        rounds: 150,
        effort: 1_000_000,
        seed,
    };
    improve(
        &after.classes,
        &mut after.machines,
        &mut after.demand,
        problem.first.as_ref(),
        limits,
    );
    after
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn never_worth_less_never_dearer_never_over_capacity(before in problem(), seed in any::<u64>()) {
        assert_fits(&before);
        let worth_before = worth(&before).expect("the start is valid");
        let after = run(&before, seed);
        assert_fits(&after);
        for (old, new) in before.machines.iter().zip(&after.machines) {
            prop_assert_eq!(capacity(&before.classes, old), capacity(&before.classes, new));
        }
        // Floors are kept and gangs are whole, or there would be no worth.
        let worth_after = worth(&after).expect("every class between its floor and its ceiling");
        prop_assert!(worth_after >= worth_before);
        if worth_after == worth_before {
            prop_assert!(cost(&after) <= cost(&before));
        }
        prop_assert_eq!(&before.demand.fixed, &after.demand.fixed);
        prop_assert_eq!(&before.demand.singles, &after.demand.singles);
        for (old, new) in before.demand.gangs.iter().zip(&after.demand.gangs) {
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
        let opened = |problem: &Problem| -> Vec<bool> {
            problem.demand.gangs.iter().map(|gang| gang.placed).collect()
        };
        prop_assert_eq!(opened(&one), opened(&other));
    }
}

/// Machines of one resource; everybody may go everywhere at no cost.
fn plain(sizes: &[i64], offered: &[i64]) -> Problem {
    let machines: Vec<Machine> = offered
        .iter()
        .map(|&free| Machine {
            free: vec![free],
            free_devices: Vec::new(),
            slope: 0,
            units: Vec::new(),
        })
        .collect();
    Problem {
        classes: Classes {
            resources: 1,
            machines: offered.len(),
            requests: sizes.to_vec(),
            devices: vec![None; sizes.len()],
            admitted: vec![true; sizes.len() * offered.len()],
            cost: vec![0; sizes.len() * offered.len()],
        },
        machines,
        demand: Demand {
            fixed: vec![0; sizes.len()],
            singles: vec![Vec::new(); sizes.len()],
            gangs: Vec::new(),
        },
        first: None,
    }
}

fn place(problem: &mut Problem, class: usize, machine: usize) {
    let request = problem.classes.request(class).to_vec();
    problem.machines[machine].place(class, &request, problem.classes.devices[class]);
}

#[test]
fn two_small_ones_move_together_so_that_a_large_one_fits() {
    let mut problem = plain(&[3, 7], &[10, 10]);
    problem.demand.singles = vec![vec![5, 5], vec![5]];
    place(&mut problem, 0, 0);
    place(&mut problem, 0, 1);
    problem.machines[0].free[0] -= 1; // somebody else is there
    assert_eq!(placed(&run(&problem, 0)), [2, 1]);
}

#[test]
fn one_worth_more_takes_the_place_of_one_worth_less() {
    let mut problem = plain(&[4, 9], &[10]);
    problem.demand.singles = vec![vec![10], vec![11]];
    place(&mut problem, 0, 0);
    assert_eq!(placed(&run(&problem, 0)), [0, 1]);
}

#[test]
fn what_is_fixed_may_move_but_never_leaves() {
    let mut problem = plain(&[4, 9], &[10, 4]);
    problem.demand.fixed = vec![1, 0];
    problem.demand.singles = vec![vec![], vec![1000]];
    place(&mut problem, 0, 0);
    let after = run(&problem, 0);
    assert_eq!(placed(&after), [1, 1]);
    problem.machines[1].free[0] = 3;
    assert_eq!(placed(&run(&problem, 0)), [1, 0]);
}

#[test]
fn a_gang_gives_way_to_one_that_is_worth_more_as_a_whole() {
    let mut problem = plain(&[5, 6], &[10, 10]);
    let gang = |class, count, worth, placed| Gang {
        need: vec![(class, count)],
        worth,
        placed,
    };
    problem.demand.gangs = vec![gang(0, 4, 10, true), gang(1, 2, 11, false)];
    for machine in [0, 0, 1, 1] {
        place(&mut problem, 0, machine);
    }
    let after = run(&problem, 0);
    assert_eq!(placed(&after), [0, 2]);
    assert!(!after.demand.gangs[0].placed);
    assert!(after.demand.gangs[1].placed);
}

#[test]
fn the_cheaper_machine_is_found() {
    let mut problem = plain(&[1], &[10, 10, 10]);
    problem.demand.singles = vec![vec![1]];
    problem.classes.cost = vec![9, 5, 7];
    place(&mut problem, 0, 0);
    assert_eq!(cost(&run(&problem, 0)), 5);
}

#[test]
fn rising_slots_spread_the_load() {
    let mut problem = plain(&[1], &[9, 9, 9]);
    problem.demand.singles = vec![vec![1; 6]];
    for _ in 0..6 {
        place(&mut problem, 0, 0);
    }
    for machine in &mut problem.machines {
        machine.slope = 10;
    }
    let after = run(&problem, 0);
    let counts: Vec<usize> = after.machines.iter().map(|m| m.units.len()).collect();
    assert_eq!(counts, [2, 2, 2]);
}

#[test]
fn shares_of_different_devices_do_not_add_up() {
    let mut problem = plain(&[0], &[1]);
    problem.classes.devices = vec![Some(DeviceRequest {
        count: 1,
        milli: 600,
    })];
    problem.demand.singles = vec![vec![1, 1, 1]];
    problem.machines[0].free_devices = vec![1000, 1000];
    place(&mut problem, 0, 0);
    let after = run(&problem, 0);
    assert_eq!(placed(&after), [2]);
    assert_eq!(after.machines[0].free_devices, [400, 400]);
}

#[test]
fn an_overcommitted_machine_takes_only_who_does_not_ask_for_what_it_lacks() {
    let mut problem = plain(&[0, 1], &[-5, 1]);
    problem.demand.singles = vec![vec![1; 3], vec![1; 3]];
    place(&mut problem, 0, 0);
    let after = run(&problem, 0);
    assert_eq!(placed(&after), [3, 1]);
    assert!(after.machines[0].units.iter().all(|unit| unit.class == 0));
}

#[test]
fn nothing_placed_and_nothing_waiting_stay_as_they_are() {
    let mut problem = plain(&[1], &[1, 1]);
    assert_eq!(placed(&run(&problem, 0)), [0]);
    problem.classes.machines = 0;
    problem.classes.admitted.clear();
    problem.classes.cost.clear();
    problem.machines.clear();
    assert_eq!(placed(&run(&problem, 0)), [0]);
}

#[test]
fn without_rounds_or_effort_nothing_changes() {
    let mut problem = plain(&[1], &[10, 10]);
    problem.demand.singles = vec![vec![1; 4]];
    place(&mut problem, 0, 0);
    for (rounds, effort) in [(0, 1000), (1000, 0)] {
        let mut after = problem.clone();
        let limits = Limits {
            rounds,
            effort,
            seed: 1,
        };
        improve(
            &after.classes,
            &mut after.machines,
            &mut after.demand,
            None,
            limits,
        );
        assert_eq!(after.machines[0].units, problem.machines[0].units);
        assert_eq!(placed(&after), [1]);
    }
}

#[test]
fn a_packing_from_scratch_is_taken_where_it_is_better() {
    // First come: 6, 6 alone on machines of ten. From scratch: 6 + 4 on both.
    let mut problem = plain(&[6, 4, 5], &[10, 10]);
    problem.demand.singles = vec![vec![1, 1], vec![1, 1], vec![1, 1]];
    place(&mut problem, 2, 0);
    place(&mut problem, 2, 1);
    problem.first = Some(First {
        singles: vec![2, 2, 0],
        gangs: Vec::new(),
    });
    let limits = Limits {
        rounds: 0,
        effort: 1_000,
        seed: 0,
    };
    improve(
        &problem.classes,
        &mut problem.machines,
        &mut problem.demand,
        problem.first.as_ref(),
        limits,
    );
    assert_eq!(placed(&problem), [2, 2, 0]);
    let units: Vec<Vec<Unit>> = problem.machines.iter().map(|m| m.units.clone()).collect();
    assert!(units.iter().all(|here| here.len() == 2));
}
