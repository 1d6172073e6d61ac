//! The optimality proof, checked against the problem as it was given.
//!
//! This module does not use any knowledge of how the answer was found. Sums are taken in 128 bits,
//! or in 64 bits where they are known to fit.

use std::ops::Range;

use crate::arc_columns::Scan;
use crate::convex_arcs::{FIRST_CONVEX_ID, convex_slot};
use crate::problem::{Arc, Problem, violates_optimality};
use crate::solver_state::any_larger_than;
use crate::two_threads::in_two_threads;

/// Checks a flow and the prices that should prove it optimal.
///
/// `None` means that the flow is feasible and optimal: with r = cost + price\[tail\] -
/// price\[head\], arcs with residual capacity have r >= 0 and arcs with flow above the lower bound
/// have r <= 0. Otherwise the text describes the first violation.
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
        convex_flow: &[],
    };
    let failure = check(problem, flow, price, ArcsToCheck::All).err()?;
    Some(failure.detail(problem, flow, price))
}

/// Up to this magnitude, sums of three values fit 64 bits.
const MAX_NARROW_PRICE: u64 = u64::MAX / 8;

/// Why a proof fails.
pub(crate) enum ProofFailure {
    /// It is not a feasible flow, for this reason.
    NotAFlow(String),
    /// These arcs violate optimality.
    Violations(Vec<u32>),
}

/// The flow of all arcs.
#[derive(Clone, Copy)]
pub(crate) struct Flow<'a> {
    pub arcs: &'a [i64],
    /// The flow of convex arcs, by slot.
    pub convex_flow: &'a [i64],
}

impl Flow<'_> {
    fn along(&self, id: u32) -> i64 {
        match convex_slot(id) {
            Some(slot) => self.convex_flow[slot],
            None => self.arcs[id as usize],
        }
    }
}

/// The arcs that a check reads.
#[derive(Clone, Copy)]
enum ArcsToCheck {
    All,
    /// Free arcs only; the sums of all other flow are known.
    Free,
}

/// The cost of a flow, if the prices prove it optimal; otherwise why the proof fails.
pub(crate) fn prove(
    problem: &Problem<'_>,
    flow: Flow<'_>,
    price: &[i64],
) -> Result<i128, ProofFailure> {
    let which = match problem.has_mostly_fixed_flow() {
        true => ArcsToCheck::Free,
        false => ArcsToCheck::All,
    };
    let proven = check(problem, flow, price, which);
    debug_assert_eq!(
        proven.is_ok(),
        check(problem, flow, price, ArcsToCheck::All).is_ok()
    );
    proven
}

fn check(
    problem: &Problem<'_>,
    flow: Flow<'_>,
    price: &[i64],
    which: ArcsToCheck,
) -> Result<i128, ProofFailure> {
    // Costs are limited, so only prices can make 64-bit sums overflow.
    let is_small = !any_larger_than(price, MAX_NARROW_PRICE);
    let seen = match is_small {
        true => scan_flow(problem, flow, which, |arc: &Arc, units| {
            let reduced = arc.cost + price[arc.tail] - price[arc.head];
            violates_optimality(reduced, units, (arc.lower, arc.capacity))
        }),
        false => scan_flow(problem, flow, which, |arc: &Arc, units| {
            let sign = reduced(arc, price).signum() as i64;
            violates_optimality(sign, units, (arc.lower, arc.capacity))
        }),
    };
    let (cost, violations) = seen.map_err(ProofFailure::NotAFlow)?;
    match violations.is_empty() {
        true => Ok(cost),
        false => Err(ProofFailure::Violations(violations)),
    }
}

impl ProofFailure {
    /// The failure as text.
    pub fn detail(&self, problem: &Problem<'_>, flow: Flow<'_>, price: &[i64]) -> String {
        match self {
            Self::NotAFlow(why) => why.clone(),
            Self::Violations(arcs) => {
                let id = arcs[0];
                let (flow, (lower, capacity)) = (flow.along(id), problem.bounds(id));
                let (tail, head) = problem.ends(id);
                let fall = i128::from(price[tail]) - i128::from(price[head]);
                let reduced = |cost: Option<i64>| cost.map(|cost| i128::from(cost) + fall);
                let margin = problem.margin(id, flow);
                let next = reduced(margin.next).filter(|&reduced| reduced < 0);
                let reduced = next.or(reduced(margin.last)).unwrap_or(0);
                format!("arc {id} carries {flow} of {lower}..={capacity} at reduced cost {reduced}")
            }
        }
    }
}

