//! Gates open and close as trying every choice would have it, and say what is proven.

mod reference;

use std::time::Duration;

use afflux_flow::{
    ConvexTerms, Effort, FlowError, Gate, GatedAnswer, Limits, Network, NewConvexArc, Problem,
    Terms,
};
use proptest::prelude::*;
use reference::least_cost;

/// A network and its gates, kept in the simplest way.
#[derive(Debug, Clone)]
struct Case {
    supply: Vec<i64>,
    /// Tail, head, and terms.
    arcs: Vec<(u32, u32, Terms)>,
    gates: Vec<Gate>,
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
        for &supply in &self.supply {
            network.add_node(supply).unwrap();
        }
        for &(tail, head, terms) in &self.arcs {
            network.add_arc(tail, head, terms).unwrap();
        }
        network
    }

    fn least_cost(&self) -> Option<i128> {
        let tail: Vec<i32> = self.arcs.iter().map(|arc| arc.0 as i32).collect();
        let head: Vec<i32> = self.arcs.iter().map(|arc| arc.1 as i32).collect();
        let lower: Vec<i64> = self.arcs.iter().map(|arc| arc.2.lower).collect();
        let capacity: Vec<i64> = self.arcs.iter().map(|arc| arc.2.capacity).collect();
        let cost: Vec<i64> = self.arcs.iter().map(|arc| arc.2.cost).collect();
        let problem = Problem::new(&self.supply, &tail, &head, &lower, &capacity, &cost).unwrap();
        least_cost(&problem)
    }

    /// The same with gates decided: what their arcs carry is fixed.
    fn decided(&self, open: &[bool]) -> Self {
        let mut fixed = self.clone();
        for (gate, &open) in self.gates.iter().zip(open) {
            for &(arc, count) in &gate.members {
                let units = if open { count } else { 0 };
                let terms = &mut fixed.arcs[arc as usize].2;
                (terms.lower, terms.capacity) = (units, units);
            }
        }
        fixed
    }

    /// What a choice costs, if it has a flow.
    fn cost(&self, open: &[bool]) -> Option<i128> {
        let gates = self.gates.iter().zip(open);
        let closed = gates.filter(|&(_, &open)| !open);
        let waiting: i128 = closed.map(|(gate, _)| i128::from(gate.waiting_cost)).sum();
        Some(self.decided(open).least_cost()? + waiting)
    }

    /// What the best choice costs, if any has a flow.
    fn best(&self) -> Option<i128> {
        let count = self.gates.len();
        let choices = 0..1_u32 << count;
        choices
            .filter_map(|set| {
                let open: Vec<bool> = (0..count).map(|gate| set >> gate & 1 == 1).collect();
                self.cost(&open)
            })
            .min()
    }

    /// Everything an answer claims, except that it is the best.
    fn check(&self, network: &Network, answer: &GatedAnswer) -> Result<(), TestCaseError> {
        prop_assert!(answer.bound <= answer.cost);
        prop_assert_eq!(Some(answer.cost), self.cost(&answer.open));
        let mut sent = vec![0; self.supply.len()];
        let mut cost = 0;
        let fixed = self.decided(&answer.open);
        for (arc, &(tail, head, own)) in self.arcs.iter().enumerate() {
            // The caller's terms are as they were, and the flow is that of the choice.
            prop_assert_eq!(network.terms(arc as u32), Ok(own));
            let flow = network.flow(arc as u32).unwrap();
            let bounds = fixed.arcs[arc].2;
            prop_assert!(bounds.lower <= flow && flow <= bounds.capacity);
            sent[tail as usize] += flow;
            sent[head as usize] -= flow;
            cost += i128::from(flow) * i128::from(own.cost);
            // The prices prove the flow, with the gates as they are.
            let reduced = own.cost + network.price(tail).unwrap() - network.price(head).unwrap();
            prop_assert!(reduced >= 0 || flow == bounds.capacity || tail == head);
            prop_assert!(reduced <= 0 || flow == bounds.lower || tail == head);
        }
        prop_assert_eq!(&sent, &self.supply);
        let closed = self
            .gates
            .iter()
            .zip(&answer.open)
            .filter(|&(_, &open)| !open);
        cost += closed
            .map(|(gate, _)| i128::from(gate.waiting_cost))
            .sum::<i128>();
        prop_assert_eq!(cost, answer.cost);
        Ok(())
    }
}

/// Gangs with classes of their own, machines with slots, as a scheduler builds them.
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
        let mut case = Case {
            supply: vec![0],
            arcs: Vec::new(),
            gates: Vec::new(),
        };
        let machines = slots.len();
        for slots in slots {
            let machine = case.supply.len() as u32;
            case.supply.push(0);
            case.arcs
                .extend(slots.iter().map(|&cost| (machine, 0, terms(0, 1, cost))));
        }
        // Work that is not in gangs may wait, for a price, unit by unit.
        let source = case.supply.len() as u32;
        case.supply.push(others);
        case.supply[0] -= others;
        case.arcs.push((source, 0, terms(0, others, 7)));
        case.arcs.push((source, 1, terms(0, others, 1)));
        for (classes, waiting_cost) in gangs {
            let mut members = Vec::new();
            for (count, admitted) in classes {
                let source = case.supply.len() as u32;
                case.supply.extend([count, 0]);
                case.supply[0] -= count;
                members.push((case.arcs.len() as u32, count));
                case.arcs.push((source, source + 1, terms(0, count, 0)));
                case.arcs.push((source, 0, terms(0, i64::MAX, 0)));
                for (machine, capacity, cost) in admitted {
                    let machine = (1 + machine % machines) as u32;
                    case.arcs
                        .push((source + 1, machine, terms(0, capacity, cost)));
                }
            }
            case.gates.push(Gate {
                members,
                waiting_cost,
            });
        }
        case
    })
}

