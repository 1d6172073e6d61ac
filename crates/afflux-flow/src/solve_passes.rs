//! A solve: from the last answer to the next one, in passes.
//!
//! Each pass repairs changed nodes one by one, selects a working set, routes the remaining excess,
//! and checks whether the arcs outside the working set are optimal too. Mostly one pass is enough.

#[cfg(test)]
mod tests;

use std::ops::ControlFlow::{self, Break, Continue};

use crate::arc_columns::IntWidth;
use crate::blocked_reverse_arcs::{BlockedReverseArcs, block_reverse_arcs};
use crate::certificate::{self, ProofFailure};
use crate::cost_scaling::{self, ScalingResult, WarmSteps};
use crate::deadline::{Deadline, Limits};
use crate::error::FlowError;
use crate::network::Answer;
use crate::node_repair;
use crate::problem::Problem;
use crate::residual::Residual;
use crate::shortest_paths;
use crate::solver_state::{ChangedNodes, HUB_DEGREE, RadiusDecay, SolverState, UndoLog, UndoPoint};
use crate::stop_reason::StopReason;
use crate::working_set::WorkingSet;
use crate::working_set::select_arcs::{Selection, SelectionRadius};

/// Entries that shortest paths may scan, per entry of the network, before cost scaling takes over:
/// little compared with cost scaling. A warm start has a better chance of success.
const COLD_VISITS_PER_ENTRY: usize = 2;
const WARM_VISITS_PER_ENTRY: usize = 3;

/// With more units than this, a cold solve does not try shortest paths.
const MAX_COLD_UNITS: i128 = 1000;

/// A warm solve always allows this many scanned entries.
const MIN_WARM_VISITS: usize = 300_000;

/// Of changed nodes with more arcs than `MANY_ARCS`, only arcs near the new price are in the
/// working set: within `MANY_ARCS_RADIUS_FACTOR` times the radius.
const MANY_ARCS: u32 = 64;
const MANY_ARCS_RADIUS_FACTOR: i64 = 4;

/// When more than this many tenths of all nodes have changed, a warm start gains nothing.
const MAX_CHANGED_TENTHS: usize = 7;

/// Missed arcs (outside the working set, but not optimal) are few if they are less than the first
/// part of the working set, and many if they are more than the second part.
const FEW_MISSED_PART: usize = 48;
const MANY_MISSED_PART: usize = 8;

/// Missed arcs are also many if there are more than one per routed unit, from this number on.
const MIN_MANY_MISSED: usize = 64;

/// The factor by which the radius grows when many arcs were missed, and when excess could not be
/// routed within the set.
const RADIUS_GROWTH: i64 = 2;
const RADIUS_GROWTH_AFTER_CUT: i64 = 8;

/// The part by which a radius that was large enough falls: the first until it has been too small
/// once since the last cold solve, the second from then on.
const FAST_DECAY_PART: i64 = 3;
const SLOW_DECAY_PART: i64 = 10;

/// A radius that was too small is doubled if that costs little: if less than this part of the set
/// is in its outer half.
const OUTER_HALF_PART: usize = 6;

/// A set of more than this part of all arcs is large: further passes cost more than a larger
/// radius.
const LARGE_SET_PART: usize = 4;

/// The part by which the minimum radius falls after a solve with one pass.
const MIN_RADIUS_DECAY_PART: i64 = 8;

/// Finds a flow of minimum cost, starting from `state`. `degree` has the number of arc ends of each
/// node.
pub(crate) fn optimise(
    problem: &Problem<'_>,
    state: &mut SolverState,
    degree: &[u32],
    limits: &Limits<'_>,
) -> Result<Answer, FlowError> {
    let mut deadline = Deadline::start(limits);
    let changed = state.changed.unrepaired().count();
    let is_warm = state.radius.is_some() && 10 * changed <= MAX_CHANGED_TENTHS * problem.nodes();
    if is_warm {
        state.changed.retain(|node| degree[node] <= HUB_DEGREE);
    } else {
        // The next solve is warm only if this one has an answer.
        state.radius = None;
        state.changed.clear();
    }
    let changed_at_start = state.changed.clone();
    let answer = match problem.is_narrow() {
        true => run_passes::<i32>(problem, state, degree, &changed_at_start, &mut deadline),
        false => run_passes::<i64>(problem, state, degree, &changed_at_start, &mut deadline),
    };
    if answer.is_err() {
        // After an error, the state of before is a better start.
        state.undo(problem, UndoPoint::default());
        state.changed = changed_at_start;
    }
    state.log = UndoLog::default();
    answer
}

