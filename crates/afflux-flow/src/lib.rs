//! Exact minimum-cost flow, with prices that prove the answer.
//!
//! # The problem
//!
//! A network has nodes and arcs. An arc (v, w) carries a flow f(v, w) between its lower bound
//! l(v, w) and its capacity u(v, w), at the cost c(v, w) per unit, which may be negative. A node v
//! has a supply b(v), positive where flow begins and negative where it ends; supplies add up to
//! zero. Wanted is a flow of least total cost in which every node sends b(v) more than it receives.
//! Everything is an integer, and so is the answer.
//!
//! Arcs may be parallel, may be loops, may have no capacity; parts may be disconnected. An arc may be
//! *convex*: each unit costs as much as the one before, or more ([`Network::add_convex_arcs`]). It is
//! what parallel arcs of one unit each would be, but one thing.
//!
//! ```
//! use afflux_flow::{Problem, solve};
//!
//! // Three units from node 0 to node 2: directly, or over node 1, which is cheaper but narrow.
//! let problem = Problem::new(
//!     &[3, 0, -3],
//!     &[0, 0, 1],
//!     &[2, 1, 2],
//!     &[0, 0, 0],
//!     &[5, 2, 2],
//!     &[10, 3, 4],
//! )?;
//! let answer = solve(&problem)?;
//! assert_eq!(answer.flow, [1, 2, 2]);
//! assert_eq!(answer.cost, 24);
//! # Ok::<(), afflux_flow::FlowError>(())
//! ```
//!
//! # The proof
//!
//! An answer has a price p(v) for every node. With the reduced cost
//! r(v, w) = c(v, w) + p(v) - p(w), it satisfies for every arc
//!
//! * f(v, w) < u(v, w) implies r(v, w) >= 0, and
//! * f(v, w) > l(v, w) implies r(v, w) <= 0.
//!
//! Around any cycle the prices cancel out, so no cycle along which flow could still be moved has a
//! negative cost, so no cheaper flow exists. [`violation`] checks this from the problem alone, and
//! [`solve`] returns nothing that it has not passed. Where most arcs have no choice, because their
//! bounds are equal, what those carry is taken from sums that are kept while the network changes
//! (`forced`), and all others are checked. That there is no flow at all is proven by a cut, a set of
//! nodes which must send more than its outgoing arcs can carry, and checked as well.
//!
//! For a convex arc, the first condition has to hold for the next unit and the second for the last one
//! that it carries (`rows`). Then they hold for all units beyond and before, since costs do not fall.
//!
//! # The algorithm
//!
//! A *pseudoflow* keeps the bounds of arcs but not the balance of nodes; what a node has received
//! too much is its excess e(v). An arc is *residual* where flow can be increased, its reverse where
//! it can be decreased. A pseudoflow is *epsilon-optimal* if r >= -epsilon on all residual arcs.
//! Costs are multiplied by n + 1, where n is the number of nodes; then a flow that is 1-optimal is
//! optimal.
//!
//! A solve starts from a flow and prices: all zero the first time, the last answer from then on.
//!
//! 1. `forced`: arcs without a choice are part of the problem, not of the answer. Where they are most
//!    of all, no scan looks at them.
//!    `choice`: arcs with a reduced cost far from zero stay empty, or full. They are left out, with
//!    what they carry. Of a convex arc, units are arcs of their own from here on, those around the
//!    last one that it carries.
//!    `repair`: when all arcs of a node change, most of the change is a change of its own price. Each
//!    node at which something violates optimality is brought into balance by itself; then most of
//!    its arcs can be left out as well. A node with a single arc left can change nothing: it is left
//!    out with it, and follows its neighbour afterwards.
//! 2. `working`: the *working set* is the rest, as a network of its own (`residual`, two directions
//!    for each arc, in lists by node). The first time it is everything.
//!    `hold`: what could only be sent back where it came from is left where it is.
//! 3. `paths`: while there is little to route, excess is sent to the nearest deficits, path by
//!    path. Small problems and most changes end here, with exact prices.
//! 4. `scaling`: otherwise epsilon falls by a constant factor from one *refinement* to the next.
//!    Each lowers prices where that alone helps (*price refinement*), fills the arcs that are left
//!    with r < -epsilon, and then moves excesses: *push* along *admissible* arcs
//!    (residual, r < 0), *relabel* a node that no admissible arc leaves, by lowering its price.
//!    Active nodes wait in a queue (first in, first out); each remembers its *current arc*;
//!    *look-ahead* avoids pushes into dead ends. Now and then, all prices are set by one search
//!    backwards from all deficits (`update`). A warm start begins with an epsilon that was large
//!    enough the last time. A cold solve of a dense network ends early: once most arcs are far from
//!    their prices, it goes on like a warm one, without them.
//! 5. `prices`: once epsilon is less than what costs are multiplied by, the flow is mostly optimal
//!    already. Prices are rounded to the original units, and what is wrong then by a step is put
//!    right, if it can be without a change of the flow; so several refinements are saved. With
//!    epsilon 1 that always succeeds.
//! 6. `repair` again: prices return to where they were as far as the flow allows, and those of
//!    leaves go to the middle of their range, so that the next working set can be small.
//! 7. `certificate`: one scan over all arcs checks the proof. An arc that was left out by mistake
//!    fails it: its node is repaired in the next pass, which looks farther around if they become more.
//!    When there are many, everything is undone and begun anew with a larger set, until it is
//!    everything.
//!
//! Cost scaling takes O(n^2 m log(nC)) time, where m is the number of arcs and C the largest cost;
//! practice is close to linear in m times the number of refinements. A warm solve takes two scans of
//! all arcs with a choice (`halves`, by two threads), a third where repairs alone were not enough but
//! left nothing to route, and what the working set takes. A network takes 28 bytes per arc, and while
//! it is solved 33 more if everything is, otherwise 61 more per arc of the working set and 60 per arc
//! of a node that is repaired; nodes come on top. Where costs or capacities need more than 32 bits, it
//! takes 12 more per arc and 32 more while it is solved. A convex arc takes 32 bytes, and 8 per unit.
//!
//! [`Network`] lives between solves; [`Network::solve_levels`] and [`Network::solve_gated`] solve
//! levels of priority and groups that are placed whole or not at all.
//!
//! # Caveats
//!
//! * Multiplied by n + 1, costs must stay below 2^59 and prices, which are sums of costs along
//!   paths, below 2^61. Supplies and capacities around a node must add up to less than 2^61, where
//!   a capacity counts up to what could flow at all, so that an infinite one may be written as any
//!   large number; one below 2^31 is better, since a single larger one makes all arcs take more
//!   memory for good. All of this is checked, see [`FlowError`]; nothing wraps around. The total cost
//!   has 128 bits.
//! * Of several optimal flows, which one is returned depends on the order of arcs and may change
//!   from one version to the next. The same input gives the same answer.
//!
//! # References
//!
//! * A. V. Goldberg, R. E. Tarjan: Finding Minimum-Cost Circulations by Successive Approximation.
//!   Mathematics of Operations Research 15 (1990).
//! * A. V. Goldberg: An Efficient Implementation of a Scaling Minimum-Cost Flow Algorithm.
//!   Journal of Algorithms 22 (1997).
//! * U. Bünnagel, B. Korte, J. Vygen: Efficient Implementation of the Goldberg-Tarjan Minimum-Cost
//!   Flow Algorithm. Optimization Methods and Software 10 (1998).
//! * R. K. Ahuja, T. L. Magnanti, J. B. Orlin: Network Flows. Prentice Hall (1993).

