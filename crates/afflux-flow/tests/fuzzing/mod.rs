//! Interprets bytes as a series of changes and solves. Shared by a test and by the target in
//! `fuzz/`.
//!
//! Any bytes are a valid series. After every solve the answer is compared with a cold solve and
//! checked by the certificate; every error must have a reason and change nothing.

#[path = "../columns/mod.rs"]
mod columns;
mod convex_model;
mod convex_steps;

use std::collections::BTreeMap;

use afflux_flow::{
    Answer, ArcId, Effort, FlowError, Gate, Limits, Network, NodeId, Problem, Terms, solve,
    violation,
};
use columns::Columns;
use convex_model::Convex;

/// The maximum number of nodes and arcs of a series: larger networks take long and find few
/// defects.
const MAX_NODES: usize = 24;
const MAX_ARCS: usize = 80;

/// Runs a series; panics at the first wrong answer.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let first = bytes.next();
    let size = first % 4;
    let mut pair = NetworkAndModel {
        has_convex: (64..192).contains(&first),
        // Small numbers make ties; large ones make overflows.
        max_cost: [1, 30, 1_000_000, i64::MAX / 16][usize::from(size)],
        max_units: [3, 12, 1_000_000_000, i64::MAX][usize::from(size)],
        ..NetworkAndModel::default()
    };
    while !bytes.0.is_empty() {
        pair.step(&mut bytes);
    }
    pair.balance();
    pair.check_solve();
}

/// The rest of the input, followed by zeros.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn pick(&mut self, count: usize) -> usize {
        usize::from(self.next()) % count.max(1)
    }

    /// A number from 0 to `max`, small or near the end.
    fn number(&mut self, max: i64) -> i64 {
        let byte = i64::from(self.next());
        match byte {
            0..200 => byte.min(max),
            200..230 => max / (byte - 198),
            _ => max - (255 - byte).min(max),
        }
    }
}

/// A network and a simple model of it.
#[derive(Default)]
struct NetworkAndModel {
    network: Network,
    nodes: BTreeMap<NodeId, i64>,
    arcs: BTreeMap<ArcId, (NodeId, NodeId, Terms)>,
    convex: BTreeMap<ArcId, Convex>,
    has_convex: bool,
    max_cost: i64,
    max_units: i64,
}

