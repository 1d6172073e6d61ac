//! Tests: cost scaling by itself.

use std::ops::Range;

use proptest::prelude::*;

use super::{MOST_STEPS, Scaled, Steps, optimise};
use crate::certificate::{stuck_units, violation};
use crate::limits::{Clock, Limits};
use crate::paths;
use crate::problem::Problem;
use crate::state::State;
use crate::stop::Stop;
use crate::working::Working;

/// Supplies that add up to zero, and arcs (tail, head, lower, capacity - lower, cost).
type Drawn = (Vec<i64>, Vec<(i32, i32, i64, i64, i64)>);

fn networks() -> impl Strategy<Value = Drawn> {
    prop_oneof![2 => drawn(2..12, false), 1 => drawn(20..60, true)]
}

/// Networks with so many nodes. Around a hub, every other end is one, and what is left finds its way.
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
                let ways = (1..nodes as i32).map(|node| (node, i64::from(node)));
                arcs.extend(
                    ways.clone()
                        .map(|(node, cost)| (node, 0, 0, 500, 60 + cost)),
                );
                arcs.extend(ways.map(|(node, cost)| (0, node, 0, 500, 120 - cost)));
            }
            (supply, arcs)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Solve calls scaling only when there is much to do; here it does everything, and has to
    /// agree with shortest paths about whether there is a flow.
    #[test]
    fn scaling_and_shortest_paths_prove_the_same(
        (supply, arcs) in networks(),
        warm in prop::option::of((1_i64..2000, prop_oneof![Just(1), Just(MOST_STEPS)])),
    ) {
        let tail: Vec<i32> = arcs.iter().map(|arc| arc.0).collect();
        let head: Vec<i32> = arcs.iter().map(|arc| arc.1).collect();
        let lower: Vec<i64> = arcs.iter().map(|arc| arc.2).collect();
        let capacity: Vec<i64> = arcs.iter().map(|arc| arc.2 + arc.3).collect();
        let cost: Vec<i64> = arcs.iter().map(|arc| arc.4).collect();
        let problem = Problem::new(&supply, &tail, &head, &lower, &capacity, &cost).unwrap();
        let mut clock = Clock::start(&Limits::default());

        let cold = State::cold(&problem);
        let set = Working::<i64>::all(&problem, &cold);
        let mut by_paths = set.residual::<i32>(&cold).unwrap();
        by_paths.saturate(0);
        let routed = paths::route(&mut by_paths, usize::MAX, &mut clock);
        let mut by_scaling = set.residual::<i32>(&cold).unwrap();
        let mut steps = Steps(warm.map_or(MOST_STEPS, |(_, steps)| steps));
        let warm = warm.map(|(distance, _)| (distance, &mut steps));
        let scaled = optimise(&mut by_scaling, warm, false, &mut clock);
        match (routed, scaled) {
            (Ok(done), Ok(Scaled::Exactly(price))) => {
                prop_assert!(done);
                by_scaling.price = price;
                for net in [by_scaling, by_paths] {
                    let mut state = cold.clone();
                    set.write_back(&net, &mut state);
                    prop_assert_eq!(violation(&problem, &state.flow, &state.price), None);
                }
            }
            (Err(Stop::Cut(one)), Err(Stop::Cut(other))) => {
                prop_assert!(stuck_units(&problem, &set.outside(&one)) > 0);
                prop_assert!(stuck_units(&problem, &set.outside(&other)) > 0);
            }
            (routed, scaled) => prop_assert!(false, "{routed:?} but {scaled:?}"),
        }
    }
}