/// Runs passes until the answer is proven. `changed_at_start` are the nodes that had changed
/// before; `C` is the width of copied arcs.
fn run_passes<C: IntWidth>(
    problem: &Problem<'_>,
    state: &mut SolverState,
    degree: &[u32],
    changed_at_start: &ChangedNodes,
    deadline: &mut Deadline<'_>,
) -> Result<Answer, FlowError> {
    let is_warm = state.radius.is_some();
    let initial_radius = state.radius.unwrap_or(i64::MAX);
    // The full radius of the working set, and the radius in this pass.
    let mut full_radius = initial_radius;
    let mut radius = initial_radius;
    let (mut passes, mut tries) = (0, 0);
    let mut last_missed = usize::MAX;
    // Whether the passes continue from an approximate answer.
    let mut is_approximate = false;
    // Whether a larger radius would have added few arcs.
    let mut is_outer_half_small = false;
    // Whether the radius was so small that passes were undone, and whether the set was large.
    let (mut radius_was_small, mut is_large) = (false, false);
    let mut options = PassOptions {
        block_reverse_arcs: true,
        allow_approximate: !is_warm,
    };
    let cost = loop {
        (passes, tries) = (passes + 1, tries + 1);
        let working_set = match radius {
            i64::MAX => WorkingSet::<C>::all(problem, state),
            // An approximate answer cannot be complete without a pass.
            _ => match select_working_set(
                problem,
                state,
                degree,
                (radius, full_radius),
                !is_approximate || tries > 1,
            ) {
                Break(cost) => break cost,
                Continue(working_set) => working_set,
            },
        };
        if passes == 1 {
            is_outer_half_small = OUTER_HALF_PART * working_set.outer_half < working_set.size();
            is_large = LARGE_SET_PART * working_set.size() > problem.scan_length();
        }
        let result = match working_set.is_narrow() {
            true => solve_working_set::<C, i32>(
                &working_set,
                state,
                degree,
                (radius, full_radius),
                options,
                deadline,
            )?,
            false => solve_working_set::<C, i64>(
                &working_set,
                state,
                degree,
                (radius, full_radius),
                options,
                deadline,
            )?,
        };
        match result {
            PassResult::Solved { units, repaired_at } => {
                match certificate::prove(problem, state.all_flow(), &state.price) {
                    Ok(cost) => break cost,
                    Err(ProofFailure::Violations(_))
                        if !working_set.is_all && state.has_prices_too_large() =>
                    {
                        // A larger set has more nodes, and these prices could not be scaled by
                        // their number.
                        (radius, full_radius) = (i64::MAX, i64::MAX);
                        state.reset_prices();
                    }
                    Err(ProofFailure::Violations(arcs)) if !working_set.is_all => {
                        let missed = arcs.len();
                        let max_missed =
                            (working_set.size() / MANY_MISSED_PART).min(units.max(MIN_MANY_MISSED));
                        let is_growing = missed > last_missed;
                        if missed > max_missed || (is_growing && radius >= full_radius) {
                            radius_was_small |= is_warm;
                            // The set was too small for the change of prices: in this pass, or from
                            // the beginning.
                            if radius < full_radius {
                                state.undo(problem, repaired_at);
                                radius = full_radius;
                            } else {
                                state.undo(problem, UndoPoint::default());
                                state.changed.clone_from(changed_at_start);
                                full_radius = full_radius.max(1).saturating_mul(RADIUS_GROWTH);
                                (radius, last_missed, tries) = (full_radius, usize::MAX, 0);
                            }
                            continue;
                        }
                        last_missed = missed;
                        // A few missed arcs are solved by themselves. If there are many, the arcs
                        // of repaired nodes would be missed next, so those nodes are included
                        // again.
                        let are_few = FEW_MISSED_PART * missed < working_set.size();
                        state.changed.set_all_repaired(are_few);
                        state.mark_ends_changed(problem, &arcs, degree);
                        // The second and third pass use a small radius; later passes, or passes
                        // after the number of missed arcs has grown, a larger one.
                        radius = match tries {
                            1 => full_radius / 16,
                            _ if is_growing => radius.max(1).saturating_mul(4).min(full_radius),
                            2 => radius,
                            3 => radius.max(full_radius),
                            _ => radius.max(1).saturating_mul(4),
                        };
                    }
                    Err(failure) => {
                        let detail = failure.detail(problem, state.all_flow(), &state.price);
                        return Err(FlowError::Internal { detail });
                    }
                }
            }
            PassResult::Approximate(distance) => {
                (radius, full_radius, tries) = (distance, distance, 0);
                (is_approximate, options.allow_approximate) = (true, false);
            }
            // A blocked arc may have been the only way out.
            PassResult::Cut {
                is_certain: false, ..
            } if working_set.is_all => options.block_reverse_arcs = false,
            PassResult::Cut { inside, .. } if working_set.is_all => {
                return Err(infeasible(problem, &working_set.to_problem_nodes(&inside)));
            }
            // Perhaps this is not a cut of the whole network.
            PassResult::Cut { .. } => {
                full_radius = radius
                    .max(full_radius)
                    .max(1)
                    .saturating_mul(RADIUS_GROWTH_AFTER_CUT);
                radius = full_radius;
            }
            PassResult::Overflow(_)
                if !working_set.is_all || is_approximate || state.radius.is_some() =>
            {
                (radius, full_radius, is_approximate) = (i64::MAX, i64::MAX, false);
                state.reset_prices();
            }
            PassResult::Overflow(node) => {
                return Err(FlowError::PriceOverflow {
                    node: working_set.node(node),
                    largest_cost: problem
                        .all_arcs()
                        .map(|arc| arc.cost.abs())
                        .max()
                        .unwrap_or(0),
                    nodes: problem.nodes(),
                });
            }
            PassResult::Expired(answer) => return Ok(answer),
        }
    };
    state.clear_changes();
    radius_was_small |= is_warm && passes > 2 && is_large;
    if radius_was_small && state.radius_was_small {
        state.min_radius = initial_radius.saturating_mul(2);
    }
    if passes == 1 {
        // The minimum radius need not stay high for ever.
        state.min_radius -= state.min_radius / MIN_RADIUS_DECAY_PART;
    }
    state.radius_was_small = radius_was_small;
    let (radius, radius_decay) = match (is_warm, passes, state.radius_decay) {
        (false, ..) => (state.quartile_reduced_cost(problem), RadiusDecay::Initial),
        (true, 1, RadiusDecay::Slow) => (
            initial_radius - initial_radius / SLOW_DECAY_PART,
            RadiusDecay::Slow,
        ),
        (true, 1, _) => (
            initial_radius - initial_radius / FAST_DECAY_PART,
            RadiusDecay::Fast,
        ),
        (true, _, RadiusDecay::Initial) => (initial_radius, RadiusDecay::Initial),
        (true, ..) if is_outer_half_small => (
            initial_radius.saturating_mul(2).saturating_add(1),
            RadiusDecay::Slow,
        ),
        (true, ..) => (initial_radius, RadiusDecay::Slow),
    };
    state.radius_decay = radius_decay;
    if !is_warm {
        state.steps = WarmSteps::default();
    }
    state.radius = Some(radius.max(state.min_radius));
    Ok(Answer { cost, bound: cost })
}

