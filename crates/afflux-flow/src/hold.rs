//! What could only be sent back where it comes from is left where it is.
//!
//! A machine full of pinned tasks passes on what it receives and cannot receive less. Its arc to
//! the sink looks as if flow could be taken back, and so every search that reaches the sink would
//! look at every machine.

use crate::arcs::Width;
use crate::residual::Residual;

/// Arcs whose present flow is held.
#[derive(Default)]
pub(crate) struct Held(Vec<Hold>);

struct Hold {
    /// The entry that could take flow back.
    index: u32,
    /// The node that it leads to.
    node: u32,
    units: i64,
}

/// Holds the flow of every node that has a single way out, or none, unless that leads to another
/// such node.
///
/// With nothing else to do, the node could only return what it gets. What it receives later from
/// others, on top of what is held, can be taken back as usual.
pub(crate) fn hold<W: Width>(net: &mut Residual<W>) -> Held {
    let mut held = Vec::new();
    // Nodes that are held, and nodes at which something is.
    let mut is_held = vec![false; net.nodes()];
    let mut is_taken = vec![false; net.nodes()];
    for node in 0..net.nodes() {
        if net.excess[node] != 0 || is_taken[node] {
            continue;
        }
        let mut exits = net.open(node);
        let range = match (exits.next(), exits.next()) {
            (None, _) => net.range(node),
            (Some(exit), None) => exit..exit + 1,
            _ => continue,
        };
        let entries = &net.entries[range.clone()];
        if entries.iter().any(|entry| is_held[entry.head as usize]) {
            continue;
        }
        for index in range {
            let (head, mate) = (net.entries[index].head, net.mate(index));
            let units = net.back(index);
            if units > 0 {
                is_held[node] = true;
                is_taken[head as usize] = true;
                net.set_room(mate, 0);
                held.push(Hold {
                    index: mate as u32,
                    node: node as u32,
                    units,
                });
            }
        }
    }
    Held(held)
}

impl Held {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives the flow free again, and lowers the prices of nodes which were left behind.
    ///
    /// Such a node has received nothing, so its lower price is no offer to anybody.
    pub fn release<W: Width>(self, net: &mut Residual<W>) {
        for hold in self.0 {
            let index = hold.index as usize;
            let mate = net.mate(index);
            net.set_room(index, net.room(index) + hold.units);
            let from = net.entries[mate].head as usize;
            let level = net.price[from] + net.cost(&net.entries[index]);
            let price = &mut net.price[hold.node as usize];
            *price = level.min(*price);
        }
    }
}
