//! The working set: the arcs whose flow may change, as a residual network of its own.
//!
//! Unless prices change a lot, an arc whose reduced cost is far above zero stays at its lower bound
//! and one far below zero stays at its capacity. Such arcs are left out with their flow, and all
//! others are solved: `select_arcs` says which. `solve_passes` solves the set, and one scan over all
//! arcs finds those that were left out by mistake.

pub(crate) mod select_arcs;

use std::marker::PhantomData;

use crate::arc_columns::{IntWidth, Scan};
use crate::certificate::Flow;
use crate::error::FlowError;
use crate::problem::{Arc, Problem};
use crate::residual::{BackwardCapacities, Residual};
use crate::solver_state::SolverState;
use crate::working_set::select_arcs::{DeadEnd, SelectedArc, Selection};

/// The largest allowed sum of excess and capacities around a node: no excess can overflow.
pub(crate) const EXCESS_LIMIT: i64 = i64::MAX / 4;

/// Marks a node that is not in the set.
const ABSENT: u32 = u32::MAX;

/// Selected arcs of a problem, and the nodes at their ends.
pub(crate) struct WorkingSet<'a, C> {
    pub problem: &'a Problem<'a>,
    /// Copies of the arcs, which are scattered in the columns of the problem; none if every free
    /// arc is in the set.
    selected: Option<Vec<SelectedArc<C>>>,
    /// Nodes removed from the set, whose prices follow their neighbours.
    dead_ends: Vec<DeadEnd>,
    pub arcs: usize,
    /// The nodes of the problem, by their index in the set.
    nodes: Vec<u32>,
    /// The index of each node in the set, or [`ABSENT`].
    index: Vec<u32>,
    /// The degree of each node within the set.
    ends: Vec<u32>,
    /// The largest capacity of an arc.
    largest_capacity: i64,
    /// The largest magnitude of a cost.
    largest_cost: i64,
    /// Whether every free arc is in the set.
    pub is_all: bool,
    /// The number of arcs in the outer half of the radius (see [`Selection`]).
    pub outer_half: usize,
}

impl<'a, C: IntWidth> WorkingSet<'a, C> {
    /// The set of all free arcs.
    pub fn all(problem: &'a Problem<'a>, state: &SolverState) -> Self {
        let mut set = Self::empty(problem, state);
        for unit in problem.convex_arcs().unit_arcs().filter(Arc::is_free) {
            set.add_arc(unit.tail, unit.head, unit.capacity, unit.cost);
        }
        problem.scan_free(0..problem.arcs().len(), CollectArcs(set))
    }

    /// The set of selected arcs, whose ends are nodes of the problem.
    pub fn of(
        problem: &'a Problem<'a>,
        state: &SolverState,
        selection: Selection<C>,
        dead_ends: Vec<DeadEnd>,
    ) -> Self {
        let mut set = Self::empty(problem, state);
        let mut selected = selection.arcs;
        for arc in &mut selected {
            let (tail, head) = (arc.tail as usize, arc.head as usize);
            (arc.tail, arc.head) = set.add_arc(tail, head, arc.capacity(), arc.cost());
        }
        set.selected = Some(selected);
        set.dead_ends = dead_ends;
        set.is_all = selection.is_all;
        set.outer_half = selection.outer_half;
        set
    }

    /// A set without arcs that contains all unbalanced nodes.
    fn empty(problem: &'a Problem<'a>, state: &SolverState) -> Self {
        let mut set = Self {
            problem,
            selected: None,
            dead_ends: Vec::new(),
            arcs: 0,
            nodes: Vec::new(),
            index: vec![ABSENT; problem.nodes()],
            ends: Vec::new(),
            largest_capacity: 0,
            largest_cost: 0,
            is_all: true,
            outer_half: 0,
        };
        for node in state.unbalanced() {
            set.add_node(node);
        }
        set
    }

    /// Accounts for an arc; returns the indices of its ends in the set.
    fn add_arc(&mut self, tail: usize, head: usize, capacity: i64, cost: i64) -> (u32, u32) {
        self.arcs += 1;
        self.largest_capacity = self.largest_capacity.max(capacity);
        self.largest_cost = self.largest_cost.max(cost.abs());
        let (tail, head) = (self.add_node(tail), self.add_node(head));
        self.ends[tail] += 1;
        self.ends[head] += 1;
        (tail as u32, head as u32)
    }

    /// The index of a node in the set; adds the node if it is absent.
    fn add_node(&mut self, node: usize) -> usize {
        if self.index[node] == ABSENT {
            self.index[node] = self.nodes.len() as u32;
            self.nodes.push(node as u32);
            self.ends.push(0);
        }
        self.index[node] as usize
    }

