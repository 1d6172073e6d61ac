//! Gates are decided as by exhaustive search, with valid bounds.

mod columns;
#[path = "../../proptest_cases.rs"]
mod proptest_cases;
mod reference;
mod scheduler_network;

use std::time::Duration;

use afflux_flow::{
    ConvexTerms, Effort, FlowError, Gate, GatedAnswer, Limits, Network, NewConvexArc, Terms,
};
use proptest::prelude::*;
use proptest_cases::cases;
use scheduler_network::{SchedulerNetwork, terms};

/// A network and its gates.
#[derive(Debug, Clone)]
struct Case {
    model: SchedulerNetwork,
    gates: Vec<Gate>,
}

impl Case {
    /// The network with decided gates: the flow of their arcs is fixed.
    fn decided(&self, open: &[bool]) -> SchedulerNetwork {
        let mut fixed = self.model.clone();
        for (gate, &open) in self.gates.iter().zip(open) {
            for &(arc, count) in &gate.members {
                let units = if open { count } else { 0 };
                let terms = &mut fixed.arcs[arc as usize].2;
                (terms.lower, terms.capacity) = (units, units);
            }
        }
        fixed
    }

    /// The waiting costs of closed gates.
    fn waiting_cost(&self, open: &[bool]) -> i128 {
        let gates = self.gates.iter().zip(open);
        let closed = gates.filter(|&(_, &open)| !open);
        closed.map(|(gate, _)| i128::from(gate.waiting_cost)).sum()
    }

    /// The cost of a choice, if it is feasible.
    fn cost(&self, open: &[bool]) -> Option<i128> {
        Some(self.decided(open).least_cost()? + self.waiting_cost(open))
    }

    /// The cost of the best choice, if any is feasible.
    fn best_cost(&self) -> Option<i128> {
        let count = self.gates.len();
        let choices = 0..1_u32 << count;
        choices
            .filter_map(|set| {
                let open: Vec<bool> = (0..count).map(|gate| set >> gate & 1 == 1).collect();
                self.cost(&open)
            })
            .min()
    }

    /// Checks all claims of an answer except that it is optimal.
    fn check(&self, network: &Network, answer: &GatedAnswer) -> Result<(), TestCaseError> {
        prop_assert!(answer.bound <= answer.cost);
        prop_assert_eq!(Some(answer.cost), self.cost(&answer.open));
        prop_assert!(self.model.has_same_terms(network));
        let decided = self.decided(&answer.open);
        // The prices prove the flow, with the gates as they are.
        for (arc, &(tail, head, own)) in decided.arcs.iter().enumerate() {
            let flow = network.flow(arc as u32).unwrap();
            let reduced = own.cost + network.price(tail).unwrap() - network.price(head).unwrap();
            prop_assert!(reduced >= 0 || flow == own.capacity || tail == head);
            prop_assert!(reduced <= 0 || flow == own.lower || tail == head);
        }
        let cost = decided.check_flow(network)? + self.waiting_cost(&answer.open);
        prop_assert_eq!(cost, answer.cost);
        Ok(())
    }
}

/// Gangs with classes of their own on machines with slots, as a scheduler builds them.
fn gangs(costs: i64) -> impl Strategy<Value = Case> {
    let slots = prop::collection::vec(prop::collection::vec(0..=costs, 0..4), 1..5);
    let room = prop_oneof![6 => 1_i64..4, 1 => Just(i64::MAX)];
    let class = (
        1_i64..5,
        prop::collection::vec((0_usize..4, room, 0..=costs), 0..5),
    );
    let classes = prop::collection::vec(class, 1..4);
    let gang = (classes, prop_oneof![1 => Just(0), 6 => 0..=20 * costs]);
    (slots, prop::collection::vec(gang, 0..6), 0_i64..3).prop_map(|(slots, gangs, others)| {
        let machines = slots.len();
        let mut model = SchedulerNetwork::with_machines(slots);
        // Single tasks may wait, at a cost per unit.
        let source = model.supply.len() as u32;
        model.supply.push(others);
        model.supply[0] -= others;
        model.arcs.push((source, 0, terms(0, others, 7)));
        model.arcs.push((source, 1, terms(0, others, 1)));
        let mut gates = Vec::new();
        for (classes, waiting_cost) in gangs {
            let mut members = Vec::new();
            for (count, admitted) in classes {
                let waiting = terms(0, i64::MAX, 0);
                let arc = model.add_class(count, waiting, &admitted, machines);
                members.push((arc, count));
            }
            gates.push(Gate {
                members,
                waiting_cost,
            });
        }
        Case { model, gates }
    })
}

