//! The working set: the few arcs that can matter, as a residual network of its own.
//!
//! An arc whose reduced cost is far above zero stays empty and one far below stays full, unless
//! prices change a lot. Both are left out, with what they carry; all others are solved. Then one
//! scan over all arcs finds those left out by mistake.

use crate::error::FlowError;
use crate::problem::Problem;
use crate::residual::{Piece, Residual};
use crate::solve::State;

/// The largest sum of excess and capacities around a node: no excess can overflow.
const EXCESS_LIMIT: i64 = i64::MAX / 4;

/// Marks a node that is not in the set.
const ABSENT: u32 = u32::MAX;

/// Some arcs of a problem, and the nodes at their ends.
pub(crate) struct Working<'a> {
    problem: &'a Problem<'a>,
    arcs: Vec<u32>,
    /// The nodes, by their numbers in the set.
    nodes: Vec<u32>,
    /// Their numbers in the set, by node; or [`ABSENT`].
    index: Vec<u32>,
    /// How many ends of its arcs each of its nodes is.
    ends: Vec<u32>,
    /// The largest capacity of its arcs.
    largest: i64,
    /// Whether every arc with a choice is in the set.
    pub is_all: bool,
}

impl<'a> Working<'a> {
    /// All arcs with a reduced cost of at most the radius of one of their ends in magnitude, all that
    /// violate optimality, and all between two hubs.
    pub fn select(
        problem: &'a Problem<'a>,
        state: &State,
        radius: impl Fn(usize) -> i64,
        is_hub: impl Fn(usize) -> bool,
    ) -> Self {
        let mut set = Self {
            problem,
            arcs: Vec::new(),
            nodes: Vec::new(),
            index: vec![ABSENT; problem.nodes()],
            ends: Vec::new(),
            largest: 0,
            is_all: true,
        };
        for (node, &excess) in state.excess.iter().enumerate() {
            if excess != 0 {
                set.enter(node);
            }
        }
        for (number, arc) in problem.arcs().enumerate() {
            if !arc.is_free() {
                continue;
            }
            let reduced = arc.cost + state.price[arc.tail] - state.price[arc.head];
            let flow = state.flow[number];
            let matters = reduced.abs() <= radius(arc.tail).max(radius(arc.head))
                || (if reduced < 0 {
                    flow < arc.capacity
                } else {
                    flow > arc.lower
                })
                || (is_hub(arc.tail) && is_hub(arc.head));
            if matters {
                set.arcs.push(number as u32);
                for node in [arc.tail, arc.head] {
                    let index = set.enter(node);
                    set.ends[index] += 1;
                }
                set.largest = set.largest.max(arc.capacity);
            } else {
                set.is_all = false;
            }
        }
        set
    }

    /// The number of a node in the set, which it gets if it has none.
    fn enter(&mut self, node: usize) -> usize {
        if self.index[node] == ABSENT {
            self.index[node] = self.nodes.len() as u32;
            self.nodes.push(node as u32);
            self.ends.push(0);
        }
        self.index[node] as usize
    }

    /// How many arcs it has.
    pub fn arcs(&self) -> usize {
        self.arcs.len()
    }

    /// By what costs are multiplied within the set.
    pub fn scale(&self) -> i64 {
        (self.nodes.len() as i64 + 1).max(2)
    }

