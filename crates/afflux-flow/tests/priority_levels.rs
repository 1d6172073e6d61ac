//! Priority levels get the flows of separate solves, one after the other.

mod columns;
#[path = "../../proptest_cases.rs"]
mod proptest_cases;
mod reference;
mod scheduler_network;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use afflux_flow::{ArcId, FlowError, LevelsAnswer, Limits, Network};
use proptest::prelude::*;
use proptest_cases::cases;
use reference::cheapest_flow;
use scheduler_network::{SchedulerNetwork, terms};

/// A network and its levels.
#[derive(Debug, Clone)]
struct Case {
    model: SchedulerNetwork,
    levels: Vec<Vec<ArcId>>,
}

impl Case {
    /// The network of one level: higher levels keep their guaranteed flow, lower levels are closed.
    fn model_of_level(&self, level: usize, kept: &[Vec<i64>]) -> SchedulerNetwork {
        let mut model = self.model.clone();
        for (number, arcs) in self.levels.iter().enumerate() {
            for (position, &arc) in arcs.iter().enumerate() {
                let terms = &mut model.arcs[arc as usize].2;
                if number < level {
                    terms.lower = kept[number][position];
                } else if number > level {
                    terms.capacity = terms.lower;
                }
            }
        }
        model
    }

    /// The last cost and the guaranteed flows when levels are solved separately, one after the
    /// other.
    fn solve_one_by_one(&self) -> Option<(i128, Vec<Vec<i64>>)> {
        let (mut cost, mut kept) = (0, Vec::new());
        for (level, arcs) in self.levels.iter().enumerate() {
            let (least, flow) = self
                .model_of_level(level, &kept)
                .with_problem(cheapest_flow)?;
            cost = least;
            kept.push(arcs.iter().map(|&arc| flow[arc as usize]).collect());
        }
        Some((cost, kept))
    }

    /// Checks all claims of an answer that hold for any choice among optimal flows.
    fn check(&self, network: &Network, answer: &LevelsAnswer) -> Result<(), TestCaseError> {
        prop_assert!(answer.is_optimal());
        prop_assert_eq!(answer.guaranteed.len(), self.levels.len());
        for level in 0..self.levels.len() {
            let mut model = self.model_of_level(level, &answer.guaranteed);
            let least = model.least_cost();
            // The guaranteed flow of a level is that of an optimal flow.
            for (&arc, &units) in self.levels[level].iter().zip(&answer.guaranteed[level]) {
                let terms = &mut model.arcs[arc as usize].2;
                (terms.lower, terms.capacity) = (units, units);
            }
            prop_assert_eq!(least, model.least_cost());
            if level + 1 == self.levels.len() {
                prop_assert_eq!(Some(answer.cost), least);
            }
        }
        self.check_flow(network, answer)
    }

    /// Checks that the flow belongs to the answer, is within the caller's bounds and preserves all
    /// guarantees.
    fn check_flow(&self, network: &Network, answer: &LevelsAnswer) -> Result<(), TestCaseError> {
        prop_assert!(self.model.has_same_terms(network));
        prop_assert_eq!(self.model.check_flow(network)?, answer.cost);
        prop_assert!(answer.bound <= answer.cost);
        prop_assert_eq!(answer.units.len(), self.levels.len());
        for (arcs, &units) in self.levels.iter().zip(&answer.units) {
            let flows = network.flows(arcs.iter().copied()).unwrap();
            prop_assert_eq!(i128::from(flows.iter().sum::<i64>()), units);
        }
        for (arcs, kept) in self.levels.iter().zip(&answer.guaranteed) {
            for (&arc, &kept) in arcs.iter().zip(kept) {
                prop_assert!(kept <= network.flow(arc).unwrap());
            }
        }
        Ok(())
    }
}

/// Tasks of several levels on machines with slots, as a scheduler builds them.
fn tasks(costs: i64) -> impl Strategy<Value = Case> {
    let slots = prop::collection::vec(prop::collection::vec(0..=costs, 0..4), 1..5);
    let class = (
        0_i64..5,
        0..4 * costs,
        prop::collection::vec((0_usize..4, 1_i64..4, 0..=costs), 0..4),
    );
    let levels = prop::collection::vec(prop::collection::vec(class, 0..3), 0..5);
    (slots, levels).prop_map(|(slots, drawn)| {
        let machines = slots.len();
        let mut model = SchedulerNetwork::with_machines(slots);
        let mut levels = Vec::new();
        for classes in drawn {
            let mut entries = Vec::new();
            for (count, cost, admitted) in classes {
                let waiting = terms(0, count, cost);
                entries.push(model.add_class(count, waiting, &admitted, machines));
            }
            levels.push(entries);
        }
        Case { model, levels }
    })
}