/// Repairs the changed nodes and then selects the arcs near the new prices. Breaks with the cost of
/// the flow if the repair alone was enough.
fn select_working_set<'a, C: IntWidth>(
    problem: &'a Problem<'a>,
    state: &mut SolverState,
    degree: &[u32],
    (radius, full_radius): (i64, i64),
    may_be_complete: bool,
) -> ControlFlow<i128, WorkingSet<'a, C>> {
    let reach = SelectionRadius::new(state, degree, (radius, full_radius));
    let mut selection = Selection::new(problem, state, &reach);
    node_repair::repair_nodes(&mut selection.arcs, state);
    if may_be_complete && state.is_balanced() {
        if let Ok(cost) = certificate::prove(problem, state.all_flow(), &state.price) {
            return Break(cost);
        }
    }
    let has_many_arcs = |node: usize| state.needs_repair(node) && degree[node] > MANY_ARCS;
    selection.drop_far_arcs(state, has_many_arcs, |node| match has_many_arcs(node) {
        true => radius
            .max(full_radius)
            .saturating_mul(MANY_ARCS_RADIUS_FACTOR),
        false => reach.at(node),
    });
    let dead_ends = selection.remove_dead_ends(state);
    Continue(WorkingSet::of(problem, state, selection, dead_ends))
}

