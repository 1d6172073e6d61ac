//! Local repairs: the price at which a node by itself has nothing left to trade.
//!
//! When all arcs of a node change, most of the change is a change of the node's own price. Finding
//! it first leaves few arcs that violate optimality, and few units to be moved elsewhere. It is one
//! step of coordinate ascent on the dual problem, as in Bertsekas' relaxation method.

use crate::residual::Residual;

/// Nodes with more entries than this are not settled.
const HUB: usize = 1024;

/// How often neighbours follow.
const PASSES: usize = 5;

/// An arc at a node: at prices above `level` it brings `back` units, below it takes `room` away.
#[derive(Clone, Copy)]
struct Trade {
    level: i64,
    room: i64,
    back: i64,
    index: u32,
}

/// Sets the prices of some nodes, one after the other, such that each is in balance if its
/// neighbours deliver and accept whatever pays at that price; and lets them. Neighbours that are
/// out of balance then follow.
pub(crate) fn settle(net: &mut Residual, nodes: impl Iterator<Item = usize>) {
    let mut trades: Vec<Trade> = Vec::new();
    for node in nodes {
        settle_node(net, node, &mut trades);
    }
    for pass in 0..PASSES {
        for index in 0..net.nodes() {
            let node = if pass % 2 == 0 {
                net.nodes() - 1 - index
            } else {
                index
            };
            if net.excess[node] != 0 && net.range(node).len() <= HUB {
                settle_node(net, node, &mut trades);
            }
        }
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
