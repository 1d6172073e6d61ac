//! From the last answer to the next one.
//!
//! Each pass repairs node by node what has changed, selects a working set, routes what is left, and
//! looks whether the arcs that were left out agree. Mostly one pass is enough.

#[cfg(test)]
mod tests;

use std::ops::ControlFlow::{self, Break, Continue};

use crate::arcs::Width;
use crate::certificate::{self, Flaw};
use crate::choice::{Choice, Reach};
use crate::error::FlowError;
use crate::hold::{self, Held};
use crate::limits::{Clock, Limits};
use crate::network::Answer;
use crate::paths;
use crate::problem::Problem;
use crate::repair;
use crate::residual::Residual;
use crate::scaling::{self, Scaled, Steps};
use crate::state::{Fall, HUB, Log, Mark, State, Touched};
use crate::stop::Stop;
use crate::working::Working;

/// Looks at entries that shortest paths may take, per entry of the network, before cost scaling
/// takes over: little, compared with what scaling takes. Warm, there is a better chance.
const COLD_PATHS: usize = 2;
const WARM_PATHS: usize = 3;

/// Cold, more units than this are not worth a try.
const MANY_UNITS: i128 = 1000;

/// Looks that are always worth a try, when a set is small.
const FEW_LOOKS: usize = 300_000;

/// Of touched nodes with more arcs than this, only those are in the working set that are near the new
/// price: within so many times the radius.
const BROAD: u32 = 64;
const WIDE: i64 = 4;

/// When more than so many tenths of all nodes are touched, little is left of the last answer.
const MUCH: usize = 7;

/// Forgotten arcs are few if they are less than this part of the working set, and many if they are
/// more than that part of it.
const FEW: usize = 48;
const MANY: usize = 8;

/// More than one for each unit that was routed are many as well, from so many on.
const FEW_UNITS: usize = 64;

/// By what the radius grows when many were forgotten, and when there was no way out.
const GROW: i64 = 2;
const GROW_OUT: i64 = 8;

/// The part by which a radius that was large enough falls: until it has fallen too far once since the
/// last cold solve, and from then on.
const QUICK: i64 = 3;
const SLOW: i64 = 10;

/// A radius that was too small grows again, by as much as itself, if that costs little: if less than this
/// part of the set is in the outer half of it.
const RIM: usize = 6;

/// A set of more than this part of all arcs is large: several passes cost more than a larger radius.
const PART: usize = 4;

/// The part by which the least radius falls after a solve of one pass.
const EASE: i64 = 8;

/// Finds a flow of minimum cost from where `state` is. `degree` says how many ends of arcs a node
/// has.
pub(crate) fn optimise(
    problem: &Problem<'_>,
    state: &mut State,
    degree: &[u32],
    limits: &Limits<'_>,
) -> Result<Answer, FlowError> {
    let mut clock = Clock::start(limits);
    let touched = state.touched.wrong().count();
    let is_warm = state.radius.is_some() && 10 * touched <= MUCH * problem.nodes();
    if is_warm {
        state.touched.retain(|node| degree[node] <= HUB);
    } else {
        // Not before there is a next answer.
        state.radius = None;
        state.touched.clear();
    }
    let began = state.touched.clone();
    let answer = match problem.is_narrow() {
        true => go_on::<i32>(problem, state, degree, &began, &mut clock),
        false => go_on::<i64>(problem, state, degree, &began, &mut clock),
    };
    if answer.is_err() {
        // What was tried is of no use to anybody.
        state.undo(problem, Mark::default());
        state.touched = began;
    }
    state.log = Log::default();
    answer
}

