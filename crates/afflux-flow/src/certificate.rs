//! The proof that an answer is right, checked against the problem as it was given.
//!
//! Nothing here knows how the answer was found. Sums are taken in 128 bits, or in 64 where it is
//! known that they fit.

use std::ops::Range;

use crate::arcs::Scan;
use crate::halves::in_halves;
use crate::problem::{Arc, Problem, gains};
use crate::rows::{CONVEX, as_row};
use crate::state::any_beyond;

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
    let flow = Flow {
        arcs: flow,
        carried: &[],
    };
    let flaw = check(problem, flow, price, Which::All).err()?;
    Some(flaw.detail(problem, flow, price))
}

/// Up to this, sums of three values fit 64 bits.
const SMALL: u64 = u64::MAX / 8;

/// What is wrong with an answer.
pub(crate) enum Flaw {
    /// It is no flow, and why.
    NoFlow(String),
    /// These arcs could carry more or less at a gain.
    Gains(Vec<u32>),
}

/// What flows.
#[derive(Clone, Copy)]
pub(crate) struct Flow<'a> {
    pub arcs: &'a [i64],
    /// Along convex arcs.
    pub carried: &'a [i64],
}

impl Flow<'_> {
    fn along(&self, number: u32) -> i64 {
        match as_row(number) {
            Some(row) => self.carried[row],
            None => self.arcs[number as usize],
        }
    }
}

/// Which arcs are looked at.
#[derive(Clone, Copy)]
enum Which {
    All,
    /// Those with a choice; what the others come to is known.
    Free,
}

/// What a flow costs, if the prices prove it optimal; or what is wrong with it.
pub(crate) fn prove(problem: &Problem<'_>, flow: Flow<'_>, price: &[i64]) -> Result<i128, Flaw> {
    let which = match problem.is_mostly_forced() {
        true => Which::Free,
        false => Which::All,
    };
    let proven = check(problem, flow, price, which);
    debug_assert_eq!(
        proven.is_ok(),
        check(problem, flow, price, Which::All).is_ok()
    );
    proven
}

fn check(problem: &Problem<'_>, flow: Flow<'_>, price: &[i64], which: Which) -> Result<i128, Flaw> {
    // Costs are limited, so that only prices could be too large for a shorter sum.
    let is_small = !any_beyond(price, SMALL);
    let seen = match is_small {
        true => examine(problem, flow, which, |arc: &Arc, units| {
            let reduced = arc.cost + price[arc.tail] - price[arc.head];
            gains(reduced, units, (arc.lower, arc.capacity))
        }),
        false => examine(problem, flow, which, |arc: &Arc, units| {
            let sign = reduced(arc, price).signum() as i64;
            gains(sign, units, (arc.lower, arc.capacity))
        }),
    };
    let (cost, flaws) = seen.map_err(Flaw::NoFlow)?;
    match flaws.is_empty() {
        true => Ok(cost),
        false => Err(Flaw::Gains(flaws)),
    }
}

impl Flaw {
    /// In words.
    pub fn detail(&self, problem: &Problem<'_>, flow: Flow<'_>, price: &[i64]) -> String {
        match self {
            Self::NoFlow(why) => why.clone(),
            Self::Gains(arcs) => {
                let number = arcs[0];
                let (flow, (lower, capacity)) = (flow.along(number), problem.bounds(number));
                let (tail, head) = problem.ends(number);
                let fall = i128::from(price[tail]) - i128::from(price[head]);
                let reduced = |cost: Option<i64>| cost.map(|cost| i128::from(cost) + fall);
                let margin = problem.margin(number, flow);
                let next = reduced(margin.next).filter(|&reduced| reduced < 0);
                let reduced = next.or(reduced(margin.last)).unwrap_or(0);
                format!(
                    "arc {number} carries {flow} of {lower}..={capacity} at reduced cost {reduced}"
                )
            }
        }
    }
}

fn reduced(arc: &Arc, price: &[i64]) -> i128 {
    i128::from(arc.cost) + i128::from(price[arc.tail]) - i128::from(price[arc.head])
}

/// What a flow costs, if it keeps all bounds and balances; or which it does not.
pub(crate) fn feasible(problem: &Problem<'_>, flow: Flow<'_>) -> Result<i128, String> {
    Ok(examine(problem, flow, Which::All, |_, _| false)?.0)
}

/// What was seen of some arcs.
#[derive(Default)]
struct Seen {
    /// What each node sends more than it receives. These sums may wrap around, but not without
    /// `moved`, the sum of all magnitudes, being too large.
    sent: Vec<i64>,
    moved: i128,
    /// What they cost. It may wrap around on the way to a total that fits.
    cost: i128,
    noted: Vec<u32>,
    /// An arc outside of its bounds.
    wrong: Option<u32>,
}

impl Seen {
    /// So much is sent along an arc, at this cost in all.
    #[inline]
    fn send(&mut self, (tail, head): (usize, usize), units: i64, cost: i128) {
        self.sent[tail] = self.sent[tail].wrapping_add(units);
        self.sent[head] = self.sent[head].wrapping_sub(units);
        self.moved += i128::from(units);
        self.cost = self.cost.wrapping_add(cost);
    }

    /// What was seen of these and of others.
    fn and(mut self, other: Self) -> Self {
        for (sum, more) in self.sent.iter_mut().zip(other.sent) {
            *sum = sum.wrapping_add(more);
        }
        self.moved += other.moved;
        self.cost = self.cost.wrapping_add(other.cost);
        self.noted.extend(other.noted);
        self.wrong = self.wrong.or(other.wrong);
        self
    }
}

