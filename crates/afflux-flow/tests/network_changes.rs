//! After any changes, a network gives the same answers as a new network.

#[path = "fuzzing/convex_model.rs"]
mod convex_model;
#[path = "../../proptest_cases.rs"]
mod proptest_cases;
mod reference;

use std::collections::BTreeMap;

use afflux_flow::{
    ArcId, Columns, ConvexTerms, FlowError, Limits, Network, NewConvexArc, NodeId, Problem, Terms,
    violation,
};
use convex_model::Convex;
use proptest::prelude::*;
use proptest_cases::cases;
use reference::least_cost;

/// A change; numbers select an existing node or arc.
#[derive(Debug, Clone)]
enum Change {
    AddNode(i64),
    RemoveNode(usize),
    Supply(usize, i64),
    AddArc(usize, usize, Terms),
    RemoveArc(usize),
    Bounds(usize, i64, i64),
    Cost(usize, i64),
    /// Adds the same amount to the costs of all arcs of a node.
    Reprice(usize, i64),
    AddConvex(usize, usize, Convex),
    /// Sets bounds and costs of a convex arc; uses as many of the costs as the arc has.
    Convex(usize, Convex),
    RemoveConvex(usize),
}

/// The convex arc with this number of costs.
fn with_cost_count(mut convex: Convex, length: usize) -> Convex {
    convex.costs.truncate(length);
    convex.capacity = convex.capacity.min(length as i64);
    convex.lower = convex.lower.min(convex.capacity);
    convex
}

/// A convex arc with six costs; its ends are set later.
fn convex(max_cost: i64) -> impl Strategy<Value = Convex> {
    let lower = prop_oneof![5 => Just(0_i64), 1 => 0_i64..3];
    let costs = prop::collection::vec(-max_cost / 4..=max_cost, 6);
    (lower, 0_i64..=6, costs).prop_map(|(lower, capacity, mut costs)| {
        costs.sort_unstable();
        Convex {
            tail: 0,
            head: 0,
            lower: lower.min(capacity),
            capacity,
            costs,
        }
    })
}

fn terms(max_units: i64, max_cost: i64) -> impl Strategy<Value = Terms> {
    let lower = prop_oneof![5 => Just(0), 1 => 0..=max_units / 6];
    (lower, 0..=max_units, -max_cost / 4..=max_cost).prop_map(|(lower, width, cost)| Terms {
        lower,
        capacity: lower + width,
        cost,
    })
}

fn changes(max_units: i64, max_cost: i64) -> impl Strategy<Value = Change> {
    let any = 0_usize..1000;
    let arc = (any.clone(), any.clone(), terms(max_units, max_cost));
    prop_oneof![
        1 => (-max_units..=max_units).prop_map(Change::AddNode),
        1 => any.clone().prop_map(Change::RemoveNode),
        2 => (any.clone(), -max_units..=max_units).prop_map(|(n, s)| Change::Supply(n, s)),
        4 => arc.prop_map(|(t, h, terms)| Change::AddArc(t, h, terms)),
        2 => any.clone().prop_map(Change::RemoveArc),
        3 => (any.clone(), terms(max_units, max_cost))
            .prop_map(|(a, terms)| Change::Bounds(a, terms.lower, terms.capacity)),
        3 => (any.clone(), -max_cost / 4..=max_cost).prop_map(|(a, c)| Change::Cost(a, c)),
        2 => (any.clone(), -max_cost / 4..=max_cost).prop_map(|(n, c)| Change::Reprice(n, c)),
        3 => (any.clone(), any.clone(), convex(max_cost), 1_usize..=6)
            .prop_map(|(t, h, arc, length)| Change::AddConvex(t, h, with_cost_count(arc, length))),
        4 => (any.clone(), convex(max_cost)).prop_map(|(a, arc)| Change::Convex(a, arc)),
        1 => any.prop_map(Change::RemoveConvex),
    ]
}

/// A simple model of the same network.
#[derive(Default)]
struct ModelNetwork {
    nodes: BTreeMap<NodeId, i64>,
    arcs: BTreeMap<ArcId, (NodeId, NodeId, Terms)>,
    convex: BTreeMap<ArcId, Convex>,
}