    /// The nodes of the set for which this holds, by their numbers in the set.
    pub fn nodes_where(&self, holds: impl Fn(usize) -> bool) -> impl Iterator<Item = usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(move |&(_, &node)| holds(node as usize))
            .map(|(index, _)| index)
    }

    /// A set of nodes of the set as a set of nodes of the problem.
    pub fn outside(&self, inside: &[bool]) -> Vec<bool> {
        let mut all = vec![false; self.problem.nodes()];
        for (&node, &is_inside) in self.nodes.iter().zip(inside) {
            all[node as usize] = is_inside;
        }
        all
    }

    /// A node of the set as a node of the problem.
    pub fn node(&self, index: usize) -> usize {
        self.nodes[index] as usize
    }

    /// The residual network of the set.
    pub fn residual(&self, state: &State) -> Result<Residual, FlowError> {
        let problem = self.problem;
        let scale = self.scale();
        let most = self.most(state)?;
        let mut excess = Vec::with_capacity(self.nodes.len());
        let mut price = Vec::with_capacity(self.nodes.len());
        for &node in &self.nodes {
            let node = node as usize;
            excess.push(
                i64::try_from(state.excess[node])
                    .map_err(|_| overflow(node, state.excess[node]))?,
            );
            price.push(state.price[node] * scale);
        }
        let piece = |&number: &u32| {
            let arc = problem.arc(number as usize);
            let flow = state.flow[number as usize];
            Piece {
                tail: self.index[arc.tail],
                head: self.index[arc.head],
                cost: arc.cost * scale,
                room: arc.capacity.min(most).max(flow) - flow,
                back: flow - arc.lower,
            }
        };
        let pieces = self.arcs.iter().map(piece);
        Ok(Residual::new(pieces, &self.ends, excess, price))
    }

    /// Takes flow and prices over from the residual network; answers what they were, unless every arc
    /// was there and there is no way back.
    pub fn write_back(&self, net: &Residual, state: &mut State) -> Before {
        let scale = self.scale();
        let mut before = Before::default();
        let ends = self.arcs.iter().map(|&number| {
            let arc = self.problem.arc(number as usize);
            (self.index[arc.tail], self.index[arc.head])
        });
        for (&number, back) in self.arcs.iter().zip(net.backs(ends)) {
            let flow = self.problem.arc(number as usize).lower + back;
            let was = std::mem::replace(&mut state.flow[number as usize], flow);
            if was != flow && !self.is_all {
                before.flow.push((number, was));
            }
        }
        for ((&node, &price), &excess) in self.nodes.iter().zip(&net.price).zip(&net.excess) {
            let (price, excess) = (price / scale, i128::from(excess));
            let was_price = std::mem::replace(&mut state.price[node as usize], price);
            let was_excess = std::mem::replace(&mut state.excess[node as usize], excess);
            if (was_price != price || was_excess != excess) && !self.is_all {
                before.nodes.push((node, was_price, was_excess));
            }
        }
        before
    }

    /// The largest capacity worth writing down; and a check that no excess can overflow, whatever
    /// is pushed.
    fn most(&self, state: &State) -> Result<i64, FlowError> {
        let problem = self.problem;
        let arcs = || self.arcs.iter().map(|&number| problem.arc(number as usize));
        let excess = || {
            self.nodes
                .iter()
                .map(|&node| state.excess[node as usize].abs())
        };
        let largest_excess = excess().max().unwrap_or(0);
        let fits = |largest: i64| {
            let sum = i128::from(largest) * self.arcs.len() as i128 + largest_excess;
            sum <= i128::from(EXCESS_LIMIT)
        };
        if fits(self.largest) {
            return Ok(self.largest);
        }
        let most = problem.most();
        if fits(most) {
            return Ok(most);
        }
        let mut sums: Vec<i128> = excess().collect();
        for arc in arcs() {
            let room = i128::from(arc.capacity.min(most));
            sums[self.index[arc.tail] as usize] += room;
            sums[self.index[arc.head] as usize] += room;
        }
        match sums.iter().position(|&sum| sum > i128::from(EXCESS_LIMIT)) {
            Some(index) => Err(overflow(self.node(index), sums[index])),
            None => Ok(most),
        }
    }
}

/// What was before a solution was written back.
#[derive(Default)]
pub(crate) struct Before {
    flow: Vec<(u32, i64)>,
    /// Prices and excesses.
    nodes: Vec<(u32, i64, i128)>,
}

impl Before {
    /// As if nothing had been written back.
    pub fn restore(self, state: &mut State) {
        for (arc, flow) in self.flow {
            state.flow[arc as usize] = flow;
        }
        for (node, price, excess) in self.nodes {
            state.price[node as usize] = price;
            state.excess[node as usize] = excess;
        }
    }
}

fn overflow(node: usize, sum: i128) -> FlowError {
    FlowError::CapacityOverflow {
        node,
        sum: sum.abs(),
        limit: EXCESS_LIMIT,
    }
}
