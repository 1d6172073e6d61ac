//! A network that changes gives, after every change, the answer that a new one would give.

#[path = "fuzzing/convex.rs"]
mod convex;
mod reference;

use std::collections::BTreeMap;

use afflux_flow::{
    ArcId, Columns, ConvexTerms, FlowError, Limits, Network, NewConvexArc, NodeId, Problem, Terms,
    violation,
};
use convex::Convex;
use proptest::prelude::*;
use reference::least_cost;

/// One change; numbers pick an existing node or arc.
#[derive(Debug, Clone)]
enum Change {
    AddNode(i64),
    RemoveNode(usize),
    Supply(usize, i64),
    AddArc(usize, usize, Terms),
    RemoveArc(usize),
    Bounds(usize, i64, i64),
    Cost(usize, i64),
    /// All arcs of a node become dearer by as much.
    Reprice(usize, i64),
    AddConvex(usize, usize, Convex),
    /// With as many costs as it has, the first of these.
    Convex(usize, Convex),
    RemoveConvex(usize),
}

/// With so many costs.
fn cut(mut convex: Convex, length: usize) -> Convex {
    convex.costs.truncate(length);
    convex.capacity = convex.capacity.min(length as i64);
    convex.lower = convex.lower.min(convex.capacity);
    convex
}

/// With six costs, and ends that mean nothing yet.
fn convex(costs: i64) -> impl Strategy<Value = Convex> {
    let lower = prop_oneof![5 => Just(0_i64), 1 => 0_i64..3];
    let costs = prop::collection::vec(-costs / 4..=costs, 6);
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

fn terms(most: i64, costs: i64) -> impl Strategy<Value = Terms> {
    let lower = prop_oneof![5 => Just(0), 1 => 0..=most / 6];
    (lower, 0..=most, -costs / 4..=costs).prop_map(|(lower, width, cost)| Terms {
        lower,
        capacity: lower + width,
        cost,
    })
}

fn changes(most: i64, costs: i64) -> impl Strategy<Value = Change> {
    let any = 0_usize..1000;
    let arc = (any.clone(), any.clone(), terms(most, costs));
    prop_oneof![
        1 => (-most..=most).prop_map(Change::AddNode),
        1 => any.clone().prop_map(Change::RemoveNode),
        2 => (any.clone(), -most..=most).prop_map(|(n, s)| Change::Supply(n, s)),
        4 => arc.prop_map(|(t, h, terms)| Change::AddArc(t, h, terms)),
        2 => any.clone().prop_map(Change::RemoveArc),
        3 => (any.clone(), terms(most, costs))
            .prop_map(|(a, terms)| Change::Bounds(a, terms.lower, terms.capacity)),
        3 => (any.clone(), -costs / 4..=costs).prop_map(|(a, c)| Change::Cost(a, c)),
        2 => (any.clone(), -costs / 4..=costs).prop_map(|(n, c)| Change::Reprice(n, c)),
        3 => (any.clone(), any.clone(), convex(costs), 1_usize..=6)
            .prop_map(|(t, h, arc, length)| Change::AddConvex(t, h, cut(arc, length))),
        4 => (any.clone(), convex(costs)).prop_map(|(a, arc)| Change::Convex(a, arc)),
        1 => any.prop_map(Change::RemoveConvex),
    ]
}

/// The same network, kept in the simplest way.
#[derive(Default)]
struct Plain {
    nodes: BTreeMap<NodeId, i64>,
    arcs: BTreeMap<ArcId, (NodeId, NodeId, Terms)>,
    convex: BTreeMap<ArcId, Convex>,
}

impl Plain {
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
                        ..cut(convex, own.costs.len())
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

    /// With this flow.
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

    /// Solves the network as it is and holds the answer against a solver that is too simple to be
    /// wrong, and against the certificate.
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

fn check_series(rounds: Vec<Vec<Change>>) -> Result<(), TestCaseError> {
    let mut network = Network::new();
    let mut plain = Plain::default();
    for node in 0..6 {
        plain.apply(&mut network, Change::AddNode(0)).unwrap();
        // A way in and out of every node, so that most rounds have a flow.
        let costly = Terms {
            lower: 0,
            capacity: 60,
            cost: 50,
        };
        plain
            .apply(&mut network, Change::AddArc(node, 0, costly))
            .unwrap();
        plain
            .apply(&mut network, Change::AddArc(0, node, costly))
            .unwrap();
    }
    for round in rounds {
        for change in round {
            plain.apply(&mut network, change).unwrap();
        }
        plain.check(&mut network)?;
    }
    Ok(())
}

fn series(most: i64, costs: i64) -> impl Strategy<Value = Vec<Vec<Change>>> {
    prop::collection::vec(prop::collection::vec(changes(most, costs), 1..12), 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_answer_of_a_series_costs_the_least(rounds in series(12, 20)) {
        check_series(rounds)?;
    }

    #[test]
    fn ties_everywhere(rounds in series(6, 1)) {
        check_series(rounds)?;
    }

    #[test]
    fn costs_of_very_different_sizes(rounds in series(9, 1_000_000)) {
        check_series(rounds)?;
    }

    /// Some of the working sets fit 32 bits, others do not.
    #[test]
    fn costs_around_32_bits(rounds in series(9, 1 << 33)) {
        check_series(rounds)?;
    }

    /// All of them do, just so.
    #[test]
    fn all_within_32_bits(rounds in series(i64::from(i32::MAX) / 9 * 8, i64::from(i32::MAX))) {
        check_series(rounds)?;
    }

    #[test]
    fn capacities_around_32_bits(rounds in series(1 << 33, 20)) {
        check_series(rounds)?;
    }
}

#[test]
fn after_an_error_the_last_flow_is_still_there() {
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

    // All machines are priced anew, which moves flow; but there is no room for all.
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
fn after_an_error_convex_arcs_still_carry_what_they_did() {
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

    // All of them are priced anew, which moves flow; but there is no room for all.
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
fn prices_do_not_outgrow_nodes_that_are_added_later() {
    let terms = |cost| Terms {
        lower: 0,
        capacity: 5,
        cost,
    };
    let mut network = Network::new();
    network.add_nodes(&[3, -3]).unwrap();
    // As dear as allowed with two nodes, and so is the price.
    let arc = network.add_arc(0, 1, terms(i64::MAX / 16 / 3)).unwrap();
    network.solve(&Limits::default()).unwrap();
    network.set_cost(arc, 1).unwrap();
    for node in 1..500 {
        assert_eq!(network.add_node(0), Ok(node + 1));
        network.add_arc(node, node + 1, terms(1)).unwrap();
    }
    assert_eq!(network.solve(&Limits::default()).unwrap().cost, 3);
}

/// Between solves anything goes, also what no solve could route.
#[test]
fn what_does_not_fit_64_bits_is_an_error_until_it_is_gone() {
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