/// Any network with any arcs in gates; it may be infeasible.
fn any_network(costs: i64) -> impl Strategy<Value = Case> {
    (2_usize..8).prop_flat_map(move |nodes| {
        let ids = 0..nodes as u32;
        let lower = prop_oneof![6 => Just(0_i64), 1 => 1_i64..3];
        let arc = (ids.clone(), ids, lower, 0_i64..9, -costs / 4..=costs);
        let supply = prop::collection::vec(-6_i64..7, nodes);
        let gates = prop::collection::vec((1_usize..4, 0..=8 * costs), 0..5);
        let arcs = prop::collection::vec(arc, 0..24);
        (supply, arcs, gates, any::<u64>()).prop_map(|(mut supply, arcs, gates, pick)| {
            supply[0] -= supply.iter().sum::<i64>();
            let mut arcs: Vec<(u32, u32, Terms)> = arcs
                .into_iter()
                .map(|(tail, head, lower, width, cost)| {
                    (tail, head, terms(lower, lower + width, cost))
                })
                .collect();
            let mut free = 0..arcs.len();
            let gates = gates.into_iter().map(|(members, waiting_cost)| {
                let members = free.by_ref().take(members).filter_map(|arc| {
                    let (tail, head, terms) = &mut arcs[arc];
                    if tail == head {
                        return None;
                    }
                    terms.lower = 0;
                    let count = 1 + (pick >> (arc % 60) & 7) as i64;
                    let count = count.min(terms.capacity);
                    (terms.capacity > 0).then_some((arc as u32, count))
                });
                Gate {
                    members: members.collect(),
                    waiting_cost,
                }
            });
            let gates = gates.collect();
            let model = SchedulerNetwork { supply, arcs };
            Case { model, gates }
        })
    })
}

