//! Gates: groups of arcs that carry their counts, all of them, or nothing.
//!
//! # The problem
//!
//! A gate g has members: arcs a, each with a count n(a). Open, y(g) = 1, each member carries exactly
//! its count; closed, y(g) = 0, none carries anything, and the waiting cost W(g) is paid. Wanted are
//! the choice y and the flow f of least total cost, sum of c f + sum of W (1 - y). With the gates
//! decided it is a pure flow problem; which to open is NP-hard, since knapsack problems are of this
//! kind. A gang of pods is a gate whose members are the classes of its pods.
//!
//! # The relaxation
//!
//! While a gate is undecided, each member may carry anything up to its count, and each unit earns a
//! share of the waiting cost: shares s(a) with sum of s(a) n(a) = W(g). That is a pure flow problem
//! again. Shares are Lagrange multipliers of the demand that all members are equally open; they
//! follow the prices of the last flow, such that at these prices all members gain or lose the same
//! per unit. Where they agree, the relaxation mostly leaves one gate half open for each kind of room
//! that is scarce. Shares are rounded to integers, which does not matter, because nothing is
//! concluded from them: they only lead to prices.
//!
//! # The bound
//!
//! Let p be any prices and r(v, w) = c(v, w) + p(v) - p(w). For every feasible flow, whatever the
//! choice,
//!
//! > sum of c f + sum of W (1 - y) = - sum of p b + sum of r f + sum of W (1 - y),
//!
//! because every node sends b(v) more than it receives. If that is now demanded of some nodes only,
//! the least value of the right hand side is a lower bound (Lagrangian relaxation). Demanded it is
//!
//! * of nodes that only one gate uses: its classes, and the sources in front of them. What an open
//!   or closed gate sends through them is known, and so is the cheapest way to send it on;
//! * of *pools* as a whole, which are sets of nodes behind a jump of the prices, such as machines
//!   that are all full: what enters a pool must leave it.
//!
//! What is left is, in exact integers, an [`Estimate`](estimate::Estimate) of each choice,
//!
//! > base + sum of d(g) y(g) + sum over pools of V(units that have to leave the pool),
//!
//! where d(g) is what it costs to open g rather than to let it wait, and V is convex. Its least
//! value over all choices is a knapsack problem for each pool, solved by dynamic programming, which
//! also tells what it costs at least if a single gate goes the other way. Every flow that is solved,
//! whichever gates were decided for it, thus leaves an estimate that is valid for all choices, and
//! that is exact for its own choice if no gate was left half open.
//!
//! # The search
//!
//! 1. `flows`: the relaxation of a branch is solved, warm, from the flow before.
//! 2. `ranking`, `knapsack`: the estimates bound the branch, and decide the gates whose other way
//!    alone costs more than the best choice known.
//! 3. `search`: the best choice by the leading estimate is tried: gates that it closes are closed,
//!    the others relaxed; those that come out half open are closed next, until none does. The bound
//!    is a concave function of the prices, so somewhere between the leading prices and those of
//!    the new flow it is highest: from there, again.
//! 4. What is still undecided is split at a gate that is half open, and the branch with the least
//!    bound comes next.
//!
//! Gangs that compete for the same machines are done after two flows, usually: one for the prices,
//! one for the choice that the knapsack problem finds, whose own estimate proves it.
//!
//! # Caveats
//!
//! * In the worst case the number of flows grows exponentially with the number of gates; hence
//!   [`Effort`], and [`GatedAnswer::bound`].
//! * A gate whose members are in several pools is split between them, which lowers the bound. The
//!   more of these, and the fewer machines each class may use, the more branches are needed; with
//!   three machines per class of a gang, an integer programming solver is the better tool.
//! * Gangs that wait at the same cost per pod differ by little more than by where their pods fit
//!   best. Within 0.1% of the least cost they take a few flows, the rest of the proof takes many.
//! * A pool whose table of units times gates would have more than eight million values, 64 MB, has
//!   none, and its part of the bound is lost.
//!
//! # References
//!
//! * A. M. Geoffrion: Lagrangean Relaxation for Integer Programming. Mathematical Programming Study
//!   2 (1974).
//! * S. Martello, P. Toth: Knapsack Problems. Wiley (1990).

