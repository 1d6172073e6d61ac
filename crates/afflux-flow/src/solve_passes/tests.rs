//! Tests of approximate answers within a cold solve.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use crate::cost_scaling::{ScalingResult, optimise};
use crate::deadline::{Deadline, Limits};
use crate::problem::Problem;
use crate::proptest_cases::cases;
use crate::solver_state::SolverState;
use crate::working_set::WorkingSet;

const SOURCES: usize = 40;
const MACHINES: usize = 100;
const TASKS_PER_SOURCE: usize = 40;

/// Arcs from each source to each machine, and from there to a sink, with room for a little more
/// than there is: tails, heads, capacities.
fn dense() -> (Vec<i32>, Vec<i32>, Vec<i64>) {
    let sink = SOURCES + MACHINES;
    let pairs = (0..SOURCES * MACHINES).map(|pair| (pair / MACHINES, SOURCES + pair % MACHINES, 9));
    let rest = (SOURCES..sink).map(|machine| (machine, sink, 17));
    let arcs = pairs
        .chain(rest)
        .map(|(tail, head, units)| (tail as i32, head as i32, units));
    let (ends, capacity): (Vec<_>, Vec<_>) = arcs.map(|(t, h, units)| ((t, h), units)).unzip();
    let (tail, head) = ends.into_iter().unzip();
    (tail, head, capacity)
}

proptest! {
    #![proptest_config(cases(40))]

    /// In a dense network, most arcs have a large reduced cost long before the end.
    #[test]
    fn an_approximate_answer_leads_to_the_same_optimum(seed: u64) {
        let (tail, head, capacity) = dense();
        let lower = vec![0; tail.len()];
        let mixed = |arc: usize| (arc as u64 ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let cost = |arc| if arc < SOURCES * MACHINES { mixed(arc) as i64 % 100_000 } else { 0 };
        let cost: Vec<i64> = (0..tail.len()).map(cost).collect();
        let mut supply = vec![TASKS_PER_SOURCE as i64; SOURCES];
        supply.resize(SOURCES + MACHINES, 0);
        supply.push(-((SOURCES * TASKS_PER_SOURCE) as i64));
        let problem = Problem::new(&supply, &tail, &head, &lower, &capacity, &cost).unwrap();

        let limits = Limits::default();
        let cold = SolverState::cold(&problem);
        let set = WorkingSet::<i64>::all(&problem, &cold);
        let scaled = |allow_approximate| {
            let mut net = set.residual::<i32>(&cold).unwrap();
            let scaled = optimise(&mut net, None, allow_approximate, &mut Deadline::start(&limits));
            (net, scaled.unwrap())
        };
        let (net, approximate) = scaled(true);
        prop_assert!(matches!(approximate, ScalingResult::Approximate(1..)), "{approximate:?}");
        prop_assert!(net.excess.iter().all(|&excess| excess == 0));
        let (net, exact) = scaled(false);
        prop_assert!(matches!(exact, ScalingResult::Exact(_)));
        let mut state = cold.clone();
        set.write_back(&net, &mut state);
        let least: i64 = state.flow.iter().zip(&cost).map(|(flow, cost)| flow * cost).sum();
        let least = i128::from(least);
        prop_assert_eq!(crate::solve(&problem).unwrap().cost, least);

        // Whenever the solve is interrupted, it returns a flow and a valid bound.
        for calls_before_interrupt in 0..6 {
            let calls = AtomicUsize::new(0);
            let interrupted = || calls.fetch_add(1, Ordering::Relaxed) >= calls_before_interrupt;
            let limits = Limits { interrupted: Some(&interrupted), ..Limits::default() };
            let found = crate::solve_within(&problem, &limits).unwrap();
            prop_assert!(found.bound <= least && least <= found.cost);
        }
    }
}
