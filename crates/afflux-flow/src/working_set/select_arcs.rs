//! Which arcs go into a working set.

use std::marker::PhantomData;
use std::ops::{Range, RangeInclusive};

use crate::arcs::{Scan, Width};
use crate::halves::in_halves;
use crate::problem::{Arc, Problem, gains};
use crate::residual::Piece;
use crate::rows::CONVEX;
use crate::state::{HUB, State};

/// An arc that was chosen, or a unit of a convex one, and what it carries; as wide as the arcs of the
/// network are.
#[derive(Clone, Copy)]
pub(crate) struct Chosen<W> {
    pub number: u32,
    pub tail: u32,
    pub head: u32,
    lower: W,
    capacity: W,
    cost: W,
    flow: W,
}

impl<W: Width> Chosen<W> {
    pub fn new(number: usize, arc: &Arc, flow: i64) -> Self {
        Self {
            number: number as u32,
            tail: arc.tail as u32,
            head: arc.head as u32,
            lower: W::of(arc.lower),
            capacity: W::of(arc.capacity),
            cost: W::of(arc.cost),
            flow: W::of(flow),
        }
    }

    pub fn lower(&self) -> i64 {
        self.lower.into()
    }

    pub fn capacity(&self) -> i64 {
        self.capacity.into()
    }

    pub fn cost(&self) -> i64 {
        self.cost.into()
    }

    pub fn flow(&self) -> i64 {
        self.flow.into()
    }

    pub fn set_flow(&mut self, flow: i64) {
        self.flow = W::of(flow);
    }

    /// What it is to a residual network in which no arc carries more than `most`.
    pub fn piece(&self, most: i64) -> Piece {
        Piece {
            tail: self.tail,
            head: self.head,
            cost: self.cost(),
            room: self.capacity().min(most).max(self.flow()) - self.flow(),
            back: self.flow() - self.lower(),
        }
    }

    /// Whether its reduced cost is within the radius of one of its ends, or contradicts its flow.
    fn is_near(&self, state: &State, radius: impl Fn(usize) -> i64) -> bool {
        let (tail, head) = (self.tail as usize, self.head as usize);
        let reduced = self.cost() + state.price[tail] - state.price[head];
        gains(reduced, self.flow(), (self.lower(), self.capacity()))
            || reduced.abs() <= radius(tail).max(radius(head))
    }
}

/// A node that was left out with its only arc.
pub(crate) struct DeadEnd {
    arc: u32,
    /// Whether the node is the tail of the arc.
    is_tail: bool,
}

impl DeadEnd {
    /// The node, and the one at the other end of its arc.
    pub fn nodes(&self, problem: &Problem<'_>) -> (usize, usize) {
        let (tail, head) = problem.ends(self.arc);
        match self.is_tail {
            true => (tail, head),
            false => (head, tail),
        }
    }

    /// The node takes the price that its arc asks for, if the other end has changed its own.
    pub fn follow(&self, problem: &Problem<'_>, state: &mut State) {
        let (tail, head) = problem.ends(self.arc);
        let margin = problem.margin(self.arc, *state.flow_of(self.arc));
        let (from, to) = (state.price[tail], state.price[head]);
        if let Some(cost) = margin.tempting(from - to) {
            match self.is_tail {
                true => state.set_price(tail as u32, to - cost),
                false => state.set_price(head as u32, from + cost),
            }
        }
    }
}

/// Arcs for a working set.
pub(crate) struct Choice<W> {
    pub arcs: Vec<Chosen<W>>,
    /// Whether every arc with a choice is among them.
    pub is_all: bool,
    /// How many of them have more than half of the least radius, and no more than all of it.
    pub rim: usize,
}

impl<W: Width> Choice<W> {
    /// All arcs within reach. Those that violate optimality are among them if one of their ends was
    /// touched.
    pub fn new(problem: &Problem<'_>, state: &State, reach: &Reach) -> Self {
        let near = Near {
            state,
            reach,
            width: PhantomData,
        };
        let parts = in_halves(problem.places(), problem.looks(), |range| {
            let [arcs, rows] = problem.split(range);
            let mut choice = problem.scan_free(arcs, near);
            near.choose_units(problem, rows, &mut choice);
            choice
        });
        let is_all = parts.iter().all(|part| part.is_all);
        let rim = parts.iter().map(|part| part.rim).sum();
        let joined = parts.into_iter().map(|part| part.arcs);
        let arcs = joined.reduce(|mut arcs, more| {
            arcs.extend(more);
            arcs
        });
        Self {
            arcs: arcs.unwrap_or_default(),
            is_all,
            rim,
        }
    }

    /// Keeps those only which are still within a radius, or are no longer optimal, of all arcs with
    /// an end for which `is_asked` holds.
    pub fn keep_near(
        &mut self,
        state: &State,
        is_asked: impl Fn(usize) -> bool,
        radius: impl Fn(usize) -> i64,
    ) {
        let before = self.arcs.len();
        self.arcs.retain(|arc| {
            let is_asked = is_asked(arc.tail as usize) || is_asked(arc.head as usize);
            !is_asked || arc.is_near(state, &radius)
        });
        self.is_all &= self.arcs.len() == before;
    }

