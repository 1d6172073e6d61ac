//! Results of the search on packings that are small enough to verify by hand.

mod packing;

use afflux_pack::{
    Classes, DeviceRequest, Gang, Items, Machine, ScratchStart, SearchLimits, Unit, improve,
};
use packing::{Problem, cost, placed, run};

/// Machines with one resource that admit every class at no cost.
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
        items: Items {
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
fn two_small_tasks_move_to_one_machine_so_that_a_large_task_fits() {
    let mut problem = plain(&[3, 7], &[10, 10]);
    problem.items.singles = vec![vec![5, 5], vec![5]];
    place(&mut problem, 0, 0);
    place(&mut problem, 0, 1);
    problem.machines[0].free[0] -= 1; // used by another task
    assert_eq!(placed(&run(&problem, 0)), [2, 1]);
}

#[test]
fn a_task_of_higher_worth_replaces_one_of_lower_worth() {
    let mut problem = plain(&[4, 9], &[10]);
    problem.items.singles = vec![vec![10], vec![11]];
    place(&mut problem, 0, 0);
    assert_eq!(placed(&run(&problem, 0)), [0, 1]);
}

#[test]
fn fixed_units_may_move_but_stay_placed() {
    let mut problem = plain(&[4, 9], &[10, 4]);
    problem.items.fixed = vec![1, 0];
    problem.items.singles = vec![vec![], vec![1000]];
    place(&mut problem, 0, 0);
    let after = run(&problem, 0);
    assert_eq!(placed(&after), [1, 1]);
    problem.machines[1].free[0] = 3;
    assert_eq!(placed(&run(&problem, 0)), [1, 0]);
}

#[test]
fn a_gang_is_replaced_by_one_of_higher_worth() {
    let mut problem = plain(&[5, 6], &[10, 10]);
    let gang = |class, count, worth, placed| Gang {
        need: vec![(class, count)],
        worth,
        placed,
    };
    problem.items.gangs = vec![gang(0, 4, 10, true), gang(1, 2, 11, false)];
    for machine in [0, 0, 1, 1] {
        place(&mut problem, 0, machine);
    }
    let after = run(&problem, 0);
    assert_eq!(placed(&after), [0, 2]);
    assert!(!after.items.gangs[0].placed);
    assert!(after.items.gangs[1].placed);
}

#[test]
fn a_task_moves_to_the_cheapest_machine() {
    let mut problem = plain(&[1], &[10, 10, 10]);
    problem.items.singles = vec![vec![1]];
    problem.classes.cost = vec![9, 5, 7];
    place(&mut problem, 0, 0);
    assert_eq!(cost(&run(&problem, 0)), 5);
}

#[test]
fn a_positive_slope_spreads_the_load() {
    let mut problem = plain(&[1], &[9, 9, 9]);
    problem.items.singles = vec![vec![1; 6]];
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
fn a_share_must_fit_on_a_single_device() {
    let mut problem = plain(&[0], &[1]);
    problem.classes.devices = vec![Some(DeviceRequest {
        count: 1,
        milli: 600,
    })];
    problem.items.singles = vec![vec![1, 1, 1]];
    problem.machines[0].free_devices = vec![1000, 1000];
    place(&mut problem, 0, 0);
    let after = run(&problem, 0);
    assert_eq!(placed(&after), [2]);
    assert_eq!(after.machines[0].free_devices, [400, 400]);
}

#[test]
fn an_overcommitted_machine_takes_only_tasks_with_request_zero_for_that_resource() {
    let mut problem = plain(&[0, 1], &[-5, 1]);
    problem.items.singles = vec![vec![1; 3], vec![1; 3]];
    place(&mut problem, 0, 0);
    let after = run(&problem, 0);
    assert_eq!(placed(&after), [3, 1]);
    assert!(after.machines[0].units.iter().all(|unit| unit.class == 0));
}

#[test]
fn an_empty_packing_without_waiting_tasks_does_not_change() {
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
    problem.items.singles = vec![vec![1; 4]];
    place(&mut problem, 0, 0);
    for (rounds, effort) in [(0, 1000), (1000, 0)] {
        let mut after = problem.clone();
        let limits = SearchLimits {
            rounds,
            effort,
            seed: 1,
        };
        improve(
            &after.classes,
            &mut after.machines,
            &mut after.items,
            None,
            limits,
        );
        assert_eq!(after.machines[0].units, problem.machines[0].units);
        assert_eq!(placed(&after), [1]);
    }
}

#[test]
fn a_better_packing_from_scratch_is_taken() {
    // The given packing has a 5 on each machine of ten. From scratch: 6 + 4 on both.
    let mut problem = plain(&[6, 4, 5], &[10, 10]);
    problem.items.singles = vec![vec![1, 1], vec![1, 1], vec![1, 1]];
    place(&mut problem, 2, 0);
    place(&mut problem, 2, 1);
    problem.first = Some(ScratchStart {
        singles: vec![2, 2, 0],
        gangs: Vec::new(),
    });
    let limits = SearchLimits {
        rounds: 0,
        effort: 1_000,
        seed: 0,
    };
    improve(
        &problem.classes,
        &mut problem.machines,
        &mut problem.items,
        problem.first.as_ref(),
        limits,
    );
    assert_eq!(placed(&problem), [2, 2, 0]);
    let units: Vec<Vec<Unit>> = problem.machines.iter().map(|m| m.units.clone()).collect();
    assert!(units.iter().all(|here| here.len() == 2));
}