/// Any network with any arcs: loops, lower bounds, negative costs, levels without arcs, tasks
/// without an arc for waiting.
fn any_network(costs: i64) -> impl Strategy<Value = Case> {
    let arc = (0_u32..6, 0_u32..6, 0_i64..3, 0_i64..6, -costs / 4..=costs);
    let arcs = prop::collection::vec((arc, 0_usize..8), 1..16);
    let moved = prop::collection::vec((0_usize..6, 0_usize..6, 0_i64..3), 0..4);
    (arcs, moved, 1_usize..4).prop_map(move |(arcs, moved, levels)| {
        let (mut supply, mut all) = (vec![0; 6], Vec::new());
        let mut levels = vec![Vec::new(); levels];
        for (source, sink, units) in moved {
            supply[source] += units;
            supply[sink] -= units;
        }
        for ((tail, head, lower, width, cost), level) in arcs {
            if let Some(level) = levels.get_mut(level) {
                level.push(all.len() as ArcId);
            }
            let lower = if lower == 2 { 1 } else { 0 };
            all.push((tail, head, terms(lower, lower + width, cost)));
        }
        // Expensive arcs between all nodes, so that most cases are feasible.
        for node in 1..6 {
            all.push((node, 0, terms(0, 30, 4 * costs)));
            all.push((0, node, terms(0, 30, 4 * costs)));
        }
        let model = SchedulerNetwork { supply, arcs: all };
        Case { model, levels }
    })
}