fn check_optimal(case: &Case) -> Result<(), TestCaseError> {
    let mut network = case.model.network();
    let answer = network.solve_gated(&case.gates, Effort::default(), &Limits::default());
    match (case.best_cost(), answer) {
        (Some(best_cost), Ok(answer)) => {
            prop_assert_eq!(answer.cost, best_cost);
            prop_assert!(answer.is_optimal(), "{:?}", answer);
            case.check(&network, &answer)?;
            // Once more, from there.
            let again = network.solve_gated(&case.gates, Effort::default(), &Limits::default());
            let again = again.unwrap();
            prop_assert_eq!((again.cost, again.bound), (best_cost, best_cost));
            case.check(&network, &again)?;
        }
        (None, Err(FlowError::Infeasible { .. })) => {
            prop_assert!(case.model.has_same_terms(&network));
        }
        (best_cost, answer) => prop_assert!(false, "{best_cost:?} but {answer:?}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn gangs_are_placed_as_by_exhaustive_search(case in gangs(100)) {
        check_optimal(&case)?;
    }

    /// With such small costs, shares of waiting costs have large rounding errors and there are many
    /// ties.
    #[test]
    fn gangs_are_placed_optimally_with_ties_and_small_costs(case in gangs(3)) {
        check_optimal(&case)?;
    }

    #[test]
    fn gates_in_any_network_are_decided_optimally(case in any_network(100)) {
        check_optimal(&case)?;
    }

    #[test]
    fn a_limited_effort_gives_a_feasible_choice_and_a_valid_bound(case in gangs(30), flows in 0_usize..6) {
        let effort = Effort { flows, gap_ppm: 0 };
        let mut network = case.model.network();
        let answer = network.solve_gated(&case.gates, effort, &Limits::default()).unwrap();
        let best_cost = case.best_cost().unwrap();
        prop_assert!(answer.bound <= best_cost && best_cost <= answer.cost, "{answer:?}, best_cost is {best_cost}");
        prop_assert!(answer.flows <= flows.max(1) + 1);
        case.check(&network, &answer)?;
    }

    #[test]
    fn the_allowed_gap_is_not_exceeded(case in gangs(100), gap_ppm in 0_u32..400_000) {
        let effort = Effort { gap_ppm, ..Effort::default() };
        let mut network = case.model.network();
        let answer = network.solve_gated(&case.gates, effort, &Limits::default()).unwrap();
        let best_cost = case.best_cost().unwrap();
        prop_assert!(answer.bound <= best_cost && best_cost <= answer.cost);
        prop_assert!(answer.gap() * 1_000_000 <= answer.cost * i128::from(gap_ppm));
        case.check(&network, &answer)?;
    }

    /// Several cycles: waiting costs and arc costs change between them.
    #[test]
    fn later_solves_are_optimal_after_changes(one in gangs(100), pick in any::<u32>()) {
        let mut case = one;
        let mut network = case.model.network();
        for cycle in 0..3 {
            let effort = Effort::default();
            let answer = network.solve_gated(&case.gates, effort, &Limits::default()).unwrap();
            prop_assert_eq!(Some(answer.cost), case.best_cost());
            case.check(&network, &answer)?;
            for gate in 0..case.gates.len() {
                if pick >> (gate + 8 * cycle) & 1 == 1 {
                    let cost = case.gates[gate].waiting_cost;
                    case.gates[gate].waiting_cost = cost * 2 + 10;
                }
            }
            for arc in 0..case.model.arcs.len() {
                if (pick >> (arc % 31)) & 1 == 1 && cycle == 1 {
                    let own = &mut case.model.arcs[arc].2;
                    own.cost += 5;
                    network.set_terms(arc as u32, *own).unwrap();
                }
            }
        }
    }
}

#[test]
fn an_expired_budget_is_an_error_only_without_a_feasible_flow() {
    let case = Case {
        model: SchedulerNetwork {
            supply: vec![2, 0, -2],
            arcs: vec![
                (0, 1, terms(0, 2, 0)),
                (0, 2, terms(0, 2, 0)),
                (1, 2, terms(0, 2, 1)),
            ],
        },
        gates: vec![Gate {
            members: vec![(0, 2)],
            waiting_cost: 9,
        }],
    };
    let mut network = case.model.network();
    let none = Limits {
        budget: Some(Duration::ZERO),
        interrupted: None,
    };
    let refused = network.solve_gated(&case.gates, Effort::default(), &none);
    assert_eq!(refused, Err(FlowError::Expired));
    assert_eq!(network.terms(0), Ok(terms(0, 2, 0)));

    let asked = || true;
    let interrupted = Limits {
        budget: None,
        interrupted: Some(&asked),
    };
    let refused = network.solve_gated(&case.gates, Effort::default(), &interrupted);
    assert_eq!(refused, Err(FlowError::Expired));

    // Interrupted after the first flow, which relaxes the gate and leaves it open.
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let second = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0;
    let interrupted = Limits {
        budget: None,
        interrupted: Some(&second),
    };
    let answer = network
        .solve_gated(&case.gates, Effort::default(), &interrupted)
        .unwrap();
    assert_eq!((answer.cost, answer.open), (2, vec![true]));
}

/// A gate that cannot be bypassed has to be open; this is decided even without effort.
#[test]
fn gates_that_cannot_be_bypassed_are_open() {
    let case = Case {
        model: SchedulerNetwork {
            supply: vec![2, 0, -2],
            arcs: vec![(0, 1, terms(0, 2, 0)), (1, 2, terms(0, 2, 100))],
        },
        gates: vec![Gate {
            members: vec![(0, 2)],
            waiting_cost: 9,
        }],
    };
    for flows in [0, 1, 9] {
        let effort = Effort { flows, gap_ppm: 0 };
        let answer = case
            .model
            .network()
            .solve_gated(&case.gates, effort, &Limits::default());
        let answer = answer.unwrap();
        assert_eq!((answer.cost, answer.bound), (200, 200));
        assert_eq!(answer.open, [true]);
    }
}

/// The cost of a convex arc out of a private node counts.
#[test]
fn a_class_may_have_an_outgoing_convex_arc() {
    let mut network = Network::new();
    let nodes = network.add_nodes(&[2, 0, -2]).unwrap();
    let (source, class, sink) = (nodes[0], nodes[1], nodes[2]);
    let free = terms(0, 2, 0);
    let member = network.add_arc(source, class, free).unwrap();
    network.add_arc(source, sink, free).unwrap();
    let slots = NewConvexArc {
        tail: class,
        head: sink,
        terms: ConvexTerms {
            lower: 0,
            capacity: 2,
            costs: &[1, 50],
        },
    };
    network.add_convex_arcs([slots].into_iter()).unwrap();
    for (waiting_cost, cost, is_open) in [(100, 51, true), (30, 30, false)] {
        let gate = Gate {
            members: vec![(member, 2)],
            waiting_cost,
        };
        let answer = network.solve_gated(&[gate], Effort::default(), &Limits::default());
        let answer = answer.unwrap();
        assert_eq!((answer.cost, answer.bound), (cost, cost));
        assert_eq!(answer.open, [is_open]);
    }
}
