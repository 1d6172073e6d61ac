//! Results of the search on packings that are small enough to verify by hand.

mod cluster;
mod packing;

use afflux_account::DeviceRequest;
use afflux_pack::{Gang, Items, ScratchStart, SearchLimits, improve, place_gang};
use cluster::Cluster;
use packing::{Problem, cost, placed, run};

/// Machines with one resource that admit every class at no cost.
fn plain(sizes: &[i64], offered: &[i64]) -> Problem {
    start(Cluster {
        requests: sizes.iter().map(|&size| vec![size]).collect(),
        devices: vec![None; sizes.len()],
        admitted: vec![vec![true; offered.len()]; sizes.len()],
        cost: vec![vec![0; offered.len()]; sizes.len()],
        free: offered.iter().map(|&free| vec![free]).collect(),
        free_devices: vec![Vec::new(); offered.len()],
        slope: vec![0; offered.len()],
    })
}

/// Nothing is placed, and there are no items.
fn start(cluster: Cluster) -> Problem {
    let classes = cluster.requests.len();
    Problem {
        packing: cluster.packing(1),
        cluster,
        items: Items {
            fixed: vec![0; classes],
            singles: vec![Vec::new(); classes],
            gangs: Vec::new(),
        },
        first: None,
    }
}

fn place(problem: &mut Problem, class: usize, machine: usize) {
    assert_eq!(problem.packing.place(class, machine, 1), 1);
}

#[test]
fn two_small_tasks_move_to_one_machine_so_that_a_large_task_fits() {
    let mut problem = plain(&[3, 7], &[9, 10]);
    problem.items.singles = vec![vec![5, 5], vec![5]];
    place(&mut problem, 0, 0);
    place(&mut problem, 0, 1);
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
    for (offered, expected) in [([10, 4], [1, 1]), ([10, 3], [1, 0])] {
        let mut problem = plain(&[4, 9], &offered);
        problem.items.fixed = vec![1, 0];
        problem.items.singles = vec![vec![], vec![1000]];
        place(&mut problem, 0, 0);
        assert_eq!(placed(&run(&problem, 0)), expected);
    }
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
    let mut cluster = plain(&[1], &[10, 10, 10]).cluster;
    cluster.cost = vec![vec![9, 5, 7]];
    let mut problem = start(cluster);
    problem.items.singles = vec![vec![1]];
    place(&mut problem, 0, 0);
    assert_eq!(cost(&run(&problem, 0)), 5);
}

#[test]
fn a_positive_slope_spreads_the_load() {
    let mut cluster = plain(&[1], &[9, 9, 9]).cluster;
    cluster.slope = vec![10; 3];
    let mut problem = start(cluster);
    problem.items.singles = vec![vec![1; 6]];
    for _ in 0..6 {
        place(&mut problem, 0, 0);
    }
    let account = run(&problem, 0).packing.account().clone();
    assert_eq!(
        [0, 1, 2].map(|machine| account.units(machine).len()),
        [2; 3]
    );
}

#[test]
fn a_share_must_fit_on_a_single_device() {
    let mut cluster = plain(&[0], &[1]).cluster;
    cluster.devices = vec![Some(DeviceRequest {
        count: 1,
        milli: 600,
    })];
    cluster.free_devices = vec![vec![1000, 1000]];
    let mut problem = start(cluster);
    problem.items.singles = vec![vec![1, 1, 1]];
    place(&mut problem, 0, 0);
    let after = run(&problem, 0);
    assert_eq!(placed(&after), [2]);
    assert_eq!(after.packing.account().devices().of(0), [400, 400]);
}

#[test]
fn an_overcommitted_machine_takes_only_tasks_with_request_zero_for_that_resource() {
    let mut problem = plain(&[0, 1], &[-5, 1]);
    problem.items.singles = vec![vec![1; 3], vec![1; 3]];
    place(&mut problem, 0, 0);
    let after = run(&problem, 0);
    assert_eq!(placed(&after), [3, 1]);
    let units = after.packing.account().units(0);
    assert!(units.iter().all(|unit| unit.class == 0));
}

#[test]
fn an_empty_packing_without_waiting_tasks_does_not_change() {
    assert_eq!(placed(&run(&plain(&[1], &[1, 1]), 0)), [0]);
    assert_eq!(placed(&run(&plain(&[1], &[]), 0)), [0]);
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
        improve(&mut after.packing, &mut after.items, None, limits);
        let units = after.packing.account().units(0);
        assert_eq!(units, problem.packing.account().units(0));
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
        &mut problem.packing,
        &mut problem.items,
        problem.first.as_ref(),
        limits,
    );
    assert_eq!(placed(&problem), [2, 2, 0]);
    let account = problem.packing.account();
    assert!((0..2).all(|machine| account.units(machine).len() == 2));
}

#[test]
fn clearing_a_machine_returns_everything_and_can_be_undone() {
    let mut cluster = plain(&[3, 1], &[9]).cluster;
    cluster.devices[0] = Some(DeviceRequest {
        count: 1,
        milli: 500,
    });
    cluster.free_devices = vec![vec![1000, 600, 200]];
    cluster.cost = vec![vec![7], vec![5]];
    cluster.slope = vec![10];
    let mut problem = start(cluster);
    place(&mut problem, 0, 0);
    place(&mut problem, 1, 0);
    assert_eq!(problem.packing.cost(), 7 + 5 + 10);
    let before = problem.packing.clone();
    let mark = problem.packing.account().mark();
    assert_eq!(problem.packing.clear(0), [0, 1]);
    let account = problem.packing.account();
    assert_eq!(account.resources().of(0), [9]);
    assert_eq!(account.devices().of(0), [1000, 600, 200]);
    assert_eq!(problem.packing.cost(), 0);
    problem.packing.account_mut().rollback(mark);
    let account = problem.packing.account();
    assert_eq!(account.units(0), before.account().units(0));
    assert_eq!(account.devices().of(0), [1000, 100, 200]);
    problem.cluster.assert_exact(&problem.packing);
}

#[test]
fn a_gang_that_fills_the_machines_is_placed_whole_and_a_larger_one_not_at_all() {
    let mut problem = plain(&[3, 2], &[7, 7]);
    let empty = problem.clone();
    assert!(place_gang(&mut problem.packing, &[(0, 2), (1, 4)]));
    assert_eq!(placed(&problem), [2, 4]);
    problem.cluster.assert_exact(&problem.packing);
    let mut problem = empty;
    assert!(!place_gang(&mut problem.packing, &[(0, 3), (1, 3)]));
    assert_eq!(placed(&problem), [0, 0]);
    problem.cluster.assert_exact(&problem.packing);
}
