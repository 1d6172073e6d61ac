//! The last answer, and what is known of it since.

use crate::bits::Bits;
use crate::certificate::Flow;
use crate::problem::{Arc, Problem};
use crate::rows::as_row;
use crate::scaling::Steps;
use crate::stop::PRICE_LIMIT;
use crate::sums::Sums;

/// Nodes with more ends of arcs than this are hubs, which are not repaired by themselves.
pub(crate) const HUB: u32 = 1024;

/// How many arcs, about, tell which reduced costs are small.
const SAMPLE: usize = 4096;

/// A flow within its bounds and prices, and what has changed since they were optimal.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub flow: Vec<i64>,
    /// What convex arcs carry.
    pub carried: Vec<i64>,
    pub price: Vec<i64>,
    /// What each node has to send more than it does.
    excess: Sums,
    /// Nodes whose excess has changed since all were in balance: no others have any.
    may_exceed: Bits,
    /// Nodes at which arcs violate optimality, or at which flow was cut.
    pub touched: Touched,
    /// Arcs with a smaller reduced cost are in the working set; none before the first solve.
    pub radius: Option<i64>,
    /// Whether the radius has proven too small in the last solve.
    pub was_small: bool,
    /// How it falls.
    pub fall: Fall,
    /// A smaller one has proven too small more than once.
    pub least_radius: i64,
    /// How a warm start of cost scaling begins.
    pub steps: Steps,
    pub log: Log,
}

/// What was before it changed in this solve: flows of arcs, prices of nodes, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    flow: Vec<(u32, i64)>,
    price: Vec<(u32, i64)>,
}

/// A moment in a log; by default its beginning.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mark {
    flow: usize,
    price: usize,
}

impl Log {
    pub fn mark(&self) -> Mark {
        Mark {
            flow: self.flow.len(),
            price: self.price.len(),
        }
    }
}

/// How the radius falls from solve to solve, as long as one pass is enough.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Fall {
    /// It has not fallen since the last cold solve.
    #[default]
    NotYet,
    Quick,
    /// It has fallen too far once.
    Slow,
}

/// Nodes at which something is not as it should be, or was.
#[derive(Debug, Clone, Default)]
pub(crate) struct Touched {
    all: Bits,
    /// Those of them that were put right in an earlier pass.
    right: Bits,
}

impl Touched {
    fn none(nodes: usize) -> Self {
        Self {
            all: Bits::none(nodes),
            right: Bits::none(nodes),
        }
    }

    /// Makes room for one more node.
    fn reach(&mut self, node: usize) {
        self.all.reach(node);
        self.right.reach(node);
    }

    fn put(&mut self, node: usize) {
        self.all.put(node, true);
        self.right.put(node, false);
    }

    pub fn clear(&mut self) {
        self.all.clear();
        self.right.clear();
    }

    /// Whether something is not as it should be at a node.
    #[inline]
    pub fn is_wrong(&self, node: usize) -> bool {
        self.all.has(node) && !self.right.has(node)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        self.all.all()
    }

    /// The nodes at which it is so.
    pub fn wrong(&self) -> impl Iterator<Item = usize> {
        self.all.all().filter(|&node| !self.right.has(node))
    }

    /// Forgets some.
    pub fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        let others: Vec<usize> = self.all.all().filter(|&node| !is_kept(node)).collect();
        for node in others {
            self.all.put(node, false);
        }
    }

    /// All of them were put right, or are to be put right again.
    pub fn turn(&mut self, are_right: bool) {
        match are_right {
            true => self.right.clone_from(&self.all),
            false => self.right.clear(),
        }
    }
}

impl State {
    /// All arcs carry as little as they must.
    pub fn cold(problem: &Problem<'_>) -> Self {
        let mut state = Self {
            price: vec![0; problem.nodes()],
            excess: Sums::default(),
            may_exceed: Bits::none(problem.nodes()),
            touched: Touched::none(problem.nodes()),
            ..Self::default()
        };
        for (node, &supply) in problem.supply().iter().enumerate() {
            state.excess.push();
            state.change_supply(node, 0, supply);
        }
        state.flow = problem
            .arcs()
            .map(|arc| {
                let flow = arc.forced().unwrap_or(arc.lower);
                state.send(arc.tail, arc.head, flow);
                flow
            })
            .collect();
        state
    }

    pub fn add_node(&mut self) {
        self.touched.reach(self.price.len());
        self.may_exceed.reach(self.price.len());
        self.price.push(0);
        self.excess.push();
    }

    /// What a node has to send more than it does.
    pub fn excess(&self, node: usize) -> i128 {
        self.excess.get(node)
    }

    /// Reads what is known of a node; what it answers means nothing.
    pub fn glance(&self, node: usize) -> i64 {
        self.price[node] | self.excess.glance(node)
    }

    /// Whether every node sends what it has to.
    pub fn is_balanced(&self) -> bool {
        self.unbalanced().next().is_none()
    }

    /// Every node does, and is as it should be: nothing has to be known of any.
    pub fn forget_changes(&mut self) {
        self.touched.clear();
        self.may_exceed.clear();
    }