fn reduced(arc: &Arc, price: &[i64]) -> i128 {
    i128::from(arc.cost) + i128::from(price[arc.tail]) - i128::from(price[arc.head])
}

/// The cost of a flow, if it is feasible; otherwise the bound or balance that it violates.
pub(crate) fn feasible(problem: &Problem<'_>, flow: Flow<'_>) -> Result<i128, String> {
    Ok(scan_flow(problem, flow, ArcsToCheck::All, |_, _| false)?.0)
}

/// Sums over scanned arcs.
#[derive(Default)]
struct ScanSums {
    /// By node, the flow sent less the flow received. These sums may wrap around, but only if
    /// `moved`, the sum of all magnitudes, is too large.
    sent: Vec<i64>,
    moved: i128,
    /// The total cost. It may wrap around on the way to a total that fits.
    cost: i128,
    violating: Vec<u32>,
    /// An arc whose flow is outside its bounds.
    out_of_bounds: Option<u32>,
}

impl ScanSums {
    /// Adds the flow of an arc, with its total cost.
    #[inline]
    fn send(&mut self, (tail, head): (usize, usize), units: i64, cost: i128) {
        self.sent[tail] = self.sent[tail].wrapping_add(units);
        self.sent[head] = self.sent[head].wrapping_sub(units);
        self.moved += i128::from(units);
        self.cost = self.cost.wrapping_add(cost);
    }

    /// The sums over both sets of arcs.
    fn merge(mut self, other: Self) -> Self {
        for (sum, more) in self.sent.iter_mut().zip(other.sent) {
            *sum = sum.wrapping_add(more);
        }
        self.moved += other.moved;
        self.cost = self.cost.wrapping_add(other.cost);
        self.violating.extend(other.violating);
        self.out_of_bounds = self.out_of_bounds.or(other.out_of_bounds);
        self
    }
}

/// A scan that sums the flow and collects violating arcs.
struct ProofScan<'a, N> {
    nodes: usize,
    flow: Flow<'a>,
    is_violating: &'a N,
}

impl<N> Clone for ProofScan<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for ProofScan<'_, N> {}

impl<N: Fn(&Arc, i64) -> bool> Scan for ProofScan<'_, N> {
    type Output = ScanSums;

    fn run(self, arcs: impl Iterator<Item = (usize, Arc)>) -> ScanSums {
        let mut seen = ScanSums {
            sent: vec![0; self.nodes],
            moved: 0,
            cost: 0,
            violating: Vec::new(),
            out_of_bounds: None,
        };
        arcs.for_each(|(index, arc)| {
            let units = self.flow.arcs[index];
            if units < arc.lower || units > arc.capacity {
                seen.out_of_bounds = seen.out_of_bounds.or(Some(index as u32));
            }
            if units != 0 {
                let cost = i128::from(units) * i128::from(arc.cost);
                seen.send((arc.tail, arc.head), units, cost);
            }
            if (self.is_violating)(&arc, units) {
                seen.violating.push(index as u32);
            }
        });
        seen
    }
}

impl<N: Fn(&Arc, i64) -> bool> ProofScan<'_, N> {
    /// Scans convex arcs: the last carried unit and the next one are checked like arcs of their
    /// own.
    fn scan_convex(&self, problem: &Problem<'_>, range: Range<usize>, seen: &mut ScanSums) {
        let convex_arcs = problem.convex_arcs();
        for (slot, convex) in convex_arcs.range(range) {
            let (id, units) = (FIRST_CONVEX_ID + slot as u32, self.flow.convex_flow[slot]);
            if convex.clamp_flow(units) != units {
                seen.out_of_bounds = seen.out_of_bounds.or(Some(id));
                continue;
            }
            if units != 0 {
                seen.send(convex.ends(), units, convex_arcs.cost_of(convex, units));
            }
            let margin = convex_arcs.margin(convex, units);
            let is_violating = |cost: Option<i64>, units: i64| {
                cost.is_some_and(|cost| (self.is_violating)(&convex.unit(cost), units))
            };
            if is_violating(margin.last, 1) || is_violating(margin.next, 0) {
                seen.violating.push(id);
            }
        }
    }
}

