//! Exact minimum-cost flow, with prices that prove the answer.
//!
//! # The problem
//!
//! A network has nodes and arcs. An arc (v, w) carries a flow f(v, w) between its lower bound
//! l(v, w) and its capacity u(v, w), at the cost c(v, w) per unit, which may be negative. A node v
//! has a supply b(v), positive for sources and negative for sinks; supplies add up to zero. The
//! solver finds a flow of minimum total cost in which every node sends b(v) units more than it
//! receives. All numbers are integers, and so is the answer.
//!
//! Arcs may be parallel, may be loops, and may have capacity zero; the network may be disconnected.
//! An arc may be *convex*: each unit costs at least as much as the unit before
//! ([`Network::add_convex_arcs`]). It is equivalent to parallel arcs of one unit each.
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
//! Around any cycle the prices cancel out, so no residual cycle has a negative cost, so no cheaper
//! flow exists. [`violation`] checks these conditions from the problem alone, and [`solve`] returns
//! only answers that pass the check. Where the flow of most arcs is fixed (equal bounds), it is
//! taken from sums that are maintained while the network changes (`fixed_flow`), and all other arcs
//! are checked. Infeasibility is proven by a cut, a set of nodes which must send more than its outgoing
//! arcs can carry, and checked as well.
//!
//! For a convex arc, the first condition must hold for the next unit and the second for the last
//! carried unit (`convex_arcs`). Because costs do not fall, it then holds for all units.
//!
//! # The algorithm
//!
//! A *pseudoflow* satisfies the bounds of arcs but not necessarily the balance of nodes; the units
//! that a node has received too much are its excess e(v). An arc is *residual* where flow can be
//! increased, its reverse where it can be reduced. A pseudoflow is *epsilon-optimal* if
//! r >= -epsilon on all residual arcs. Costs are multiplied by n + 1, where n is the number of nodes;
//! then a flow that is 1-optimal is optimal.
//!
//! A solve starts from a flow and prices: all zero the first time (a cold solve), the last answer
//! from then on (a warm solve).
//!
//! 1. Selection. `fixed_flow`: flow that equal bounds determine counts as supply; where most arcs
//!    have equal bounds, scans skip them.
//!    `working_set::select_arcs`: arcs with a reduced cost far from zero keep their flow and are left
//!    out. Of a convex arc, the units around the last carried one are arcs of their own from here on.
//!    `node_repair`: when all arcs of a node change, most of the change is a change of its own price.
//!    Each node at which an arc violates optimality is balanced by itself; then most of its arcs can
//!    be left out as well. A node with a single arc left is left out with it, and its price follows
//!    its neighbour afterwards.
//! 2. `working_set`: the *working set* is the rest, as a network of its own (`residual`: two entries
//!    per arc, in lists by node). In a cold solve it contains all free arcs.
//!    `blocked_reverse_arcs`: reverse arcs whose flow could only be sent straight back are blocked.
//! 3. `shortest_paths`: while there is little excess, it is sent to the nearest deficits, path by
//!    path. Small problems and most changes end here, with exact prices.
//! 4. `cost_scaling`: otherwise epsilon falls by a constant factor from one *refinement* to the
//!    next. Each refinement lowers prices where that alone helps (*price refinement*), saturates the
//!    remaining arcs with r < -epsilon, and then moves excesses: *push* along *admissible* arcs
//!    (residual, r < 0), and *relabel* (lower the price of) a node without outgoing admissible arc.
//!    Active nodes wait in a queue (first in, first out); each remembers its *current arc*;
//!    *look-ahead* avoids pushes into dead ends. From time to time a *global update* sets all prices
//!    by one search backwards from all deficits (`global_update`). A warm solve begins with an
//!    epsilon that was large enough the last time. A cold solve of a dense network ends early: once
//!    most arcs have a large reduced cost, it continues like a warm solve, without them.
//! 5. `exact_prices`: once epsilon is less than the factor of the costs, the flow is mostly optimal
//!    already. Prices are rounded to the original units and repaired, if that is possible without
//!    changing the flow; this saves several refinements. With epsilon 1 it always succeeds.
//! 6. `node_repair` again: prices return towards their old values as far as the flow allows, and
//!    prices of leaves move to the middle of their range, so that the next working set can be small.
//! 7. `certificate`: one scan over all arcs checks the proof. If arcs outside the working set
//!    violate optimality, the next pass repairs their nodes, with a larger radius if their number
//!    grows. If there are many, all passes are undone and repeated with a larger working set.
//!
//! Cost scaling takes O(n^2 m log(nC)) time, where m is the number of arcs and C the largest cost; in
//! practice time is close to linear in m times the number of refinements. A warm solve takes two
//! scans of all free arcs (by two threads, see `two_threads`), a third scan where repairs were not
//! enough but left nothing to route, and the time for the working set. A network takes 28 bytes per
//! arc. A cold solve takes 33 more per arc, a warm one 61 per arc of the working set and 60 per arc
//! of a repaired node; nodes come on top. Where costs or capacities need more than 32 bits, a network
//! takes 12 more per arc, and 32 more during a solve. A convex arc takes 32 bytes, and 8 per unit.
//!
//! A [`Network`] persists between solves; [`Network::solve_levels`] solves priority levels, and
//! [`Network::solve_gated`] solves groups that are placed as a whole or not at all.
//!
//! # Caveats
//!
//! * Multiplied by n + 1, costs must stay below 2^59 and prices, which are sums of costs along
//!   paths, below 2^61. Supplies and capacities around a node must add up to less than 2^61, where
//!   a capacity counts at most as much as could flow at all. An infinite capacity may be written as
//!   any large number, best below 2^31: a single larger value makes all arcs take more memory from
//!   then on. All of these limits are checked, see [`FlowError`]. The total cost has 128 bits.
//! * Which of several optimal flows is returned depends on the order of arcs and may change from
//!   one version to the next. The same input gives the same answer.
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