impl ModelNetwork {
    fn node(&self, pick: usize) -> Option<NodeId> {
        let nodes: Vec<NodeId> = self.nodes.keys().copied().collect();
        nodes.get(pick % nodes.len().max(1)).copied()
    }

    fn arc(&self, pick: usize) -> Option<ArcId> {
        let arcs: Vec<ArcId> = self.arcs.keys().copied().collect();
        arcs.get(pick % arcs.len().max(1)).copied()
    }

    fn convex(&self, pick: usize) -> Option<ArcId> {
        let arcs: Vec<ArcId> = self.convex.keys().copied().collect();
        arcs.get(pick % arcs.len().max(1)).copied()
    }

    fn apply(&mut self, network: &mut Network, change: Change) -> Result<(), FlowError> {
        match change {
            Change::AddNode(supply) => {
                let node = network.add_node(supply)?;
                assert_eq!(self.nodes.insert(node, supply), None);
            }
            Change::RemoveNode(pick) => {
                let Some(node) = self.node(pick) else {
                    return Ok(());
                };
                let at_node = |arc: &ArcId| self.arcs[arc].0 == node || self.arcs[arc].1 == node;
                let arcs = self.arcs.keys().copied().filter(at_node);
                let convex = self.convex.iter();
                let convex = convex.filter(|(_, arc)| arc.tail == node || arc.head == node);
                let arcs: Vec<ArcId> = arcs.chain(convex.map(|(&arc, _)| arc)).collect();
                if !arcs.is_empty() {
                    let refused = network.remove_node(node);
                    assert!(matches!(refused, Err(FlowError::NodeHasArcs { .. })));
                }
                network.remove_arcs(&arcs)?;
                network.remove_node(node)?;
                self.arcs.retain(|arc, _| !arcs.contains(arc));
                self.convex.retain(|arc, _| !arcs.contains(arc));
                self.nodes.remove(&node);
            }
            Change::Supply(pick, supply) => {
                if let Some(node) = self.node(pick) {
                    network.set_supply(node, supply)?;
                    self.nodes.insert(node, supply);
                }
            }
            Change::AddArc(tail, head, terms) => {
                if let (Some(tail), Some(head)) = (self.node(tail), self.node(head)) {
                    let arc = network.add_arc(tail, head, terms)?;
                    assert!(self.arcs.insert(arc, (tail, head, terms)).is_none());
                }
            }
            Change::RemoveArc(pick) => {
                if let Some(arc) = self.arc(pick) {
                    network.remove_arc(arc)?;
                    self.arcs.remove(&arc);
                    let refused = network.remove_arc(arc);
                    assert_eq!(refused, Err(FlowError::UnknownArc { arc }));
                }
            }
            Change::Bounds(pick, lower, capacity) => {
                if let Some(arc) = self.arc(pick) {
                    network.set_bounds(arc, lower, capacity)?;
                    if let Some((_, _, terms)) = self.arcs.get_mut(&arc) {
                        (terms.lower, terms.capacity) = (lower, capacity);
                    }
                }
            }
            Change::Cost(pick, cost) => {
                if let Some(arc) = self.arc(pick) {
                    network.set_cost(arc, cost)?;
                    if let Some((_, _, terms)) = self.arcs.get_mut(&arc) {
                        terms.cost = cost;
                    }
                }
            }
            Change::Reprice(pick, more) => {
                let Some(node) = self.node(pick) else {
                    return Ok(());
                };
                for (&arc, (tail, head, terms)) in &mut self.arcs {
                    if *tail == node || *head == node {
                        terms.cost += more;
                        network.set_cost(arc, terms.cost)?;
                    }
                }
                for (&arc, convex) in &mut self.convex {
                    if convex.tail == node || convex.head == node {
                        convex.costs.iter_mut().for_each(|cost| *cost += more);
                        network.set_convex([(arc, convex.terms())].into_iter())?;
                    }
                }
            }
            Change::AddConvex(tail, head, convex) => {
                let ends = (self.node(tail), self.node(head));
                if let (Some(tail), Some(head)) = ends
                    && tail != head
                {
                    let own = Convex {
                        tail,
                        head,
                        ..convex
                    };
                    let terms = own.terms();
                    let new = NewConvexArc { tail, head, terms };
                    let arc = network.add_convex_arcs([new].into_iter())?[0];
                    assert!(self.convex.insert(arc, own).is_none());
                }
            }
            Change::Convex(pick, convex) => {
                if let Some(arc) = self.convex(pick) {
                    let own = self.convex.get_mut(&arc).unwrap();
                    *own = Convex {
                        tail: own.tail,
                        head: own.head,
                        ..with_cost_count(convex, own.costs.len())
                    };
                    network.set_convex([(arc, own.terms())].into_iter())?;
                }
            }
            Change::RemoveConvex(pick) => {
                if let Some(arc) = self.convex(pick) {
                    network.remove_arc(arc)?;
                    self.convex.remove(&arc);
                    let refused = network.remove_arc(arc);
                    assert_eq!(refused, Err(FlowError::UnknownArc { arc }));
                }
            }
        }
        Ok(())
    }

