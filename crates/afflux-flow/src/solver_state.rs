//! The last answer of the solver, and the changes since then.

use crate::bitset::BitSet;
use crate::certificate::Flow;
use crate::convex_arcs::convex_slot;
use crate::cost_scaling::WarmSteps;
use crate::node_sums::NodeSums;
use crate::problem::{Arc, Problem};
use crate::stop_reason::PRICE_LIMIT;

/// Nodes of a higher degree are hubs, which node repair skips.
pub(crate) const HUB_DEGREE: u32 = 1024;

/// The approximate number of arcs sampled to estimate a quantile of reduced costs.
const SAMPLE_SIZE: usize = 4096;

/// A flow within its bounds, prices, and what has changed since they were optimal.
#[derive(Debug, Clone, Default)]
pub(crate) struct SolverState {
    pub flow: Vec<i64>,
    /// The flow of convex arcs, by slot.
    pub convex_flow: Vec<i64>,
    pub price: Vec<i64>,
    /// By node, the units that it still has to send.
    excess: NodeSums,
    /// Nodes whose excess has changed since all nodes were balanced; all other nodes are balanced.
    may_have_excess: BitSet,
    /// Nodes at which arcs violate optimality or flow was reduced to new bounds.
    pub changed: ChangedNodes,
    /// Arcs with a reduced cost within this radius are in the working set; none before the first
    /// solve.
    pub radius: Option<i64>,
    /// Whether the radius was too small in the last solve.
    pub radius_was_small: bool,
    /// How fast the radius falls.
    pub radius_decay: RadiusDecay,
    /// The radius never falls below this: smaller ones were too small repeatedly.
    pub min_radius: i64,
    /// Determines the first epsilon of a warm start of cost scaling.
    pub steps: WarmSteps,
    pub log: UndoLog,
}

/// Old values of flows and prices that this solve has changed, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct UndoLog {
    flow: Vec<(u32, i64)>,
    price: Vec<(u32, i64)>,
}

/// A position in an undo log; by default its beginning.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UndoPoint {
    flow: usize,
    price: usize,
}

impl UndoLog {
    pub fn undo_point(&self) -> UndoPoint {
        UndoPoint {
            flow: self.flow.len(),
            price: self.price.len(),
        }
    }
}

/// How fast the radius falls from solve to solve while one pass is enough.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum RadiusDecay {
    /// The radius has not fallen since the last cold solve.
    #[default]
    Initial,
    Fast,
    /// The radius fell too far once.
    Slow,
}

/// Nodes at which something changed, and those of them that were repaired.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChangedNodes {
    all: BitSet,
    /// Nodes that were repaired in an earlier pass.
    repaired: BitSet,
}

impl ChangedNodes {
    fn empty(nodes: usize) -> Self {
        Self {
            all: BitSet::empty(nodes),
            repaired: BitSet::empty(nodes),
        }
    }

    /// Makes room for one more node.
    fn grow_to(&mut self, node: usize) {
        self.all.grow_to(node);
        self.repaired.grow_to(node);
    }

    fn insert(&mut self, node: usize) {
        self.all.set(node, true);
        self.repaired.set(node, false);
    }

    pub fn clear(&mut self) {
        self.all.clear();
        self.repaired.clear();
    }

    /// Whether a node was changed and not repaired since.
    #[inline]
    pub fn needs_repair(&self, node: usize) -> bool {
        self.all.contains(node) && !self.repaired.contains(node)
    }

    /// All changed nodes, repaired or not.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        self.all.iter()
    }

    /// Changed nodes that still need repair.
    pub fn unrepaired(&self) -> impl Iterator<Item = usize> {
        self.all
            .iter()
            .filter(|&node| !self.repaired.contains(node))
    }

    /// Removes the nodes for which `is_kept` is false.
    pub fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        let others: Vec<usize> = self.all.iter().filter(|&node| !is_kept(node)).collect();
        for node in others {
            self.all.set(node, false);
        }
    }

    /// Marks all changed nodes as repaired, or as in need of repair.
    pub fn set_all_repaired(&mut self, are_repaired: bool) {
        match are_repaired {
            true => self.repaired.clone_from(&self.all),
            false => self.repaired.clear(),
        }
    }
}

impl SolverState {
    /// The state before the first solve: every arc carries its lower bound.
    pub fn cold(problem: &Problem<'_>) -> Self {
        let mut state = Self {
            price: vec![0; problem.nodes()],
            excess: NodeSums::default(),
            may_have_excess: BitSet::empty(problem.nodes()),
            changed: ChangedNodes::empty(problem.nodes()),
            ..Self::default()
        };
        for (node, &supply) in problem.supply().iter().enumerate() {
            state.excess.push();
            state.change_supply(node, 0, supply);
        }
        state.flow = problem
            .arcs()
            .map(|arc| {
                let flow = arc.fixed_flow().unwrap_or(arc.lower);
                state.send(arc.tail, arc.head, flow);
                flow
            })
            .collect();
        state
    }

    pub fn add_node(&mut self) {
        self.changed.grow_to(self.price.len());
        self.may_have_excess.grow_to(self.price.len());
        self.price.push(0);
        self.excess.push();
    }

    /// The units that a node still has to send.
    pub fn excess(&self, node: usize) -> i128 {
        self.excess.get(node)
    }

    /// Reads the memory of a node to bring it into the cache. The returned value has no meaning.
    pub fn prefetch(&self, node: usize) -> i64 {
        self.price[node] | self.excess.prefetch(node)
    }

