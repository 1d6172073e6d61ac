//! A search that packs tasks on machines better: more of them, and cheaper.
//!
//! # Problem
//! Machines have a free amount of each of R resources and, some of them, devices of which a task
//! may use shares. Tasks come in C classes; a task of class `c` asks for the vector `requests[c]`
//! and, where it needs devices, for `count` different ones with `milli` thousandths free on each.
//! A class may only go to machines that admit it. A task of class `c` on machine `m` costs
//! `cost[c][m]`, and the k-th task of a round on `m` costs `k * slope[m]` more (k from 0).
//!
//! Some units have to be placed, single tasks may be, gangs are placed whole or not at all; single
//! tasks and gangs are worth something. Given a packing, find one that is worth at least as much
//! and, at equal worth, costs no more.
//!
//! # Method
//! When not everything can be placed, best fit decreasing packs everything anew; the better of that
//! and the given packing is the start.
//!
//! Ruin and recreate: take everything off one to three machines, then put it back together with
//! what waits, in random order, each task on the machine that is tightest or cheapest for it. Keep
//! the result if it is no worse, otherwise undo. This finds exchanges, chains of moves, and two
//! small tasks in the place of a large one, all with one mechanism, and every step is exact: a
//! packing that does not fit never exists, not even for a moment.
//!
//! The problem is strongly NP-hard already for one resource; the search is bounded by `effort`,
//! the number of times a task is held against a machine, and repeatable: the same input and seed
//! give the same answer.
//!
//! # References
//! Schrimpf et al., "Record breaking optimization results using the ruin and recreate principle",
//! J. Comput. Phys. 159, 2000; Christiaens and Vanden Berghe, "Slack induction by string removals
//! for vehicle routing problems", Transportation Science 54, 2020 (the blinks).

mod demand;
mod machine;
mod refill;
mod search;

pub use demand::{Demand, Gang};
pub use machine::{Classes, DeviceRequest, Machine, Unit};
pub use refill::First;
pub use search::{Limits, improve};