mod arcs;
mod bits;
mod certificate;
mod choice;
mod error;
mod forced;
mod gates;
mod halves;
mod heap;
mod hold;
mod hubs;
mod levels;
mod limits;
mod network;
mod paths;
mod prices;
mod problem;
mod repair;
mod residual;
mod rows;
mod scaling;
mod solve;
mod state;
mod stop;
mod sums;
mod update;
mod working;

pub use certificate::violation;
pub use error::FlowError;
pub use gates::{Effort, GainArc, Gate, GatedAnswer};
pub use levels::LevelsAnswer;
pub use limits::Limits;
pub use network::{Answer, ArcId, Columns, ConvexTerms, Network, NewArc, NewConvexArc, NodeId};
pub use problem::{Arc, Problem, Terms};

use state::State;

/// A flow of minimum cost and the prices that prove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// What the flow costs in all.
    pub cost: i128,
    /// No flow costs less than this. Equal to `cost` unless there were limits and they were reached.
    pub bound: i128,
    /// f, one value per arc.
    pub flow: Vec<i64>,
    /// p, one value per node.
    pub price: Vec<i64>,
}

/// Finds a flow of minimum cost, and proves it.
pub fn solve(problem: &Problem<'_>) -> Result<Solution, FlowError> {
    solve_within(problem, &Limits::default())
}

/// The same within limits, as [`Network::solve`] keeps them.
pub fn solve_within(problem: &Problem<'_>, limits: &Limits<'_>) -> Result<Solution, FlowError> {
    let mut state = State::cold(problem);
    let answer = solve::optimise(problem, &mut state, &problem.degrees(), limits)?;
    Ok(Solution {
        cost: answer.cost,
        bound: answer.bound,
        flow: state.flow,
        price: state.price,
    })
}
