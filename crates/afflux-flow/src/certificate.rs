//! The proof that an answer is right, checked against the problem as it was given.
//!
//! Nothing here knows how the answer was found. Sums are taken in 128 bits, where they cannot
//! overflow.

use crate::problem::{Arc, Problem};

/// Finds what is wrong with a flow and the prices that should prove it optimal.
///
/// `None` means that the flow is feasible and that no cheaper one exists: with
/// r = cost + price\[tail\] - price\[head\], arcs that could carry more have r >= 0 and arcs that
/// could carry less have r <= 0.
pub fn violation(problem: &Problem<'_>, flow: &[i64], price: &[i64]) -> Option<String> {
    if flow.len() != problem.arcs().len() || price.len() != problem.nodes() {
        return Some(format!(
            "{} flows and {} prices for {} arcs and {} nodes",
            flow.len(),
            price.len(),
            problem.arcs().len(),
            problem.nodes()
        ));
    }
    prove(problem, flow, price).err()
}

/// Below this, sums of three values fit 64 bits.
const SMALL: i64 = i64::MAX / 4;

/// What a flow costs, if the prices prove it optimal; or what is wrong with it.
pub(crate) fn prove(problem: &Problem<'_>, flow: &[i64], price: &[i64]) -> Result<i128, String> {
    let cost = feasible(problem, flow)?;
    match forgotten(problem, flow, price).next() {
        None => Ok(cost),
        Some((index, arc)) => Err(format!(
            "arc {index} carries {} of {}..={} at reduced cost {}",
            flow[index],
            arc.lower,
            arc.capacity,
            reduced(&arc, price)
        )),
    }
}

fn reduced(arc: &Arc, price: &[i64]) -> i128 {
    i128::from(arc.cost) + i128::from(price[arc.tail]) - i128::from(price[arc.head])
}

/// The arcs that could carry more or less at a gain.
pub(crate) fn forgotten<'a>(
    problem: &Problem<'a>,
    flow: &'a [i64],
    price: &'a [i64],
) -> impl Iterator<Item = (usize, Arc)> {
    // Costs are limited, so that only prices could be too large for a shorter sum.
    let is_small = price.iter().all(|price| price.abs() < SMALL);
    let arcs = problem.arcs().zip(flow).enumerate();
    arcs.filter_map(move |(index, (arc, &units))| {
        let sign = match is_small {
            true => (arc.cost + price[arc.tail] - price[arc.head]).signum(),
            false => reduced(&arc, price).signum() as i64,
        };
        let gains = (sign < 0 && units < arc.capacity) || (sign > 0 && units > arc.lower);
        gains.then_some((index, arc))
    })
}

/// What a flow costs, if it keeps all bounds and balances; or which it does not.
pub(crate) fn feasible(problem: &Problem<'_>, flow: &[i64]) -> Result<i128, String> {
    let beyond =
        |&(_, (arc, &units)): &(usize, (Arc, &i64))| units < arc.lower || units > arc.capacity;
    if let Some((index, (arc, units))) = problem.arcs().zip(flow).enumerate().find(beyond) {
        return Err(format!(
            "arc {index} carries {units}, outside of {}..={}",
            arc.lower, arc.capacity
        ));
    }
    let mut sent = vec![0_i128; problem.nodes()];
    let mut cost = 0;
    for (arc, &units) in problem.arcs().zip(flow) {
        if units != 0 {
            sent[arc.tail] += i128::from(units);
            sent[arc.head] -= i128::from(units);
            cost += i128::from(units) * i128::from(arc.cost);
        }
    }
    let wrong = problem
        .supply()
        .iter()
        .zip(&sent)
        .position(|(&supply, &sent)| i128::from(supply) != sent);
    match wrong {
        None => Ok(cost),
        Some(node) => Err(format!(
            "node {node} sends {} more than it receives, its supply is {}",
            sent[node],
            problem.supply()[node]
        )),
    }
}

/// What every flow costs at least, by any prices.
///
/// The costs of a flow are the sum of r f over all arcs less the sum of p b over all nodes, and an
/// arc contributes least with r < 0 when it is full, otherwise when it carries its lower bound. No
/// arc needs to carry more than all supply, all lower bounds and all that negative arcs attract.
pub(crate) fn bound(problem: &Problem<'_>, price: &[i64]) -> i128 {
    let most = i128::from(problem.most());
    let balance: i128 = problem
        .supply()
        .iter()
        .zip(price)
        .map(|(&supply, &price)| i128::from(supply) * i128::from(price))
        .sum();
    let arcs: i128 = problem
        .arcs()
        .map(|arc| {
            let reduced = reduced(&arc, price);
            let units = match reduced < 0 {
                true => i128::from(arc.capacity).min(most.max(i128::from(arc.lower))),
                false => i128::from(arc.lower),
            };
            reduced * units
        })
        .sum();
    arcs - balance
}

/// The units that cannot leave a set of nodes whatever the flow: supply and incoming lower bounds,
/// less the capacity of outgoing arcs. Positive means that the problem is infeasible.
pub(crate) fn stuck_units(problem: &Problem<'_>, inside: &[bool]) -> i128 {
    let supply: i128 = problem
        .supply()
        .iter()
        .zip(inside)
        .filter(|&(_, &is_inside)| is_inside)
        .map(|(&supply, _)| i128::from(supply))
        .sum();
    problem.arcs().fold(supply, |units, arc| {
        match (inside[arc.tail], inside[arc.head]) {
            (true, false) => units - i128::from(arc.capacity),
            (false, true) => units + i128::from(arc.lower),
            _ => units,
        }
    })
}
