//! A solve returns the minimum cost with a proof, or an infeasibility error.

mod columns;
#[path = "../../proptest_cases.rs"]
mod proptest_cases;
mod reference;

use std::sync::atomic::{AtomicUsize, Ordering};

use afflux_flow::{FlowError, Limits, solve, solve_within, violation};
use columns::Columns;
use proptest::prelude::*;
use proptest_cases::cases;
use reference::least_cost;

/// Networks with all allowed features: loops, parallel arcs, zero capacities, ties, negative
/// cycles, lower bounds, disconnected parts.
fn networks(
    nodes: usize,
    arcs: usize,
    max_units: i64,
    max_cost: i64,
) -> impl Strategy<Value = Columns> {
    (1..nodes).prop_flat_map(move |nodes| {
        let ids = 0..nodes as i32;
        let lower = prop_oneof![3 => Just(0), 1 => 0..=max_units / 8];
        let arc = (
            ids.clone(),
            ids,
            lower,
            0..=max_units,
            -max_cost / 4..=max_cost,
        )
            .prop_map(|(tail, head, lower, width, cost)| (tail, head, lower, lower + width, cost));
        let supplies = prop::collection::vec(-max_units / 9..=max_units / 9, nodes);
        (supplies, prop::collection::vec(arc, 0..arcs)).prop_map(|(mut supply, arcs)| {
            let sum: i64 = supply.iter().sum();
            supply[0] -= sum;
            Columns::new(&supply, &arcs)
        })
    })
}