    /// Leaves out dead ends: nodes in balance that have no second arc here, so that nothing can change
    /// on the first. Those that were touched stay, to find the price that suits them; and so do all
    /// where every arc is here, since then it would no longer be.
    pub fn leave_dead_ends(&mut self, state: &State) -> Vec<DeadEnd> {
        let mut dead_ends = Vec::new();
        if self.is_all {
            return dead_ends;
        }
        let mut ends = vec![0_u32; state.price.len()];
        for node in self.arcs.iter().flat_map(|arc| [arc.tail, arc.head]) {
            ends[node as usize] += 1;
        }
        let is_dead = |node: u32| {
            let node = node as usize;
            ends[node] == 1 && !state.is_touched(node) && state.excess(node) == 0
        };
        self.arcs.retain(|arc| {
            let is_tail = is_dead(arc.tail);
            let is_dead = is_tail || is_dead(arc.head);
            if is_dead {
                dead_ends.push(DeadEnd {
                    arc: arc.number,
                    is_tail,
                });
            }
            !is_dead
        });
        dead_ends
    }
}

/// How far from zero the reduced costs of arcs may be that are chosen, by node.
pub(crate) struct Reach {
    /// By node, what is known of it: some of [`WRONG`], [`RIGHT`] and [`HUB_MARK`]. A byte tells it
    /// sooner than the sets and the number of arcs that it follows from.
    marks: Vec<u8>,
    /// By the first two of these, as both ends of an arc have them together.
    radius: [i64; 4],
}

/// Marks nodes at which something is to be put right: all of their arcs are chosen.
const WRONG: u8 = 1;

/// Marks nodes at which something was put right in an earlier pass.
const RIGHT: u8 = 2;

/// Marks hubs: all arcs between two of them are chosen.
const HUB_MARK: u8 = 4;

impl Reach {
    /// For a radius, in this pass and in full.
    pub fn new(state: &State, degree: &[u32], (radius, base): (i64, i64)) -> Self {
        let marks = degree.iter().map(|&ends| match ends > HUB {
            true => HUB_MARK,
            false => 0,
        });
        let mut marks: Vec<u8> = marks.collect();
        for node in state.touched.all() {
            marks[node] |= match state.is_touched(node) {
                true => WRONG,
                false => RIGHT,
            };
        }
        Self {
            marks,
            radius: [radius, i64::MAX, radius.max(base), i64::MAX],
        }
    }

    /// For an arc at a node, whatever its other end is.
    pub fn at(&self, node: usize) -> i64 {
        self.radius[usize::from(self.marks[node] & (WRONG | RIGHT))]
    }

    /// For an arc between two nodes.
    #[inline]
    fn between(&self, tail: usize, head: usize) -> i64 {
        match self.marks[tail] & self.marks[head] & HUB_MARK {
            0 => self.around(tail, head),
            _ => i64::MAX,
        }
    }

    /// The same, whether they are hubs or not.
    #[inline]
    fn around(&self, tail: usize, head: usize) -> i64 {
        let marks = self.marks[tail] | self.marks[head];
        self.radius[usize::from(marks & (WRONG | RIGHT))]
    }

    /// The outer half of the least radius.
    fn rim(&self) -> RangeInclusive<i64> {
        self.radius[0] / 2 + 1..=self.radius[0]
    }
}

/// Finds arcs that are near.
struct Near<'a, W> {
    state: &'a State,
    reach: &'a Reach,
    width: PhantomData<W>,
}

impl<W> Clone for Near<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Near<'_, W> {}

impl<W: Width> Near<'_, W> {
    /// Chooses the units of convex arcs, from the last one that is carried downwards and from the next
    /// one upwards, as long as they are near or violate optimality. So nothing has to be chosen between
    /// hubs but these.
    fn choose_units(&self, problem: &Problem<'_>, range: Range<usize>, choice: &mut Choice<W>) {
        let rim = self.reach.rim();
        let rows = problem.rows();
        for (row, convex) in rows.range(range) {
            let (tail, head) = convex.ends();
            let fall = self.state.price[tail] - self.state.price[head];
            let reach = self.reach.around(tail, head);
            let costs = rows.open_costs(convex);
            let (lower, carried) = (convex.lower as usize, self.state.carried[row] as usize);
            let below = costs[lower..carried].iter().rev();
            let is_near = |cost: &&i64| **cost + fall >= -reach;
            let first = carried - below.take_while(is_near).count();
            let above = costs[carried..].iter();
            let is_near = |cost: &&i64| **cost + fall <= reach;
            let last = carried + above.take_while(is_near).count();
            choice.is_all &= last - first == costs.len() - lower;
            for (unit, &cost) in costs[first..last].iter().enumerate() {
                let flow = i64::from(first + unit < carried);
                let number = CONVEX as usize + row;
                let chosen = Chosen::new(number, &convex.unit(cost), flow);
                choice.arcs.push(chosen);
                choice.rim += usize::from(rim.contains(&(cost + fall).abs()));
            }
        }
    }
}

impl<W: Width> Scan for Near<'_, W> {
    type Found = Choice<W>;

    fn over(self, arcs: impl Iterator<Item = (usize, Arc)>) -> Choice<W> {
        let Self { state, reach, .. } = self;
        let rim = reach.rim();
        let mut choice = Choice {
            arcs: Vec::new(),
            is_all: true,
            rim: 0,
        };
        arcs.for_each(|(number, arc)| {
            let reduced = arc.cost + state.price[arc.tail] - state.price[arc.head];
            if reduced.abs() <= reach.between(arc.tail, arc.head) {
                let flow = state.flow[number];
                choice.arcs.push(Chosen::new(number, &arc, flow));
                choice.rim += usize::from(rim.contains(&reduced.abs()));
            } else {
                choice.is_all = false;
            }
        });
        choice
    }
}
