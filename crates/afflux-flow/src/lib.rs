//! Exact minimum-cost flow.

mod certificate;
mod error;
mod heap;
mod paths;
mod prices;
mod problem;
mod residual;
mod scaling;
mod stop;
mod update;

pub use certificate::violation;
pub use error::FlowError;
pub use problem::{Arc, Problem};

use residual::Residual;
use stop::Stop;

/// A flow of minimum cost and the prices that prove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// What the flow costs: may exceed 64 bits.
    pub cost: i128,
    /// One value per arc.
    pub flow: Vec<i64>,
    /// One value per node.
    pub price: Vec<i64>,
}

/// Finds a flow of minimum cost.
pub fn solve(problem: &Problem<'_>) -> Result<Solution, FlowError> {
    let mut net = Residual::new(problem)?;
    let price = optimise(&mut net, problem.scale()).map_err(|stop| match stop {
        Stop::Cut(inside) => infeasible(problem, &inside),
        Stop::Overflow(node) => {
            let largest_cost = problem.arcs().map(|arc| arc.cost.abs()).max().unwrap_or(0);
            FlowError::PriceOverflow {
                node,
                largest_cost,
                nodes: problem.nodes(),
            }
        }
    })?;
    let flow = net.flow(problem);
    if let Some(detail) = violation(problem, &flow, &price) {
        return Err(FlowError::Internal { detail });
    }
    let cost = problem
        .arcs()
        .zip(&flow)
        .map(|(arc, &units)| i128::from(arc.cost) * i128::from(units))
        .sum();
    Ok(Solution { cost, flow, price })
}

/// Finds an optimal flow and integer prices that prove it.
fn optimise(net: &mut Residual, scale: i64) -> Result<Vec<i64>, Stop> {
    net.saturate(0);
    if paths::route(net)? {
        // Sums of scaled costs: nothing is lost.
        return Ok(net.price.iter().map(|price| price / scale).collect());
    }
    scaling::optimise(net, scale)
}

/// The error that a cut proves, once the cut has been checked against the problem.
fn infeasible(problem: &Problem<'_>, inside: &[bool]) -> FlowError {
    let units = certificate::stuck_units(problem, inside);
    let mut needs: Vec<i128> = problem.supply().iter().map(|&s| i128::from(s)).collect();
    for arc in problem.arcs() {
        needs[arc.tail] -= i128::from(arc.lower);
        needs[arc.head] += i128::from(arc.lower);
    }
    let size = inside.iter().filter(|&&is_inside| is_inside).count();
    let most = (0..problem.nodes())
        .filter(|&node| inside[node])
        .max_by_key(|&node| (needs[node], std::cmp::Reverse(node)));
    match (most, i64::try_from(units)) {
        (Some(node), Ok(units)) if units > 0 => FlowError::Infeasible {
            node,
            others: size - 1,
            units,
        },
        _ => FlowError::Internal {
            detail: format!("a cut of {size} nodes leaves {units} units stuck, expected some"),
        },
    }
}
