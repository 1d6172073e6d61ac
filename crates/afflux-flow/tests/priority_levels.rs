//! Levels get what solving them one after the other, each from nothing, would give them.

mod reference;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use afflux_flow::{ArcId, FlowError, LevelsAnswer, Limits, Network, Problem, Terms};
use proptest::prelude::*;
use reference::{cheapest_flow, least_cost};

/// A network and its levels, kept in the simplest way.
#[derive(Debug, Clone)]
struct Case {
    supply: Vec<i64>,
    /// Tail, head, and terms.
    arcs: Vec<(u32, u32, Terms)>,
    levels: Vec<Vec<ArcId>>,
}

fn terms(lower: i64, capacity: i64, cost: i64) -> Terms {
    Terms {
        lower,
        capacity,
        cost,
    }
}

impl Case {
    fn network(&self) -> Network {
        let mut network = Network::new();
        network.add_nodes(&self.supply).unwrap();
        for &(tail, head, terms) in &self.arcs {
            network.add_arc(tail, head, terms).unwrap();
        }
        network
    }

    /// Does something with the problem.
    fn with_problem<T>(&self, work: impl FnOnce(&Problem<'_>) -> T) -> T {
        let tail: Vec<i32> = self.arcs.iter().map(|arc| arc.0 as i32).collect();
        let head: Vec<i32> = self.arcs.iter().map(|arc| arc.1 as i32).collect();
        let lower: Vec<i64> = self.arcs.iter().map(|arc| arc.2.lower).collect();
        let capacity: Vec<i64> = self.arcs.iter().map(|arc| arc.2.capacity).collect();
        let cost: Vec<i64> = self.arcs.iter().map(|arc| arc.2.cost).collect();
        work(&Problem::new(&self.supply, &tail, &head, &lower, &capacity, &cost).unwrap())
    }

    fn least_cost(&self) -> Option<i128> {
        self.with_problem(least_cost)
    }

    /// The problem of one level: those above keep what they have, those below are closed.
    fn at(&self, level: usize, kept: &[Vec<i64>]) -> Self {
        let mut case = self.clone();
        for (number, arcs) in self.levels.iter().enumerate() {
            for (position, &arc) in arcs.iter().enumerate() {
                let terms = &mut case.arcs[arc as usize].2;
                if number < level {
                    terms.lower = kept[number][position];
                } else if number > level {
                    terms.capacity = terms.lower;
                }
            }
        }
        case
    }

    /// The same with what the arcs of a level carry decided.
    fn with(&self, level: usize, units: &[i64]) -> Self {
        let mut case = self.clone();
        for (&arc, &units) in self.levels[level].iter().zip(units) {
            let terms = &mut case.arcs[arc as usize].2;
            (terms.lower, terms.capacity) = (units, units);
        }
        case
    }

    /// What is kept and the last cost when levels are solved one after the other from nothing.
    fn one_by_one(&self) -> Option<(i128, Vec<Vec<i64>>)> {
        let (mut cost, mut kept) = (0, Vec::new());
        for (level, arcs) in self.levels.iter().enumerate() {
            let (least, flow) = self.at(level, &kept).with_problem(cheapest_flow)?;
            cost = least;
            kept.push(arcs.iter().map(|&arc| flow[arc as usize]).collect());
        }
        Some((cost, kept))
    }

    /// All that an answer claims, whatever the choice among flows that cost the same.
    fn check(&self, network: &Network, answer: &LevelsAnswer) -> Result<(), TestCaseError> {
        prop_assert!(answer.is_optimal());
        prop_assert_eq!(answer.kept.len(), self.levels.len());
        for level in 0..self.levels.len() {
            let problem = self.at(level, &answer.kept);
            let least = problem.least_cost();
            let with = problem.with(level, &answer.kept[level]).least_cost();
            // What the level keeps is what a flow of least cost sends through it.
            prop_assert_eq!(least, with);
            if level + 1 == self.levels.len() {
                prop_assert_eq!(Some(answer.cost), least);
            }
        }
        self.check_flow(network, answer)
    }

    /// The flow is that of the answer, within the caller's own bounds, and everybody keeps theirs.
    fn check_flow(&self, network: &Network, answer: &LevelsAnswer) -> Result<(), TestCaseError> {
        let mut sent = vec![0; self.supply.len()];
        let mut cost = 0;
        for (arc, &(tail, head, own)) in self.arcs.iter().enumerate() {
            prop_assert_eq!(network.terms(arc as u32), Ok(own));
            let flow = network.flow(arc as u32).unwrap();
            prop_assert!(own.lower <= flow && flow <= own.capacity);
            sent[tail as usize] += flow;
            sent[head as usize] -= flow;
            cost += i128::from(flow) * i128::from(own.cost);
        }
        prop_assert_eq!(&sent, &self.supply);
        prop_assert_eq!(cost, answer.cost);
        prop_assert!(answer.bound <= answer.cost);
        prop_assert_eq!(answer.units.len(), self.levels.len());
        for (arcs, &units) in self.levels.iter().zip(&answer.units) {
            let flows = network.flows(arcs.iter().copied()).unwrap();
            prop_assert_eq!(i128::from(flows.iter().sum::<i64>()), units);
        }
        for (arcs, kept) in self.levels.iter().zip(&answer.kept) {
            for (&arc, &kept) in arcs.iter().zip(kept) {
                prop_assert!(kept <= network.flow(arc).unwrap());
            }
        }
        Ok(())
    }

    fn restored(&self, network: &Network) -> bool {
        let own = |arc: usize| network.terms(arc as u32) == Ok(self.arcs[arc].2);
        (0..self.arcs.len()).all(own)
    }
}

/// Tasks of several levels, machines with slots, as a scheduler builds them.
fn tasks(costs: i64) -> impl Strategy<Value = Case> {
    let slots = prop::collection::vec(prop::collection::vec(0..=costs, 0..4), 1..5);
    let class = (
        0_i64..5,
        0..4 * costs,
        prop::collection::vec((0_usize..4, 1_i64..4, 0..=costs), 0..4),
    );
    let levels = prop::collection::vec(prop::collection::vec(class, 0..3), 0..5);
    (slots, levels).prop_map(|(slots, levels)| {
        let mut case = Case {
            supply: vec![0],
            arcs: Vec::new(),
            levels: Vec::new(),
        };
        let machines = slots.len();
        for slots in slots {
            let machine = case.supply.len() as u32;
            case.supply.push(0);
            case.arcs
                .extend(slots.iter().map(|&cost| (machine, 0, terms(0, 1, cost))));
        }
        for classes in levels {
            let mut entries = Vec::new();
            for (count, waiting, admitted) in classes {
                let source = case.supply.len() as u32;
                case.supply.extend([count, 0]);
                case.supply[0] -= count;
                entries.push(case.arcs.len() as ArcId);
                case.arcs.push((source, source + 1, terms(0, count, 0)));
                case.arcs.push((source, 0, terms(0, count, waiting)));
                for (machine, room, cost) in admitted {
                    let machine = 1 + (machine % machines) as u32;
                    case.arcs.push((source + 1, machine, terms(0, room, cost)));
                }
            }
            case.levels.push(entries);
        }
        case
    })
}

/// Any network, any arcs: loops, lower bounds, negative costs, levels without arcs, no way past.
fn anything(costs: i64) -> impl Strategy<Value = Case> {
    let arc = (0_u32..6, 0_u32..6, 0_i64..3, 0_i64..6, -costs / 4..=costs);
    let arcs = prop::collection::vec((arc, 0_usize..8), 1..16);
    let moved = prop::collection::vec((0_usize..6, 0_usize..6, 0_i64..3), 0..4);
    (arcs, moved, 1_usize..4).prop_map(move |(arcs, moved, levels)| {
        let mut case = Case {
            supply: vec![0; 6],
            arcs: Vec::new(),
            levels: vec![Vec::new(); levels],
        };
        for (source, sink, units) in moved {
            case.supply[source] += units;
            case.supply[sink] -= units;
        }
        for ((tail, head, lower, width, cost), level) in arcs {
            if let Some(level) = case.levels.get_mut(level) {
                level.push(case.arcs.len() as ArcId);
            }
            let lower = if lower == 2 { 1 } else { 0 };
            case.arcs
                .push((tail, head, terms(lower, lower + width, cost)));
        }
        // A dear way from everywhere to everywhere, so that most have a flow.
        for node in 1..6 {
            case.arcs.push((node, 0, terms(0, 30, 4 * costs)));
            case.arcs.push((0, node, terms(0, 30, 4 * costs)));
        }
        case
    })
}

fn check_case(case: &Case) -> Result<(), TestCaseError> {
    let mut network = case.network();
    let answer = network.solve_levels(&case.levels, &Limits::default());
    match case.one_by_one() {
        Some(_) => case.check(&network, &answer.unwrap()),
        None => {
            let is_infeasible = matches!(answer, Err(FlowError::Infeasible { .. }));
            prop_assert!(is_infeasible, "{answer:?}");
            prop_assert!(case.restored(&network));
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn each_level_costs_the_least_given_the_counts_above(case in tasks(20)) {
        check_case(&case)?;
    }

    #[test]
    fn with_ties_everywhere(case in tasks(1)) {
        check_case(&case)?;
    }

    #[test]
    fn in_any_network(case in anything(20)) {
        check_case(&case)?;
    }

    /// Costs are so far apart that no two flows cost the same: all counts are decided.
    #[test]
    fn without_ties_the_counts_are_those_of_solving_one_by_one(case in tasks(1_000_000_000_000)) {
        prop_assume!(!case.levels.is_empty());
        let mut network = case.network();
        let answer = network.solve_levels(&case.levels, &Limits::default()).unwrap();
        let (cost, kept) = case.one_by_one().unwrap();
        prop_assert_eq!(answer.cost, cost);
        prop_assert_eq!(answer.kept, kept);
    }

    /// Warm: levels change and the same network is solved again, with levels and without.
    #[test]
    fn round_after_round(
        case in tasks(20),
        changes in prop::collection::vec((0_usize..100, 0_i64..20), 1..8),
    ) {
        let mut case = case;
        let mut network = case.network();
        for (arc, cost) in changes {
            if !case.arcs.is_empty() {
                let arc = arc % case.arcs.len();
                case.arcs[arc].2.cost = cost;
                network.set_cost(arc as ArcId, cost).unwrap();
            }
            if cost % 3 == 0 {
                case.levels.reverse();
            }
            let answer = network.solve_levels(&case.levels, &Limits::default()).unwrap();
            case.check(&network, &answer)?;
            if cost % 4 == 0 {
                let answer = network.solve(&Limits::default()).unwrap();
                prop_assert_eq!(Some(answer.cost), case.least_cost());
            }
        }
    }

    /// Whenever time is up, there is a flow that keeps what was finished, and a bound that holds;
    /// or no flow at all. Bounds are the caller's own again.
    #[test]
    fn when_time_is_up(case in tasks(20), asked_before in 0_usize..6) {
        let mut network = case.network();
        let asked = AtomicUsize::new(0);
        let interrupted = || asked.fetch_add(1, Ordering::Relaxed) >= asked_before;
        let limits = Limits { budget: None, interrupted: Some(&interrupted) };
        match network.solve_levels(&case.levels, &limits) {
            Ok(answer) => {
                case.check_flow(&network, &answer)?;
                let finished = answer.kept.len();
                let mut open = case.clone();
                open.levels.truncate(finished);
                let least = open.at(finished, &answer.kept).least_cost().unwrap();
                prop_assert!(answer.bound <= least && least <= answer.cost);
            }
            Err(error) => {
                prop_assert_eq!(error, FlowError::Expired);
                prop_assert!(case.restored(&network));
            }
        }
    }
}

#[test]
fn one_level_and_none_are_one_solve() {
    let mut network = Network::new();
    network.add_nodes(&[3, -3]).unwrap();
    let arcs = [1, 2, 3].map(|cost| network.add_arc(0, 1, terms(0, 2, cost)).unwrap());
    let plain = network.clone().solve(&Limits::default()).unwrap();
    for levels in [vec![], vec![arcs.to_vec()], vec![arcs[..1].to_vec()]] {
        let mut network = network.clone();
        let answer = network.solve_levels(&levels, &Limits::default()).unwrap();
        assert_eq!((answer.cost, answer.bound), (plain.cost, plain.bound));
        assert!(answer.is_optimal());
        assert_eq!(answer.kept.len(), levels.len());
    }
}

#[test]
fn an_arc_belongs_to_one_level() {
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
    // The second level has no way past its closed arc.
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
fn a_budget_is_for_all_levels_together() {
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
    // The first level is so small that nobody looks at the clock; the second does not begin.
    let answer = network.solve_levels(&levels, &limits).unwrap();
    assert_eq!(answer.units, [1, 0]);
    assert_eq!(answer.kept, [[1]]);
    assert_eq!(answer.cost, 10);
    assert!(answer.gap() >= 8);
    assert!(!answer.is_optimal());
}
