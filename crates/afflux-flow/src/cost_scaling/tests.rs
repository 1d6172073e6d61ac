//! Tests of cost scaling in isolation.

use std::ops::Range;

use proptest::prelude::*;

use super::{MAX_STEPS, ScalingResult, WarmSteps, optimise};
use crate::certificate::{cut_surplus, violation};
use crate::deadline::{Deadline, Limits};
use crate::problem::Problem;
use crate::proptest_cases::cases;
use crate::shortest_paths;
use crate::solver_state::SolverState;
use crate::stop_reason::StopReason;
use crate::working_set::WorkingSet;

/// Supplies that add up to zero, and arcs (tail, head, lower, capacity - lower, cost).
type Drawn = (Vec<i64>, Vec<(i32, i32, i64, i64, i64)>);

fn networks() -> impl Strategy<Value = Drawn> {
    prop_oneof![2 => drawn(2..12, false), 1 => drawn(20..60, true)]
}

/// Networks with this many nodes. Around a hub, every other arc end is the hub, and all nodes are
/// connected through it.
fn drawn(sizes: Range<usize>, is_around_a_hub: bool) -> impl Strategy<Value = Drawn> {
    sizes.prop_flat_map(move |nodes| {
        let ids = prop_oneof![1 => 0..nodes as i32, u32::from(is_around_a_hub) => 0..2];
        let supplies = prop::collection::vec(-20_i64..20, nodes);
        let arc = (ids.clone(), ids, 0_i64..3, 0_i64..25, -30_i64..100);
        let arcs = prop::collection::vec(arc, 0..5 * nodes);
        (supplies, arcs).prop_map(move |(mut supply, mut arcs)| {
            let sum: i64 = supply.iter().sum();
            supply[0] -= sum;
            if is_around_a_hub {
                let bounds = (1..nodes as i32).map(|node| (node, i64::from(node)));
                arcs.extend(
                    bounds
                        .clone()
                        .map(|(node, cost)| (node, 0, 0, 500, 60 + cost)),
                );
                arcs.extend(bounds.map(|(node, cost)| (0, node, 0, 500, 120 - cost)));
            }
            (supply, arcs)
        })
    })
}

proptest! {
    #![proptest_config(cases(2000))]

    /// A solve uses cost scaling only for many units; here it routes everything, and must agree
    /// with shortest paths about feasibility.
    #[test]
    fn cost_scaling_and_shortest_paths_agree(
        (supply, arcs) in networks(),
        warm in prop::option::of((1_i64..2000, prop_oneof![Just(1), Just(MAX_STEPS)])),
    ) {
        let tail: Vec<i32> = arcs.iter().map(|arc| arc.0).collect();
        let head: Vec<i32> = arcs.iter().map(|arc| arc.1).collect();
        let lower: Vec<i64> = arcs.iter().map(|arc| arc.2).collect();
        let capacity: Vec<i64> = arcs.iter().map(|arc| arc.2 + arc.3).collect();
        let cost: Vec<i64> = arcs.iter().map(|arc| arc.4).collect();
        let problem = Problem::new(&supply, &tail, &head, &lower, &capacity, &cost).unwrap();
        let mut deadline = Deadline::start(&Limits::default());

        let cold = SolverState::cold(&problem);
        let set = WorkingSet::<i64>::all(&problem, &cold);
        let mut by_paths = set.residual::<i32>(&cold).unwrap();
        by_paths.saturate(0);
        let routed = shortest_paths::route(&mut by_paths, usize::MAX, &mut deadline);
        let mut by_scaling = set.residual::<i32>(&cold).unwrap();
        let mut steps = WarmSteps(warm.map_or(MAX_STEPS, |(_, steps)| steps));
        let warm = warm.map(|(distance, _)| (distance, &mut steps));
        let scaled = optimise(&mut by_scaling, warm, false, &mut deadline);
        match (routed, scaled) {
            (Ok(done), Ok(ScalingResult::Exact(price))) => {
                prop_assert!(done);
                by_scaling.price = price;
                for net in [by_scaling, by_paths] {
                    let mut state = cold.clone();
                    set.write_back(&net, &mut state);
                    prop_assert_eq!(violation(&problem, &state.flow, &state.price), None);
                }
            }
            (Err(StopReason::Cut(one)), Err(StopReason::Cut(other))) => {
                prop_assert!(cut_surplus(&problem, &set.to_problem_nodes(&one)) > 0);
                prop_assert!(cut_surplus(&problem, &set.to_problem_nodes(&other)) > 0);
            }
            (routed, scaled) => prop_assert!(false, "{routed:?} but {scaled:?}"),
        }
    }
}
