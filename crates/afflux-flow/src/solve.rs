//! From the last answer to the next one.

use crate::certificate;
use crate::error::FlowError;
use crate::hold;
use crate::limits::{Clock, Limits};
use crate::network::Answer;
use crate::paths;
use crate::problem::Problem;
use crate::repair;
use crate::residual::Residual;
use crate::scaling;
use crate::stop::Stop;
use crate::working::Working;

/// Looks at entries that shortest paths may take, per entry of the network, before cost scaling
/// takes over: little, compared with what scaling takes.
const PATHS_BUDGET: usize = 2;

/// Nodes with more ends of arcs than this are hubs, which are not repaired by themselves.
const HUB: u32 = 1024;

/// Farther than any price should move for the sake of being in the middle.
const FAR: i64 = i64::MAX / 16;

/// A flow within its bounds and prices, and what has changed since they were optimal.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub flow: Vec<i64>,
    pub price: Vec<i64>,
    /// What each node has to send more than it does.
    pub excess: Vec<i128>,
    /// Nodes at which something has changed.
    touched: Vec<bool>,
    /// The largest reduced cost that an arc had which then changed its flow; none before the first
    /// solve.
    radius: Option<i64>,
}

impl State {
    /// All arcs carry as little as they must.
    pub fn cold(problem: &Problem<'_>) -> Self {
        let mut state = Self {
            price: vec![0; problem.nodes()],
            excess: problem.supply().iter().map(|&s| i128::from(s)).collect(),
            touched: vec![false; problem.nodes()],
            ..Self::default()
        };
        state.flow = problem
            .arcs()
            .map(|arc| {
                let is_loop = arc.tail == arc.head;
                let flow = if is_loop && arc.cost < 0 {
                    arc.capacity
                } else {
                    arc.lower
                };
                state.excess[arc.tail] -= i128::from(flow);
                state.excess[arc.head] += i128::from(flow);
                flow
            })
            .collect();
        state
    }

    pub fn add_node(&mut self) {
        self.price.push(0);
        self.excess.push(0);
        self.touched.push(false);
    }

    /// A node is new.
    pub fn enter(&mut self, node: usize) {
        self.price[node] = 0;
        self.touched[node] = true;
    }

    pub fn touch(&mut self, node: usize) {
        self.touched[node] = true;
    }

    /// Touches an end of each arc that violates optimality, the one with fewer arcs; answers whether
    /// there was any.
    fn touch_violated(&mut self, problem: &Problem<'_>, degree: &[u32]) -> bool {
        let mut any = false;
        let mut count = 0;
        for (arc, &units) in problem.arcs().zip(&self.flow) {
            let reduced = arc.cost + self.price[arc.tail] - self.price[arc.head];
            if (reduced < 0 && units < arc.capacity) || (reduced > 0 && units > arc.lower) {
                any = true;
                count += 1;
                let tail_has_less = degree[arc.tail] <= degree[arc.head];
                let less = if tail_has_less { arc.tail } else { arc.head };
                self.touched[less] |= degree[less] <= HUB;
            }
        }
        if std::env::var("AFFLUX_TRACE").is_ok() {
            eprintln!("  {count} violated");
        }
        any
    }

    pub fn reserve(&mut self, nodes: usize, arcs: usize) {
        self.flow.reserve_exact(arcs);
        self.price.reserve_exact(nodes);
        self.excess.reserve_exact(nodes);
        self.touched.reserve_exact(nodes);
    }
}