mod check;
mod estimate;
mod flows;
mod gains;
mod knapsack;
mod layout;
mod pools;
mod ranking;
mod search;
mod valley;

use crate::error::FlowError;
use crate::limits::Limits;
use crate::network::{ArcId, Network};
pub use gains::GainArc;
use search::Search;

/// A binary choice for a group of arcs.
///
/// Open, each member carries exactly its count. Closed, none carries anything, and the waiting cost
/// is paid, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Arcs, and how much each carries when the gate is open.
    pub members: Vec<(ArcId, i64)>,
    /// What it costs to leave the gate closed.
    pub waiting_cost: i64,
}

/// How hard to look for the best choice of gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// How many flows may be solved. One more is, if there is no choice to show by then, with all
    /// gates closed that can be.
    pub flows: usize,
    /// A choice is good enough if it is proven to cost no more than this above the least, in
    /// millionths of its own cost.
    pub gap_ppm: u32,
}

impl Default for Effort {
    /// The best choice, proven, within a thousand flows.
    fn default() -> Self {
        Self {
            flows: 1000,
            gap_ppm: 0,
        }
    }
}

/// What [`Network::solve_gated`] found; the flow and the prices are read from the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatedAnswer {
    /// What the flow costs, together with the waiting costs of closed gates.
    pub cost: i128,
    /// No choice costs less than this. Equal to `cost` unless effort or limits were used up, or a
    /// gap was allowed.
    pub bound: i128,
    /// By gate, whether it is open.
    pub open: Vec<bool>,
    /// How many flows were solved.
    pub flows: usize,
}

impl GatedAnswer {
    /// By how much a better choice could be cheaper, at most.
    pub fn gap(&self) -> i128 {
        self.cost.saturating_sub(self.bound)
    }

    /// Whether the choice is proven to cost the least.
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }
}

impl Network {
    /// Chooses which gates to open, such that flow and waiting cost the least together.
    ///
    /// A closed gate lets nothing through, so there should be a way past it. A gang of pods has, for
    /// each of its classes, a source with as many units as the class has pods, the member arc from
    /// there to the class, and an arc of cost zero from the source to where waiting pods go.
    ///
    /// ```
    /// use afflux_flow::{Effort, Gate, Limits, Network, Terms};
    ///
    /// let mut network = Network::new();
    /// let arc = |capacity, cost| Terms { lower: 0, capacity, cost };
    /// let sink = network.add_node(-5)?;
    /// let machine = network.add_node(0)?;
    /// network.add_arc(machine, sink, arc(4, 0))?;
    /// let mut gates = Vec::new();
    /// for (pods, waiting_cost) in [(3, 50), (2, 40)] {
    ///     let source = network.add_node(pods)?;
    ///     let class = network.add_node(0)?;
    ///     let member = network.add_arc(source, class, arc(pods, 0))?;
    ///     network.add_arc(source, sink, arc(pods, 0))?;
    ///     network.add_arc(class, machine, arc(pods, 1))?;
    ///     gates.push(Gate { members: vec![(member, pods)], waiting_cost });
    /// }
    /// // There is room for four of five pods, so only one of the gangs is placed.
    /// let answer = network.solve_gated(&gates, Effort::default(), &Limits::default())?;
    /// assert_eq!(answer.open, [true, false]);
    /// assert_eq!((answer.cost, answer.bound), (3 + 40, 43));
    /// # Ok::<(), afflux_flow::FlowError>(())
    /// ```
    ///
    /// Afterwards the network has the flow and the prices of the best choice found. All terms are
    /// the caller's own again, so the network knows nothing of gates: before the next call, gangs
    /// that were started may be removed and others added, and the search starts from these prices.
    ///
    /// When effort or limits are used up, the answer is the best choice so far and the bound that is
    /// proven by then. [`FlowError::Infeasible`] means that no choice has a flow; or, with the
    /// effort used up, that none was found and that closing all gates is none.
    pub fn solve_gated(
        &mut self,
        gates: &[Gate],
        effort: Effort,
        limits: &Limits<'_>,
    ) -> Result<GatedAnswer, FlowError> {
        check::check(self, gates)?;
        Search::new(self, gates, effort, limits).run()
    }
}
