//! Local repairs: the price at which a node by itself has nothing left to trade.
//!
//! When all arcs of a node change, most of the change is a change of the node's own price. Finding
//! it first leaves few arcs that violate optimality, and few units to be moved elsewhere. It is one
//! step of coordinate ascent on the dual problem, as in Bertsekas' relaxation method.

use crate::residual::Residual;
use crate::working::Working;

/// Beyond every price.
const FAR: i64 = i64::MAX / 4;

/// Nodes with at most so many entries go to the middle. Others stay where they are: a search finds
/// its way by prices that say how far it is to the sink.
const LEAF: usize = 8;

/// An arc at a node: at prices above `level` it brings `back` units, below it takes `room` away.
#[derive(Clone, Copy)]
struct Trade {
    level: i64,
    room: i64,
    back: i64,
    index: u32,
}

/// Sets the prices of some nodes, one after the other, such that each is in balance if its
/// neighbours deliver and accept whatever pays at that price; and lets them.
pub(crate) fn settle(net: &mut Residual, nodes: impl Iterator<Item = usize>) {
    let mut trades: Vec<Trade> = Vec::new();
    let mut order: Vec<usize> = nodes.collect();
    // A node with few arcs has little choice, and its neighbours should know before they choose.
    order.sort_by_key(|&node| net.range(node).len());
    for node in order {
        settle_node(net, node, &mut trades);
    }
}

fn settle_node(net: &mut Residual, node: usize, trades: &mut Vec<Trade>) {
    let price = net.price[node];
    trades.clear();
    let mut in_order = net.excess[node] == 0;
    for index in net.range(node) {
        let entry = &net.entries[index];
        let level = net.price[entry.head as usize] - entry.cost;
        let back = net.back(index);
        in_order &= (level <= price || entry.room == 0) && (level >= price || back == 0);
        trades.push(Trade {
            level,
            room: entry.room,
            back,
            index: index as u32,
        });
    }
    if in_order || trades.is_empty() {
        return;
    }
    trades.sort_unstable_by_key(|trade| trade.level);
    // Below all levels everything has been taken away; going up, excess only grows.
    let mut excess = net.excess[node] - trades.iter().map(|trade| trade.room).sum::<i64>();
    let mut at = 0;
    while at < trades.len() {
        let after = excess + trades[at].room + trades[at].back;
        if after >= 0 {
            break;
        }
        excess = after;
        at += 1;
    }
    let level = trades[at.min(trades.len() - 1)].level;
    net.price[node] = level;
    for trade in trades.iter() {
        let index = trade.index as usize;
        if trade.level > level && trade.room > 0 {
            net.push(node, index, trade.room);
        } else if trade.level < level && trade.back > 0 {
            let (head, mate) = (
                net.entries[index].head as usize,
                net.entries[index].mate as usize,
            );
            net.push(head, mate, trade.back);
        }
    }
    // What is exactly at the level takes what is left.
    for trade in trades.iter().filter(|trade| trade.level == level) {
        let index = trade.index as usize;
        let left = net.excess[node];
        if left > 0 && trade.room > 0 {
            net.push(node, index, left.min(trade.room));
        } else if left < 0 && trade.back > 0 {
            let (head, mate) = (
                net.entries[index].head as usize,
                net.entries[index].mate as usize,
            );
            net.push(head, mate, (-left).min(trade.back));
        }
    }
}

/// Moves prices back to where they were `before`, as near as the flow allows, and those of leaves to
/// the middle of the range in which they prove the same flow.
///
/// Arcs outside of the set have to agree with the prices, so they should change as little as
/// possible: all together by nothing at all, counted by arcs outside, and each by itself not
/// without need. In the middle of its range, a leaf is far from changing its mind: its arcs need not
/// be in the next working set. `leeway` says how far it may move where not all of its arcs are here.
pub(crate) fn keep_near(
    net: &mut Residual,
    set: &Working<'_>,
    before: &[i64],
    leeway: impl Fn(usize) -> Option<i64>,
    degree: &[u32],
) {
    if !set.is_all {
        let outside = |index: usize| degree[set.node(index)] as usize - net.range(index).len();
        let common = common_move(&net.price, before, outside);
        net.price.iter_mut().for_each(|price| *price -= common);
    }
    let scale = set.scale();
    for (index, &before) in before.iter().enumerate() {
        let (mut low, mut high) = (-FAR, FAR);
        let level = |index: usize| {
            let entry = &net.entries[index];
            net.price[entry.head as usize] - entry.cost
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
/// outside of the set. Only differences of prices matter, but nodes outside keep theirs.
fn common_move(price: &[i64], before: &[i64], outside: impl Fn(usize) -> usize) -> i64 {
    let moves = price.iter().zip(before).map(|(now, before)| now - before);
    let mut moves: Vec<(i64, usize)> = moves
        .enumerate()
        .map(|(index, moved)| (moved, outside(index)))
        .collect();
    moves.sort_unstable();
    let mut rest = moves.iter().map(|&(_, arcs)| arcs).sum::<usize>() / 2;
    for (moved, arcs) in moves {
        if arcs > rest {
            return moved;
        }
        rest -= arcs;
    }
    0
}