    /// All arcs, and then all units of convex ones.
    fn all_arcs(&self) -> Vec<(ArcId, NodeId, NodeId, Terms)> {
        let arcs = self.arcs.iter();
        let arcs = arcs.map(|(&arc, &(tail, head, terms))| (arc, tail, head, terms));
        let units = self.convex.iter().flat_map(|(&arc, convex)| {
            let units = convex.units();
            units.map(move |(tail, head, terms)| (arc, tail, head, terms))
        });
        arcs.chain(units).collect()
    }

    /// The columns of the model, with this flow.
    fn columns(&self, flow: Vec<i64>) -> Columns {
        let all = self.all_arcs();
        let arcs = || all.iter();
        Columns {
            nodes: self.nodes.keys().copied().collect(),
            supply: self.nodes.values().copied().collect(),
            arcs: arcs().map(|arc| arc.0).collect(),
            tail: arcs().map(|arc| arc.1).collect(),
            head: arcs().map(|arc| arc.2).collect(),
            lower: arcs().map(|arc| arc.3.lower).collect(),
            capacity: arcs().map(|arc| arc.3.capacity).collect(),
            cost: arcs().map(|arc| arc.3.cost).collect(),
            flow,
        }
    }

    /// Solves the network and compares the answer with a simple reference solver and with the
    /// certificate.
    fn check(&mut self, network: &mut Network) -> Result<(), TestCaseError> {
        let Some(balancing) = self.node(0) else {
            return Ok(());
        };
        let sum: i64 = self.nodes.values().sum();
        let supply = self.nodes[&balancing] - sum;
        network.set_supply(balancing, supply).unwrap();
        self.nodes.insert(balancing, supply);

        let index: BTreeMap<NodeId, i32> = self.nodes.keys().copied().zip(0..).collect();
        let now = self.columns(network.columns().flow);
        prop_assert_eq!(&network.columns(), &now);
        let tail: Vec<i32> = now.tail.iter().map(|node| index[node]).collect();
        let head: Vec<i32> = now.head.iter().map(|node| index[node]).collect();
        let (lower, capacity, cost) = (&now.lower, &now.capacity, &now.cost);
        let problem = Problem::new(&now.supply, &tail, &head, lower, capacity, cost).unwrap();
        match (network.solve(&Limits::default()), least_cost(&problem)) {
            (Ok(answer), Some(cost)) => {
                prop_assert_eq!(answer.cost, cost);
                prop_assert_eq!(answer.bound, cost);
                let flow = network.columns().flow;
                for &arc in self.arcs.keys() {
                    let place = now.arcs.iter().position(|&other| other == arc).unwrap();
                    prop_assert_eq!(network.flow(arc), Ok(flow[place]));
                }
                for &arc in self.convex.keys() {
                    let units = now
                        .arcs
                        .iter()
                        .zip(&flow)
                        .filter(|&(&other, _)| other == arc);
                    prop_assert_eq!(network.flow(arc), Ok(units.map(|(_, units)| units).sum()));
                }
                let price: Result<Vec<i64>, _> =
                    self.nodes.keys().map(|&n| network.price(n)).collect();
                let wrong = violation(&problem, &flow, &price.unwrap());
                prop_assert_eq!(wrong, None);
            }
            (Err(FlowError::Infeasible { units, .. }), None) => prop_assert!(units > 0),
            (answer, cost) => prop_assert!(false, "{answer:?}, expected cost {cost:?}"),
        }
        prop_assert_eq!(network.nodes(), self.nodes.len());
        prop_assert_eq!(network.arcs(), self.arcs.len() + self.convex.len());
        Ok(())
    }
}

