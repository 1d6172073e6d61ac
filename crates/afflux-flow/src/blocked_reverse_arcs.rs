//! Blocks residual arcs whose flow could only be sent straight back.
//!
//! A machine full of pinned tasks passes on what it receives and cannot receive less. Its arc to
//! the sink looks as if its flow could be reduced, so every search that reaches the sink would
//! visit every machine. Blocking these reverse arcs avoids that.

use crate::arc_columns::IntWidth;
use crate::residual::Residual;

#[derive(Default)]
pub(crate) struct BlockedReverseArcs(Vec<BlockedReverseArc>);

struct BlockedReverseArc {
    /// The entry of the reverse arc.
    index: u32,
    /// The node that the reverse arc leads to.
    node: u32,
    capacity: i64,
}

/// For every node with at most one outgoing residual arc, blocks the reverse arcs into it, unless
/// that outgoing arc leads to another such node.
///
/// Flow pushed to such a node along a reverse arc could only return. Flow that the node receives
/// later, in addition to the blocked flow, can be pushed back as usual.
pub(crate) fn block_reverse_arcs<W: IntWidth>(net: &mut Residual<W>) -> BlockedReverseArcs {
    let mut blocked = Vec::new();
    // Nodes whose incoming reverse arcs are blocked, and nodes at the other ends of these arcs.
    let mut is_blocked = vec![false; net.nodes()];
    let mut is_target = vec![false; net.nodes()];
    for node in 0..net.nodes() {
        if net.excess[node] != 0 || is_target[node] {
            continue;
        }
        let mut exits = net.open(node);
        let range = match (exits.next(), exits.next()) {
            (None, _) => net.range(node),
            (Some(exit), None) => exit..exit + 1,
            _ => continue,
        };
        let entries = &net.entries[range.clone()];
        if entries.iter().any(|entry| is_blocked[entry.head as usize]) {
            continue;
        }
        for index in range {
            let (head, reverse) = (net.entries[index].head, net.reverse(index));
            let capacity = net.backward_capacity(index);
            if capacity > 0 {
                is_blocked[node] = true;
                is_target[head as usize] = true;
                net.set_residual_capacity(reverse, 0);
                blocked.push(BlockedReverseArc {
                    index: reverse as u32,
                    node: node as u32,
                    capacity,
                });
            }
        }
    }
    BlockedReverseArcs(blocked)
}

impl BlockedReverseArcs {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Restores the blocked capacities, and lowers the prices of nodes that were not reached.
    ///
    /// Such a node received nothing, so a lower price makes no other residual arc violate
    /// optimality.
    pub fn unblock<W: IntWidth>(self, net: &mut Residual<W>) {
        for blocked in self.0 {
            let index = blocked.index as usize;
            let reverse = net.reverse(index);
            net.set_residual_capacity(index, net.residual_capacity(index) + blocked.capacity);
            let from = net.entries[reverse].head as usize;
            let level = net.price[from] + net.cost(&net.entries[index]);
            let price = &mut net.price[blocked.node as usize];
            *price = level.min(*price);
        }
    }
}
