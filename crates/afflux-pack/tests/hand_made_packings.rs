//! What the search finds, on packings so small that one sees it at once.

mod packing;

use afflux_pack::{Classes, Demand, DeviceRequest, First, Gang, Limits, Machine, Unit, improve};
use packing::{Problem, cost, placed, run};

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