fn check_rounds(rounds: Vec<Vec<Change>>) -> Result<(), TestCaseError> {
    let mut network = Network::new();
    let mut model = ModelNetwork::default();
    for node in 0..6 {
        model.apply(&mut network, Change::AddNode(0)).unwrap();
        // Arcs in and out of every node, so that most rounds are feasible.
        let costly = Terms {
            lower: 0,
            capacity: 60,
            cost: 50,
        };
        model
            .apply(&mut network, Change::AddArc(node, 0, costly))
            .unwrap();
        model
            .apply(&mut network, Change::AddArc(0, node, costly))
            .unwrap();
    }
    for round in rounds {
        for change in round {
            model.apply(&mut network, change).unwrap();
        }
        model.check(&mut network)?;
    }
    Ok(())
}

fn rounds(max_units: i64, max_cost: i64) -> impl Strategy<Value = Vec<Vec<Change>>> {
    prop::collection::vec(
        prop::collection::vec(changes(max_units, max_cost), 1..12),
        1..14,
    )
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn every_solve_after_changes_has_minimum_cost(rounds in rounds(12, 20)) {
        check_rounds(rounds)?;
    }

    #[test]
    fn costs_with_many_ties(rounds in rounds(6, 1)) {
        check_rounds(rounds)?;
    }

    #[test]
    fn costs_of_very_different_sizes(rounds in rounds(9, 1_000_000)) {
        check_rounds(rounds)?;
    }

    /// Some of the working sets fit 32 bits, others do not.
    #[test]
    fn costs_around_32_bits(rounds in rounds(9, 1 << 33)) {
        check_rounds(rounds)?;
    }

    /// All values just fit 32 bits.
    #[test]
    fn values_up_to_the_limit_of_32_bits(rounds in rounds(i64::from(i32::MAX) / 9 * 8, i64::from(i32::MAX))) {
        check_rounds(rounds)?;
    }

    #[test]
    fn capacities_around_32_bits(rounds in rounds(1 << 33, 20)) {
        check_rounds(rounds)?;
    }
}

#[test]
fn the_last_flow_is_kept_after_an_error() {
    let mut network = Network::new();
    let terms = |capacity, cost| Terms {
        lower: 0,
        capacity,
        cost,
    };
    let source = network.add_node(3).unwrap();
    let sink = network.add_node(-3).unwrap();
    let mut arcs = Vec::new();
    for cost in [1, 2, 3] {
        let machine = network.add_node(0).unwrap();
        arcs.push(network.add_arc(source, machine, terms(2, cost)).unwrap());
        arcs.push(network.add_arc(machine, sink, terms(2, 0)).unwrap());
    }
    let cost = network.solve(&Limits::default()).unwrap().cost;
    let flows = network.flows(arcs.iter().copied()).unwrap();

    // New costs for all machines move flow, but there is not enough room.
    for (arc, cost) in [(0, 9), (2, 8), (4, 1)] {
        network.set_cost(arcs[arc], cost).unwrap();
    }
    network.set_supply(source, 7).unwrap();
    network.set_supply(sink, -7).unwrap();
    let error = network.solve(&Limits::default()).unwrap_err();
    assert!(matches!(error, FlowError::Infeasible { .. }), "{error}");
    assert_eq!(network.flows(arcs.iter().copied()).unwrap(), flows);

    for (arc, cost) in [(0, 1), (2, 2), (4, 3)] {
        network.set_cost(arcs[arc], cost).unwrap();
    }
    network.set_supply(source, 3).unwrap();
    network.set_supply(sink, -3).unwrap();
    assert_eq!(network.solve(&Limits::default()).unwrap().cost, cost);
}