/// Finds a flow of minimum cost from where `state` is.
pub(crate) fn optimise(
    problem: &Problem<'_>,
    state: &mut State,
    degree: &[u32],
    limits: &Limits<'_>,
) -> Result<Answer, FlowError> {
    let mut clock = Clock::start(limits);
    let trace = std::env::var("AFFLUX_TRACE").is_ok();
    let mut radius = state.radius.unwrap_or(i64::MAX);
    if state.radius.is_some() {
        radius = std::env::var("AFFLUX_RADIUS")
            .map(|s| s.parse().unwrap())
            .unwrap_or(200);
    }
    for (touched, &degree) in state.touched.iter_mut().zip(degree) {
        *touched &= degree <= HUB && state.radius.is_some();
    }
    loop {
        let t0 = std::time::Instant::now();
        let set = Working::select(problem, state, radius, &state.touched);
        let t1 = std::time::Instant::now();
        let mut net = set.residual(state)?;
        let t2 = std::time::Instant::now();
        repair::settle(&mut net, set.nodes_where(|node| state.touched[node]));
        let t3 = std::time::Instant::now();
        if trace {
            let mut kinds = std::collections::BTreeMap::new();
            for v in 0..net.nodes() {
                if net.excess[v] != 0 {
                    let d = net.range(v).len();
                    let k = if d <= 6 {
                        d
                    } else if d < 1000 {
                        d / 10 * 10
                    } else {
                        1000
                    };
                    let e = kinds.entry((net.excess[v] > 0, k)).or_insert((0, 0i64));
                    e.0 += 1;
                    e.1 += net.excess[v];
                }
            }
            eprintln!("    kinds {kinds:?}");
            for v in (0..net.nodes()).filter(|&v| net.excess[v] != 0 && net.range(v).is_empty()).take(3) { let n = set.node(v); eprintln!("      node {n} excess {} degree {} touched {} supply {}", net.excess[v], degree.get(n).copied().unwrap_or(0), state.touched[n], problem.supply()[n]); }
        }
        let held = hold::hold(&mut net);
        let stop = improve(&mut net, set.scale(), radius, &mut clock).err();
        held.release(&mut net);
        if stop.is_none() && std::env::var("NOCENTRE").is_err() {
            let (scale, all) = (set.scale(), set.is_all);
            repair::centre(&mut net, scale, |node| {
                if all || state.touched[set.node(node)] { FAR } else { radius / 4 * scale }
            });
        }
        let t4 = std::time::Instant::now();
        let needed = match &stop {
            None | Some(Stop::Cut(_)) => set.write_back(&net, state),
            Some(_) => 0,
        };
        if trace {
            eprintln!(
                "  set {} of {} arcs radius {radius} needed {needed}: select {:?} build {:?} repair {:?} solve {:?} back {:?}",
                set.len(),
                problem.arcs().len(),
                t1 - t0,
                t2 - t1,
                t3 - t2,
                t4 - t3,
                t4.elapsed()
            );
        }
        match stop {
            None if set.is_all => break,
            None => {
                if !state.touch_violated(problem, degree) {
                    break;
                }
                radius = radius.max(1).saturating_mul(4);
            }
            Some(Stop::Cut(inside)) if set.is_all => {
                let stuck = (0..net.nodes()).filter(|&node| inside[node] && net.excess[node] > 0);
                return Err(infeasible(problem, &set.outside(&net.reachable(stuck))));
            }
            Some(Stop::Cut(_)) => {
                radius = radius.max(1).saturating_mul(8);
                state.touch_violated(problem, degree);
            }
            Some(Stop::Overflow(_)) if !set.is_all => {
                radius = radius.max(1).saturating_mul(8);
            }
            Some(Stop::Overflow(node)) => {
                return Err(FlowError::PriceOverflow {
                    node: set.node(node),
                    largest_cost: problem.arcs().map(|arc| arc.cost.abs()).max().unwrap_or(0),
                    nodes: problem.nodes(),
                });
            }
            Some(Stop::Expired) => return Err(FlowError::Expired),
        }
    }
    state.radius = Some(0);
    state.touched.fill(false);
    let t0 = std::time::Instant::now();
    if let Some(detail) = certificate::violation(problem, &state.flow, &state.price) {
        return Err(FlowError::Internal { detail });
    }
    let cost = problem
        .arcs()
        .zip(&state.flow)
        .map(|(arc, &units)| i128::from(arc.cost) * i128::from(units))
        .sum();
    if trace {
        eprintln!("  certificate {:?}", t0.elapsed());
    }
    Ok(Answer { cost, bound: cost })
}

/// Finds an optimal flow and prices that prove it, multiples of `scale`.
///
/// When it stops for a cut, flow and prices are optimal for what has been routed.
fn improve(net: &mut Residual, scale: i64, radius: i64, clock: &mut Clock<'_>) -> Result<(), Stop> {
    net.saturate(0);
    let trace = std::env::var("AFFLUX_TRACE").is_ok();
    let stats = |net: &Residual, name: &str, t: std::time::Instant| {
        if trace {
            let units: i64 = net.excess.iter().map(|e| (*e).max(0)).sum();
            let nodes = net.excess.iter().filter(|e| **e > 0).count();
            let short = net.excess.iter().filter(|e| **e < 0).count();
            eprintln!(
                "    {name}: {units} units at {nodes} of {} nodes, {short} short, {:?}",
                net.nodes(),
                t.elapsed()
            );
        }
    };
    let t = std::time::Instant::now();
    stats(net, "before", t);
    let done = paths::route(
        net,
        if radius < i64::MAX { 4 } else { PATHS_BUDGET } * net.entries.len(),
        clock,
    )?;
    stats(net, "routed", t);
    if !done {
        let before = net.price.clone();
        net.price = scaling::optimise(net, scale, radius, clock)?;
        keep_level(&mut net.price, &before);
    }
    Ok(())
}

/// Moves all prices by as much, such that the middle one does not change.
///
/// Only differences matter, but there are nodes outside the working set, whose prices stay.
fn keep_level(price: &mut [i64], before: &[i64]) {
    let mut moves: Vec<i64> = price.iter().zip(before).map(|(new, old)| new - old).collect();
    if moves.is_empty() {
        return;
    }
    let middle = moves.len() / 2;
    let (_, &mut middle, _) = moves.select_nth_unstable(middle);
    for price in price {
        *price -= middle;
    }
}

/// The error that a cut proves, once the cut has been checked against the problem.
fn infeasible(problem: &Problem<'_>, inside: &[bool]) -> FlowError {
    let units = certificate::stuck_units(problem, inside);
    let mut needs: Vec<i128> = problem.supply().iter().map(|&s| i128::from(s)).collect();
    for arc in problem.arcs() {
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
