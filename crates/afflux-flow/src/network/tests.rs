//! Tests: after any changes, all derived sums of a network match its arcs.

use proptest::prelude::*;

use super::{ConvexTerms, Network, NewConvexArc};
use crate::convex_arcs::FIRST_CONVEX_ID;
use crate::deadline::Limits;
use crate::fixed_flow::FixedFlow;
use crate::problem::Terms;
use crate::proptest_cases::cases;

#[derive(Debug, Clone)]
enum Step {
    AddNode(i64),
    RemoveNode(usize),
    AddArc(usize, usize, Terms),
    RemoveArc(usize),
    Supply(usize, i64),
    Bounds(usize, i64, i64),
    Cost(usize, i64),
    Terms(usize, Terms),
    AddConvex(usize, usize, [i64; 3]),
    Convex(usize, i64, [i64; 3]),
    RemoveConvex(usize),
    Solve,
}

/// Mostly equal bounds.
fn bounds() -> impl Strategy<Value = (i64, i64)> {
    let units = prop_oneof![20 => 0_i64..6, 1 => Just(1 << 40), 1 => Just(i64::MAX)];
    (units, prop_oneof![2 => Just(0_i64), 1 => 1_i64..6])
        .prop_map(|(lower, more)| (lower, lower.saturating_add(more)))
}

fn terms() -> impl Strategy<Value = Terms> {
    (bounds(), -9_i64..20).prop_map(|((lower, capacity), cost)| Terms {
        lower,
        capacity,
        cost,
    })
}

/// Costs of a convex arc; some are invalid because they fall.
fn costs() -> impl Strategy<Value = [i64; 3]> {
    (-9_i64..20, -1_i64..5, 0_i64..5).prop_map(|(first, more, most)| {
        let second = first + more;
        [first, second, second + most]
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any = 0_usize..50;
    let supply = || prop_oneof![9 => -5_i64..6, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
    let step = prop_oneof![
        2 => supply().prop_map(Step::AddNode),
        1 => any.clone().prop_map(Step::RemoveNode),
        6 => (0_usize..6, 0_usize..6, terms()).prop_map(|(t, h, terms)| Step::AddArc(t, h, terms)),
        2 => any.clone().prop_map(Step::RemoveArc),
        2 => (any.clone(), supply()).prop_map(|(node, units)| Step::Supply(node, units)),
        3 => (any.clone(), bounds()).prop_map(|(arc, (low, high))| Step::Bounds(arc, low, high)),
        3 => (any.clone(), -9_i64..20).prop_map(|(arc, cost)| Step::Cost(arc, cost)),
        1 => (any.clone(), terms()).prop_map(|(arc, terms)| Step::Terms(arc, terms)),
        2 => (0_usize..6, 0_usize..6, costs()).prop_map(|(t, h, costs)| Step::AddConvex(t, h, costs)),
        2 => (any.clone(), 0_i64..5, costs()).prop_map(|(arc, c, costs)| Step::Convex(arc, c, costs)),
        1 => any.prop_map(Step::RemoveConvex),
        2 => Just(Step::Solve),
    ];
    prop::collection::vec(step, 1..80)
}

/// Applies a step. Errors are ignored: they must change nothing, which the checks after the step
/// verify.
fn apply(network: &mut Network, step: Step) {
    let id = |number: usize, of: usize| number.checked_rem(of).unwrap_or(0) as u32;
    let (nodes, arcs) = (network.supply.len(), network.arcs.len());
    let convex = |number: usize| FIRST_CONVEX_ID + id(number, network.convex_arcs.len());
    let _ = match step {
        Step::AddNode(supply) => network.add_node(supply).map(|_| ()),
        Step::RemoveNode(node) => network.remove_node(id(node, nodes)),
        Step::AddArc(tail, head, terms) => {
            let arc = network.add_arc(id(tail, nodes), id(head, nodes), terms);
            arc.map(|_| ())
        }
        Step::RemoveArc(arc) => network.remove_arc(id(arc, arcs)),
        Step::Supply(node, supply) => network.set_supply(id(node, nodes), supply),
        Step::Bounds(arc, low, high) => network.set_bounds(id(arc, arcs), low, high),
        Step::Cost(arc, cost) => network.set_costs([(id(arc, arcs), cost)].into_iter()),
        Step::Terms(arc, terms) => network.set_terms(id(arc, arcs), terms),
        Step::AddConvex(tail, head, costs) => {
            let arc = NewConvexArc {
                tail: id(tail, nodes),
                head: id(head, nodes),
                terms: ConvexTerms {
                    lower: 0,
                    capacity: 3,
                    costs: &costs,
                },
            };
            network.add_convex_arcs([arc].into_iter()).map(|_| ())
        }
        Step::Convex(arc, capacity, costs) => {
            let terms = ConvexTerms {
                lower: capacity / 2,
                capacity,
                costs: &costs,
            };
            network.set_convex([(convex(arc), terms)].into_iter())
        }
        Step::RemoveConvex(arc) => network.remove_arc(convex(arc)),
        Step::Solve => network.solve(&Limits::default()).map(|_| ()),
    };
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn derived_sums_match_arcs(steps in steps()) {
        let mut network = Network::new();
        for step in steps {
            apply(&mut network, step.clone());
            let problem = network.problem();
            let fixed_flow = FixedFlow::new(problem.supply(), problem.arcs());
            prop_assert_eq!(network.fixed_flow.cost, fixed_flow.cost, "after {:?}", step);
            prop_assert_eq!(network.arcs.free(), problem.arcs().filter(|arc| arc.is_free()).count());
            let supply_sum: i128 = problem.supply().iter().map(|&units| i128::from(units)).sum();
            prop_assert_eq!(network.supply_sum, supply_sum);
            let mut excess: Vec<i128> = (0..problem.nodes()).map(|node| fixed_flow.due.get(node)).collect();
            for (index, arc) in problem.arcs().enumerate() {
                let flow = network.state.flow[index];
                prop_assert!((arc.lower..=arc.capacity).contains(&flow));
                match arc.fixed_flow() {
                    Some(units) => prop_assert_eq!(flow, units, "after {:?}", step),
                    None => {
                        excess[arc.tail] -= i128::from(flow);
                        excess[arc.head] += i128::from(flow);
                    }
                }
            }
            for (slot, convex) in network.convex_arcs.range(0..network.convex_arcs.len()) {
                let flow = network.state.convex_flow[slot];
                prop_assert_eq!(convex.clamp_flow(flow), flow, "after {:?}", step);
                let (tail, head) = convex.ends();
                excess[tail] -= i128::from(flow);
                excess[head] += i128::from(flow);
            }
            let removed = network.convex_arcs.range(0..network.convex_arcs.len());
            let removed = removed.filter(|(_, convex)| !convex.exists()).count();
            prop_assert_eq!(network.convex_arcs.count(), network.convex_arcs.len() - removed);
            for (node, &excess) in excess.iter().enumerate() {
                prop_assert_eq!(network.fixed_flow.due.get(node), fixed_flow.due.get(node), "after {:?}", step);
                prop_assert_eq!(network.state.excess(node), excess, "after {:?}", step);
            }
            let unbalanced = (0..excess.len()).filter(|&node| excess[node] != 0);
            let found: Vec<usize> = network.state.unbalanced().collect();
            prop_assert_eq!(found, unbalanced.collect::<Vec<_>>());
        }
    }
}
