//! A packing and helpers that count units and costs independently of the search.

use afflux_pack::{Classes, Items, Machine, ScratchStart, SearchLimits, improve};

/// The input of the search.
#[derive(Clone, Debug)]
pub struct Problem {
    pub classes: Classes,
    pub machines: Vec<Machine>,
    pub items: Items,
    pub first: Option<ScratchStart>,
}

/// The number of placed units of each class.
pub fn placed(problem: &Problem) -> Vec<i64> {
    let mut placed = vec![0; problem.classes.len()];
    for unit in problem.machines.iter().flat_map(|machine| &machine.units) {
        placed[unit.class] += 1;
    }
    placed
}

pub fn cost(problem: &Problem) -> i64 {
    let mut total = 0;
    for (index, machine) in problem.machines.iter().enumerate() {
        for (position, unit) in machine.units.iter().enumerate() {
            total += problem.classes.cost[unit.class * problem.classes.machines + index];
            total += position as i64 * machine.slope;
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
        &after.classes,
        &mut after.machines,
        &mut after.items,
        problem.first.as_ref(),
        limits,
    );
    after
}
