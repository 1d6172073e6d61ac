//! The whole network as it stands, for others to read: other solvers, checkers, files.

use std::iter::repeat_n;

use super::{ArcId, GONE, Network, NodeId};
use crate::problem::Arc;
use crate::rows::CONVEX;

/// All nodes and arcs of a [`Network`], by rising number. A copy: later changes are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// The nodes that exist.
    pub nodes: Vec<NodeId>,
    /// By node, how much it sends more than it receives.
    pub supply: Vec<i64>,
    /// The arcs that exist; a convex one once for each unit that it can carry.
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
    /// By arc, what flows since the last solve.
    pub flow: Vec<i64>,
}

impl Columns {
    fn add(&mut self, arc: &Arc) {
        self.tail.push(arc.tail as NodeId);
        self.head.push(arc.head as NodeId);
        self.lower.push(arc.lower);
        self.capacity.push(arc.capacity);
        self.cost.push(arc.cost);
    }
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
            columns.add(&arc);
            columns.flow.push(self.state.flow[index]);
        }
        for (row, convex) in self.rows.range(0..self.rows.len()) {
            let units = convex.capacity as usize;
            columns.arcs.extend(repeat_n(CONVEX + row as ArcId, units));
            let carried = self.state.carried[row] as usize;
            let flow = (0..units).map(|unit| i64::from(unit < carried));
            columns.flow.extend(flow);
        }
        for unit in self.rows.pieces() {
            columns.add(&unit);
        }
        columns
    }
}