/// Any network, any arcs in gates; there may be no flow at all.
fn anything(costs: i64) -> impl Strategy<Value = Case> {
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
            Case {
                supply,
                arcs,
                gates,
            }
        })
    })
}

fn check_best(case: &Case) -> Result<(), TestCaseError> {
    let mut network = case.network();
    let answer = network.solve_gated(&case.gates, Effort::default(), &Limits::default());
    match (case.best(), answer) {
        (Some(best), Ok(answer)) => {
            prop_assert_eq!(answer.cost, best);
            prop_assert!(answer.is_optimal(), "{:?}", answer);
            case.check(&network, &answer)?;
            // Once more, from there.
            let again = network.solve_gated(&case.gates, Effort::default(), &Limits::default());
            let again = again.unwrap();
            prop_assert_eq!((again.cost, again.bound), (best, best));
            case.check(&network, &again)?;
        }
        (None, Err(FlowError::Infeasible { .. })) => {
            for (arc, &(_, _, own)) in case.arcs.iter().enumerate() {
                prop_assert_eq!(network.terms(arc as u32), Ok(own));
            }
        }
        (best, answer) => prop_assert!(false, "{best:?} but {answer:?}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn gangs_are_placed_as_well_as_trying_everything(case in gangs(100)) {
        check_best(&case)?;
    }

    /// With costs this small, shares of waiting costs are rounded a lot, and much costs the same.
    #[test]
    fn ties_and_small_costs(case in gangs(3)) {
        check_best(&case)?;
    }

    #[test]
    fn any_arcs_of_any_network_may_have_gates(case in anything(100)) {
        check_best(&case)?;
    }

    #[test]
    fn little_effort_gives_a_valid_choice_and_a_valid_bound(case in gangs(30), flows in 0_usize..6) {
        let effort = Effort { flows, gap_ppm: 0 };
        let mut network = case.network();
        let answer = network.solve_gated(&case.gates, effort, &Limits::default()).unwrap();
        let best = case.best().unwrap();
        prop_assert!(answer.bound <= best && best <= answer.cost, "{answer:?}, best is {best}");
        prop_assert!(answer.flows <= flows.max(1) + 1);
        case.check(&network, &answer)?;
    }

    #[test]
    fn the_gap_that_is_allowed_is_kept(case in gangs(100), gap_ppm in 0_u32..400_000) {
        let effort = Effort { gap_ppm, ..Effort::default() };
        let mut network = case.network();
        let answer = network.solve_gated(&case.gates, effort, &Limits::default()).unwrap();
        let best = case.best().unwrap();
        prop_assert!(answer.bound <= best && best <= answer.cost);
        prop_assert!(answer.gap() * 1_000_000 <= answer.cost * i128::from(gap_ppm));
        case.check(&network, &answer)?;
    }

    /// One cycle after the other: gangs that are placed stay, as work that cannot move, others come.
    #[test]
    fn the_next_cycle_starts_from_the_last(one in gangs(100), pick in any::<u32>()) {
        let mut case = one;
        let mut network = case.network();
        for cycle in 0..3 {
            let effort = Effort::default();
            let answer = network.solve_gated(&case.gates, effort, &Limits::default()).unwrap();
            prop_assert_eq!(Some(answer.cost), case.best());
            case.check(&network, &answer)?;
            for gate in 0..case.gates.len() {
                if pick >> (gate + 8 * cycle) & 1 == 1 {
                    let cost = case.gates[gate].waiting_cost;
                    case.gates[gate].waiting_cost = cost * 2 + 10;
                }
            }
            for arc in 0..case.arcs.len() {
                if (pick >> (arc % 31)) & 1 == 1 && cycle == 1 {
                    let own = &mut case.arcs[arc].2;
                    own.cost += 5;
                    network.set_terms(arc as u32, *own).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_used_up_budget_is_an_error_only_without_any_flow() {
    let case = Case {
        supply: vec![2, 0, -2],
        arcs: vec![
            (0, 1, terms(0, 2, 0)),
            (0, 2, terms(0, 2, 0)),
            (1, 2, terms(0, 2, 1)),
        ],
        gates: vec![Gate {
            members: vec![(0, 2)],
            waiting_cost: 9,
        }],
    };
    let mut network = case.network();
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

/// Without a way past it, a gate has to be open; even without any effort this is seen.
#[test]
fn gates_without_a_way_past_them_open() {
    let case = Case {
        supply: vec![2, 0, -2],
        arcs: vec![(0, 1, terms(0, 2, 0)), (1, 2, terms(0, 2, 100))],
        gates: vec![Gate {
            members: vec![(0, 2)],
            waiting_cost: 9,
        }],
    };
    for flows in [0, 1, 9] {
        let effort = Effort { flows, gap_ppm: 0 };
        let answer = case
            .network()
            .solve_gated(&case.gates, effort, &Limits::default());
        let answer = answer.unwrap();
        assert_eq!((answer.cost, answer.bound), (200, 200));
        assert_eq!(answer.open, [true]);
    }
}

/// What leaves a gate's own node by a convex arc counts as well.
#[test]
fn a_group_goes_on_by_a_convex_arc() {
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