mod arc_columns;
mod bitset;
mod blocked_reverse_arcs;
mod certificate;
mod convex_arcs;
mod cost_scaling;
mod deadline;
mod error;
mod exact_prices;
mod fixed_flow;
mod gates;
mod global_update;
mod hub_entries;
mod network;
mod node_repair;
mod node_sums;
mod priority_levels;
mod problem;
#[cfg(test)]
#[path = "../../proptest_cases.rs"]
mod proptest_cases;
mod radix_heap;
mod residual;
mod shortest_paths;
mod solve_passes;
mod solver_state;
mod stop_reason;
mod two_threads;
mod working_set;

pub use certificate::violation;
pub use deadline::Limits;
pub use error::FlowError;
pub use gates::{Effort, GainArc, Gate, GatedAnswer};
pub use network::{Answer, ArcId, Columns, ConvexTerms, Network, NewArc, NewConvexArc, NodeId};
pub use priority_levels::LevelsAnswer;
pub use problem::{Arc, Problem, Terms};

use solver_state::SolverState;

/// A flow of minimum cost and the prices that prove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// The total cost of the flow.
    pub cost: i128,
    /// A lower bound on the cost of every flow. Equal to `cost` unless a limit was reached.
    pub bound: i128,
    /// The flow f, one value per arc.
    pub flow: Vec<i64>,
    /// The prices p, one value per node.
    pub price: Vec<i64>,
}

/// Finds a flow of minimum cost and proves that it is optimal.
pub fn solve(problem: &Problem<'_>) -> Result<Solution, FlowError> {
    solve_within(problem, &Limits::default())
}

/// The same within limits, as in [`Network::solve`].
pub fn solve_within(problem: &Problem<'_>, limits: &Limits<'_>) -> Result<Solution, FlowError> {
    let mut state = SolverState::cold(problem);
    let answer = solve_passes::optimise(problem, &mut state, &problem.degrees(), limits)?;
    Ok(Solution {
        cost: answer.cost,
        bound: answer.bound,
        flow: state.flow,
        price: state.price,
    })
}
