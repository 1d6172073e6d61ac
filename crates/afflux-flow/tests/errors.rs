//! Every error names the place and the expected value.

mod columns;

use afflux_flow::{FlowError, Problem, Solution, solve};
use columns::Columns;

/// Supplies, then (tail, head, lower, capacity, cost) per arc.
fn answer(supply: &[i64], arcs: &[(i32, i32, i64, i64, i64)]) -> Result<Solution, FlowError> {
    solve(&Columns::new(supply, arcs).problem()?)
}

fn message(supply: &[i64], arcs: &[(i32, i32, i64, i64, i64)]) -> String {
    match answer(supply, arcs) {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn columns_of_different_lengths_are_an_error() {
    let error = Problem::new(&[0, 0], &[0], &[1], &[0], &[1, 2], &[3]).expect_err("a mismatch");
    assert_eq!(
        error.to_string(),
        "capacity has 2 values, but tail has 1: expected one per arc in both"
    );
}

#[test]
fn unknown_nodes_are_an_error() {
    assert_eq!(
        message(&[0, 0], &[(0, 1, 0, 1, 1), (0, 2, 0, 1, 1)]),
        "arc 1: head is 2, expected a node from 0 to 1"
    );
    assert_eq!(
        message(&[0, 0], &[(-1, 1, 0, 1, 1)]),
        "arc 0: tail is -1, expected a node from 0 to 1"
    );
    assert_eq!(
        message(&[], &[(0, 0, 0, 1, 1)]),
        "arc 0: tail is 0, but there are no nodes"
    );
}

#[test]
fn contradicting_bounds_are_an_error() {
    assert_eq!(
        message(&[0, 0], &[(0, 1, 0, -4, 1)]),
        "arc 0: capacity is -4, expected 0 or more"
    );
    assert_eq!(
        message(&[0, 0], &[(0, 1, -3, 4, 1)]),
        "arc 0: lower bound is -3, expected 0 or more"
    );
    assert_eq!(
        message(&[0, 0], &[(0, 1, 5, 4, 1)]),
        "arc 0: lower bound 5 is above its capacity 4"
    );
}

#[test]
fn unbalanced_supplies_are_an_error() {
    assert_eq!(
        message(&[3, -1], &[(0, 1, 0, 4, 1)]),
        "supplies add up to 2, expected 0"
    );
    assert_eq!(
        message(&[i64::MAX, i64::MAX], &[]),
        "supplies add up to 18446744073709551614, expected 0"
    );
}

#[test]
fn costs_that_overflow_are_an_error() {
    let limit = i64::MAX / 16 / 3;
    assert_eq!(
        message(&[0, 0], &[(0, 1, 0, 1, i64::MIN)]),
        format!(
            "arc 0: cost is {}, expected {limit} at most in magnitude for a network of this size",
            i64::MIN
        )
    );
    assert!(answer(&[1, -1], &[(0, 1, 0, 1, limit)]).is_ok());
}

#[test]
fn prices_that_overflow_are_an_error() {
    // A path of arcs, each with the largest allowed cost: their sum overflows.
    let nodes = 40_i32;
    let limit = i64::MAX / 16 / (i64::from(nodes) + 1);
    let arcs: Vec<_> = (1..nodes).map(|v| (v - 1, v, 0, 9, limit)).collect();
    let mut supply = vec![0; nodes as usize];
    (supply[0], supply[39]) = (9, -9);
    let error = answer(&supply, &arcs).expect_err("an overflow");
    assert!(matches!(error, FlowError::PriceOverflow { .. }), "{error}");
    assert!(error.to_string().contains("its price does not fit 64 bits"));
}

#[test]
fn prices_that_overflow_behind_a_hub_are_an_error() {
    // Of the many arcs of the hub only the first are short.
    let (chain, leaves) = (16_i32, 40_i32);
    let nodes = chain + 1 + leaves;
    let limit = i64::MAX / 16 / (i64::from(nodes) + 1);
    let mut arcs: Vec<_> = (0..chain).map(|v| (v, v + 1, 0, 2, limit)).collect();
    for leaf in 0..leaves {
        arcs.push((
            chain,
            chain + 1 + leaf,
            0,
            2,
            if leaf < 4 { 0 } else { limit },
        ));
    }
    // All but the last lead back.
    for leaf in chain + 1..nodes - 1 {
        arcs.extend([(leaf, 0, 0, 2, 0); 2]);
    }
    let mut supply = vec![0; nodes as usize];
    (supply[0], supply[nodes as usize - 1]) = (1, -1);
    let error = answer(&supply, &arcs).expect_err("an overflow");
    assert!(matches!(error, FlowError::PriceOverflow { .. }), "{error}");
}

#[test]
fn infeasibility_is_reported_before_prices_that_overflow_off_the_path() {
    // Far nodes are reached in vain, after some units have been routed.
    let nodes = 14_i32;
    let limit = i64::MAX / 16 / (i64::from(nodes) + 1);
    let mut supply = vec![0; nodes as usize];
    (supply[0], supply[1], supply[2]) = (2, -1, -1);
    let chain: Vec<_> = (3..nodes - 1).map(|v| (v, v + 1, 0, 1, limit)).collect();
    let beside = [(0, 1, 0, 1, 5), (0, 3, 0, 1, limit)];
    let before = [(0, 3, 0, 1, limit), (3, 1, 0, 1, 0), (13, 2, 0, 1, limit)];
    for others in [&beside[..], &before[..]] {
        let error = answer(&supply, &[&chain, others].concat()).expect_err("no flow");
        assert!(matches!(error, FlowError::Infeasible { .. }), "{error}");
    }
}

#[test]
fn capacities_that_overflow_are_an_error() {
    // Negative arcs attract flow up to their capacity.
    let most = i64::MAX;
    let error = answer(&[0, 0], &[(0, 1, 0, most, -1), (1, 0, 0, most, -1)]);
    assert!(matches!(
        error,
        Err(FlowError::CapacityOverflow { node: 0, .. })
    ));
    let lower = message(&[0, 0], &[(0, 1, most, most, 0), (0, 1, most, most, 0)]);
    assert_eq!(
        lower,
        "node 0: supply, lower bounds and capacities around it add up to 18446744073709551614, \
         expected 2305843009213693951 at most"
    );
}

#[test]
fn infeasible_supply_names_its_node() {
    assert_eq!(
        message(&[5, -5], &[(0, 1, 0, 3, 1)]),
        "no feasible flow: 2 units cannot leave node 0, whose outgoing arcs are too small"
    );
    assert_eq!(
        message(&[5, -5], &[]),
        "no feasible flow: 5 units cannot leave node 0, whose outgoing arcs are too small"
    );
}

#[test]
fn infeasible_supply_names_the_size_of_the_cut() {
    let arcs = [(0, 1, 0, 9, 1), (1, 2, 0, 9, 1), (2, 3, 0, 1, 1)];
    assert_eq!(
        message(&[4, 0, 0, -4], &arcs),
        "no feasible flow: 3 units cannot leave the set of node 0 and 2 more, \
         whose outgoing arcs are too small"
    );
}

#[test]
fn infeasible_lower_bounds_name_the_node() {
    // Two units must go from node 0 to node 1, but only one can return.
    let arcs = [(0, 1, 2, 4, 1), (1, 0, 0, 1, 1)];
    assert_eq!(
        message(&[0, 0], &arcs),
        "no feasible flow: 1 unit cannot leave node 1, whose outgoing arcs are too small"
    );
}

#[test]
fn a_large_infeasible_network_is_an_error() {
    // 40 classes on 400 machines, with room for all but a few tasks, so that much is routed before
    // the cut is found.
    let (classes, machines) = (40, 400);
    let sink = classes + machines;
    let mut supply = vec![0; sink as usize + 1];
    let mut arcs = Vec::new();
    for class in 0..classes {
        supply[class as usize] = 101;
        for machine in 0..machines {
            let cost = i64::from(class * 31 + machine * 17) % 2000;
            arcs.push((class, classes + machine, 0, 3, cost));
        }
    }
    for machine in 0..machines {
        arcs.push((classes + machine, sink, 0, 10, 0));
    }
    supply[sink as usize] = -101 * i64::from(classes);
    let error = answer(&supply, &arcs).expect_err("infeasible");
    assert!(
        matches!(error, FlowError::Infeasible { units: 40, .. }),
        "{error}"
    );
}