    /// The factor by which costs are multiplied within the set.
    pub fn scale(&self) -> i64 {
        (self.nodes.len() as i64 + 1).max(2)
    }

    /// Converts flags by node of the set to flags by node of the problem.
    pub fn to_problem_nodes(&self, inside: &[bool]) -> Vec<bool> {
        let mut all = vec![false; self.problem.nodes()];
        for (&node, &is_inside) in self.nodes.iter().zip(inside) {
            all[node as usize] = is_inside;
        }
        all
    }

    /// The number of arcs, including those of dead ends.
    pub fn size(&self) -> usize {
        self.arcs + self.dead_ends.len()
    }

    /// By node of the set, the number of its arcs outside the set, which may violate optimality
    /// when its price changes. Arcs of dead ends count for the neighbours whose prices they follow.
    pub fn arcs_outside_set<W: IntWidth>(&self, net: &Residual<W>, degree: &[u32]) -> Vec<u32> {
        // A convex arc counts once in the degree, but may be in the set with several units.
        let count = |(index, &node): (usize, &u32)| {
            degree[node as usize].saturating_sub(net.range(index).len() as u32)
        };
        let mut outside: Vec<u32> = self.nodes.iter().enumerate().map(count).collect();
        for dead_end in &self.dead_ends {
            let (dead, neighbour) = dead_end.nodes(self.problem);
            let index = self.index[neighbour];
            if index != ABSENT {
                let outside = &mut outside[index as usize];
                // The arc between them is excluded at both ends.
                *outside = outside.saturating_add(degree[dead]).saturating_sub(2);
            }
        }
        outside
    }

    pub fn node(&self, index: usize) -> usize {
        self.nodes[index] as usize
    }

    /// Whether 32 bits are enough for the entries of the residual network. An infinite capacity
    /// should be written as a number below 2^31.
    pub fn is_narrow(&self) -> bool {
        self.largest_capacity.max(self.largest_cost) <= i64::from(i32::MAX)
    }

    pub fn residual<W: IntWidth>(&self, state: &SolverState) -> Result<Residual<W>, FlowError> {
        let scale = self.scale();
        let flow_limit = self.flow_limit(state)?;
        let mut excess = Vec::with_capacity(self.nodes.len());
        let mut price = Vec::with_capacity(self.nodes.len());
        for &node in &self.nodes {
            let node = node as usize;
            let has = state.excess(node);
            excess.push(i64::try_from(has).map_err(|_| overflow(node, has))?);
            price.push(state.price[node] * scale);
        }
        Ok(match &self.selected {
            Some(selected) => {
                let residual_arcs = selected.iter().map(|arc| arc.residual_arc(flow_limit));
                Residual::new(residual_arcs, &self.ends, excess, price, scale)
            }
            None => self.problem.scan_free(
                0..self.problem.arcs().len(),
                BuildResidual {
                    set: self,
                    flow: state.all_flow(),
                    flow_limit,
                    excess,
                    price,
                    width: PhantomData,
                },
            ),
        })
    }

    /// A free arc, as if it had been selected.
    fn as_selected(&self, arc: &Arc, flow: i64) -> SelectedArc<C> {
        // Its id is not used.
        let mut selected = SelectedArc::new(0, arc, flow);
        (selected.tail, selected.head) = (self.index[arc.tail], self.index[arc.head]);
        selected
    }

    /// The same for all units of all convex arcs with this flow.
    fn all_units(&self, convex_flow: &[i64]) -> impl Iterator<Item = SelectedArc<C>> {
        let flows = convex_flow
            .iter()
            .zip(self.problem.convex_arcs().range(0..convex_flow.len()));
        let flows = flows.flat_map(|(&flow, (_, convex))| {
            (0..i64::from(convex.capacity)).map(move |unit| i64::from(unit < flow))
        });
        let units = self.problem.convex_arcs().unit_arcs().zip(flows);
        let free = units.filter(|(unit, _)| unit.is_free());
        free.map(|(unit, flow)| self.as_selected(&unit, flow))
    }

