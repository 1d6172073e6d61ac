//! The working set: the few arcs that can matter, as a residual network of its own.
//!
//! An arc whose reduced cost is far above zero stays empty and one far below stays full, unless
//! prices change a lot. Both are left out, with what they carry; all others are solved. Then one
//! scan over all arcs finds those left out by mistake.

use std::marker::PhantomData;

use crate::arcs::{Scan, Width};
use crate::certificate::Flow;
use crate::choice::{Choice, Chosen, DeadEnd};
use crate::error::FlowError;
use crate::problem::{Arc, Problem};
use crate::residual::{Backs, Residual};
use crate::state::State;

/// The largest sum of excess and capacities around a node: no excess can overflow.
pub(crate) const EXCESS_LIMIT: i64 = i64::MAX / 4;

/// Marks a node that is not in the set.
const ABSENT: u32 = u32::MAX;

/// Some arcs of a problem, and the nodes at their ends.
pub(crate) struct Working<'a, C> {
    pub problem: &'a Problem<'a>,
    /// Copies of its arcs, which lie far apart in the problem; none if every arc with a choice is in
    /// the set.
    chosen: Option<Vec<Chosen<C>>>,
    /// What was left out of these, and has to follow.
    dead_ends: Vec<DeadEnd>,
    /// How many arcs it has.
    pub arcs: usize,
    /// The nodes, by their numbers in the set.
    nodes: Vec<u32>,
    /// Their numbers in the set, by node; or [`ABSENT`].
    index: Vec<u32>,
    /// How many ends of its arcs each of its nodes is.
    ends: Vec<u32>,
    /// The largest capacity of its arcs.
    largest: i64,
    /// The largest magnitude of their costs.
    dearest: i64,
    /// Whether every arc with a choice is in the set.
    pub is_all: bool,
    /// How many arcs of the choice are near the end of the radius (see [`Choice`]).
    pub rim: usize,
}

impl<'a, C: Width> Working<'a, C> {
    /// All arcs that have a choice.
    pub fn all(problem: &'a Problem<'a>, state: &State) -> Self {
        let mut set = Self::empty(problem, state);
        for unit in problem.rows().pieces().filter(Arc::is_free) {
            set.add(unit.tail, unit.head, unit.capacity, unit.cost);
        }
        problem.scan_free(0..problem.arcs().len(), Gather(set))
    }

    /// These arcs, whose ends are nodes of the problem.
    pub fn of(
        problem: &'a Problem<'a>,
        state: &State,
        choice: Choice<C>,
        dead_ends: Vec<DeadEnd>,
    ) -> Self {
        let mut set = Self::empty(problem, state);
        let mut chosen = choice.arcs;
        for arc in &mut chosen {
            let (tail, head) = (arc.tail as usize, arc.head as usize);
            (arc.tail, arc.head) = set.add(tail, head, arc.capacity(), arc.cost());
        }
        set.chosen = Some(chosen);
        set.dead_ends = dead_ends;
        set.is_all = choice.is_all;
        set.rim = choice.rim;
        set
    }

    /// No arcs, but all nodes that are not in balance.
    fn empty(problem: &'a Problem<'a>, state: &State) -> Self {
        let mut set = Self {
            problem,
            chosen: None,
            dead_ends: Vec::new(),
            arcs: 0,
            nodes: Vec::new(),
            index: vec![ABSENT; problem.nodes()],
            ends: Vec::new(),
            largest: 0,
            dearest: 0,
            is_all: true,
            rim: 0,
        };
        for node in state.unbalanced() {
            set.enter(node);
        }
        set
    }

