//! Node repair: sets the price of a single node so that the node is balanced.
//!
//! When all arcs of a node change, most of the change is a change of the node's own price. Finding
//! that price first leaves few arcs that violate optimality and few units to be moved elsewhere. It
//! is one step of coordinate ascent on the dual problem, as in the relaxation method of Bertsekas.
//!
//! After a solve, `restore_prices` moves prices back to what they were where they may be.

use crate::arc_columns::IntWidth;
use crate::residual::Residual;
use crate::solver_state::SolverState;
use crate::working_set::select_arcs::SelectedArc;
use crate::working_set::{EXCESS_LIMIT, WorkingSet};

/// Larger than every price.
const UNBOUNDED_PRICE: i64 = i64::MAX / 4;

/// The price of a node with at most this many entries moves to the middle of its range. Other nodes
/// keep their prices, because searches use them as distances to the sink.
const MAX_LEAF_ENTRIES: usize = 8;

/// The most units that a repair moves along one arc.
const MAX_UNITS: i64 = 1 << 32;

/// An arc at a node as a breakpoint of the dual function. At node prices below `level` the arc
/// sends `room` units away from the node, above it brings `back` units to the node.
#[derive(Clone, Copy, Default)]
struct Breakpoint {
    level: i64,
    room: i64,
    back: i64,
    /// The position of the arc.
    arc: u32,
    /// The node at its other end.
    other: u32,
}

impl Breakpoint {
    /// The breakpoint of an arc for one of its ends.
    fn new<W: IntWidth>(price: &[i64], position: u32, arc: &SelectedArc<W>, node: u32) -> Self {
        let (more, less) = (arc.capacity() - arc.flow(), arc.flow() - arc.lower());
        let (level, room, back, other) = match node == arc.tail {
            true => (price[arc.head as usize] - arc.cost(), more, less, arc.head),
            false => (price[arc.tail as usize] + arc.cost(), less, more, arc.tail),
        };
        Self {
            level,
            room: room.min(MAX_UNITS),
            back: back.min(MAX_UNITS),
            arc: position,
            other,
        }
    }

    /// Sends units away from the node, or towards it if negative.
    fn send<W: IntWidth>(
        &self,
        state: &mut SolverState,
        arcs: &mut [SelectedArc<W>],
        node: usize,
        units: i64,
    ) {
        let arc = &mut arcs[self.arc as usize];
        let more = match arc.tail as usize == node {
            true => units,
            false => -units,
        };
        arc.set_flow(arc.flow() + more);
        state.add_flow(arc.id, more);
        state.send(node, self.other as usize, units);
    }
}

/// Repairs all nodes that need it, one after the other: each gets the price at which it is balanced
/// if its arcs carry the flow that is optimal at that price, and its arcs get that flow. `arcs`
/// must contain all arcs of these nodes.
pub(crate) fn repair_nodes<W: IntWidth>(arcs: &mut [SelectedArc<W>], state: &mut SolverState) {
    // By node, its number of breakpoints, and later the position of its next one.
    let mut next = vec![0_u32; state.price.len()];
    for node in arcs.iter().flat_map(|arc| [arc.tail, arc.head]) {
        next[node as usize] += 1;
    }
    let mut ends = 0;
    let mut order: Vec<(u32, u32)> = Vec::new();
    for node in state.changed.unrepaired() {
        order.push((node as u32, ends));
        ends += std::mem::replace(&mut next[node], ends);
    }
    let mut breakpoints = vec![Breakpoint::default(); ends as usize];
    for (position, arc) in (0..).zip(arcs.iter()) {
        for node in [arc.tail, arc.head] {
            if state.needs_repair(node as usize) {
                let next = &mut next[node as usize];
                breakpoints[*next as usize] = Breakpoint::new(&state.price, position, arc, node);
                *next += 1;
            }
        }
    }
    // Nodes with few arcs have few options, so they are repaired before their neighbours.
    order.sort_by_key(|&(node, start)| next[node as usize] - start);
    for (node, start) in order {
        let own = &mut breakpoints[start as usize..next[node as usize] as usize];
        for breakpoint in own.iter_mut() {
            // The other end may have been repaired since.
            if state.needs_repair(breakpoint.other as usize) {
                let arc = &arcs[breakpoint.arc as usize];
                *breakpoint = Breakpoint::new(&state.price, breakpoint.arc, arc, node);
            }
        }
        repair_node(arcs, state, node as usize, own);
    }
}