#[test]
fn the_last_flow_of_convex_arcs_is_kept_after_an_error() {
    let mut network = Network::new();
    let (source, sink) = (network.add_node(4).unwrap(), network.add_node(-4).unwrap());
    let costs = [[1, 2, 9], [3, 4, 5], [20, 21, 22]];
    let terms = |costs| ConvexTerms {
        lower: 0,
        capacity: 3,
        costs,
    };
    let machines = network.add_nodes(&[0; 3]).unwrap();
    let arcs = machines
        .iter()
        .zip(&costs)
        .map(|(&head, costs)| NewConvexArc {
            tail: source,
            head,
            terms: terms(costs),
        });
    let arcs = network.add_convex_arcs(arcs).unwrap();
    let out = Terms {
        lower: 0,
        capacity: 3,
        cost: 0,
    };
    for &machine in &machines {
        network.add_arc(machine, sink, out).unwrap();
    }
    assert_eq!(network.solve(&Limits::default()).unwrap().cost, 10);
    let flows = network.flows(arcs.iter().copied()).unwrap();
    assert_eq!(flows, [2, 2, 0]);

    // New costs for all arcs move flow, but there is not enough room.
    let turned = arcs.iter().copied().zip(costs.iter().rev());
    network
        .set_convex(turned.map(|(arc, costs)| (arc, terms(costs))))
        .unwrap();
    network.set_supply(source, 10).unwrap();
    network.set_supply(sink, -10).unwrap();
    let error = network.solve(&Limits::default()).unwrap_err();
    assert!(matches!(error, FlowError::Infeasible { .. }), "{error}");
    assert_eq!(network.flows(arcs.iter().copied()).unwrap(), flows);

    network.set_supply(source, 4).unwrap();
    network.set_supply(sink, -4).unwrap();
    assert_eq!(network.solve(&Limits::default()).unwrap().cost, 10);
    assert_eq!(network.flows(arcs.iter().copied()).unwrap(), [0, 2, 2]);
}

#[test]
fn large_prices_are_reset_when_nodes_are_added() {
    let terms = |cost| Terms {
        lower: 0,
        capacity: 5,
        cost,
    };
    let mut network = Network::new();
    network.add_nodes(&[3, -3]).unwrap();
    // The largest cost allowed with two nodes; the price is as large.
    let arc = network.add_arc(0, 1, terms(i64::MAX / 16 / 3)).unwrap();
    network.solve(&Limits::default()).unwrap();
    network.set_cost(arc, 1).unwrap();
    for node in 1..500 {
        assert_eq!(network.add_node(0), Ok(node + 1));
        network.add_arc(node, node + 1, terms(1)).unwrap();
    }
    assert_eq!(network.solve(&Limits::default()).unwrap().cost, 3);
}

/// Between solves the bounds may be infeasible or too large to solve.
#[test]
fn values_that_overflow_64_bits_are_an_error_until_they_are_changed() {
    let mut network = Network::new();
    let nodes = network.add_nodes(&[3, -3]).unwrap();
    let terms = |lower, capacity| Terms {
        lower,
        capacity,
        cost: 5,
    };
    let arc = network.add_arc(nodes[0], nodes[1], terms(0, 3)).unwrap();
    let back: Vec<ArcId> = (0..3)
        .map(|_| network.add_arc(nodes[1], nodes[0], terms(0, 3)).unwrap())
        .collect();
    assert_eq!(network.solve(&Limits::default()).unwrap().cost, 15);

    for &arc in &back {
        network.set_bounds(arc, i64::MAX, i64::MAX).unwrap();
    }
    let error = network.solve(&Limits::default()).unwrap_err();
    assert!(
        matches!(error, FlowError::CapacityOverflow { .. }),
        "{error}"
    );

    for &arc in &back {
        network.set_bounds(arc, 0, 3).unwrap();
    }
    assert_eq!(network.solve(&Limits::default()).unwrap().cost, 15);
    assert_eq!(network.flow(arc).unwrap(), 3);
}