/// Options of a pass.
#[derive(Clone, Copy)]
struct PassOptions {
    /// Block arcs whose flow could only be sent back (see `blocked_reverse_arcs`).
    block_reverse_arcs: bool,
    /// Accept an approximate answer, from which the next pass continues with fewer arcs.
    allow_approximate: bool,
}

/// The result of a pass.
enum PassResult {
    /// An optimal flow of the working set, and the number of units routed for it. The undo log can
    /// restore the state at `repaired_at`.
    Solved {
        units: usize,
        repaired_at: UndoPoint,
    },
    /// An approximate flow: only arcs with a reduced cost up to this may still change.
    Approximate(i64),
    /// A cut: nodes of the set that excess cannot leave. Certain unless arcs were blocked.
    Cut { inside: Vec<bool>, is_certain: bool },
    /// A node of the set whose price is too large.
    Overflow(usize),
    /// The best answer at the time limit.
    Expired(Answer),
}

/// Solves a working set that was selected with this radius and full radius.
fn solve_working_set<C: IntWidth, W: IntWidth>(
    working_set: &WorkingSet<'_, C>,
    state: &mut SolverState,
    degree: &[u32],
    (radius, full_radius): (i64, i64),
    options: PassOptions,
    deadline: &mut Deadline<'_>,
) -> Result<PassResult, FlowError> {
    let mut net: Residual<W> = working_set.residual(state)?;
    let before = net.price.clone();
    net.saturate(0);
    let blocked = match options.block_reverse_arcs {
        true => block_reverse_arcs(&mut net),
        false => BlockedReverseArcs::default(),
    };
    let is_certain = blocked.is_empty();
    let units = usize::try_from(net.units()).unwrap_or(usize::MAX);
    let found = route_excess(&mut net, full_radius, &mut state.steps, options, deadline);
    blocked.unblock(&mut net);
    match found {
        Ok(Some(distance)) => {
            working_set.write_back(&net, state);
            Ok(PassResult::Approximate(distance))
        }
        Ok(None) => {
            let leeway = |node: usize| {
                let is_leaf = state.needs_repair(node) && degree[node] <= MANY_ARCS;
                (!working_set.is_all && !is_leaf).then_some(radius / 4)
            };
            node_repair::restore_prices(&mut net, working_set, &before, leeway, degree);
            let repaired_at = state.log.undo_point();
            working_set.write_back(&net, state);
            Ok(PassResult::Solved { units, repaired_at })
        }
        Err(StopReason::Expired) => {
            feasible_answer(working_set, state, net).map(PassResult::Expired)
        }
        Err(StopReason::Cut(inside)) => Ok(PassResult::Cut { inside, is_certain }),
        Err(StopReason::Overflow(node)) => Ok(PassResult::Overflow(node)),
    }
}