/// The cost of a flow, if it is feasible, and the arcs for which `is_violating` holds.
fn scan_flow(
    problem: &Problem<'_>,
    flow: Flow<'_>,
    which: ArcsToCheck,
    is_violating: impl Fn(&Arc, i64) -> bool + Sync,
) -> Result<(i128, Vec<u32>), String> {
    let scan = ProofScan {
        nodes: problem.nodes(),
        flow,
        is_violating: &is_violating,
    };
    let arc_and_convex_count = problem.arc_and_convex_count();
    let scan_length = match which {
        ArcsToCheck::All => arc_and_convex_count,
        ArcsToCheck::Free => problem.scan_length(),
    };
    let parts = in_two_threads(arc_and_convex_count, scan_length, |range| {
        let [arcs, convex_arcs] = problem.split_range(range);
        let mut seen = match which {
            ArcsToCheck::All => problem.scan(arcs, scan),
            ArcsToCheck::Free => problem.scan_free(arcs, scan),
        };
        scan.scan_convex(problem, convex_arcs, &mut seen);
        seen
    });
    let seen = parts
        .into_iter()
        .reduce(ScanSums::merge)
        .unwrap_or_default();
    if let Some(id) = seen.out_of_bounds {
        let (lower, capacity) = problem.bounds(id);
        return Err(format!(
            "arc {id} carries {}, outside of {lower}..={capacity}",
            flow.along(id)
        ));
    }
    let fixed_flow = problem.fixed_flow();
    let (owed, cost) = match which {
        ArcsToCheck::All => (Some(problem.supply()), seen.cost),
        ArcsToCheck::Free => (
            fixed_flow.due.narrow(),
            seen.cost.wrapping_add(fixed_flow.cost),
        ),
    };
    let is_small = seen.moved < i128::from(i64::MAX);
    if is_small && owed == Some(&seen.sent[..]) {
        return Ok((cost, seen.violating));
    }
    // Some node is not balanced, or the sums may have wrapped around: sum again in 128 bits.
    if matches!(which, ArcsToCheck::Free) {
        return scan_flow(problem, flow, ArcsToCheck::All, is_violating);
    }
    let mut sent = vec![0_i128; problem.nodes()];
    let ends = problem.arcs().map(|arc| (arc.tail, arc.head));
    let convex_arcs = problem.convex_arcs().range(0..flow.convex_flow.len());
    let ends = ends.chain(convex_arcs.map(|(_, convex)| convex.ends()));
    for ((tail, head), &units) in ends.zip(flow.arcs.iter().chain(flow.convex_flow)) {
        sent[tail] += i128::from(units);
        sent[head] -= i128::from(units);
    }
    let mut supplies = sent.iter().zip(problem.supply());
    match supplies.position(|(&sent, &supply)| sent != i128::from(supply)) {
        None => Ok((cost, seen.violating)),
        Some(node) => Err(format!(
            "node {node} sends {} more than it receives, its supply is {}",
            sent[node],
            problem.supply()[node]
        )),
    }
}

/// A lower bound on the cost of every flow, from any prices.
///
/// The cost of a flow is the sum of r f over all arcs less the sum of p b over all nodes. An arc
/// contributes least at its capacity if r < 0, otherwise at its lower bound. No arc needs to carry
/// more than `flow_limit`.
pub(crate) fn bound(problem: &Problem<'_>, price: &[i64]) -> i128 {
    let flow_limit = i128::from(problem.flow_limit());
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
            let units = match arc.fixed_flow() {
                Some(units) => i128::from(units),
                None if reduced < 0 => {
                    i128::from(arc.capacity).min(flow_limit.max(i128::from(arc.lower)))
                }
                None => i128::from(arc.lower),
            };
            reduced * units
        })
        .sum();
    arcs - balance
}

/// The units that cannot leave a set of nodes in any flow: supply and incoming lower bounds, less
/// the capacity of outgoing arcs. A positive value proves that the problem is infeasible.
pub(crate) fn cut_surplus(problem: &Problem<'_>, inside: &[bool]) -> i128 {
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

    /// A loop is on no path from supply to demand, so the flow limit must count its capacity
    /// separately.
    #[test]
    fn a_negative_loop_counts_with_its_full_capacity() {
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