    /// Counts an arc in; answers the numbers of its ends in the set.
    fn add(&mut self, tail: usize, head: usize, capacity: i64, cost: i64) -> (u32, u32) {
        self.arcs += 1;
        self.largest = self.largest.max(capacity);
        self.dearest = self.dearest.max(cost.abs());
        let (tail, head) = (self.enter(tail), self.enter(head));
        self.ends[tail] += 1;
        self.ends[head] += 1;
        (tail as u32, head as u32)
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

    /// By what costs are multiplied within the set.
    pub fn scale(&self) -> i64 {
        (self.nodes.len() as i64 + 1).max(2)
    }

    /// A set of nodes of the set as a set of nodes of the problem.
    pub fn outside(&self, inside: &[bool]) -> Vec<bool> {
        let mut all = vec![false; self.problem.nodes()];
        for (&node, &is_inside) in self.nodes.iter().zip(inside) {
            all[node as usize] = is_inside;
        }
        all
    }

    /// How many arcs it would have with dead ends.
    pub fn size(&self) -> usize {
        self.arcs + self.dead_ends.len()
    }

    /// How many arcs outside of the set have an end in it, by node: if its price changes, they may go
    /// wrong. Those of dead ends count for their neighbours, which they follow.
    pub fn arcs_outside<W: Width>(&self, net: &Residual<W>, degree: &[u32]) -> Vec<u32> {
        // A convex arc counts once, and may be here with several units.
        let count = |(index, &node): (usize, &u32)| {
            degree[node as usize].saturating_sub(net.range(index).len() as u32)
        };
        let mut outside: Vec<u32> = self.nodes.iter().enumerate().map(count).collect();
        for dead_end in &self.dead_ends {
            let (dead, neighbour) = dead_end.nodes(self.problem);
            let index = self.index[neighbour];
            if index != ABSENT {
                let outside = &mut outside[index as usize];
                // Its own arc follows, and was counted.
                *outside = outside.saturating_add(degree[dead]).saturating_sub(2);
            }
        }
        outside
    }

    /// A node of the set as a node of the problem.
    pub fn node(&self, index: usize) -> usize {
        self.nodes[index] as usize
    }

    /// Whether 32 bits are enough for the entries of its residual network. A capacity that stands for
    /// none at all should be written as a number below that.
    pub fn is_narrow(&self) -> bool {
        self.largest.max(self.dearest) <= i64::from(i32::MAX)
    }

    /// The residual network of the set.
    pub fn residual<W: Width>(&self, state: &State) -> Result<Residual<W>, FlowError> {
        let scale = self.scale();
        let most = self.most(state)?;
        let mut excess = Vec::with_capacity(self.nodes.len());
        let mut price = Vec::with_capacity(self.nodes.len());
        for &node in &self.nodes {
            let node = node as usize;
            let has = state.excess(node);
            excess.push(i64::try_from(has).map_err(|_| overflow(node, has))?);
            price.push(state.price[node] * scale);
        }
        Ok(match &self.chosen {
            Some(chosen) => {
                let pieces = chosen.iter().map(|arc| arc.piece(most));
                Residual::new(pieces, &self.ends, excess, price, scale)
            }
            None => self.problem.scan_free(
                0..self.problem.arcs().len(),
                Build {
                    set: self,
                    flow: state.all_flow(),
                    most,
                    excess,
                    price,
                    width: PhantomData,
                },
            ),
        })
    }

    /// An arc with a choice, as if it had been chosen.
    fn as_chosen(&self, arc: &Arc, flow: i64) -> Chosen<C> {
        // Nobody asks for its number.
        let mut chosen = Chosen::new(0, arc, flow);
        (chosen.tail, chosen.head) = (self.index[arc.tail], self.index[arc.head]);
        chosen
    }

    /// The same for the units of all convex arcs that carry so much.
    fn all_units(&self, carried: &[i64]) -> impl Iterator<Item = Chosen<C>> {
        let flows = carried
            .iter()
            .zip(self.problem.rows().range(0..carried.len()));
        let flows = flows.flat_map(|(&flow, (_, row))| {
            (0..i64::from(row.capacity)).map(move |unit| i64::from(unit < flow))
        });
        let units = self.problem.rows().pieces().zip(flows);
        let free = units.filter(|(unit, _)| unit.is_free());
        free.map(|(unit, flow)| self.as_chosen(&unit, flow))
    }

    /// Takes flow and prices over from the residual network. If arcs were chosen, that can be undone.
    pub fn write_back<W: Width>(&self, net: &Residual<W>, state: &mut State) {
        let scale = self.scale();
        let nodes = || self.nodes.iter().zip(&net.price);
        match &self.chosen {
            Some(chosen) => {
                let mut backs = net.backs();
                for arc in chosen {
                    let back = backs.next(arc.tail, arc.head);
                    let more = arc.lower() + back - arc.flow();
                    if more != 0 {
                        state.add_flow(arc.number, more);
                    }
                }
                for (&node, &price) in nodes() {
                    if price / scale != state.price[node as usize] {
                        state.set_price(node, price / scale);
                    }
                }
                for dead_end in &self.dead_ends {
                    dead_end.follow(self.problem, state);
                }
            }
            None => {
                let mut backs = net.backs();
                let rows = self.problem.rows();
                for (row, convex) in rows.range(0..rows.len()) {
                    let (tail, head) = convex.ends();
                    let (tail, head) = (self.index[tail], self.index[head]);
                    let free = convex.lower..convex.capacity;
                    let units: i64 = free.map(|_| backs.next(tail, head)).sum();
                    state.carried[row] = i64::from(convex.lower) + units;
                }
                let take = Take {
                    set: self,
                    backs,
                    flow: &mut state.flow,
                };
                self.problem.scan_free(0..take.flow.len(), take);
                for (&node, &price) in nodes() {
                    state.price[node as usize] = price / scale;
                }
            }
        }
        for (&node, &excess) in self.nodes.iter().zip(&net.excess) {
            state.set_excess(node as usize, i128::from(excess));
        }
    }

    /// The largest capacity worth writing down; and a check that no excess can overflow, whatever
    /// is pushed.
    fn most(&self, state: &State) -> Result<i64, FlowError> {
        let excess = || {
            self.nodes
                .iter()
                .map(|&node| state.excess(node as usize).abs())
        };
        let largest_excess = excess().max().unwrap_or(0);
        let fits = |largest: i64| {
            let sum = i128::from(largest) * self.arcs as i128 + largest_excess;
            sum <= i128::from(EXCESS_LIMIT)
        };
        if fits(self.largest) {
            return Ok(self.largest);
        }
        let most = self.problem.most();
        if fits(most) {
            return Ok(most);
        }
        let mut sums: Vec<i128> = excess().collect();
        let add = |arc: Chosen<C>| {
            let room = i128::from(arc.capacity().min(most));
            sums[arc.tail as usize] += room;
            sums[arc.head as usize] += room;
        };
        match &self.chosen {
            Some(chosen) => chosen.iter().copied().for_each(add),
            None => {
                let arcs = self.problem.arcs().zip(&state.flow);
                let free = arcs.filter(|(arc, _)| arc.is_free());
                free.map(|(arc, &flow)| self.as_chosen(&arc, flow))
                    .chain(self.all_units(&state.carried))
                    .for_each(add);
            }
        }
        match sums.iter().position(|&sum| sum > i128::from(EXCESS_LIMIT)) {
            Some(index) => Err(overflow(self.node(index), sums[index])),
            None => Ok(most),
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

/// Enters all arcs with a choice into a set.
struct Gather<'a, C>(Working<'a, C>);

impl<'a, C: Width> Scan for Gather<'a, C> {
    type Found = Working<'a, C>;

    fn over(mut self, arcs: impl Iterator<Item = (usize, Arc)>) -> Working<'a, C> {
        for (_, arc) in arcs {
            self.0.add(arc.tail, arc.head, arc.capacity, arc.cost);
        }
        self.0
    }
}

/// Makes the residual network of all of them.
struct Build<'a, C, W> {
    set: &'a Working<'a, C>,
    flow: Flow<'a>,
    most: i64,
    excess: Vec<i64>,
    price: Vec<i64>,
    width: PhantomData<W>,
}

impl<C: Width, W: Width> Scan for Build<'_, C, W> {
    type Found = Residual<W>;

    fn over(self, arcs: impl Iterator<Item = (usize, Arc)>) -> Residual<W> {
        let (set, scale) = (self.set, self.set.scale());
        let arcs = arcs.map(|(number, arc)| set.as_chosen(&arc, self.flow.arcs[number]));
        let units = set.all_units(self.flow.carried);
        let pieces = units.chain(arcs).map(|chosen| chosen.piece(self.most));
        Residual::new(pieces, &set.ends, self.excess, self.price, scale)
    }
}

/// Takes their flow from it.
struct Take<'a, C, W> {
    set: &'a Working<'a, C>,
    backs: Backs<'a, W>,
    flow: &'a mut [i64],
}

impl<C: Width, W: Width> Scan for Take<'_, C, W> {
    type Found = ();

    fn over(mut self, arcs: impl Iterator<Item = (usize, Arc)>) {
        arcs.for_each(|(number, arc)| {
            let (tail, head) = (self.set.index[arc.tail], self.set.index[arc.head]);
            self.flow[number] = arc.lower + self.backs.next(tail, head);
        });
    }
}
