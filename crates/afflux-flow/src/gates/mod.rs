//! Gates: groups of arcs that are used in full, all of them, or not at all.

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
    /// How many flows may be solved, at most. Without any, all gates are closed.
    pub flows: usize,
    /// A choice will do that is proven to cost no more than this above the least, in millionths of
    /// its cost.
    pub gap_ppm: u32,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            flows: 1000,
            gap_ppm: 0,
        }
    }
}

/// What [`Network::solve_gated`] found; the flow is read from the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatedAnswer {
    /// What the flow costs, together with the waiting costs of closed gates.
    pub cost: i128,
    /// No choice costs less than this.
    pub bound: i128,
    /// Which gates are open.
    pub open: Vec<bool>,
    /// How many flows were solved.
    pub flows: usize,
}

impl GatedAnswer {
    /// By how much a better choice could be cheaper, at most.
    pub fn gap(&self) -> i128 {
        self.cost - self.bound
    }

    /// Whether the choice is proven to cost the least.
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }
}

impl Network {
    /// Chooses which gates to open, such that flow and waiting cost the least together.
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