/// Routes all excess and finds prices that prove the flow optimal, multiples of the scale. For an
/// approximate flow, returns the reduced cost up to which arcs may still change. At the beginning,
/// no residual arc may have a negative reduced cost.
///
/// If it stops because of a cut, the flow is undefined.
fn route_excess<W: IntWidth>(
    net: &mut Residual<W>,
    full_radius: i64,
    steps: &mut WarmSteps,
    options: PassOptions,
    deadline: &mut Deadline<'_>,
) -> Result<Option<i64>, StopReason> {
    let budget = match full_radius {
        i64::MAX if net.units() > MAX_COLD_UNITS => 0,
        i64::MAX => COLD_VISITS_PER_ENTRY * net.entries.len(),
        _ => (WARM_VISITS_PER_ENTRY * net.entries.len()).max(MIN_WARM_VISITS),
    };
    if budget == 0 || !shortest_paths::route(net, budget, deadline)? {
        let warm = (full_radius < i64::MAX).then_some((full_radius, steps));
        match cost_scaling::optimise(net, warm, options.allow_approximate, deadline)? {
            ScalingResult::Exact(price) => net.price = price,
            ScalingResult::Approximate(distance) => return Ok(Some(distance)),
        }
    }
    Ok(None)
}

/// The answer at the time limit: a feasible flow and the bound that the prices prove.
///
/// The pseudoflow so far, or else the flow of the last solve, is made feasible without regard to
/// costs, which takes one refinement. Any prices give a bound: the better one of the current prices
/// and the initial prices is used.
fn feasible_answer<C: IntWidth, W: IntWidth>(
    working_set: &WorkingSet<'_, C>,
    state: &mut SolverState,
    mut net: Residual<W>,
) -> Result<Answer, FlowError> {
    let problem = working_set.problem;
    let mut bound = certificate::bound(problem, &state.price);
    let price_before = state.price.clone();
    if working_set.is_all && cost_scaling::route(&mut net).is_ok() {
        working_set.write_back(&net, state);
    } else {
        drop(net);
        state.undo(problem, UndoPoint::default());
        let all = WorkingSet::<C>::all(problem, state);
        match all.is_narrow() {
            true => route_all::<C, i32>(&all, state)?,
            false => route_all::<C, i64>(&all, state)?,
        }
    }
    let cost = certificate::feasible(problem, state.all_flow())
        .map_err(|detail| FlowError::Internal { detail })?;
    let found = certificate::bound(problem, &state.price);
    if found < bound {
        state.price = price_before;
    }
    bound = bound.max(found).min(cost);
    state.radius = None;
    Ok(Answer { cost, bound })
}

/// Makes the flow of the last solve feasible, without regard to costs.
fn route_all<C: IntWidth, W: IntWidth>(
    all: &WorkingSet<'_, C>,
    state: &mut SolverState,
) -> Result<(), FlowError> {
    let mut net: Residual<W> = all.residual(state)?;
    match cost_scaling::route(&mut net) {
        Ok(()) => {
            all.write_back(&net, state);
            Ok(())
        }
        Err(StopReason::Cut(inside)) => {
            Err(infeasible(all.problem, &all.to_problem_nodes(&inside)))
        }
        Err(_) => Err(FlowError::Expired),
    }
}

/// The error for a cut, after the cut has been checked against the problem.
fn infeasible(problem: &Problem<'_>, inside: &[bool]) -> FlowError {
    let units = certificate::cut_surplus(problem, inside);
    let mut needs: Vec<i128> = problem.supply().iter().map(|&s| i128::from(s)).collect();
    for arc in problem.all_arcs() {
        needs[arc.tail] -= i128::from(arc.lower);
        needs[arc.head] += i128::from(arc.lower);
    }
    let cut: Vec<usize> = (0..problem.nodes()).filter(|&node| inside[node]).collect();
    let neediest = cut
        .iter()
        .max_by_key(|&&node| (needs[node], std::cmp::Reverse(node)));
    match (neediest, i64::try_from(units)) {
        (Some(&node), Ok(units)) if units > 0 => FlowError::Infeasible {
            node,
            others: cut.len() - 1,
            units,
        },
        _ => FlowError::Internal {
            detail: format!("{units} units in a cut of {} nodes", cut.len()),
        },
    }
}