/// Pass after pass, from nodes that were touched when it `began`, with copies of arcs in this width.
fn go_on<C: Width>(
    problem: &Problem<'_>,
    state: &mut State,
    degree: &[u32],
    began: &Touched,
    clock: &mut Clock<'_>,
) -> Result<Answer, FlowError> {
    let is_warm = state.radius.is_some();
    let first = state.radius.unwrap_or(i64::MAX);
    // What the set has for a radius in full, and in this pass.
    let mut base = first;
    let mut radius = first;
    let (mut passes, mut tries) = (0, 0);
    let mut last_forgotten = usize::MAX;
    // Whether it goes on from a rough answer.
    let mut is_rough = false;
    // Whether a larger radius would have added few arcs.
    let mut is_thin = false;
    // Whether it has proven so small that passes were undone, and whether the set was large anyway.
    let (mut was_small, mut is_large) = (false, false);
    let mut may = May {
        hold: true,
        be_rough: !is_warm,
    };
    let cost = loop {
        (passes, tries) = (passes + 1, tries + 1);
        let set = match radius {
            i64::MAX => Working::<C>::all(problem, state),
            // A rough answer, as it is, is none.
            _ => match select(
                problem,
                state,
                degree,
                (radius, base),
                !is_rough || tries > 1,
            ) {
                Break(cost) => break cost,
                Continue(set) => set,
            },
        };
        if passes == 1 {
            is_thin = RIM * set.rim < set.size();
            is_large = PART * set.size() > problem.looks();
        }
        let ended = match set.is_narrow() {
            true => pass::<C, i32>(&set, state, degree, (radius, base), may, clock)?,
            false => pass::<C, i64>(&set, state, degree, (radius, base), may, clock)?,
        };
        match ended {
            Ended::Solved { units, settled } => {
                match certificate::prove(problem, state.all_flow(), &state.price) {
                    Ok(cost) => break cost,
                    Err(Flaw::Gains(_)) if !set.is_all && state.has_outgrown() => {
                        // A larger set could not scale these prices by its number of nodes.
                        (radius, base) = (i64::MAX, i64::MAX);
                        state.start_over();
                    }
                    Err(Flaw::Gains(arcs)) if !set.is_all => {
                        let forgotten = arcs.len();
                        let most = (set.size() / MANY).min(units.max(FEW_UNITS));
                        let grows = forgotten > last_forgotten;
                        if forgotten > most || (grows && radius >= base) {
                            was_small |= is_warm;
                            // Prices went far beyond the set, which was too small: in this pass, or
                            // to begin with.
                            if radius < base {
                                state.undo(problem, settled);
                                radius = base;
                            } else {
                                state.undo(problem, Mark::default());
                                state.touched.clone_from(began);
                                base = base.max(1).saturating_mul(GROW);
                                (radius, last_forgotten, tries) = (base, usize::MAX, 0);
                            }
                            continue;
                        }
                        last_forgotten = forgotten;
                        // A few arcs are put right by themselves. When more were forgotten,
                        // those that are right by now would be the next to go wrong.
                        let are_few = FEW * forgotten < set.size();
                        state.touched.turn(are_few);
                        state.touch_ends(problem, &arcs, degree);
                        // A second and a third pass for these; then with more arcs, or as soon as they
                        // become more.
                        radius = match tries {
                            1 => base / 16,
                            _ if grows => radius.max(1).saturating_mul(4).min(base),
                            2 => radius,
                            3 => radius.max(base),
                            _ => radius.max(1).saturating_mul(4),
                        };
                    }
                    Err(flaw) => {
                        let detail = flaw.detail(problem, state.all_flow(), &state.price);
                        return Err(FlowError::Internal { detail });
                    }
                }
            }
            Ended::Roughly(distance) => {
                (radius, base, tries) = (distance, distance, 0);
                (is_rough, may.be_rough) = (true, false);
            }
            // What was held may have been the way out.
            Ended::Cut {
                is_certain: false, ..
            } if set.is_all => may.hold = false,
            Ended::Cut { inside, .. } if set.is_all => {
                return Err(infeasible(problem, &set.outside(&inside)));
            }
            // Not a cut of the whole network, perhaps.
            Ended::Cut { .. } => {
                base = radius.max(base).max(1).saturating_mul(GROW_OUT);
                radius = base;
            }
            Ended::Overflow(_) if !set.is_all || is_rough || state.radius.is_some() => {
                (radius, base, is_rough) = (i64::MAX, i64::MAX, false);
                state.start_over();
            }
            Ended::Overflow(node) => {
                return Err(FlowError::PriceOverflow {
                    node: set.node(node),
                    largest_cost: problem
                        .all_arcs()
                        .map(|arc| arc.cost.abs())
                        .max()
                        .unwrap_or(0),
                    nodes: problem.nodes(),
                });
            }
            Ended::Expired(answer) => return Ok(answer),
        }
    };
    state.forget_changes();
    was_small |= is_warm && passes > 2 && is_large;
    if was_small && state.was_small {
        state.least_radius = first.saturating_mul(2);
    }
    if passes == 1 {
        // What was too small once need not be so for ever.
        state.least_radius -= state.least_radius / EASE;
    }
    state.was_small = was_small;
    let (radius, fall) = match (is_warm, passes, state.fall) {
        (false, ..) => (state.small_cost(problem), Fall::NotYet),
        (true, 1, Fall::Slow) => (first - first / SLOW, Fall::Slow),
        (true, 1, _) => (first - first / QUICK, Fall::Quick),
        (true, _, Fall::NotYet) => (first, Fall::NotYet),
        (true, ..) if is_thin => (first.saturating_mul(2).saturating_add(1), Fall::Slow),
        (true, ..) => (first, Fall::Slow),
    };
    state.fall = fall;
    if !is_warm {
        state.steps = Steps::default();
    }
    state.radius = Some(radius.max(state.least_radius));
    Ok(Answer { cost, bound: cost })
}

