//! Local repairs: the price at which a node by itself has nothing left to trade.
//!
//! When all arcs of a node change, most of the change is a change of the node's own price. Finding
//! it first leaves few arcs that violate optimality, and few units to be moved elsewhere. It is one
//! step of coordinate ascent on the dual problem, as in Bertsekas' relaxation method.

use crate::arcs::Width;
use crate::choice::Chosen;
use crate::residual::Residual;
use crate::state::State;
use crate::working::{EXCESS_LIMIT, Working};

/// Beyond every price.
const FAR: i64 = i64::MAX / 4;

/// Nodes with at most so many entries go to the middle. Others stay where they are: a search finds
/// its way by prices that say how far it is to the sink.
const LEAF: usize = 8;

/// More than this is not traded along one arc.
const LARGE: i64 = 1 << 32;

/// An arc at a node: at prices above `level` it brings `back` units, below it takes `room` away.
#[derive(Clone, Copy, Default)]
struct Trade {
    level: i64,
    room: i64,
    back: i64,
    /// The arc, as a position.
    arc: u32,
    /// The node at its other end.
    other: u32,
}

impl Trade {
    /// What an arc is to one of its ends.
    fn new<W: Width>(price: &[i64], position: u32, arc: &Chosen<W>, node: u32) -> Self {
        let (more, less) = (arc.capacity() - arc.flow(), arc.flow() - arc.lower());
        let (level, room, back, other) = match node == arc.tail {
            true => (price[arc.head as usize] - arc.cost(), more, less, arc.head),
            false => (price[arc.tail as usize] + arc.cost(), less, more, arc.tail),
        };
        Self {
            level,
            room: room.min(LARGE),
            back: back.min(LARGE),
            arc: position,
            other,
        }
    }

    /// Sends so many units away from the node, or brings them if they are negative.
    fn send<W: Width>(&self, state: &mut State, arcs: &mut [Chosen<W>], node: usize, units: i64) {
        let arc = &mut arcs[self.arc as usize];
        let more = match arc.tail as usize == node {
            true => units,
            false => -units,
        };
        arc.set_flow(arc.flow() + more);
        state.add_flow(arc.number, more);
        state.send(node, self.other as usize, units);
    }
}

/// Sets the prices of the touched nodes, one after the other, such that each is in balance if its
/// neighbours deliver and accept whatever pays at that price; and lets them. `arcs` has to have all
/// arcs of these nodes.
pub(crate) fn settle<W: Width>(arcs: &mut [Chosen<W>], state: &mut State) {
    // How many trades a node has, and then where its next one goes.
    let mut next = vec![0_u32; state.price.len()];
    for node in arcs.iter().flat_map(|arc| [arc.tail, arc.head]) {
        next[node as usize] += 1;
    }
    let mut ends = 0;
    let mut order: Vec<(u32, u32)> = Vec::new();
    for node in state.touched.wrong() {
        order.push((node as u32, ends));
        ends += std::mem::replace(&mut next[node], ends);
    }
    let mut trades = vec![Trade::default(); ends as usize];
    for (position, arc) in (0..).zip(arcs.iter()) {
        for node in [arc.tail, arc.head] {
            if state.is_touched(node as usize) {
                let next = &mut next[node as usize];
                trades[*next as usize] = Trade::new(&state.price, position, arc, node);
                *next += 1;
            }
        }
    }
    // A node with few arcs has little choice, and its neighbours should know before they choose.
    order.sort_by_key(|&(node, start)| next[node as usize] - start);
    for (node, start) in order {
        let own = &mut trades[start as usize..next[node as usize] as usize];
        for trade in own.iter_mut() {
            // Its other end may have traded since.
            if state.is_touched(trade.other as usize) {
                let arc = &arcs[trade.arc as usize];
                *trade = Trade::new(&state.price, trade.arc, arc, node);
            }
        }
        settle_node(arcs, state, node as usize, own);
    }
}

fn settle_node<W: Width>(
    arcs: &mut [Chosen<W>],
    state: &mut State,
    node: usize,
    trades: &mut [Trade],
) {
    let price = state.price[node];
    let is_right = |trade: &Trade| {
        (trade.level <= price || trade.room == 0) && (trade.level >= price || trade.back == 0)
    };
    let excess = state.excess(node);
    let in_order = excess == 0 && trades.iter().all(is_right);
    let is_large = excess.abs() > i128::from(EXCESS_LIMIT);
    if in_order || trades.is_empty() || is_large {
        return;
    }
    let level = balancing_level(trades, excess as i64);
    if level.abs() > state.price_limit() {
        return;
    }
    state.set_price(node as u32, level);
    for trade in trades.iter() {
        if trade.level > level && trade.room > 0 {
            trade.send(state, arcs, node, trade.room);
        } else if trade.level < level && trade.back > 0 {
            trade.send(state, arcs, node, -trade.back);
        }
    }
    // What is exactly at the level takes what is left.
    for trade in trades.iter().filter(|trade| trade.level == level) {
        let left = state.excess(node) as i64;
        let units = left.clamp(-trade.back, trade.room);
        if units != 0 {
            trade.send(state, arcs, node, units);
        }
    }
}

/// The lowest level from which on excess is not negative.
///
/// Below all levels everything has been taken away; going up, excess only grows.
fn balancing_level(mut trades: &mut [Trade], excess: i64) -> i64 {
    let mut excess = excess - trades.iter().map(|trade| trade.room).sum::<i64>();
    while trades.len() > 1 {
        let middle = trades.len() / 2;
        trades.select_nth_unstable_by_key(middle, |trade| trade.level);
        let (below, above) = trades.split_at_mut(middle);
        let after = excess + below.iter().map(|each| each.room + each.back).sum::<i64>();
        if after >= 0 {
            trades = below;
        } else {
            (trades, excess) = (above, after);
        }
    }
    trades[0].level
}

/// Moves prices back to where they were `before`, as near as the flow allows, and those of leaves to
/// the middle of the range in which they prove the same flow.
///
/// Arcs outside of the set have to agree with the prices, so they should change as little as
/// possible: all together by nothing at all, counted by arcs outside, and each by itself not
/// without need. In the middle of its range, a leaf is far from changing its mind: its arcs need not
/// be in the next working set. `leeway` says how far it may move where not all of its arcs are here.
pub(crate) fn keep_near<W: Width, C: Width>(
    net: &mut Residual<W>,
    set: &Working<'_, C>,
    before: &[i64],
    leeway: impl Fn(usize) -> Option<i64>,
    degree: &[u32],
) {
    if !set.is_all {
        let common = common_move(&net.price, before, &set.arcs_outside(net, degree));
        net.price.iter_mut().for_each(|price| *price -= common);
    }
    let scale = set.scale();
    for (index, &before) in before.iter().enumerate() {
        let (mut low, mut high) = (-FAR, FAR);
        let level = |index: usize| {
            let entry = &net.entries[index];
            net.price[entry.head as usize] - net.cost(entry)
        };
        for entry in net.open(index) {
            low = low.max(level(entry));
        }
        for entry in net.returning(index) {
            high = high.min(level(entry));
        }
        if low >= high {
            continue;
        }
        let has_middle = low > -FAR && high < FAR && net.range(index).len() <= LEAF;
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

/// By how much the middle one of all prices changed, where a node counts as often as it has arcs
/// outside of the set. Only differences of prices matter, but what is outside keeps its own.
fn common_move(price: &[i64], before: &[i64], outside: &[u32]) -> i64 {
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