    pub fn is_balanced(&self) -> bool {
        self.unbalanced().next().is_none()
    }

    /// Forgets all changes: every node is balanced and no arc violates optimality.
    pub fn clear_changes(&mut self) {
        self.changed.clear();
        self.may_have_excess.clear();
    }

    /// Nodes that are not balanced.
    pub fn unbalanced(&self) -> impl Iterator<Item = usize> {
        let nodes = self.may_have_excess.iter();
        nodes.filter(|&node| !self.excess.is_zero(node))
    }

    pub fn change_supply(&mut self, node: usize, before: i64, now: i64) {
        self.excess.replace(node, before, now);
        self.may_have_excess.set(node, true);
    }

    pub fn set_excess(&mut self, node: usize, excess: i128) {
        self.excess.set(node, excess);
        self.may_have_excess.set(node, true);
    }

    /// Accounts for units sent from one node to another.
    pub fn send(&mut self, from: usize, to: usize, units: i64) {
        self.excess.transfer(from, to, units);
        self.may_have_excess.set(from, true);
        self.may_have_excess.set(to, true);
    }

    /// Initialises a new node.
    pub fn reset_node(&mut self, node: usize) {
        self.price[node] = 0;
        self.mark_changed(node);
    }

    pub fn mark_changed(&mut self, node: usize) {
        self.changed.insert(node);
    }

    /// The flow of an arc, convex or not.
    #[inline]
    pub fn flow_of(&mut self, id: u32) -> &mut i64 {
        match convex_slot(id) {
            Some(slot) => &mut self.convex_flow[slot],
            None => &mut self.flow[id as usize],
        }
    }

    pub fn all_flow(&self) -> Flow<'_> {
        Flow {
            arcs: &self.flow,
            convex_flow: &self.convex_flow,
        }
    }

    /// Changes the flow of an arc, but not the excess of its ends; can be undone.
    pub fn add_flow(&mut self, id: u32, more: i64) {
        let flow = self.flow_of(id);
        let before = *flow;
        *flow += more;
        self.log.flow.push((id, before));
    }

    /// Changes the price of a node; can be undone.
    pub fn set_price(&mut self, node: u32, price: i64) {
        let before = std::mem::replace(&mut self.price[node as usize], price);
        self.log.price.push((node, before));
    }

    /// Restores flows and prices of an earlier point.
    pub fn undo(&mut self, problem: &Problem<'_>, since: UndoPoint) {
        let flows = self.log.flow.split_off(since.flow);
        for (id, before) in flows.into_iter().rev() {
            let (tail, head) = problem.ends(id);
            let less = std::mem::replace(self.flow_of(id), before) - before;
            self.send(head, tail, less);
        }
        for (node, before) in self.log.price.drain(since.price..).rev() {
            self.price[node as usize] = before;
        }
    }

    /// The largest magnitude of a price that can be scaled by the number of nodes.
    pub fn price_limit(&self) -> i64 {
        PRICE_LIMIT / (self.price.len() as i64 + 1)
    }

    /// Whether some price is too large to be scaled.
    pub fn has_prices_too_large(&self) -> bool {
        any_larger_than(&self.price, self.price_limit().unsigned_abs())
    }

    /// Resets the prices and keeps the flow.
    pub fn reset_prices(&mut self) {
        self.price.fill(0);
        self.radius = None;
    }

    pub fn needs_repair(&self, node: usize) -> bool {
        self.changed.needs_repair(node)
    }

    pub fn reserve(&mut self, nodes: usize, arcs: usize) {
        self.flow.reserve_exact(arcs);
        self.price.reserve_exact(nodes);
        self.excess.reserve(nodes);
    }

    /// Marks one end of each of these arcs as changed: the one of lower degree, unless it is a hub.
    pub fn mark_ends_changed(&mut self, problem: &Problem<'_>, arcs: &[u32], degree: &[u32]) {
        for (tail, head) in arcs.iter().map(|&id| problem.ends(id)) {
            let tail_has_less = degree[tail] <= degree[head];
            let less = if tail_has_less { tail } else { head };
            if degree[less] <= HUB_DEGREE {
                self.mark_changed(less);
            }
        }
    }

    /// The first quartile of the magnitudes of reduced costs of free arcs, estimated from a sample.
    pub fn quartile_reduced_cost(&self, problem: &Problem<'_>) -> i64 {
        let convex_arcs = problem.convex_arcs();
        let step = (problem.arcs().len() + convex_arcs.units()) / SAMPLE_SIZE + 1;
        let reduced = |arc: &Arc| arc.cost + self.price[arc.tail] - self.price[arc.head];
        let some = (0..problem.arcs().len()).step_by(step);
        let some = some.map(|index| problem.arc(index));
        let free = some
            .chain(convex_arcs.unit_arcs().step_by(step))
            .filter(Arc::is_free);
        let free = free.map(|arc| reduced(&arc).abs());
        let mut sample: Vec<i64> = free.collect();
        let position = sample.len() / 4;
        match sample.is_empty() {
            true => 1,
            false => (*sample.select_nth_unstable(position).1).max(1),
        }
    }
}

/// Whether any price exceeds the limit in magnitude. The first test has no branch per price and is
/// usually enough.
pub(crate) fn any_larger_than(prices: &[i64], limit: u64) -> bool {
    let bits = |all: u64, price: &i64| all | price.unsigned_abs();
    prices.iter().fold(0, bits) > limit && prices.iter().any(|price| price.unsigned_abs() > limit)
}
