//! Packings of tasks on machines: placing gangs whole, and local search for a better packing, with
//! more tasks, at a lower cost.
//!
//! # Problem
//! Tasks come in C classes; the account (`afflux-account`) says how many tasks of a class fit on a
//! machine. A class may only use the machines of its pairs. A task of class `c` on machine `m`
//! costs `cost[c][m]`, and the k-th task of a round on `m` costs `k * slope[m]` more (k from 0).
//!
//! Fixed units must be placed, single tasks may be placed, gangs are placed as a whole or not at
//! all; single tasks and gangs have a worth. Given a packing, find one that is worth at least as
//! much and, at equal worth, costs no more.
//!
//! # Method
//! If not everything can be placed, a packing from scratch is built by best fit decreasing; the
//! search starts from the better of that and the given packing.
//!
//! Ruin and recreate: remove all units from one to three machines, then insert them again together
//! with waiting tasks, in random order, each on the machine that is tightest or cheapest for it.
//! Keep the result if it is no worse, otherwise undo it. This finds exchanges, chains of moves, and
//! two small tasks in the place of a large one. Every intermediate packing fits exactly.
//!
//! The problem is strongly NP-hard already for one resource; the search is bounded by `effort`, the
//! number of times that a task is compared with a machine, and repeatable: the same input and seed
//! give the same answer.
//!
//! # References
//! Schrimpf et al., "Record breaking optimization results using the ruin and recreate principle",
//! J. Comput. Phys. 159, 2000; Christiaens and Vanden Berghe, "Slack induction by string removals
//! for vehicle routing problems", Transportation Science 54, 2020 (the blinks).

mod gang_search;
mod items;
mod pack_from_scratch;
mod packing;
mod related_units;
mod ruin_and_recreate;

pub use gang_search::place_gang;
pub use items::{Gang, Items};
pub use pack_from_scratch::ScratchStart;
pub use packing::{OpenPairs, Packing, PairColumns};
pub use related_units::{place_related, place_together};
pub use ruin_and_recreate::{SearchLimits, improve};
