//! The network that lives between solves.
//!
//! Arcs and nodes by number, with the last flow and the last prices beside them. A change costs what
//! it touches and no more: there are no lists of arcs by node to keep up to date, since each solve
//! gathers the few arcs that can matter (see `choice`).

mod bulk;
mod columns;
#[cfg(test)]
mod consistent;
mod convex;
mod resume;

pub use bulk::NewArc;
pub use columns::Columns;
pub use convex::{ConvexTerms, NewConvexArc};

use crate::arcs::Arcs;
use crate::bits::Bits;
use crate::certificate::Flow;
use crate::error::FlowError;
use crate::forced::Forced;
use crate::limits::Limits;
use crate::problem::{ARCS, Arc, NODES, Problem, Terms, check_sum, check_terms, cost_limit, gains};
use crate::rows::{Rows, as_row};
use crate::solve;
use crate::state::State;

/// A node of a [`Network`]. Numbers of removed nodes are given out again.
pub type NodeId = u32;

/// An arc of a [`Network`]. Numbers of removed arcs are given out again.
pub type ArcId = u32;

/// What a solve found; the flow and the prices are read from the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// What the flow costs.
    pub cost: i128,
    /// No flow costs less than this. Equal to `cost` unless the budget ran out.
    pub bound: i128,
}

impl Answer {
    /// By how much a better flow could be cheaper, at most.
    pub fn gap(&self) -> i128 {
        self.cost.saturating_sub(self.bound)
    }

    /// Whether the flow is proven to cost the least.
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }
}

/// A minimum-cost flow problem that changes, and its last answer.
///
/// Between solves anything goes: supplies may add up to something else than zero, a capacity may
/// fall below what flows. A call that is refused changes nothing.
#[derive(Debug, Clone, Default)]
pub struct Network {
    supply: Vec<i64>,
    /// What all of them come to.
    sum: i128,
    arcs: Arcs,
    /// Convex arcs.
    rows: Rows,
    /// What arcs without a choice come to, which carry no more and no less than that.
    forced: Forced,
    /// Whether an arc exists; one that was removed is a loop without capacity for all others.
    exists: Bits,
    /// How many ends of arcs a node has; [`GONE`] if it was removed.
    degree: Vec<u32>,
    free_nodes: Vec<NodeId>,
    free_arcs: Vec<ArcId>,
    /// No arc has ever had a larger cost, in magnitude.
    largest_cost: i64,
    state: State,
    /// Where each level of the last [`Network::solve_levels`] ended.
    pub(crate) levels: Vec<Option<State>>,
}

/// The degree of a node that was removed.
const GONE: u32 = u32::MAX;