fn check_all_levels(case: &Case) -> Result<(), TestCaseError> {
    let mut network = case.model.network();
    let answer = network.solve_levels(&case.levels, &Limits::default());
    match case.solve_one_by_one() {
        Some(_) => case.check(&network, &answer.unwrap()),
        None => {
            let is_infeasible = matches!(answer, Err(FlowError::Infeasible { .. }));
            prop_assert!(is_infeasible, "{answer:?}");
            prop_assert!(case.model.has_same_terms(&network));
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn each_level_has_minimum_cost_given_the_levels_above(case in tasks(20)) {
        check_all_levels(&case)?;
    }

    #[test]
    fn levels_are_optimal_with_many_ties(case in tasks(1)) {
        check_all_levels(&case)?;
    }

    #[test]
    fn levels_are_optimal_in_any_network(case in any_network(20)) {
        check_all_levels(&case)?;
    }

    /// Costs differ so much that no two flows cost the same, so all flows are determined.
    #[test]
    fn without_ties_the_flows_equal_those_of_separate_solves(case in tasks(1_000_000_000_000)) {
        prop_assume!(!case.levels.is_empty());
        let mut network = case.model.network();
        let answer = network.solve_levels(&case.levels, &Limits::default()).unwrap();
        let (cost, kept) = case.solve_one_by_one().unwrap();
        prop_assert_eq!(answer.cost, cost);
        prop_assert_eq!(answer.guaranteed, kept);
    }

    /// Warm starts: levels change and the same network is solved again, with levels and without.
    #[test]
    fn levels_are_optimal_after_changes(
        case in tasks(20),
        changes in prop::collection::vec((0_usize..100, 0_i64..20), 1..8),
    ) {
        let mut case = case;
        let mut network = case.model.network();
        for (arc, cost) in changes {
            if !case.model.arcs.is_empty() {
                let arc = arc % case.model.arcs.len();
                case.model.arcs[arc].2.cost = cost;
                network.set_cost(arc as ArcId, cost).unwrap();
            }
            if cost % 3 == 0 {
                case.levels.reverse();
            }
            let answer = network.solve_levels(&case.levels, &Limits::default()).unwrap();
            case.check(&network, &answer)?;
            if cost % 4 == 0 {
                let answer = network.solve(&Limits::default()).unwrap();
                prop_assert_eq!(Some(answer.cost), case.model.least_cost());
            }
        }
    }

    /// Whenever a solve is interrupted, it returns a flow that preserves the guarantees of finished
    /// levels and a valid bound, or an error if there is no flow. All bounds are restored.
    #[test]
    fn an_interrupted_solve_has_a_flow_and_a_valid_bound(case in tasks(20), asked_before in 0_usize..6) {
        let mut network = case.model.network();
        let asked = AtomicUsize::new(0);
        let interrupted = || asked.fetch_add(1, Ordering::Relaxed) >= asked_before;
        let limits = Limits { budget: None, interrupted: Some(&interrupted) };
        match network.solve_levels(&case.levels, &limits) {
            Ok(answer) => {
                case.check_flow(&network, &answer)?;
                let finished = answer.guaranteed.len();
                let mut open = case.clone();
                open.levels.truncate(finished);
                let least = open.model_of_level(finished, &answer.guaranteed).least_cost().unwrap();
                prop_assert!(answer.bound <= least && least <= answer.cost);
            }
            Err(error) => {
                prop_assert_eq!(error, FlowError::Expired);
                prop_assert!(case.model.has_same_terms(&network));
            }
        }
    }
}

#[test]
fn one_level_or_none_is_a_plain_solve() {
    let mut network = Network::new();
    network.add_nodes(&[3, -3]).unwrap();
    let arcs = [1, 2, 3].map(|cost| network.add_arc(0, 1, terms(0, 2, cost)).unwrap());
    let plain = network.clone().solve(&Limits::default()).unwrap();
    for levels in [vec![], vec![arcs.to_vec()], vec![arcs[..1].to_vec()]] {
        let mut network = network.clone();
        let answer = network.solve_levels(&levels, &Limits::default()).unwrap();
        assert_eq!((answer.cost, answer.bound), (plain.cost, plain.bound));
        assert!(answer.is_optimal());
        assert_eq!(answer.guaranteed.len(), levels.len());
    }
}

#[test]
fn an_arc_in_two_levels_is_an_error() {
    let mut network = Network::new();
    network.add_nodes(&[0, 0]).unwrap();
    let arc = network.add_arc(0, 1, terms(0, 2, 0)).unwrap();
    let mut message = |levels: &[Vec<ArcId>]| {
        let refused = network.solve_levels(levels, &Limits::default());
        refused.unwrap_err().to_string()
    };
    assert_eq!(
        message(&[vec![arc], vec![], vec![arc]]),
        "arc 0 is named by levels 0 and 2, expected by one at most"
    );
    assert_eq!(
        message(&[vec![], vec![arc, arc]]),
        "level 1: arc 0 is named twice, expected once"
    );
    assert_eq!(
        message(&[vec![arc], vec![7]]),
        "there is no arc 7: it was never added or has been removed"
    );
}

#[test]
fn bounds_are_restored_after_an_error() {
    // The second level has no arc for waiting.
    let mut network = Network::new();
    network.add_nodes(&[1, 1, -2]).unwrap();
    let first = network.add_arc(0, 2, terms(0, 1, 0)).unwrap();
    let second = network.add_arc(1, 2, terms(0, 1, 0)).unwrap();
    let refused = network.solve_levels(&[vec![first], vec![second]], &Limits::default());
    assert!(matches!(
        refused,
        Err(FlowError::Infeasible { node: 1, .. })
    ));
    assert_eq!(network.terms(first), Ok(terms(0, 1, 0)));
    assert_eq!(network.terms(second), Ok(terms(0, 1, 0)));
    assert_eq!(network.solve(&Limits::default()).unwrap().cost, 0);
}

#[test]
fn the_budget_covers_all_levels_together() {
    let mut network = Network::new();
    network.add_nodes(&[1, 1, -2]).unwrap();
    let arcs = [0, 1].map(|source| {
        network.add_arc(source, 2, terms(0, 1, 9)).unwrap();
        network.add_arc(source, 2, terms(0, 1, 1)).unwrap()
    });
    let limits = Limits {
        budget: Some(Duration::ZERO),
        interrupted: None,
    };
    let levels = arcs.map(|arc| vec![arc]);
    // The first level is so small that it is solved without checking the clock; the second does not
    // begin.
    let answer = network.solve_levels(&levels, &limits).unwrap();
    assert_eq!(answer.units, [1, 0]);
    assert_eq!(answer.guaranteed, [[1]]);
    assert_eq!(answer.cost, 10);
    assert!(answer.gap() >= 8);
    assert!(!answer.is_optimal());
}
