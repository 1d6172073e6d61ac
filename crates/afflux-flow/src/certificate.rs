//! The proof that an answer is right, checked against the problem as it was given.
//!
//! Nothing here knows how the answer was found. Sums are taken in 128 bits, where they cannot
//! overflow.

use crate::problem::Problem;

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
    let mut sent = vec![0_i128; problem.nodes()];
    for (index, (arc, &units)) in problem.arcs().zip(flow).enumerate() {
        if units < arc.lower || units > arc.capacity {
            return Some(format!(
                "arc {index} carries {units}, outside of {}..={}",
                arc.lower, arc.capacity
            ));
        }
        sent[arc.tail] += i128::from(units);
        sent[arc.head] -= i128::from(units);
        let reduced =
            i128::from(arc.cost) + i128::from(price[arc.tail]) - i128::from(price[arc.head]);
        if (reduced < 0 && units < arc.capacity) || (reduced > 0 && units > arc.lower) {
            return Some(format!(
                "arc {index} carries {units} of {}..={} at reduced cost {reduced}",
                arc.lower, arc.capacity
            ));
        }
    }
    problem
        .supply()
        .iter()
        .zip(&sent)
        .position(|(&supply, &sent)| i128::from(supply) != sent)
        .map(|node| {
            format!(
                "node {node} sends {} more than it receives, its supply is {}",
                sent[node],
                problem.supply()[node]
            )
        })
}

/// Whether no arc could carry more or less at a gain.
pub(crate) fn is_optimal(problem: &Problem<'_>, flow: &[i64], price: &[i64]) -> bool {
    problem.arcs().zip(flow).all(|(arc, &units)| {
        let reduced = arc.cost + price[arc.tail] - price[arc.head];
        !((reduced < 0 && units < arc.capacity) || (reduced > 0 && units > arc.lower))
    })
}

/// What a flow costs.
pub(crate) fn cost(problem: &Problem<'_>, flow: &[i64]) -> i128 {
    let arcs = problem.arcs().zip(flow);
    arcs.map(|(arc, &units)| i128::from(arc.cost) * i128::from(units))
        .sum()
}

/// What every flow costs at least, proven by any prices: with r as above, a flow costs
/// sum of r f - sum of p b, and r f is least at one of the bounds.
pub(crate) fn bound(problem: &Problem<'_>, price: &[i64]) -> i128 {
    let nodes = problem.supply().iter().zip(price);
    let at_nodes = nodes.map(|(&supply, &price)| -i128::from(price) * i128::from(supply));
    let at_arcs = problem.arcs().map(|arc| {
        let reduced =
            i128::from(arc.cost) + i128::from(price[arc.tail]) - i128::from(price[arc.head]);
        let units = if reduced < 0 { arc.capacity } else { arc.lower };
        reduced * i128::from(units)
    });
    // Infinite capacities may add up to more than fits: then nothing is proven.
    at_nodes
        .chain(at_arcs)
        .try_fold(0_i128, i128::checked_add)
        .unwrap_or(i128::MIN)
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
