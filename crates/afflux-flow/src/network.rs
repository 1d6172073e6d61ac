//! The network that persists between solves.
//!
//! Nodes and arcs in columns, with the flow and the prices of the last solve. A change takes time
//! in proportion to the values changed: there are no adjacency lists to maintain, since each solve
//! selects its working set by one scan (see `working_set::select_arcs`).

mod bulk_changes;
mod convex;
mod export;
mod restore;
#[cfg(test)]
mod tests;

pub use bulk_changes::NewArc;
pub use convex::{ConvexTerms, NewConvexArc};
pub use export::Columns;

use crate::arc_columns::Arcs;
use crate::bitset::BitSet;
use crate::certificate::Flow;
use crate::convex_arcs::{ConvexArcs, convex_slot};
use crate::deadline::Limits;
use crate::error::FlowError;
use crate::fixed_flow::FixedFlow;
use crate::problem::{
    Arc, MAX_ARCS, MAX_NODES, Problem, Terms, check_balance, check_terms, cost_limit,
    violates_optimality,
};
use crate::solve_passes;
use crate::solver_state::SolverState;

/// The id of a node of a [`Network`]. Ids of removed nodes are reused.
pub type NodeId = u32;

/// The id of an arc of a [`Network`]. Ids of removed arcs are reused.
pub type ArcId = u32;

/// The answer of a solve; flow and prices are read from the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The cost of the flow.
    pub cost: i128,
    /// A lower bound on the cost of every flow. Equal to `cost` unless a limit was reached.
    pub bound: i128,
}

impl Answer {
    /// An upper bound on what a better flow could save.
    pub fn gap(&self) -> i128 {
        self.cost.saturating_sub(self.bound)
    }

    /// Whether the flow is proven to be optimal.
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }
}

/// A minimum-cost flow problem that can be changed, and its last answer.
///
/// Between solves the problem may be inconsistent: supplies may not add up to zero, and a capacity
/// may be set below the current flow, which is then reduced. A call that returns an error changes
/// nothing.
#[derive(Debug, Clone, Default)]
pub struct Network {
    supply: Vec<i64>,
    /// The sum of all supplies.
    supply_sum: i128,
    arcs: Arcs,
    convex_arcs: ConvexArcs,
    fixed_flow: FixedFlow,
    /// Whether an arc exists. A removed arc is stored as a loop without capacity.
    exists: BitSet,
    /// By node, the number of arc ends; [`REMOVED`] if the node was removed.
    degree: Vec<u32>,
    free_nodes: Vec<NodeId>,
    free_arcs: Vec<ArcId>,
    /// The largest magnitude of any cost so far.
    largest_cost: i64,
    state: SolverState,
    /// The state after each level of the last [`Network::solve_levels`].
    pub(crate) level_states: Vec<Option<SolverState>>,
}

const REMOVED: u32 = u32::MAX;