impl NetworkAndModel {
    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let byte = bytes.next();
        if self.has_convex && byte >= 192 {
            return self.step_convex(byte, bytes);
        }
        match byte % 16 {
            0 | 1 if self.nodes.len() < MAX_NODES => {
                let supply = self.supply(bytes);
                let node = self.network.add_node(supply).expect("few nodes");
                assert_eq!(self.nodes.insert(node, supply), None);
            }
            2..=5 if self.arcs.len() < MAX_ARCS => self.add_arc(bytes),
            6 => self.remove_node(bytes),
            7 => {
                if let Some(arc) = self.pick_arc(bytes) {
                    assert_eq!(self.network.remove_arc(arc), Ok(()));
                    self.arcs.remove(&arc);
                    let again = self.network.flow(arc);
                    assert_eq!(again, Err(FlowError::UnknownArc { arc }));
                }
            }
            8 => {
                if let Some(node) = self.pick_node(bytes) {
                    let supply = self.supply(bytes);
                    assert_eq!(self.network.set_supply(node, supply), Ok(()));
                    self.nodes.insert(node, supply);
                }
            }
            9 => self.set_costs(bytes),
            10 => self.set_bounds(bytes),
            11 => {
                self.balance();
                self.check_levels(bytes);
            }
            12 => {
                self.balance();
                self.check_gates(bytes);
            }
            13 => {
                self.balance();
                self.check_interrupted();
            }
            14 => self.check_solve(),
            _ => {
                self.balance();
                self.check_solve();
            }
        }
    }

    fn supply(&self, bytes: &mut Bytes<'_>) -> i64 {
        let units = bytes.number(self.max_units);
        if bytes.next() % 2 == 0 { units } else { -units }
    }

    fn terms(&self, bytes: &mut Bytes<'_>) -> Terms {
        let capacity = bytes.number(self.max_units);
        let lower = if bytes.next() < 40 {
            bytes.number(capacity)
        } else {
            0
        };
        Terms {
            lower,
            capacity,
            cost: self.cost(bytes),
        }
    }

    fn cost(&self, bytes: &mut Bytes<'_>) -> i64 {
        let cost = bytes.number(self.max_cost);
        if bytes.next() < 60 { -cost } else { cost }
    }

    fn pick_node(&self, bytes: &mut Bytes<'_>) -> Option<NodeId> {
        let pick = bytes.pick(self.nodes.len());
        self.nodes.keys().nth(pick).copied()
    }

    fn pick_arc(&self, bytes: &mut Bytes<'_>) -> Option<ArcId> {
        let pick = bytes.pick(self.arcs.len());
        self.arcs.keys().nth(pick).copied()
    }

    fn add_arc(&mut self, bytes: &mut Bytes<'_>) {
        let (Some(tail), Some(head)) = (self.pick_node(bytes), self.pick_node(bytes)) else {
            return;
        };
        let terms = self.terms(bytes);
        match self.network.add_arc(tail, head, terms) {
            Ok(arc) => assert!(self.arcs.insert(arc, (tail, head, terms)).is_none()),
            Err(error) => assert!(matches!(error, FlowError::CostOverflow { .. })),
        }
    }

    fn remove_node(&mut self, bytes: &mut Bytes<'_>) {
        let Some(node) = self.pick_node(bytes) else {
            return;
        };
        let at_node = |arc: &ArcId| self.arcs[arc].0 == node || self.arcs[arc].1 == node;
        let arcs = self.arcs.keys().copied().filter(at_node);
        let convex = self.convex.iter();
        let convex = convex.filter(|(_, arc)| arc.tail == node || arc.head == node);
        let arcs: Vec<ArcId> = arcs.chain(convex.map(|(&arc, _)| arc)).collect();
        if !arcs.is_empty() {
            let refused = self.network.remove_node(node);
            assert!(matches!(refused, Err(FlowError::NodeHasArcs { .. })));
        }
        assert_eq!(self.network.remove_arcs(&arcs), Ok(()));
        assert_eq!(self.network.remove_node(node), Ok(()));
        self.arcs.retain(|arc, _| !arcs.contains(arc));
        self.convex.retain(|arc, _| !arcs.contains(arc));
        self.nodes.remove(&node);
    }

    /// Sets the costs of some arcs in one call; an arc may occur twice.
    fn set_costs(&mut self, bytes: &mut Bytes<'_>) {
        let changes: Vec<(ArcId, i64)> = (0..=bytes.pick(6))
            .filter_map(|_| Some((self.pick_arc(bytes)?, self.cost(bytes))))
            .collect();
        match self.network.set_costs(changes.iter().copied()) {
            Ok(()) => {
                for (arc, cost) in changes {
                    self.arcs.entry(arc).and_modify(|own| own.2.cost = cost);
                }
            }
            Err(error) => assert!(matches!(error, FlowError::CostOverflow { .. })),
        }
    }

    /// Sets the bounds of some arcs in one call; an arc may occur twice, and bounds may contradict.
    fn set_bounds(&mut self, bytes: &mut Bytes<'_>) {
        let change = |_| {
            let (arc, terms) = (self.pick_arc(bytes)?, self.terms(bytes));
            let lower = if bytes.next() == 255 {
                terms.capacity.saturating_add(1)
            } else {
                terms.lower
            };
            Some((arc, lower, terms.capacity))
        };
        let changes: Vec<(ArcId, i64, i64)> = (0..6).filter_map(change).collect();
        let is_right = changes
            .iter()
            .all(|&(_, lower, capacity)| lower <= capacity);
        match self.network.set_all_bounds(changes.iter().copied()) {
            Ok(()) => {
                assert!(is_right);
                for (arc, lower, capacity) in changes {
                    let own = self.arcs.get_mut(&arc).expect("it was picked");
                    (own.2.lower, own.2.capacity) = (lower, capacity);
                }
            }
            Err(error) => {
                assert!(!is_right && matches!(error, FlowError::LowerAboveCapacity { .. }));
            }
        }
    }

    /// Changes the supply of one node so that all supplies add up to zero, if it fits.
    fn balance(&mut self) {
        let sum: i128 = self.nodes.values().map(|&supply| i128::from(supply)).sum();
        let Some((&node, &supply)) = self.nodes.first_key_value() else {
            return;
        };
        if let Ok(supply) = i64::try_from(i128::from(supply) - sum) {
            assert_eq!(self.network.set_supply(node, supply), Ok(()));
            self.nodes.insert(node, supply);
        }
    }

    fn check_solve(&mut self) {
        let found = self.network.solve(&Limits::default());
        self.check(found);
    }

    /// Solves two levels; the flow is proven with the guaranteed flows as lower bounds.
    fn check_levels(&mut self, bytes: &mut Bytes<'_>) {
        let mut levels = vec![Vec::new(); 3];
        for &arc in self.arcs.keys() {
            levels[bytes.pick(3)].push(arc);
        }
        levels.pop();
        let found = self.network.solve_levels(&levels, &Limits::default());
        self.check_terms();
        let own = self.arcs.clone();
        match found {
            Ok(answer) => {
                assert!(answer.is_optimal());
                for (&arc, &lower) in levels[0].iter().zip(&answer.guaranteed[0]) {
                    self.arcs.entry(arc).and_modify(|own| own.2.lower = lower);
                }
                let (cost, bound) = (answer.cost, answer.bound);
                self.check(Ok(Answer { cost, bound }));
            }
            Err(error) => assert!(is_expected(&error), "{error}"),
        }
        self.arcs = own;
    }

    fn check_gates(&mut self, bytes: &mut Bytes<'_>) {
        let fits = |arc: &ArcId| {
            let (tail, head, terms) = self.arcs[arc];
            tail != head && terms.lower == 0 && terms.capacity > 0
        };
        let arcs: Vec<ArcId> = self.arcs.keys().copied().filter(fits).take(3).collect();
        let gate = |&arc: &ArcId| Gate {
            members: vec![(arc, bytes.number(self.arcs[&arc].2.capacity).max(1))],
            waiting_cost: bytes.number(self.max_cost),
        };
        let gates: Vec<Gate> = arcs.iter().map(gate).collect();
        let effort = Effort {
            flows: 20,
            gap_ppm: 0,
        };
        let found = self.network.solve_gated(&gates, effort, &Limits::default());
        self.check_terms();
        match found {
            Ok(answer) => {
                assert!(answer.bound <= answer.cost);
                let own = self.arcs.clone();
                let mut waiting = 0;
                for (gate, &open) in gates.iter().zip(&answer.open) {
                    let (arc, count) = gate.members[0];
                    let units = if open { count } else { 0 };
                    waiting += if open { 0 } else { gate.waiting_cost };
                    let own = self.arcs.get_mut(&arc).expect("it was picked");
                    (own.2.lower, own.2.capacity) = (units, units);
                }
                let cost = answer.cost - i128::from(waiting);
                self.check(Ok(Answer { cost, bound: cost }));
                self.arcs = own;
            }
            Err(error) => assert!(is_expected(&error), "{error}"),
        }
    }

    /// After an interrupted solve, the flow is feasible and the bound is valid.
    fn check_interrupted(&mut self) {
        let interrupted = || true;
        let limits = Limits {
            budget: None,
            interrupted: Some(&interrupted),
        };
        match self.network.solve(&limits) {
            Ok(answer) if answer.is_optimal() => self.check(Ok(answer)),
            Ok(answer) => {
                let least = self.with_problem(solve).map(|found| found.cost);
                let least = least.expect("there is a flow");
                assert!(answer.bound <= least && least <= answer.cost);
                self.check_flow(answer.cost);
            }
            Err(FlowError::Expired) => {}
            Err(error) => self.check(Err(error)),
        }
    }

    /// Checks that all terms are as they were set.
    fn check_terms(&self) {
        for (&arc, &(_, _, terms)) in &self.arcs {
            assert_eq!(self.network.terms(arc), Ok(terms));
        }
        for (&arc, own) in &self.convex {
            assert_eq!(self.network.convex_terms(arc), Ok(own.terms()));
            assert_eq!(self.network.terms(arc), Err(FlowError::IsConvex { arc }));
        }
    }

    /// Checks that the flow is feasible and has this cost.
    fn check_flow(&self, cost: i128) {
        let mut left: BTreeMap<NodeId, i128> = self.nodes.keys().map(|&node| (node, 0)).collect();
        let mut sum = 0;
        for ((tail, head, terms), flow) in self.all_arcs().into_iter().zip(self.all_flow()) {
            assert!(terms.lower <= flow && flow <= terms.capacity);
            *left.get_mut(&tail).expect("its tail") += i128::from(flow);
            *left.get_mut(&head).expect("its head") -= i128::from(flow);
            sum += i128::from(flow) * i128::from(terms.cost);
        }
        assert_eq!(sum, cost);
        let supply = self
            .nodes
            .iter()
            .map(|(&node, &units)| (node, i128::from(units)));
        assert_eq!(left, supply.collect());
    }

    /// Compares an answer with a cold solve and with the certificate.
    fn check(&self, found: Result<Answer, FlowError>) {
        assert_eq!(self.network.nodes(), self.nodes.len());
        assert_eq!(self.network.arcs(), self.arcs.len() + self.convex.len());
        match (found, self.with_problem(solve)) {
            (Ok(answer), Ok(cold)) => {
                assert_eq!((answer.cost, answer.bound), (cold.cost, cold.cost));
                self.check_flow(answer.cost);
                let flow = self.all_flow();
                assert_eq!(self.network.columns().flow, flow);
                let price = self.nodes.keys().map(|&node| self.network.price(node));
                let price: Result<Vec<i64>, _> = price.collect();
                let price = price.expect("nodes");
                let wrong = self.with_problem(|problem| Ok(violation(problem, &flow, &price)));
                assert_eq!(wrong, Ok(None));
            }
            (Err(FlowError::Infeasible { .. }), Err(FlowError::Infeasible { .. })) => {}
            (Err(FlowError::Unbalanced { .. }), Err(FlowError::Unbalanced { .. })) => {}
            // Which overflow is detected first depends on the algorithm.
            (Err(error), _) if is_overflow(&error) => assert!(self.max_cost > 1_000_000),
            (_, Err(error)) if is_overflow(&error) => assert!(self.max_cost > 1_000_000),
            (found, cold) => panic!("{found:?}, but from nothing {cold:?}"),
        }
    }

    /// All arcs, and then all units of convex ones.
    fn all_arcs(&self) -> Vec<(NodeId, NodeId, Terms)> {
        let units = self.convex.values().flat_map(Convex::units);
        self.arcs.values().copied().chain(units).collect()
    }

    fn all_flow(&self) -> Vec<i64> {
        let flow = |arc: ArcId| self.network.flow(arc).expect("it exists");
        let units = self.convex.iter().flat_map(|(&arc, own)| {
            let carried = flow(arc);
            (0..own.capacity).map(move |unit| i64::from(unit < carried))
        });
        self.arcs
            .keys()
            .map(|&arc| flow(arc))
            .chain(units)
            .collect()
    }

    /// Calls `work` with the current problem, whose nodes are numbered in order.
    fn with_problem<T>(
        &self,
        work: impl FnOnce(&Problem<'_>) -> Result<T, FlowError>,
    ) -> Result<T, FlowError> {
        let index: BTreeMap<NodeId, i32> = self.nodes.keys().copied().zip(0..).collect();
        let supply: Vec<i64> = self.nodes.values().copied().collect();
        let arcs = self.all_arcs().into_iter().map(|(tail, head, terms)| {
            let (tail, head) = (index[&tail], index[&head]);
            (tail, head, terms.lower, terms.capacity, terms.cost)
        });
        let arcs: Vec<_> = arcs.collect();
        work(&Columns::new(&supply, &arcs).problem()?)
    }
}

fn is_overflow(error: &FlowError) -> bool {
    matches!(
        error,
        FlowError::CostOverflow { .. }
            | FlowError::CapacityOverflow { .. }
            | FlowError::PriceOverflow { .. }
    )
}

fn is_expected(error: &FlowError) -> bool {
    is_overflow(error)
        || matches!(
            error,
            FlowError::Infeasible { .. } | FlowError::Unbalanced { .. }
        )
}