fn repair_node<W: IntWidth>(
    arcs: &mut [SelectedArc<W>],
    state: &mut SolverState,
    node: usize,
    breakpoints: &mut [Breakpoint],
) {
    let price = state.price[node];
    let is_right = |breakpoint: &Breakpoint| {
        (breakpoint.level <= price || breakpoint.room == 0)
            && (breakpoint.level >= price || breakpoint.back == 0)
    };
    let excess = state.excess(node);
    let is_optimal = excess == 0 && breakpoints.iter().all(is_right);
    let is_excess_too_large = excess.abs() > i128::from(EXCESS_LIMIT);
    if is_optimal || breakpoints.is_empty() || is_excess_too_large {
        return;
    }
    let level = balancing_price(breakpoints, excess as i64);
    if level.abs() > state.price_limit() {
        return;
    }
    state.set_price(node as u32, level);
    for breakpoint in breakpoints.iter() {
        if breakpoint.level > level && breakpoint.room > 0 {
            breakpoint.send(state, arcs, node, breakpoint.room);
        } else if breakpoint.level < level && breakpoint.back > 0 {
            breakpoint.send(state, arcs, node, -breakpoint.back);
        }
    }
    // Arcs exactly at the price take the rest.
    for breakpoint in breakpoints
        .iter()
        .filter(|breakpoint| breakpoint.level == level)
    {
        let left = state.excess(node) as i64;
        let units = left.clamp(-breakpoint.back, breakpoint.room);
        if units != 0 {
            breakpoint.send(state, arcs, node, units);
        }
    }
}

/// The lowest price at which the excess is not negative.
///
/// Below all breakpoints everything has been sent away; with a rising price, the excess only grows.
fn balancing_price(mut breakpoints: &mut [Breakpoint], excess: i64) -> i64 {
    let mut excess = excess
        - breakpoints
            .iter()
            .map(|breakpoint| breakpoint.room)
            .sum::<i64>();
    while breakpoints.len() > 1 {
        let middle = breakpoints.len() / 2;
        breakpoints.select_nth_unstable_by_key(middle, |breakpoint| breakpoint.level);
        let (below, above) = breakpoints.split_at_mut(middle);
        let after = excess + below.iter().map(|each| each.room + each.back).sum::<i64>();
        if after >= 0 {
            breakpoints = below;
        } else {
            (breakpoints, excess) = (above, after);
        }
    }
    breakpoints[0].level
}

/// Restores prices to their values `before` as far as the flow allows, and moves prices of leaves
/// to the middle of the range in which they prove the same flow.
///
/// Arcs outside the set must stay optimal, so prices should change as little as possible: first all
/// of them are shifted by the median change, weighted by arcs outside the set; then each is moved
/// individually. A leaf in the middle of its range tolerates changes of its neighbours, so its arcs
/// need not be in the next working set. `leeway` bounds the move of a node some of whose arcs are
/// not in the set.
pub(crate) fn restore_prices<W: IntWidth, C: IntWidth>(
    net: &mut Residual<W>,
    set: &WorkingSet<'_, C>,
    before: &[i64],
    leeway: impl Fn(usize) -> Option<i64>,
    degree: &[u32],
) {
    if !set.is_all {
        let common = median_shift(&net.price, before, &set.arcs_outside_set(net, degree));
        net.price.iter_mut().for_each(|price| *price -= common);
    }
    let scale = set.scale();
    for (index, &before) in before.iter().enumerate() {
        let (mut low, mut high) = (-UNBOUNDED_PRICE, UNBOUNDED_PRICE);
        let level = |index: usize| {
            let entry = &net.entries[index];
            net.price[entry.head as usize] - net.cost(entry)
        };
        for entry in net.open(index) {
            low = low.max(level(entry));
        }
        for entry in net.incoming(index) {
            high = high.min(level(entry));
        }
        if low >= high {
            continue;
        }
        let has_middle = low > -UNBOUNDED_PRICE
            && high < UNBOUNDED_PRICE
            && net.range(index).len() <= MAX_LEAF_ENTRIES;
        let near = before.clamp(low, high);
        let middle = (low + (high - low) / 2) / scale * scale;
        net.price[index] = match leeway(set.node(index)) {
            _ if !has_middle => near,
            None => middle,
            Some(leeway) => {
                let leeway = leeway.saturating_mul(scale);
                middle.clamp(near.saturating_sub(leeway), near.saturating_add(leeway))
            }
        };
    }
}

/// The median change of prices, where a node has the weight of its arcs outside the set. Only
/// differences of prices matter within the set, but nodes outside keep their prices.
fn median_shift(price: &[i64], before: &[i64], outside: &[u32]) -> i64 {
    let moves = price.iter().zip(before).map(|(now, before)| now - before);
    let mut moves: Vec<(i64, u32)> = moves.zip(outside.iter().copied()).collect();
    let arcs = |moves: &[(i64, u32)]| moves.iter().map(|&(_, arcs)| u64::from(arcs)).sum::<u64>();
    let all = arcs(&moves);
    if all == 0 {
        return 0;
    }
    let (mut left, mut rest) = (&mut moves[..], all / 2);
    while left.len() > 1 {
        let middle = left.len() / 2;
        left.select_nth_unstable_by_key(middle, |&(moved, _)| moved);
        let (below, above) = left.split_at_mut(middle);
        match rest.checked_sub(arcs(below)) {
            None => left = below,
            Some(more) => (left, rest) = (above, more),
        }
    }
    left[0].0
}
