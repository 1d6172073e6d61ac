//! Tests: a rough answer on the way.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use crate::limits::{Clock, Limits};
use crate::problem::Problem;
use crate::scaling::{Scaled, optimise};
use crate::state::State;
use crate::working::Working;

const SOURCES: usize = 40;
const MACHINES: usize = 100;
const UNITS: usize = 40;

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
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// In a dense network most arcs are far from their prices long before the end.
    #[test]
    fn a_rough_answer_leads_to_the_same_optimum(seed: u64) {
        let (tail, head, capacity) = dense();
        let lower = vec![0; tail.len()];
        let mixed = |arc: usize| (arc as u64 ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let cost = |arc| if arc < SOURCES * MACHINES { mixed(arc) as i64 % 100_000 } else { 0 };
        let cost: Vec<i64> = (0..tail.len()).map(cost).collect();
        let mut supply = vec![UNITS as i64; SOURCES];
        supply.resize(SOURCES + MACHINES, 0);
        supply.push(-((SOURCES * UNITS) as i64));
        let problem = Problem::new(&supply, &tail, &head, &lower, &capacity, &cost).unwrap();

        let limits = Limits::default();
        let cold = State::cold(&problem);
        let set = Working::<i64>::all(&problem, &cold);
        let scaled = |may_be_rough| {
            let mut net = set.residual::<i32>(&cold).unwrap();
            let scaled = optimise(&mut net, None, may_be_rough, &mut Clock::start(&limits));
            (net, scaled.unwrap())
        };
        let (net, rough) = scaled(true);
        prop_assert!(matches!(rough, Scaled::Roughly(1..)), "{rough:?}");
        prop_assert!(net.excess.iter().all(|&excess| excess == 0));
        let (net, exact) = scaled(false);
        prop_assert!(matches!(exact, Scaled::Exactly(_)));
        let mut state = cold.clone();
        set.write_back(&net, &mut state);
        let least: i64 = state.flow.iter().zip(&cost).map(|(flow, cost)| flow * cost).sum();
        let least = i128::from(least);
        prop_assert_eq!(crate::solve(&problem).unwrap().cost, least);

        // Whenever it is stopped, there is a flow and a bound to show.
        for patience in 0..6 {
            let asked = AtomicUsize::new(0);
            let is_over = || asked.fetch_add(1, Ordering::Relaxed) >= patience;
            let limits = Limits { interrupted: Some(&is_over), ..Limits::default() };
            let found = crate::solve_within(&problem, &limits).unwrap();
            prop_assert!(found.bound <= least && least <= found.cost);
        }
    }
}