/// The touched nodes are put right, each by itself. Then it is known which arcs are near their
/// prices; or even what the flow costs, if that may have been all there was to do.
fn select<'a, C: Width>(
    problem: &'a Problem<'a>,
    state: &mut State,
    degree: &[u32],
    (radius, base): (i64, i64),
    may_be_all: bool,
) -> ControlFlow<i128, Working<'a, C>> {
    let reach = Reach::new(state, degree, (radius, base));
    let mut choice = Choice::new(problem, state, &reach);
    repair::settle(&mut choice.arcs, state);
    if may_be_all && state.is_balanced() {
        if let Ok(cost) = certificate::prove(problem, state.all_flow(), &state.price) {
            return Break(cost);
        }
    }
    let is_broad = |node: usize| state.is_touched(node) && degree[node] > BROAD;
    choice.keep_near(state, is_broad, |node| match is_broad(node) {
        true => radius.max(base).saturating_mul(WIDE),
        false => reach.at(node),
    });
    let dead_ends = choice.leave_dead_ends(state);
    Continue(Working::of(problem, state, choice, dead_ends))
}

/// What a pass may do.
#[derive(Clone, Copy)]
struct May {
    /// Hold what could only be sent back (see `hold`).
    hold: bool,
    /// End with a rough answer, for the next pass to go on from with fewer arcs.
    be_rough: bool,
}

/// How a pass came to its end.
enum Ended {
    /// With an optimal flow of the working set, for which so many units were routed. What was before
    /// it can be come back to.
    Solved { units: usize, settled: Mark },
    /// With a rough flow: no farther from their prices than this are the arcs that may still matter.
    Roughly(i64),
    /// With nodes of the set that excess cannot leave; for certain, unless flow was held.
    Cut { inside: Vec<bool>, is_certain: bool },
    /// With a node of the set whose price is too large.
    Overflow(usize),
    /// With the best that can be said when time is up.
    Expired(Answer),
}

/// Solves a working set that was made for a radius, in this pass and in full.
fn pass<C: Width, W: Width>(
    set: &Working<'_, C>,
    state: &mut State,
    degree: &[u32],
    (radius, base): (i64, i64),
    may: May,
    clock: &mut Clock<'_>,
) -> Result<Ended, FlowError> {
    let mut net: Residual<W> = set.residual(state)?;
    let before = net.price.clone();
    net.saturate(0);
    let held = match may.hold {
        true => hold::hold(&mut net),
        false => Held::default(),
    };
    let is_certain = held.is_empty();
    let units = usize::try_from(net.units()).unwrap_or(usize::MAX);
    let found = improve(&mut net, base, &mut state.steps, may, clock);
    held.release(&mut net);
    match found {
        Ok(Some(distance)) => {
            set.write_back(&net, state);
            Ok(Ended::Roughly(distance))
        }
        Ok(None) => {
            let leeway = |node: usize| {
                let is_leaf = state.is_touched(node) && degree[node] <= BROAD;
                (!set.is_all && !is_leaf).then_some(radius / 4)
            };
            repair::keep_near(&mut net, set, &before, leeway, degree);
            let settled = state.log.mark();
            set.write_back(&net, state);
            Ok(Ended::Solved { units, settled })
        }
        Err(Stop::Expired) => expire(set, state, net).map(Ended::Expired),
        Err(Stop::Cut(inside)) => Ok(Ended::Cut { inside, is_certain }),
        Err(Stop::Overflow(node)) => Ok(Ended::Overflow(node)),
    }
}