impl Network {
    /// A network without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.supply.len() - self.free_nodes.len()
    }

    /// How many arcs there are.
    pub fn arcs(&self) -> usize {
        self.arcs.len() - self.free_arcs.len() + self.rows.count()
    }

    /// Makes room for so many more nodes and arcs, which saves memory when many are added.
    pub fn reserve(&mut self, nodes: usize, arcs: usize) {
        // Never by less than an eighth: a series of small additions must not copy each time.
        let rest = |more: usize, free: usize, length: usize| match more.saturating_sub(free) {
            0 => 0,
            new => new.max(length / 8),
        };
        let nodes = rest(nodes, self.free_nodes.len(), self.supply.len());
        let arcs = rest(arcs, self.free_arcs.len(), self.arcs.len());
        reserve(&mut self.supply, nodes);
        reserve(&mut self.degree, nodes);
        self.forced.due.reserve(nodes);
        self.arcs.reserve(arcs);
        self.state.reserve(nodes, arcs);
    }

    /// Adds a node that sends `supply` more than it receives.
    pub fn add_node(&mut self, supply: i64) -> Result<NodeId, FlowError> {
        let node = match self.free_nodes.pop() {
            Some(node) => node,
            None => {
                let node = self.supply.len();
                check_count("nodes", node + 1, NODES)?;
                self.supply.push(0);
                self.degree.push(0);
                self.forced.due.push();
                self.state.add_node();
                node as NodeId
            }
        };
        self.degree[node as usize] = 0;
        self.state.enter(node as usize);
        self.change_supply(node as usize, supply);
        Ok(node)
    }

    /// Removes a node; its arcs have to be removed before.
    pub fn remove_node(&mut self, node: NodeId) -> Result<(), FlowError> {
        self.remove_nodes(&[node])
    }

    /// Changes by how much a node sends more than it receives.
    pub fn set_supply(&mut self, node: NodeId, supply: i64) -> Result<(), FlowError> {
        let index = self.find_node(node)?;
        self.change_supply(index, supply);
        Ok(())
    }

    /// Whether an arc could be added; nothing is.
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
            check_count("arcs", self.arcs.len() + 1, ARCS)?;
        }
        Ok(self.put_arc(tail, head, terms))
    }

    /// Adds an arc that was checked.
    fn put_arc(&mut self, tail: NodeId, head: NodeId, terms: Terms) -> ArcId {
        let arc = Arc::new(tail as usize, head as usize, terms);
        let flow = arc.forced().unwrap_or(arc.lower);
        let index = match self.free_arcs.pop() {
            None => {
                let index = self.arcs.len();
                self.arcs.push(&arc);
                self.exists.reach(index);
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
        self.exists.put(index, true);
        self.degree[arc.tail] += 1;
        self.degree[arc.head] += 1;
        self.largest_cost = self.largest_cost.max(terms.cost.abs());
        self.forced.add(&arc);
        self.state.send(arc.tail, arc.head, flow);
        if flow != 0 {
            self.state.touch(arc.tail);
            self.state.touch(arc.head);
        } else if arc.is_free() {
            self.touch_if_violating(index, arc.tail, arc.head);
        }
        index as ArcId
    }

    /// Removes an arc and what flows along it.
    pub fn remove_arc(&mut self, arc: ArcId) -> Result<(), FlowError> {
        self.remove_arcs(&[arc])
    }

    fn drop_arc(&mut self, arc: ArcId) {
        let index = arc as usize;
        let gone = self.arcs.get(index);
        let flow = std::mem::take(&mut self.state.flow[index]);
        self.arcs.set(index, &Arc::new(0, 0, Terms::NOTHING));
        self.degree[gone.tail] -= 1;
        self.degree[gone.head] -= 1;
        self.forced.remove(&gone);
        self.state.send(gone.tail, gone.head, -flow);
        if flow != 0 {
            self.state.touch(gone.tail);
            self.state.touch(gone.head);
        }
        self.free_arcs.push(arc);
    }

    /// Changes how much an arc must and can carry.
    pub fn set_bounds(&mut self, arc: ArcId, lower: i64, capacity: i64) -> Result<(), FlowError> {
        self.set_all_bounds([(arc, lower, capacity)].into_iter())
    }

    /// Changes what a unit on an arc costs.
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

    /// Whether an arc could be changed to these terms; it is not.
    pub fn check_terms(&self, arc: ArcId, terms: Terms) -> Result<(), FlowError> {
        let index = self.find_arc(arc)?;
        check_terms(index, terms, cost_limit(self.supply.len()))
    }

    /// What an arc may carry, and at what cost; a convex one has [`Network::convex_terms`].
    pub fn terms(&self, arc: ArcId) -> Result<Terms, FlowError> {
        Ok(self.arcs.get(self.find_arc(arc)?).terms())
    }

    /// What flows along an arc since the last solve; changes may have cut it since.
    pub fn flow(&self, arc: ArcId) -> Result<i64, FlowError> {
        Ok(match self.find_row(arc)? {
            Some(row) => self.state.carried[row],
            None => self.state.flow[arc as usize],
        })
    }

    /// The price of a node since the last solve.
    pub fn price(&self, node: NodeId) -> Result<i64, FlowError> {
        Ok(self.state.price[self.find_node(node)?])
    }

    /// Finds a flow of minimum cost, starting from the last one, and proves it.
    ///
    /// When the limits are reached before, the answer is the best flow found and a bound; without
    /// any flow to show, it is [`FlowError::Expired`].
    pub fn solve(&mut self, limits: &Limits<'_>) -> Result<Answer, FlowError> {
        let problem = Problem::trusted(&self.supply, &self.arcs, &self.rows, &self.forced);
        check_sum(self.sum)?;
        if self.largest_cost > problem.cost_limit() {
            // Nodes were added since that cost was checked; or its arc is gone.
            problem.check_costs()?;
            let costs = problem
                .arcs()
                .map(|arc| arc.cost)
                .chain(self.rows.every_cost());
            self.largest_cost = costs.map(i64::abs).max().unwrap_or(0);
        }
        if self.state.has_outgrown() {
            // Nodes were added since, and the solver could not scale these prices by their number.
            // Any prices will do to start from, but nothing is left of the last answer.
            self.state.start_over();
        }
        solve::optimise(&problem, &mut self.state, &self.degree, limits)
    }

    fn find_node(&self, node: NodeId) -> Result<usize, FlowError> {
        match self.degree.get(node as usize) {
            Some(&degree) if degree != GONE => Ok(node as usize),
            _ => Err(FlowError::UnknownNode { node }),
        }
    }

    fn find_arc(&self, arc: ArcId) -> Result<usize, FlowError> {
        match (arc as usize) < self.arcs.len() && self.exists.has(arc as usize) {
            true => Ok(arc as usize),
            false => Err(self.not_found(arc)),
        }
    }

    /// Why there is no such arc among those with a single cost.
    #[cold]
    fn not_found(&self, arc: ArcId) -> FlowError {
        match as_row(arc).is_some() && self.find_row(arc).is_ok() {
            true => FlowError::IsConvex { arc },
            false => FlowError::UnknownArc { arc },
        }
    }

    fn change_supply(&mut self, index: usize, supply: i64) {
        let before = std::mem::replace(&mut self.supply[index], supply);
        self.sum += i128::from(supply) - i128::from(before);
        self.state.change_supply(index, before, supply);
        self.forced.due.replace(index, before, supply);
    }

    /// Writes new terms and keeps the flow within them.
    fn change_terms(&mut self, index: usize, terms: Terms) {
        self.largest_cost = self.largest_cost.max(terms.cost.abs());
        self.change(index, |arcs| arcs.set_terms(index, terms));
    }

    /// Writes new bounds and keeps the flow within them.
    fn change_bounds(&mut self, index: usize, bounds: (i64, i64)) {
        self.change(index, |arcs| arcs.set_bounds(index, bounds));
    }

    /// Writes a new cost.
    fn change_cost(&mut self, index: usize, cost: i64) {
        self.largest_cost = self.largest_cost.max(cost.abs());
        let before = self.arcs.terms(index);
        // Not whether there is a choice: which has one cannot be foreseen, but which carries something.
        if (before.lower != 0) & (before.lower == before.capacity) {
            self.arcs.set_cost(index, cost);
            self.forced.reprice(before.lower, before.cost, cost);
            return;
        }
        let (tail, head) = self.arcs.ends(index);
        if tail == head {
            // What a loop carries depends on its cost.
            self.change(index, |arcs| arcs.set_cost(index, cost));
            return;
        }
        self.arcs.set_cost(index, cost);
        self.touch_if_violating(index, tail, head);
    }

    /// Changes the terms of an arc and keeps the flow within them.
    #[inline]
    fn change(&mut self, index: usize, write: impl FnOnce(&mut Arcs)) {
        let flow = self.state.flow[index];
        // Where it carries nothing, nothing has to be read to know what was forced.
        if flow != 0 && !self.arcs.is_free(index) {
            self.forced.remove(&self.arcs.get(index));
        }
        write(&mut self.arcs);
        let arc = self.arcs.get(index);
        let within = || flow.clamp(arc.lower, arc.capacity);
        let new = arc.forced().unwrap_or_else(within);
        if new != 0 && !arc.is_free() {
            self.forced.add(&arc);
        }
        if new == flow {
            if arc.is_free() {
                self.touch_if_violating(index, arc.tail, arc.head);
            }
            return;
        }
        self.state.flow[index] = new;
        if arc.tail != arc.head {
            self.state.send(arc.tail, arc.head, new - flow);
            self.state.touch(arc.tail);
            self.state.touch(arc.head);
        }
    }

    /// Touches an end of an arc that could carry more or less at a gain. If it is touched already,
    /// nothing else needs to be known.
    fn touch_if_violating(&mut self, index: usize, tail: usize, head: usize) {
        let end = self.lesser_end(tail, head);
        if self.state.is_touched(end) {
            return;
        }
        let arc = self.arcs.get(index);
        let reduced = arc.cost + self.state.price[tail] - self.state.price[head];
        let bounds = (arc.lower, arc.capacity);
        if arc.is_free() && gains(reduced, self.state.flow[index], bounds) {
            self.state.touch(end);
        }
    }

    /// The end of an arc that has fewer arcs.
    fn lesser_end(&self, tail: usize, head: usize) -> usize {
        let tail_has_less = self.degree[tail] <= self.degree[head];
        if tail_has_less { tail } else { head }
    }

    /// Changes the terms of an arc to what was allowed before, even if nodes were added since and
    /// its cost is too large by now.
    pub(crate) fn put_terms(&mut self, arc: ArcId, terms: Terms) -> Result<(), FlowError> {
        // A change makes work, even one to the same.
        if self.terms(arc)? != terms {
            self.change_terms(arc as usize, terms);
        }
        Ok(())
    }

    /// The columns as they are now.
    pub(crate) fn problem(&self) -> Problem<'_> {
        Problem::trusted(&self.supply, &self.arcs, &self.rows, &self.forced)
    }

    /// The prices of all nodes since the last solve.
    pub(crate) fn prices(&self) -> &[i64] {
        &self.state.price
    }

    /// What flows along all arcs since the last solve.
    pub(crate) fn all_flow(&self) -> Flow<'_> {
        self.state.all_flow()
    }

    /// A copy of flow and prices, to come back to.
    pub(crate) fn kept(&self) -> State {
        self.state.clone()
    }
}

fn reserve<T>(column: &mut Vec<T>, more: usize) {
    if column.capacity() - column.len() < more {
        column.reserve_exact(more);
    }
}

/// Whether there may be so many.
fn check_count(what: &'static str, count: usize, limit: usize) -> Result<(), FlowError> {
    match count <= limit {
        true => Ok(()),
        false => Err(FlowError::TooLarge { what, count, limit }),
    }
}
