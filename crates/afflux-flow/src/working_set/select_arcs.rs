//! Selects the arcs of a working set.

use std::marker::PhantomData;
use std::ops::{Range, RangeInclusive};

use crate::arc_columns::{IntWidth, Scan};
use crate::convex_arcs::FIRST_CONVEX_ID;
use crate::problem::{Arc, Problem, violates_optimality};
use crate::residual::ResidualArc;
use crate::solver_state::{HUB_DEGREE, SolverState};
use crate::two_threads::in_two_threads;

/// A copy of a selected arc, or of a unit of a convex arc, with its flow, in the width of the
/// network's columns.
#[derive(Clone, Copy)]
pub(crate) struct SelectedArc<W> {
    pub id: u32,
    pub tail: u32,
    pub head: u32,
    lower: W,
    capacity: W,
    cost: W,
    flow: W,
}

impl<W: IntWidth> SelectedArc<W> {
    pub fn new(id: usize, arc: &Arc, flow: i64) -> Self {
        Self {
            id: id as u32,
            tail: arc.tail as u32,
            head: arc.head as u32,
            lower: W::cast(arc.lower),
            capacity: W::cast(arc.capacity),
            cost: W::cast(arc.cost),
            flow: W::cast(flow),
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
        self.flow = W::cast(flow);
    }

    /// The arc as input of a residual network in which no arc carries more than `flow_limit`.
    pub fn residual_arc(&self, flow_limit: i64) -> ResidualArc {
        ResidualArc {
            tail: self.tail,
            head: self.head,
            cost: self.cost(),
            residual_capacity: self.capacity().min(flow_limit).max(self.flow()) - self.flow(),
            backward_capacity: self.flow() - self.lower(),
        }
    }

    /// Whether its reduced cost is within the radius of one of its ends, or it violates optimality.
    fn is_near(&self, state: &SolverState, radius: impl Fn(usize) -> i64) -> bool {
        let (tail, head) = (self.tail as usize, self.head as usize);
        let reduced = self.cost() + state.price[tail] - state.price[head];
        violates_optimality(reduced, self.flow(), (self.lower(), self.capacity()))
            || reduced.abs() <= radius(tail).max(radius(head))
    }
}

/// A node that was removed from the working set with its only arc.
pub(crate) struct DeadEnd {
    arc: u32,
    /// Whether the node is the tail of the arc.
    is_tail: bool,
}

impl DeadEnd {
    /// The node and its neighbour.
    pub fn nodes(&self, problem: &Problem<'_>) -> (usize, usize) {
        let (tail, head) = problem.ends(self.arc);
        match self.is_tail {
            true => (tail, head),
            false => (head, tail),
        }
    }

    /// Sets the price of the node so that its arc is optimal, after the price of the neighbour
    /// changed.
    pub fn follow(&self, problem: &Problem<'_>, state: &mut SolverState) {
        let (tail, head) = problem.ends(self.arc);
        let margin = problem.margin(self.arc, *state.flow_of(self.arc));
        let (from, to) = (state.price[tail], state.price[head]);
        if let Some(cost) = margin.improving_cost(from - to) {
            match self.is_tail {
                true => state.set_price(tail as u32, to - cost),
                false => state.set_price(head as u32, from + cost),
            }
        }
    }
}

/// The arcs selected for a working set.
pub(crate) struct Selection<W> {
    pub arcs: Vec<SelectedArc<W>>,
    /// Whether every free arc is selected.
    pub is_all: bool,
    /// The number of arcs whose reduced cost is in the outer half of the smallest radius.
    pub outer_half: usize,
}

impl<W: IntWidth> Selection<W> {
    /// Selects all arcs within the radius. Arcs that violate optimality are included if one of
    /// their ends is marked as changed.
    pub fn new(problem: &Problem<'_>, state: &SolverState, radius_of: &SelectionRadius) -> Self {
        let near = SelectNear {
            state,
            radius_of,
            width: PhantomData,
        };
        let parts = in_two_threads(
            problem.arc_and_convex_count(),
            problem.scan_length(),
            |range| {
                let [arcs, convex_arcs] = problem.split_range(range);
                let mut selection = problem.scan_free(arcs, near);
                near.select_units(problem, convex_arcs, &mut selection);
                selection
            },
        );
        let is_all = parts.iter().all(|part| part.is_all);
        let outer_half = parts.iter().map(|part| part.outer_half).sum();
        let joined = parts.into_iter().map(|part| part.arcs);
        let arcs = joined.reduce(|mut arcs, more| {
            arcs.extend(more);
            arcs
        });
        Self {
            arcs: arcs.unwrap_or_default(),
            is_all,
            outer_half,
        }
    }

    /// Of the arcs with an end for which `is_checked` holds, keeps only those that are within the
    /// radius or violate optimality now.
    pub fn drop_far_arcs(
        &mut self,
        state: &SolverState,
        is_checked: impl Fn(usize) -> bool,
        radius: impl Fn(usize) -> i64,
    ) {
        let before = self.arcs.len();
        self.arcs.retain(|arc| {
            let is_checked = is_checked(arc.tail as usize) || is_checked(arc.head as usize);
            !is_checked || arc.is_near(state, &radius)
        });
        self.is_all &= self.arcs.len() == before;
    }