    /// Nodes that do not.
    pub fn unbalanced(&self) -> impl Iterator<Item = usize> {
        let nodes = self.may_exceed.all();
        nodes.filter(|&node| !self.excess.is_zero(node))
    }

    /// A node has something else to send than before.
    pub fn change_supply(&mut self, node: usize, before: i64, now: i64) {
        self.excess.replace(node, before, now);
        self.may_exceed.put(node, true);
    }

    pub fn set_excess(&mut self, node: usize, excess: i128) {
        self.excess.set(node, excess);
        self.may_exceed.put(node, true);
    }

    /// A node has sent so much to another.
    pub fn send(&mut self, from: usize, to: usize, units: i64) {
        self.excess.shift(from, to, units);
        self.may_exceed.put(from, true);
        self.may_exceed.put(to, true);
    }

    /// A node is new.
    pub fn enter(&mut self, node: usize) {
        self.price[node] = 0;
        self.touch(node);
    }

    /// Something at a node is not as it should be.
    pub fn touch(&mut self, node: usize) {
        self.touched.put(node);
    }

    /// What flows along an arc, convex or not.
    #[inline]
    pub fn flow_of(&mut self, number: u32) -> &mut i64 {
        match as_row(number) {
            Some(row) => &mut self.carried[row],
            None => &mut self.flow[number as usize],
        }
    }

    /// What flows along all of them.
    pub fn all_flow(&self) -> Flow<'_> {
        Flow {
            arcs: &self.flow,
            carried: &self.carried,
        }
    }

    /// Changes the flow of an arc, but not the excess of its ends.
    pub fn add_flow(&mut self, number: u32, more: i64) {
        let flow = self.flow_of(number);
        let was = *flow;
        *flow += more;
        self.log.flow.push((number, was));
    }

    /// Changes the price of a node.
    pub fn set_price(&mut self, node: u32, price: i64) {
        let was = std::mem::replace(&mut self.price[node as usize], price);
        self.log.price.push((node, was));
    }

    /// As if nothing had been changed since then.
    pub fn undo(&mut self, problem: &Problem<'_>, since: Mark) {
        let flows = self.log.flow.split_off(since.flow);
        for (number, was) in flows.into_iter().rev() {
            let (tail, head) = problem.ends(number);
            let less = std::mem::replace(self.flow_of(number), was) - was;
            self.send(head, tail, less);
        }
        for (node, was) in self.log.price.drain(since.price..).rev() {
            self.price[node as usize] = was;
        }
    }

    /// The largest price that can be scaled by the number of nodes.
    pub fn price_limit(&self) -> i64 {
        PRICE_LIMIT / (self.price.len() as i64 + 1)
    }

    /// Whether prices are too large for that.
    pub fn has_outgrown(&self) -> bool {
        any_beyond(&self.price, self.price_limit().unsigned_abs())
    }

    /// Keeps the flow alone.
    pub fn start_over(&mut self) {
        self.price.fill(0);
        self.radius = None;
    }

    pub fn is_touched(&self, node: usize) -> bool {
        self.touched.is_wrong(node)
    }

    pub fn reserve(&mut self, nodes: usize, arcs: usize) {
        self.flow.reserve_exact(arcs);
        self.price.reserve_exact(nodes);
        self.excess.reserve(nodes);
    }

    /// Touches an end of each of these arcs, the one with fewer arcs.
    pub fn touch_ends(&mut self, problem: &Problem<'_>, arcs: &[u32], degree: &[u32]) {
        for (tail, head) in arcs.iter().map(|&number| problem.ends(number)) {
            let tail_has_less = degree[tail] <= degree[head];
            let less = if tail_has_less { tail } else { head };
            if degree[less] <= HUB {
                self.touch(less);
            }
        }
    }

    /// A reduced cost that three of four arcs exceed.
    pub fn small_cost(&self, problem: &Problem<'_>) -> i64 {
        let rows = problem.rows();
        let step = (problem.arcs().len() + rows.units()) / SAMPLE + 1;
        let reduced = |arc: &Arc| arc.cost + self.price[arc.tail] - self.price[arc.head];
        let some = (0..problem.arcs().len()).step_by(step);
        let some = some.map(|index| problem.arc(index));
        let free = some.chain(rows.pieces().step_by(step)).filter(Arc::is_free);
        let free = free.map(|arc| reduced(&arc).abs());
        let mut sample: Vec<i64> = free.collect();
        let position = sample.len() / 4;
        match sample.is_empty() {
            true => 1,
            false => (*sample.select_nth_unstable(position).1).max(1),
        }
    }
}

/// Whether any of these is larger in magnitude. Mostly a glance is enough, which takes no branch for
/// each of them.
pub(crate) fn any_beyond(prices: &[i64], limit: u64) -> bool {
    let bits = |all: u64, price: &i64| all | price.unsigned_abs();
    prices.iter().fold(0, bits) > limit && prices.iter().any(|price| price.unsigned_abs() > limit)
}