/// A look at some arcs.
struct Look<'a, N> {
    nodes: usize,
    flow: Flow<'a>,
    is_noted: &'a N,
}

impl<N> Clone for Look<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Look<'_, N> {}

impl<N: Fn(&Arc, i64) -> bool> Scan for Look<'_, N> {
    type Found = Seen;

    fn over(self, arcs: impl Iterator<Item = (usize, Arc)>) -> Seen {
        let mut seen = Seen {
            sent: vec![0; self.nodes],
            moved: 0,
            cost: 0,
            noted: Vec::new(),
            wrong: None,
        };
        arcs.for_each(|(index, arc)| {
            let units = self.flow.arcs[index];
            if units < arc.lower || units > arc.capacity {
                seen.wrong = seen.wrong.or(Some(index as u32));
            }
            if units != 0 {
                let cost = i128::from(units) * i128::from(arc.cost);
                seen.send((arc.tail, arc.head), units, cost);
            }
            if (self.is_noted)(&arc, units) {
                seen.noted.push(index as u32);
            }
        });
        seen
    }
}

impl<N: Fn(&Arc, i64) -> bool> Look<'_, N> {
    /// The same look at convex arcs, of which the last unit and the next are arcs of their own.
    fn at_rows(&self, problem: &Problem<'_>, range: Range<usize>, seen: &mut Seen) {
        let rows = problem.rows();
        for (row, convex) in rows.range(range) {
            let (number, units) = (CONVEX + row as u32, self.flow.carried[row]);
            if convex.clamped(units) != units {
                seen.wrong = seen.wrong.or(Some(number));
                continue;
            }
            if units != 0 {
                seen.send(convex.ends(), units, rows.cost_of(convex, units));
            }
            let margin = rows.margin(convex, units);
            let is_noted = |cost: Option<i64>, units: i64| {
                cost.is_some_and(|cost| (self.is_noted)(&convex.unit(cost), units))
            };
            if is_noted(margin.last, 1) || is_noted(margin.next, 0) {
                seen.noted.push(number);
            }
        }
    }
}

/// What a flow costs, if it keeps all bounds and balances, and the arcs that are to be noted.
fn examine(
    problem: &Problem<'_>,
    flow: Flow<'_>,
    which: Which,
    is_noted: impl Fn(&Arc, i64) -> bool + Sync,
) -> Result<(i128, Vec<u32>), String> {
    let look = Look {
        nodes: problem.nodes(),
        flow,
        is_noted: &is_noted,
    };
    let places = problem.places();
    let looks = match which {
        Which::All => places,
        Which::Free => problem.looks(),
    };
    let parts = in_halves(places, looks, |range| {
        let [arcs, rows] = problem.split(range);
        let mut seen = match which {
            Which::All => problem.scan(arcs, look),
            Which::Free => problem.scan_free(arcs, look),
        };
        look.at_rows(problem, rows, &mut seen);
        seen
    });
    let seen = parts.into_iter().reduce(Seen::and).unwrap_or_default();
    if let Some(number) = seen.wrong {
        let (lower, capacity) = problem.bounds(number);
        return Err(format!(
            "arc {number} carries {}, outside of {lower}..={capacity}",
            flow.along(number)
        ));
    }
    let forced = problem.forced();
    let (owed, cost) = match which {
        Which::All => (Some(problem.supply()), seen.cost),
        Which::Free => (forced.due.small(), seen.cost.wrapping_add(forced.cost)),
    };
    let is_small = seen.moved < i128::from(i64::MAX);
    if is_small && owed == Some(&seen.sent[..]) {
        return Ok((cost, seen.noted));
    }
    // Somewhere it does not balance, or sums are too large to tell.
    if matches!(which, Which::Free) {
        return examine(problem, flow, Which::All, is_noted);
    }
    let mut sent = vec![0_i128; problem.nodes()];
    let ends = problem.arcs().map(|arc| (arc.tail, arc.head));
    let rows = problem.rows().range(0..flow.carried.len());
    let ends = ends.chain(rows.map(|(_, row)| row.ends()));
    for ((tail, head), &units) in ends.zip(flow.arcs.iter().chain(flow.carried)) {
        sent[tail] += i128::from(units);
        sent[head] -= i128::from(units);
    }
    let mut supplies = sent.iter().zip(problem.supply());
    match supplies.position(|(&sent, &supply)| sent != i128::from(supply)) {
        None => Ok((cost, seen.noted)),
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
        .all_arcs()
        .map(|arc| {
            let reduced = reduced(&arc, price);
            let units = match arc.forced() {
                Some(units) => i128::from(units),
                None if reduced < 0 => {
                    i128::from(arc.capacity).min(most.max(i128::from(arc.lower)))
                }
                None => i128::from(arc.lower),
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
    problem.all_arcs().fold(supply, |units, arc| {
        match (inside[arc.tail], inside[arc.head]) {
            (true, false) => units - i128::from(arc.capacity),
            (false, true) => units + i128::from(arc.lower),
            _ => units,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::bound;
    use crate::problem::Problem;

    /// A loop is on no path from supply to demand, so what could flow there does not limit it.
    #[test]
    fn a_loop_that_earns_counts_in_full() {
        let problem = Problem::new(
            &[1, -1],
            &[0, 0],
            &[1, 0],
            &[0, 0],
            &[1, 1_000_000],
            &[5, -1],
        );
        let problem = problem.unwrap();
        let least = crate::solve(&problem).unwrap();
        assert_eq!(least.cost, 5 - 1_000_000);
        assert_eq!(bound(&problem, &least.price), least.cost);
        assert!(bound(&problem, &[0, 0]) <= least.cost);
    }
}
