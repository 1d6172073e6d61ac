//! A packing and helpers that count units and costs independently of the search.

use crate::cluster::Cluster;
use afflux_pack::{Items, Packing, ScratchStart, SearchLimits, improve};

/// The input of the search.
#[derive(Clone, Debug)]
pub struct Problem {
    pub cluster: Cluster,
    pub packing: Packing,
    pub items: Items,
    pub first: Option<ScratchStart>,
}

/// The number of placed units of each class.
pub fn placed(problem: &Problem) -> Vec<i64> {
    let mut placed = vec![0; problem.cluster.requests.len()];
    for machine in 0..problem.cluster.free.len() {
        for unit in problem.packing.account().units(machine) {
            placed[unit.class] += 1;
        }
    }
    placed
}

pub fn cost(problem: &Problem) -> i64 {
    let mut total = 0;
    for machine in 0..problem.cluster.free.len() {
        let units = problem.packing.account().units(machine);
        for (position, unit) in units.iter().enumerate() {
            total += problem.cluster.cost[unit.class][machine];
            total += position as i64 * problem.cluster.slope[machine];
        }
    }
    total
}

/// The packing after the search.
pub fn run(problem: &Problem, seed: u64) -> Problem {
    let mut after = problem.clone();
    let limits = SearchLimits {
        rounds: 150,
        effort: 1_000_000,
        seed,
    };
    improve(
        &mut after.packing,
        &mut after.items,
        problem.first.as_ref(),
        limits,
    );
    after
}