    /// Removes dead ends: balanced nodes with a single arc in the selection, whose flow therefore
    /// cannot change. Changed nodes stay, so that their price is computed. If every arc is
    /// selected, nothing is removed, since the selection would no longer be complete.
    pub fn remove_dead_ends(&mut self, state: &SolverState) -> Vec<DeadEnd> {
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
            ends[node] == 1 && !state.needs_repair(node) && state.excess(node) == 0
        };
        self.arcs.retain(|arc| {
            let is_tail = is_dead(arc.tail);
            let is_dead = is_tail || is_dead(arc.head);
            if is_dead {
                dead_ends.push(DeadEnd {
                    arc: arc.id,
                    is_tail,
                });
            }
            !is_dead
        });
        dead_ends
    }
}

/// The radius for reduced costs of selected arcs, by node.
pub(crate) struct SelectionRadius {
    /// By node, a combination of [`NEEDS_REPAIR`], [`REPAIRED`] and [`IS_HUB`]. Reading one byte is
    /// faster than reading the sets and the degree that it is derived from.
    marks: Vec<u8>,
    /// The radius for each combination of [`NEEDS_REPAIR`] and [`REPAIRED`] at the two ends of an
    /// arc.
    radius: [i64; 4],
}

/// A node that needs repair: all of its arcs are selected.
const NEEDS_REPAIR: u8 = 1;

/// A node that was repaired in an earlier pass.
const REPAIRED: u8 = 2;

/// A hub: all arcs between two hubs are selected.
const IS_HUB: u8 = 4;

impl SelectionRadius {
    /// The radii of a pass, given its radius and the full radius of the solve.
    pub fn new(state: &SolverState, degree: &[u32], (radius, base): (i64, i64)) -> Self {
        let marks = degree.iter().map(|&ends| match ends > HUB_DEGREE {
            true => IS_HUB,
            false => 0,
        });
        let mut marks: Vec<u8> = marks.collect();
        for node in state.changed.all() {
            marks[node] |= match state.needs_repair(node) {
                true => NEEDS_REPAIR,
                false => REPAIRED,
            };
        }
        Self {
            marks,
            radius: [radius, i64::MAX, radius.max(base), i64::MAX],
        }
    }

    /// The radius at a node, whatever the other end of the arc is.
    pub fn at(&self, node: usize) -> i64 {
        self.radius[usize::from(self.marks[node] & (NEEDS_REPAIR | REPAIRED))]
    }

    /// The radius for an arc between two nodes.
    #[inline]
    fn between(&self, tail: usize, head: usize) -> i64 {
        match self.marks[tail] & self.marks[head] & IS_HUB {
            0 => self.around(tail, head),
            _ => i64::MAX,
        }
    }

    /// The same without regard to hubs.
    #[inline]
    fn around(&self, tail: usize, head: usize) -> i64 {
        let marks = self.marks[tail] | self.marks[head];
        self.radius[usize::from(marks & (NEEDS_REPAIR | REPAIRED))]
    }

    /// The outer half of the smallest radius.
    fn outer_half(&self) -> RangeInclusive<i64> {
        self.radius[0] / 2 + 1..=self.radius[0]
    }
}

/// A scan that selects the arcs within the radius.
struct SelectNear<'a, W> {
    state: &'a SolverState,
    radius_of: &'a SelectionRadius,
    width: PhantomData<W>,
}

impl<W> Clone for SelectNear<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for SelectNear<'_, W> {}

impl<W: IntWidth> SelectNear<'_, W> {
    /// Selects units of convex arcs: from the last carried unit downwards and from the next one
    /// upwards, while they are within the radius or violate optimality. Convex arcs between hubs
    /// get no special treatment.
    fn select_units(
        &self,
        problem: &Problem<'_>,
        range: Range<usize>,
        selection: &mut Selection<W>,
    ) {
        let outer_half = self.radius_of.outer_half();
        let convex_arcs = problem.convex_arcs();
        for (slot, convex) in convex_arcs.range(range) {
            let (tail, head) = convex.ends();
            let fall = self.state.price[tail] - self.state.price[head];
            let radius = self.radius_of.around(tail, head);
            let costs = convex_arcs.usable_costs(convex);
            let (lower, convex_flow) =
                (convex.lower as usize, self.state.convex_flow[slot] as usize);
            let below = costs[lower..convex_flow].iter().rev();
            let is_near = |cost: &&i64| **cost + fall >= -radius;
            let first = convex_flow - below.take_while(is_near).count();
            let above = costs[convex_flow..].iter();
            let is_near = |cost: &&i64| **cost + fall <= radius;
            let last = convex_flow + above.take_while(is_near).count();
            selection.is_all &= last - first == costs.len() - lower;
            for (unit, &cost) in costs[first..last].iter().enumerate() {
                let flow = i64::from(first + unit < convex_flow);
                let id = FIRST_CONVEX_ID as usize + slot;
                let selected = SelectedArc::new(id, &convex.unit(cost), flow);
                selection.arcs.push(selected);
                selection.outer_half += usize::from(outer_half.contains(&(cost + fall).abs()));
            }
        }
    }
}

impl<W: IntWidth> Scan for SelectNear<'_, W> {
    type Output = Selection<W>;

    fn run(self, arcs: impl Iterator<Item = (usize, Arc)>) -> Selection<W> {
        let Self {
            state, radius_of, ..
        } = self;
        let outer_half = radius_of.outer_half();
        let mut selection = Selection {
            arcs: Vec::new(),
            is_all: true,
            outer_half: 0,
        };
        arcs.for_each(|(id, arc)| {
            let reduced = arc.cost + state.price[arc.tail] - state.price[arc.head];
            if reduced.abs() <= radius_of.between(arc.tail, arc.head) {
                let flow = state.flow[id];
                selection.arcs.push(SelectedArc::new(id, &arc, flow));
                selection.outer_half += usize::from(outer_half.contains(&reduced.abs()));
            } else {
                selection.is_all = false;
            }
        });
        selection
    }
}
