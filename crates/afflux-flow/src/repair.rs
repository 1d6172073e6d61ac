//! Local repairs: the price at which a node by itself has nothing left to trade.
//!
//! When all arcs of a node change, most of the change is a change of the node's own price. Finding
//! it first leaves few arcs that violate optimality, and few units to be moved elsewhere. It is one
//! step of coordinate ascent on the dual problem, as in Bertsekas' relaxation method.

use crate::residual::Residual;

/// Nodes with more entries than this keep their prices when others move to the middle.
const HUB: usize = 1024;
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
        in_order &= (level <= price || entry.room == 0) && (level >= price || entry.back == 0);
        trades.push(Trade {
            level,
            room: entry.room,
            back: entry.back,
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

/// Moves prices to the middle of the range in which they prove the same flow.
///
/// Then arcs that carry as much as before after a small change are those whose reduced cost was
/// not small, and the next working set can do without them. `leeway` says how far the price of a
/// node may move, since not all of its arcs may be here.
pub(crate) fn centre(net: &mut Residual, scale: i64, leeway: impl Fn(usize) -> i64) {
    for node in 0..net.nodes() {
        let entries = net.leaving(node);
        if entries.len() > HUB {
            continue;
        }
        let (mut low, mut high) = (i64::MIN, i64::MAX);
        for entry in entries {
            let level = net.price[entry.head as usize] - entry.cost;
            if entry.room > 0 {
                low = low.max(level);
            }
            if entry.back > 0 {
                high = high.min(level);
            }
        }
        let price = net.price[node];
        let leeway = leeway(node);
        if low < price && price < high && (low == i64::MIN || high == i64::MAX) {
            continue;
        }
        let low = low.max(price.saturating_sub(leeway));
        let high = high.min(price.saturating_add(leeway));
        if low < high {
            net.price[node] = (low + (high - low) / 2) / scale * scale;
        }
    }
}