impl Network {
    /// A network without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.supply.len() - self.free_nodes.len()
    }

    /// The number of arcs; a convex arc counts once.
    pub fn arcs(&self) -> usize {
        self.arcs.len() - self.free_arcs.len() + self.convex_arcs.count()
    }

    /// Reserves memory for more nodes and arcs, which saves memory when many are added.
    pub fn reserve(&mut self, nodes: usize, arcs: usize) {
        // At least an eighth of the length: many small additions must not copy the column each
        // time.
        let rest = |more: usize, free: usize, length: usize| match more.saturating_sub(free) {
            0 => 0,
            new => new.max(length / 8),
        };
        let nodes = rest(nodes, self.free_nodes.len(), self.supply.len());
        let arcs = rest(arcs, self.free_arcs.len(), self.arcs.len());
        reserve(&mut self.supply, nodes);
        reserve(&mut self.degree, nodes);
        self.fixed_flow.due.reserve(nodes);
        self.arcs.reserve(arcs);
        self.state.reserve(nodes, arcs);
    }

    /// Adds a node that sends `supply` units more than it receives.
    pub fn add_node(&mut self, supply: i64) -> Result<NodeId, FlowError> {
        let node = match self.free_nodes.pop() {
            Some(node) => node,
            None => {
                let node = self.supply.len();
                check_count("nodes", node + 1, MAX_NODES)?;
                self.supply.push(0);
                self.degree.push(0);
                self.fixed_flow.due.push();
                self.state.add_node();
                node as NodeId
            }
        };
        self.degree[node as usize] = 0;
        self.state.reset_node(node as usize);
        self.change_supply(node as usize, supply);
        Ok(node)
    }

    /// Removes a node; its arcs must be removed first.
    pub fn remove_node(&mut self, node: NodeId) -> Result<(), FlowError> {
        self.remove_nodes(&[node])
    }

    /// Changes the supply of a node.
    pub fn set_supply(&mut self, node: NodeId, supply: i64) -> Result<(), FlowError> {
        let index = self.find_node(node)?;
        self.change_supply(index, supply);
        Ok(())
    }

    /// Checks whether an arc could be added, without adding it.
    pub fn check_arc(&self, tail: NodeId, head: NodeId, terms: Terms) -> Result<(), FlowError> {
        self.find_node(tail)?;
        self.find_node(head)?;
        let next = self.free_arcs.last().copied();
        check_terms(
            next.map_or(self.arcs.len(), |arc| arc as usize),
            terms,
            cost_limit(self.supply.len()),
        )
    }

    /// Adds an arc.
    pub fn add_arc(
        &mut self,
        tail: NodeId,
        head: NodeId,
        terms: Terms,
    ) -> Result<ArcId, FlowError> {
        self.check_arc(tail, head, terms)?;
        if self.free_arcs.is_empty() {
            check_count("arcs", self.arcs.len() + 1, MAX_ARCS)?;
        }
        Ok(self.insert_arc(tail, head, terms))
    }

    /// Adds an arc whose arguments have been checked.
    fn insert_arc(&mut self, tail: NodeId, head: NodeId, terms: Terms) -> ArcId {
        let arc = Arc::new(tail as usize, head as usize, terms);
        let flow = arc.fixed_flow().unwrap_or(arc.lower);
        let index = match self.free_arcs.pop() {
            None => {
                let index = self.arcs.len();
                self.arcs.push(&arc);
                self.exists.grow_to(index);
                self.state.flow.push(flow);
                index
            }
            Some(index) => {
                let index = index as usize;
                self.arcs.set(index, &arc);
                self.state.flow[index] = flow;
                index
            }
        };
        self.exists.set(index, true);
        self.degree[arc.tail] += 1;
        self.degree[arc.head] += 1;
        self.largest_cost = self.largest_cost.max(terms.cost.abs());
        self.fixed_flow.add(&arc);
        self.state.send(arc.tail, arc.head, flow);
        if flow != 0 {
            self.state.mark_changed(arc.tail);
            self.state.mark_changed(arc.head);
        } else if arc.is_free() {
            self.mark_if_violating(index, arc.tail, arc.head);
        }
        index as ArcId
    }

    /// Removes an arc and its flow.
    pub fn remove_arc(&mut self, arc: ArcId) -> Result<(), FlowError> {
        self.remove_arcs(&[arc])
    }

    fn remove_found_arc(&mut self, arc: ArcId) {
        let index = arc as usize;
        let removed = self.arcs.get(index);
        let flow = std::mem::take(&mut self.state.flow[index]);
        self.arcs.set(index, &Arc::new(0, 0, Terms::NOTHING));
        self.degree[removed.tail] -= 1;
        self.degree[removed.head] -= 1;
        self.fixed_flow.remove(&removed);
        self.state.send(removed.tail, removed.head, -flow);
        if flow != 0 {
            self.state.mark_changed(removed.tail);
            self.state.mark_changed(removed.head);
        }
        self.free_arcs.push(arc);
    }

    /// Changes lower bound and capacity of an arc.
    pub fn set_bounds(&mut self, arc: ArcId, lower: i64, capacity: i64) -> Result<(), FlowError> {
        self.set_all_bounds([(arc, lower, capacity)].into_iter())
    }

    /// Changes the cost of an arc.
    pub fn set_cost(&mut self, arc: ArcId, cost: i64) -> Result<(), FlowError> {
        let terms = Terms {
            cost,
            ..self.terms(arc)?
        };
        self.set_terms(arc, terms)
    }

    /// Changes bounds and cost of an arc.
    pub fn set_terms(&mut self, arc: ArcId, terms: Terms) -> Result<(), FlowError> {
        self.check_terms(arc, terms)?;
        self.change_terms(arc as usize, terms);
        Ok(())
    }

    /// Checks whether an arc could be changed to these terms, without changing it.
    pub fn check_terms(&self, arc: ArcId, terms: Terms) -> Result<(), FlowError> {
        let index = self.find_arc(arc)?;
        check_terms(index, terms, cost_limit(self.supply.len()))
    }

    /// Bounds and cost of an arc; for a convex arc use [`Network::convex_terms`].
    pub fn terms(&self, arc: ArcId) -> Result<Terms, FlowError> {
        Ok(self.arcs.get(self.find_arc(arc)?).terms())
    }

    /// The flow of an arc in the last solve; later changes may have reduced it.
    pub fn flow(&self, arc: ArcId) -> Result<i64, FlowError> {
        Ok(match self.find_convex(arc)? {
            Some(slot) => self.state.convex_flow[slot],
            None => self.state.flow[arc as usize],
        })
    }

    /// The price of a node in the last solve.
    pub fn price(&self, node: NodeId) -> Result<i64, FlowError> {
        Ok(self.state.price[self.find_node(node)?])
    }

    /// Finds a flow of minimum cost, starting from the last one, and proves that it is optimal.
    ///
    /// If a limit is reached first, the answer is the best flow found and a bound; if there is no
    /// feasible flow to return, the error is [`FlowError::Expired`].
    pub fn solve(&mut self, limits: &Limits<'_>) -> Result<Answer, FlowError> {
        let problem = Problem::from_checked(
            &self.supply,
            &self.arcs,
            &self.convex_arcs,
            &self.fixed_flow,
        );
        check_balance(self.supply_sum)?;
        if self.largest_cost > problem.cost_limit() {
            // Nodes were added since that cost was checked, or its arc was removed.
            problem.check_costs()?;
            let costs = problem
                .arcs()
                .map(|arc| arc.cost)
                .chain(self.convex_arcs.all_costs());
            self.largest_cost = costs.map(i64::abs).max().unwrap_or(0);
        }
        if self.state.has_prices_too_large() {
            // Nodes were added since the last solve, and these prices can no longer be scaled by
            // their number. Any prices are a valid start, so they are reset.
            self.state.reset_prices();
        }
        solve_passes::optimise(&problem, &mut self.state, &self.degree, limits)
    }

    fn find_node(&self, node: NodeId) -> Result<usize, FlowError> {
        match self.degree.get(node as usize) {
            Some(&degree) if degree != REMOVED => Ok(node as usize),
            _ => Err(FlowError::UnknownNode { node }),
        }
    }

    fn find_arc(&self, arc: ArcId) -> Result<usize, FlowError> {
        match (arc as usize) < self.arcs.len() && self.exists.contains(arc as usize) {
            true => Ok(arc as usize),
            false => Err(self.not_found(arc)),
        }
    }

    /// Why an id does not name an arc with a single cost.
    #[cold]
    fn not_found(&self, arc: ArcId) -> FlowError {
        match convex_slot(arc).is_some() && self.find_convex(arc).is_ok() {
            true => FlowError::IsConvex { arc },
            false => FlowError::UnknownArc { arc },
        }
    }

    fn change_supply(&mut self, index: usize, supply: i64) {
        let before = std::mem::replace(&mut self.supply[index], supply);
        self.supply_sum += i128::from(supply) - i128::from(before);
        self.state.change_supply(index, before, supply);
        self.fixed_flow.due.replace(index, before, supply);
    }

    /// Writes new terms and clamps the flow to them.
    fn change_terms(&mut self, index: usize, terms: Terms) {
        self.largest_cost = self.largest_cost.max(terms.cost.abs());
        self.update_arc(index, |arcs| arcs.set_terms(index, terms));
    }

    /// Writes new bounds and clamps the flow to them.
    fn change_bounds(&mut self, index: usize, bounds: (i64, i64)) {
        self.update_arc(index, |arcs| arcs.set_bounds(index, bounds));
    }

    fn change_cost(&mut self, index: usize, cost: i64) {
        self.largest_cost = self.largest_cost.max(cost.abs());
        let before = self.arcs.terms(index);
        // Tests the flow rather than whether the arc is free: the latter branch is unpredictable
        // for the processor.
        if (before.lower != 0) & (before.lower == before.capacity) {
            self.arcs.set_cost(index, cost);
            self.fixed_flow.reprice(before.lower, before.cost, cost);
            return;
        }
        let (tail, head) = self.arcs.ends(index);
        if tail == head {
            // The flow of a loop depends on its cost.
            self.update_arc(index, |arcs| arcs.set_cost(index, cost));
            return;
        }
        self.arcs.set_cost(index, cost);
        self.mark_if_violating(index, tail, head);
    }

    /// Changes the terms of an arc and clamps the flow to them.
    #[inline]
    fn update_arc(&mut self, index: usize, write: impl FnOnce(&mut Arcs)) {
        let flow = self.state.flow[index];
        // An arc without flow contributes nothing to the sums.
        if flow != 0 && !self.arcs.is_free(index) {
            self.fixed_flow.remove(&self.arcs.get(index));
        }
        write(&mut self.arcs);
        let arc = self.arcs.get(index);
        let in_range = || flow.clamp(arc.lower, arc.capacity);
        let new = arc.fixed_flow().unwrap_or_else(in_range);
        if new != 0 && !arc.is_free() {
            self.fixed_flow.add(&arc);
        }
        if new == flow {
            if arc.is_free() {
                self.mark_if_violating(index, arc.tail, arc.head);
            }
            return;
        }
        self.state.flow[index] = new;
        if arc.tail != arc.head {
            self.state.send(arc.tail, arc.head, new - flow);
            self.state.mark_changed(arc.tail);
            self.state.mark_changed(arc.head);
        }
    }

    /// Marks an end of an arc as changed if the arc violates optimality. If that end needs repair
    /// already, the arc is not read.
    fn mark_if_violating(&mut self, index: usize, tail: usize, head: usize) {
        let end = self.end_of_lower_degree(tail, head);
        if self.state.needs_repair(end) {
            return;
        }
        let arc = self.arcs.get(index);
        let reduced = arc.cost + self.state.price[tail] - self.state.price[head];
        let bounds = (arc.lower, arc.capacity);
        if arc.is_free() && violates_optimality(reduced, self.state.flow[index], bounds) {
            self.state.mark_changed(end);
        }
    }

    /// The end of an arc with the lower degree.
    fn end_of_lower_degree(&self, tail: usize, head: usize) -> usize {
        let tail_has_less = self.degree[tail] <= self.degree[head];
        if tail_has_less { tail } else { head }
    }

    /// Restores earlier terms of an arc, even if nodes were added since and its cost exceeds the
    /// limit by now.
    pub(crate) fn restore_terms(&mut self, arc: ArcId, terms: Terms) -> Result<(), FlowError> {
        // Even a change to the same terms marks nodes as changed.
        if self.terms(arc)? != terms {
            self.change_terms(arc as usize, terms);
        }
        Ok(())
    }

    pub(crate) fn problem(&self) -> Problem<'_> {
        Problem::from_checked(
            &self.supply,
            &self.arcs,
            &self.convex_arcs,
            &self.fixed_flow,
        )
    }

    pub(crate) fn prices(&self) -> &[i64] {
        &self.state.price
    }

    pub(crate) fn all_flow(&self) -> Flow<'_> {
        self.state.all_flow()
    }

    /// A copy of flow and prices, for a later restart.
    pub(crate) fn snapshot(&self) -> SolverState {
        self.state.clone()
    }
}

fn reserve<T>(column: &mut Vec<T>, more: usize) {
    if column.capacity() - column.len() < more {
        column.reserve_exact(more);
    }
}

/// Checks a number of nodes, arcs or costs against its limit.
fn check_count(what: &'static str, count: usize, limit: usize) -> Result<(), FlowError> {
    match count <= limit {
        true => Ok(()),
        false => Err(FlowError::TooLarge { what, count, limit }),
    }
}
