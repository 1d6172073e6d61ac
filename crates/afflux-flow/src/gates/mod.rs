//! Gates: groups of arcs that all carry their counts, or all carry nothing.
//!
//! # The problem
//!
//! A gate g has members: arcs a, each with a count n(a). If the gate is open, y(g) = 1, each member
//! carries exactly its count; if it is closed, y(g) = 0, its members carry nothing and the waiting
//! cost W(g) is paid. The solver chooses y and the flow f of minimum total cost, sum of c f + sum
//! of W (1 - y). With all gates decided this is a pure flow problem; choosing the open gates is
//! NP-hard, since knapsack problems are of this kind. A gang of pods is a gate whose members are
//! the classes of its pods.
//!
//! # The relaxation
//!
//! While a gate is undecided, each member may carry any flow up to its count, and each unit earns a
//! share of the waiting cost: shares s(a) with sum of s(a) n(a) = W(g). This is a pure flow problem
//! again. Shares are Lagrange multipliers of the constraint that all members are open to the same
//! degree; they follow the prices of the last flow, such that at these prices all members gain or
//! lose the same per unit. Then the relaxation usually leaves one gate partly open for each kind of
//! scarce resource. Shares are rounded to integers; this does not affect correctness, because
//! shares only influence prices and any prices give a valid bound.
//!
//! # The bound
//!
//! Let p be any prices and r(v, w) = c(v, w) + p(v) - p(w). For every feasible flow, whatever the
//! choice,
//!
//! > sum of c f + sum of W (1 - y) = - sum of p b + sum of r f + sum of W (1 - y),
//!
//! because every node sends b(v) more than it receives. If this balance is required of some nodes
//! only, the minimum of the right hand side is a lower bound (Lagrangian relaxation). It is
//! required
//!
//! * of nodes that only one gate uses: its classes, and the sources in front of them. The flow that
//!   an open or closed gate sends through them is known, and so is the cheapest way to send it on;
//! * of *pools* as a whole: sets of nodes on one side of a jump of the prices, such as machines
//!   that are all full. The flow that enters a pool must leave it.
//!
//! The result is, in exact integers, a [`LagrangianBound`](lagrangian_bound::LagrangianBound) for
//! each choice,
//!
//! > base + sum of d(g) y(g) + sum over pools of V(units that have to leave the pool),
//!
//! where d(g) is the cost of opening g less its waiting cost, and V is convex. Its minimum over all
//! choices is a knapsack problem for each pool, solved by dynamic programming, which also gives a
//! lower bound for each gate in its other state. Every flow, whichever gates were decided for it,
//! thus gives a bound that is valid for all choices, and that is exact for its own choice if no
//! gate is partly open.
//!
//! # The search
//!
//! 1. `relaxation`: the relaxation of a branch is solved, warm, from the flow before.
//! 2. `knapsack_bound`, `flip_knapsack`: the Lagrangian bounds give a bound for the branch, and decide
//!    the gates whose other state alone costs more than the best known choice.
//! 3. `branch_and_bound`: the best choice by the best bound so far is tried: the gates that it
//!    closes are closed, the others relaxed; gates that are partly open in the flow are closed
//!    next, until none is. The bound is a concave function of the prices, so its maximum lies
//!    between the best prices so far and those of the new flow: the search continues from there.
//! 4. If gates are still undecided, the branch is split at a gate that is partly open, and the
//!    branch with the smallest bound is explored next.
//!
//! Gangs that compete for the same machines usually need two flows: one for the prices, and one for
//! the choice that the knapsack problem finds, whose own bound proves it.
//!
//! # Caveats
//!
//! * In the worst case the number of flows grows exponentially with the number of gates; therefore
//!   there are [`Effort`] and [`GatedAnswer::bound`].
//! * A gate whose members are in several pools is split between them, which lowers the bound. The
//!   more such gates there are, and the fewer machines each class may use, the more branches are
//!   needed; with three machines per class of a gang, an integer programming solver is faster.
//! * Gangs with the same waiting cost per pod differ only in where their pods fit best. A solution
//!   within 0.1% of the optimum takes a few flows, the rest of the proof takes many.
//! * A pool whose table of units times gates would exceed eight million values (64 MB) has no
//!   table, and its part of the bound is lost.
//!
//! # References
//!
//! * A. M. Geoffrion: Lagrangean Relaxation for Integer Programming. Mathematical Programming Study
//!   2 (1974).
//! * S. Martello, P. Toth: Knapsack Problems. Wiley (1990).

mod branch_and_bound;
mod flip_knapsack;
mod gain_arcs;
mod gate_positions;
mod knapsack_bound;
mod lagrangian_bound;
mod pool_cost;
mod pools;
mod relaxation;
mod validation;

use crate::deadline::Limits;
use crate::error::FlowError;
use crate::network::{ArcId, Network};
use branch_and_bound::BranchAndBound;
pub use gain_arcs::GainArc;

/// A binary decision for a group of arcs.
///
/// If the gate is open, each member carries exactly its count. If it is closed, members carry
/// nothing and the waiting cost is paid, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Arcs, and the flow of each when the gate is open.
    pub members: Vec<(ArcId, i64)>,
    /// The cost of a closed gate.
    pub waiting_cost: i64,
}

/// The effort of the search for the best choice of gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// The maximum number of flows. One more is solved if there is no feasible choice by then, with
    /// all gates closed that can be closed.
    pub flows: usize,
    /// The allowed gap: the search stops at a choice that is proven to be within this gap of the
    /// minimum, in millionths of its own cost.
    pub gap_ppm: u32,
}

impl Default for Effort {
    /// A proven optimal choice, within a thousand flows.
    fn default() -> Self {
        Self {
            flows: 1000,
            gap_ppm: 0,
        }
    }
}

/// The answer of [`Network::solve_gated`]; flow and prices are read from the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatedAnswer {
    /// The cost of the flow plus the waiting costs of closed gates.
    pub cost: i128,
    /// A lower bound on the cost of every choice. Equal to `cost` unless a limit of effort or time
    /// was reached, or a gap was allowed.
    pub bound: i128,
    /// By gate, whether it is open.
    pub open: Vec<bool>,
    /// The number of flows solved.
    pub flows: usize,
}

impl GatedAnswer {
    /// An upper bound on what a better choice could save.
    pub fn gap(&self) -> i128 {
        self.cost.saturating_sub(self.bound)
    }

    /// Whether the choice is proven to be optimal.
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }
}

impl Network {
    /// Chooses the open gates such that flow and waiting together have minimum cost.
    ///
    /// A closed gate carries nothing, so its units need another arc. A gang of pods has, for each
    /// of its classes, a source with as many units as the class has pods, the member arc from the
    /// source to the class, and an arc of cost zero from the source to where waiting pods go.
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
    /// Afterwards the network has the flow and the prices of the best choice found, and all terms
    /// are restored. Before the next call, gangs that were started may be removed and others added;
    /// the search then starts from these prices.
    ///
    /// If a limit of effort or time is reached, the answer is the best choice so far and the bound
    /// that is proven by then. [`FlowError::Infeasible`] means that no choice is feasible, or, if
    /// the effort is used up, that no feasible choice was found and that closing all gates is
    /// infeasible.
    pub fn solve_gated(
        &mut self,
        gates: &[Gate],
        effort: Effort,
        limits: &Limits<'_>,
    ) -> Result<GatedAnswer, FlowError> {
        validation::check(self, gates)?;
        BranchAndBound::new(self, gates, effort, limits).run()
    }
}
