//! Problems from lists of arcs, for tests and benchmarks.

use afflux_flow::{FlowError, Problem};

/// The columns of a problem.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    pub supply: Vec<i64>,
    pub tail: Vec<i32>,
    pub head: Vec<i32>,
    pub lower: Vec<i64>,
    pub capacity: Vec<i64>,
    pub cost: Vec<i64>,
}

impl Columns {
    /// Arcs are given as (tail, head, lower, capacity, cost).
    pub fn new(supply: &[i64], arcs: &[(i32, i32, i64, i64, i64)]) -> Self {
        Self {
            supply: supply.to_vec(),
            tail: arcs.iter().map(|arc| arc.0).collect(),
            head: arcs.iter().map(|arc| arc.1).collect(),
            lower: arcs.iter().map(|arc| arc.2).collect(),
            capacity: arcs.iter().map(|arc| arc.3).collect(),
            cost: arcs.iter().map(|arc| arc.4).collect(),
        }
    }

    pub fn problem(&self) -> Result<Problem<'_>, FlowError> {
        let (tail, head, lower) = (&self.tail, &self.head, &self.lower);
        Problem::new(&self.supply, tail, head, lower, &self.capacity, &self.cost)
    }
}
