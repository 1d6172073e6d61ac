//! The last answer, and what is known of it since.

use std::collections::BTreeMap;

use crate::problem::Problem;
use crate::scaling::Steps;
use crate::stop::PRICE_LIMIT;

/// Nodes with more ends of arcs than this are hubs, which are not repaired by themselves.
pub(crate) const HUB: u32 = 1024;

/// Marks an excess that does not fit 64 bits.
const LARGE: i64 = i64::MIN;

/// How many arcs, about, tell which reduced costs are small.
const SAMPLE: usize = 4096;

/// A flow within its bounds and prices, and what has changed since they were optimal.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub flow: Vec<i64>,
    pub price: Vec<i64>,
    /// What each node has to send more than it does; or [`LARGE`], and then it is in `large`.
    excess: Vec<i64>,
    large: BTreeMap<usize, i128>,
    /// Nodes at which arcs violate optimality, or at which flow was cut.
    pub touched: Vec<Touch>,
    /// Arcs with a smaller reduced cost are in the working set; none before the first solve.
    pub radius: Option<i64>,
    /// Whether the radius has proven too small in the last solve.
    pub was_small: bool,
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

/// Whether something at a node is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Never,
    /// It was put right in an earlier pass.
    Before,
    Now,
}

impl State {
    /// All arcs carry as little as they must.
    pub fn cold(problem: &Problem<'_>) -> Self {
        let mut state = Self {
            price: vec![0; problem.nodes()],
            excess: vec![0; problem.nodes()],
            touched: vec![Touch::Never; problem.nodes()],
            ..Self::default()
        };
        for (node, &supply) in problem.supply().iter().enumerate() {
            state.add_excess(node, i128::from(supply));
        }
        state.flow = problem
            .arcs()
            .map(|arc| {
                let is_loop = arc.tail == arc.head;
                let flow = if is_loop && arc.cost < 0 {
                    arc.capacity
                } else {
                    arc.lower
                };
                state.send(arc.tail, arc.head, i128::from(flow));
                flow
            })
            .collect();
        state
    }

    pub fn add_node(&mut self) {
        self.price.push(0);
        self.excess.push(0);
        self.touched.push(Touch::Never);
    }

    /// What a node has to send more than it does.
    pub fn excess(&self, node: usize) -> i128 {
        match self.excess[node] {
            LARGE => self.large[&node],
            excess => i128::from(excess),
        }
    }

    /// Whether every node sends what it has to.
    pub fn is_balanced(&self) -> bool {
        self.excess.iter().all(|&excess| excess == 0)
    }

    /// Nodes that do not.
    pub fn unbalanced(&self) -> impl Iterator<Item = usize> {
        let nodes = self.excess.iter().enumerate();
        nodes
            .filter(|&(_, &excess)| excess != 0)
            .map(|(node, _)| node)
    }

    /// A node has so much more to send.
    pub fn add_excess(&mut self, node: usize, more: i128) {
        self.set_excess(node, self.excess(node) + more);
    }

    pub fn set_excess(&mut self, node: usize, excess: i128) {
        if self.excess[node] == LARGE {
            self.large.remove(&node);
        }
        self.excess[node] = match i64::try_from(excess) {
            Ok(excess) if excess != LARGE => excess,
            _ => {
                self.large.insert(node, excess);
                LARGE
            }
        };
    }

    /// A node has sent so much to another.
    pub fn send(&mut self, from: usize, to: usize, units: i128) {
        self.add_excess(from, -units);
        self.add_excess(to, units);
    }

    /// A node is new.
    pub fn enter(&mut self, node: usize) {
        self.price[node] = 0;
        self.touched[node] = Touch::Now;
    }

    /// Something at a node is not as it should be.
    pub fn touch(&mut self, node: usize) {
        self.touched[node] = Touch::Now;
    }

    /// Changes the flow of an arc, but not the excess of its ends.
    pub fn set_flow(&mut self, arc: u32, flow: i64) {
        let was = std::mem::replace(&mut self.flow[arc as usize], flow);
        self.log.flow.push((arc, was));
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
            let arc = problem.arc(number as usize);
            let less = std::mem::replace(&mut self.flow[number as usize], was) - was;
            self.send(arc.head, arc.tail, i128::from(less));
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
        let limit = self.price_limit();
        self.price.iter().any(|price| price.abs() > limit)
    }

    /// Keeps the flow alone.
    pub fn start_over(&mut self) {
        self.price.fill(0);
        self.radius = None;
    }

    /// Up to which reduced cost arcs of a node are in the working set, where the last pass has come to
    /// `radius` and the first began with another.
    pub fn reach(&self, node: usize, radius: i64, first: i64) -> i64 {
        match self.touched[node] {
            Touch::Now => i64::MAX,
            Touch::Before => radius.max(first),
            Touch::Never => radius,
        }
    }

    pub fn is_touched(&self, node: usize) -> bool {
        self.touched[node] == Touch::Now
    }

    pub fn reserve(&mut self, nodes: usize, arcs: usize) {
        self.flow.reserve_exact(arcs);
        self.price.reserve_exact(nodes);
        self.excess.reserve_exact(nodes);
        self.touched.reserve_exact(nodes);
    }

    /// Touches an end of each of these arcs, the one with fewer arcs; `others` is what becomes of
    /// those that have been touched.
    pub fn touch_ends(
        &mut self,
        problem: &Problem<'_>,
        arcs: &[u32],
        degree: &[u32],
        others: Touch,
    ) {
        for touched in &mut self.touched {
            if *touched != Touch::Never {
                *touched = others;
            }
        }
        for arc in arcs.iter().map(|&index| problem.arc(index as usize)) {
            let tail_has_less = degree[arc.tail] <= degree[arc.head];
            let less = if tail_has_less { arc.tail } else { arc.head };
            if degree[less] <= HUB {
                self.touch(less);
            }
        }
    }

    /// A reduced cost that three of four arcs exceed.
    pub fn small_cost(&self, problem: &Problem<'_>) -> i64 {
        let step = problem.arcs().len() / SAMPLE + 1;
        let free = (0..problem.arcs().len()).step_by(step).filter_map(|index| {
            let arc = problem.arc(index);
            let reduced = arc.cost + self.price[arc.tail] - self.price[arc.head];
            arc.is_free().then_some(reduced.abs())
        });
        let mut sample: Vec<i64> = free.collect();
        let position = sample.len() / 4;
        match sample.is_empty() {
            true => 1,
            false => (*sample.select_nth_unstable(position).1).max(1),
        }
    }
}
