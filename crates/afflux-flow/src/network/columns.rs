//! The whole network as it stands, for others to read: other solvers, checkers, files.

use super::{ArcId, GONE, Network, NodeId};

/// All nodes and arcs of a [`Network`], by rising number. A copy: later changes are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// The nodes that exist.
    pub nodes: Vec<NodeId>,
    /// By node, how much it sends more than it receives.
    pub supply: Vec<i64>,
    /// The arcs that exist.
    pub arcs: Vec<ArcId>,
    /// By arc, the node where it starts: its number, not its place among `nodes`.
    pub tail: Vec<NodeId>,
    /// By arc, the node where it ends.
    pub head: Vec<NodeId>,
    /// By arc, how much it must carry.
    pub lower: Vec<i64>,
    /// By arc, how much it can carry.
    pub capacity: Vec<i64>,
    /// By arc, what a unit costs.
    pub cost: Vec<i64>,
}

impl Network {
    /// The network as it stands.
    pub fn columns(&self) -> Columns {
        let mut columns = Columns::default();
        for (node, (&supply, &degree)) in self.supply.iter().zip(&self.degree).enumerate() {
            if degree != GONE {
                columns.nodes.push(node as NodeId);
                columns.supply.push(supply);
            }
        }
        for index in self.exists.all() {
            let arc = self.arcs.get(index);
            columns.arcs.push(index as ArcId);
            columns.tail.push(arc.tail as NodeId);
            columns.head.push(arc.head as NodeId);
            columns.lower.push(arc.lower);
            columns.capacity.push(arc.capacity);
            columns.cost.push(arc.cost);
        }
        columns
    }
}