fn check(columns: &Columns) -> Result<(), TestCaseError> {
    let problem = columns.problem().unwrap();
    match (solve(&problem), least_cost(&problem)) {
        (Ok(answer), Some(cost)) => {
            prop_assert_eq!(answer.cost, cost);
            let wrong = violation(&problem, &answer.flow, &answer.price);
            prop_assert_eq!(wrong, None);
        }
        (Err(FlowError::Infeasible { units, .. }), None) => prop_assert!(units > 0),
        (answer, cost) => prop_assert!(false, "{answer:?}, expected cost {cost:?}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn small_networks_are_solved_optimally(columns in networks(6, 16, 12, 8)) {
        check(&columns)?;
    }

    #[test]
    fn networks_with_many_ties_are_solved_optimally(columns in networks(14, 60, 40, 1)) {
        check(&columns)?;
    }

    /// For any numbers: a proven answer or an error, never a panic.
    #[test]
    fn huge_numbers_are_solved_or_an_error(
        columns in networks(6, 12, i64::MAX / 16, i64::MAX / 128),
        shifts in prop::collection::vec((0_u32..62, 0_u32..62), 12),
    ) {
        let mut columns = columns;
        for (arc, (capacity, cost)) in shifts.into_iter().enumerate().take(columns.tail.len()) {
            columns.capacity[arc] = (columns.capacity[arc] >> capacity).max(columns.lower[arc]);
            columns.cost[arc] >>= cost;
        }
        let problem = columns.problem().unwrap();
        match solve(&problem) {
            Ok(answer) => {
                prop_assert_eq!(violation(&problem, &answer.flow, &answer.price), None);
            }
            Err(FlowError::Internal { detail }) => prop_assert!(false, "{}", detail),
            Err(_) => {}
        }
    }

    #[test]
    fn larger_networks_are_solved_optimally(columns in networks(25, 150, 100, 1_000_000)) {
        check(&columns)?;
    }
}

#[test]
fn the_empty_network_has_an_empty_flow() {
    let answer = solve(&Columns::default().problem().unwrap()).unwrap();
    assert_eq!(
        (answer.cost, answer.flow, answer.price),
        (0, vec![], vec![])
    );
}

#[test]
fn nodes_without_supply_and_arcs_have_a_flow() {
    let answer = solve(&Columns::new(&[0, 0], &[]).problem().unwrap()).unwrap();
    assert_eq!(answer.price, [0, 0]);
}

#[test]
fn loops_carry_the_bound_that_their_cost_prefers() {
    let arcs = [(0, 0, 1, 5, -2), (0, 0, 1, 5, 2), (0, 0, 1, 5, 0)];
    let answer = solve(&Columns::new(&[0], &arcs).problem().unwrap()).unwrap();
    assert_eq!(answer.flow, [5, 1, 1]);
    assert_eq!(answer.cost, -8);
}

#[test]
fn negative_cycles_are_filled() {
    let arcs = [(0, 1, 0, 7, -5), (1, 0, 0, 4, 3)];
    let answer = solve(&Columns::new(&[0, 0], &arcs).problem().unwrap()).unwrap();
    assert_eq!((answer.cost, answer.flow), (-8, vec![4, 4]));
}

#[test]
fn capacities_may_be_i64_max() {
    let arcs = [(0, 1, 1), (0, 1, 2), (1, 2, 0), (2, 1, 0)]
        .map(|(tail, head, cost)| (tail, head, 0, i64::MAX, cost));
    let answer = solve(&Columns::new(&[9, 0, -9], &arcs).problem().unwrap()).unwrap();
    assert_eq!(answer.cost, 9);
}

#[test]
fn the_total_cost_may_exceed_64_bits() {
    let arcs = [(0, 1, 0, 1 << 58, 1 << 50)];
    let columns = Columns::new(&[1 << 58, -(1 << 58)], &arcs);
    assert_eq!(solve(&columns.problem().unwrap()).unwrap().cost, 1 << 108);
}

#[test]
fn the_same_input_gives_the_same_answer() {
    let arcs: Vec<_> = (0..200)
        .map(|i| {
            (
                i % 7,
                (i * 3 + 1) % 8,
                0,
                i64::from(i % 5),
                i64::from(i % 3),
            )
        })
        .collect();
    let columns = Columns::new(&[5, 5, 0, 0, 0, 0, 0, -10], &arcs);
    assert_eq!(
        solve(&columns.problem().unwrap()),
        solve(&columns.problem().unwrap())
    );
}

/// Arcs with small capacities next to arcs with capacities in the billions: flow on a cycle must
/// not be moved a few units at a time.
#[test]
fn solve_time_does_not_depend_on_capacities() {
    let arcs = [
        (6, 2, 0, 0, 75),
        (5, 6, 1073741823, 2147483646, -2147483647),
        (2, 8, 0, 2147483647, 66),
        (5, 9, 0, 2147483647, -2147483647),
        (2, 2, 0, 2147483647, 28),
        (4, 5, 2, 2, 70),
        (10, 10, 0, 4, -2147483647),
        (7, 10, 0, 4, -2147483647),
        (9, 10, 1073741822, 2147483645, 77),
        (0, 7, 0, 2147483647, 96),
        (2, 6, 0, 2147483646, 61),
        (10, 4, 0, 4, 2147483647),
        (2, 3, 0, 2147483645, 79),
        (4, 8, 0, 2, -2147483648),
        (5, 1, 0, 2, -2147483648),
        (8, 2, 0, 2147483647, 2147483646),
        (10, 4, 0, 4, 2147483647),
        (0, 4, 0, 2147483645, 12),
        (0, 1, 0, 2147483646, -2147483648),
        (10, 8, 1073741823, 2147483646, 33),
        (10, 7, 1, 3, 2147483646),
        (10, 1, 0, 3, -2147483647),
        (9, 8, 1073741822, 2147483645, 2147483647),
        (1, 2, 0, 1, 2147483646),
        (2, 6, 0, 4, -2147483648),
        (7, 6, 0, 1, 3),
        (3, 4, 1073741823, 2147483646, 43),
        (9, 1, 0, 4, 70),
        (0, 8, 0, 2147483646, -2147483647),
        (10, 6, 0, 2147483645, -2147483647),
        (7, 3, 0, 2147483646, -2147483647),
        (2, 3, 0, 2147483647, 45),
        (3, 8, 0, 2147483646, 36),
        (2, 10, 1073741823, 2147483646, 2147483647),
        (9, 5, 1073741823, 2147483646, -2147483647),
        (10, 1, 1073741822, 2147483645, 6),
        (2, 8, 2, 4, -5),
        (0, 2, 0, 0, 6),
        (4, 7, 0, 0, -2147483647),
    ];
    let supply = [
        1266038549,
        -1429203557,
        4177743810,
        -1714713751,
        -1105205741,
        1449171445,
        -4962716047,
        1585720218,
        -2557647612,
        3963326331,
        -672513645,
    ];
    let columns = Columns::new(&supply, &arcs);
    let calls = AtomicUsize::new(0);
    let count_call = || {
        calls.fetch_add(1, Ordering::Relaxed);
        false
    };
    let limits = Limits {
        interrupted: Some(&count_call),
        ..Limits::default()
    };
    let found = solve_within(&columns.problem().unwrap(), &limits).unwrap();
    assert_eq!(found.cost, -14_615_458_445_897_155_874);
    assert_eq!(
        violation(&columns.problem().unwrap(), &found.flow, &found.price),
        None
    );
    // The callback is called once per 65,536 scanned arcs.
    assert!(calls.into_inner() < 10);
}
