//! A packing, the search on it, and what becomes of it, counted from the outside.

use afflux_pack::{Classes, Demand, First, Limits, Machine, improve};

/// What the search is given.
#[derive(Clone, Debug)]
pub struct Problem {
    pub classes: Classes,
    pub machines: Vec<Machine>,
    pub demand: Demand,
    pub first: Option<First>,
}

/// How many units of each class are placed.
pub fn placed(problem: &Problem) -> Vec<i64> {
    let mut placed = vec![0; problem.classes.len()];
    for unit in problem.machines.iter().flat_map(|machine| &machine.units) {
        placed[unit.class] += 1;
    }
    placed
}

/// What all units cost where they are.
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

/// The packing as the search leaves it.
pub fn run(problem: &Problem, seed: u64) -> Problem {
    let mut after = problem.clone();
    let limits = Limits {
        rounds: 150,
        effort: 1_000_000,
        seed,
    };
    improve(
        &after.classes,
        &mut after.machines,
        &mut after.demand,
        problem.first.as_ref(),
        limits,
    );
    after
}