/// Routes everything and finds prices that prove it, multiples of the scale; or roughly, and then
/// answers how far arcs may be from their prices that still matter. No residual arc has a negative
/// reduced cost to begin with.
///
/// When it stops for a cut, nothing is certain.
fn improve<W: Width>(
    net: &mut Residual<W>,
    base: i64,
    steps: &mut Steps,
    may: May,
    clock: &mut Clock<'_>,
) -> Result<Option<i64>, Stop> {
    let budget = match base {
        i64::MAX if net.units() > MANY_UNITS => 0,
        i64::MAX => COLD_PATHS * net.entries.len(),
        _ => (WARM_PATHS * net.entries.len()).max(FEW_LOOKS),
    };
    if budget == 0 || !paths::route(net, budget, clock)? {
        let warm = (base < i64::MAX).then_some((base, steps));
        match scaling::optimise(net, warm, may.be_rough, clock)? {
            Scaled::Exactly(price) => net.price = price,
            Scaled::Roughly(distance) => return Ok(Some(distance)),
        }
    }
    Ok(None)
}

/// The best that can be said when time is up: some flow, and what the prices prove.
///
/// What has been routed so far, or else what the last solve left, is made a flow without regard to
/// costs, which takes one refinement. A bound follows from any prices: those that the search has
/// come to, and those it began with.
fn expire<C: Width, W: Width>(
    set: &Working<'_, C>,
    state: &mut State,
    mut net: Residual<W>,
) -> Result<Answer, FlowError> {
    let problem = set.problem;
    let mut bound = certificate::bound(problem, &state.price);
    let settled = state.price.clone();
    if set.is_all && scaling::route(&mut net).is_ok() {
        set.write_back(&net, state);
    } else {
        drop(net);
        state.undo(problem, Mark::default());
        let all = Working::<C>::all(problem, state);
        match all.is_narrow() {
            true => route_all::<C, i32>(&all, state)?,
            false => route_all::<C, i64>(&all, state)?,
        }
    }
    let cost = certificate::feasible(problem, state.all_flow())
        .map_err(|detail| FlowError::Internal { detail })?;
    let found = certificate::bound(problem, &state.price);
    if found < bound {
        state.price = settled;
    }
    bound = bound.max(found).min(cost);
    state.radius = None;
    Ok(Answer { cost, bound })
}

/// Makes what the last solve left a flow, whatever it costs.
fn route_all<C: Width, W: Width>(all: &Working<'_, C>, state: &mut State) -> Result<(), FlowError> {
    let mut net: Residual<W> = all.residual(state)?;
    match scaling::route(&mut net) {
        Ok(()) => {
            all.write_back(&net, state);
            Ok(())
        }
        Err(Stop::Cut(inside)) => Err(infeasible(all.problem, &all.outside(&inside))),
        Err(_) => Err(FlowError::Expired),
    }
}

/// The error that a cut proves, once the cut has been checked against the problem.
fn infeasible(problem: &Problem<'_>, inside: &[bool]) -> FlowError {
    let units = certificate::stuck_units(problem, inside);
    let mut needs: Vec<i128> = problem.supply().iter().map(|&s| i128::from(s)).collect();
    for arc in problem.all_arcs() {
        needs[arc.tail] -= i128::from(arc.lower);
        needs[arc.head] += i128::from(arc.lower);
    }
    let set: Vec<usize> = (0..problem.nodes()).filter(|&node| inside[node]).collect();
    let most = set
        .iter()
        .max_by_key(|&&node| (needs[node], std::cmp::Reverse(node)));
    match (most, i64::try_from(units)) {
        (Some(&node), Ok(units)) if units > 0 => FlowError::Infeasible {
            node,
            others: set.len() - 1,
            units,
        },
        _ => FlowError::Internal {
            detail: format!("{units} units in a cut of {} nodes", set.len()),
        },
    }
}