    /// Writes flow and prices of the residual network back to the state. If the set is a selection,
    /// this can be undone.
    pub fn write_back<W: IntWidth>(&self, net: &Residual<W>, state: &mut SolverState) {
        let scale = self.scale();
        let nodes = || self.nodes.iter().zip(&net.price);
        match &self.selected {
            Some(selected) => {
                let mut backward_capacities = net.backward_capacities();
                for arc in selected {
                    let backward_capacity = backward_capacities.next(arc.tail, arc.head);
                    let more = arc.lower() + backward_capacity - arc.flow();
                    if more != 0 {
                        state.add_flow(arc.id, more);
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
                let mut backward_capacities = net.backward_capacities();
                let convex_arcs = self.problem.convex_arcs();
                for (slot, convex) in convex_arcs.range(0..convex_arcs.len()) {
                    let (tail, head) = convex.ends();
                    let (tail, head) = (self.index[tail], self.index[head]);
                    let free = convex.lower..convex.capacity;
                    let units: i64 = free.map(|_| backward_capacities.next(tail, head)).sum();
                    state.convex_flow[slot] = i64::from(convex.lower) + units;
                }
                let take = WriteFlow {
                    set: self,
                    backward_capacities,
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

    /// The largest capacity to be used in the residual network. Also checks that no excess can
    /// overflow, whatever is pushed.
    fn flow_limit(&self, state: &SolverState) -> Result<i64, FlowError> {
        let excess = || {
            self.nodes
                .iter()
                .map(|&node| state.excess(node as usize).abs())
        };
        let largest_excess = excess().max().unwrap_or(0);
        let fits = |largest_capacity: i64| {
            let sum = i128::from(largest_capacity) * self.arcs as i128 + largest_excess;
            sum <= i128::from(EXCESS_LIMIT)
        };
        if fits(self.largest_capacity) {
            return Ok(self.largest_capacity);
        }
        let flow_limit = self.problem.flow_limit();
        if fits(flow_limit) {
            return Ok(flow_limit);
        }
        let mut sums: Vec<i128> = excess().collect();
        let add_arc = |arc: SelectedArc<C>| {
            let residual_capacity = i128::from(arc.capacity().min(flow_limit));
            sums[arc.tail as usize] += residual_capacity;
            sums[arc.head as usize] += residual_capacity;
        };
        match &self.selected {
            Some(selected) => selected.iter().copied().for_each(add_arc),
            None => {
                let arcs = self.problem.arcs().zip(&state.flow);
                let free = arcs.filter(|(arc, _)| arc.is_free());
                free.map(|(arc, &flow)| self.as_selected(&arc, flow))
                    .chain(self.all_units(&state.convex_flow))
                    .for_each(add_arc);
            }
        }
        match sums.iter().position(|&sum| sum > i128::from(EXCESS_LIMIT)) {
            Some(index) => Err(overflow(self.node(index), sums[index])),
            None => Ok(flow_limit),
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

/// A scan that adds all free arcs to a set.
struct CollectArcs<'a, C>(WorkingSet<'a, C>);

impl<'a, C: IntWidth> Scan for CollectArcs<'a, C> {
    type Output = WorkingSet<'a, C>;

    fn run(mut self, arcs: impl Iterator<Item = (usize, Arc)>) -> WorkingSet<'a, C> {
        for (_, arc) in arcs {
            self.0.add_arc(arc.tail, arc.head, arc.capacity, arc.cost);
        }
        self.0
    }
}

/// A scan that builds the residual network of all free arcs.
struct BuildResidual<'a, C, W> {
    set: &'a WorkingSet<'a, C>,
    flow: Flow<'a>,
    flow_limit: i64,
    excess: Vec<i64>,
    price: Vec<i64>,
    width: PhantomData<W>,
}

impl<C: IntWidth, W: IntWidth> Scan for BuildResidual<'_, C, W> {
    type Output = Residual<W>;

    fn run(self, arcs: impl Iterator<Item = (usize, Arc)>) -> Residual<W> {
        let (set, scale) = (self.set, self.set.scale());
        let arcs = arcs.map(|(id, arc)| set.as_selected(&arc, self.flow.arcs[id]));
        let units = set.all_units(self.flow.convex_flow);
        let residual_arcs = units
            .chain(arcs)
            .map(|selected| selected.residual_arc(self.flow_limit));
        Residual::new(residual_arcs, &set.ends, self.excess, self.price, scale)
    }
}

/// A scan that writes the flow of the residual network back.
struct WriteFlow<'a, C, W> {
    set: &'a WorkingSet<'a, C>,
    backward_capacities: BackwardCapacities<'a, W>,
    flow: &'a mut [i64],
}

impl<C: IntWidth, W: IntWidth> Scan for WriteFlow<'_, C, W> {
    type Output = ();

    fn run(mut self, arcs: impl Iterator<Item = (usize, Arc)>) {
        arcs.for_each(|(id, arc)| {
            let (tail, head) = (self.set.index[arc.tail], self.set.index[arc.head]);
            self.flow[id] = arc.lower + self.backward_capacities.next(tail, head);
        });
    }
}
