//! A copy of the whole network in columns, for other solvers, checkers and files.

use std::iter::repeat_n;

use super::{ArcId, Network, NodeId, REMOVED};
use crate::convex_arcs::FIRST_CONVEX_ID;
use crate::problem::Arc;

/// All nodes and arcs of a [`Network`], by ascending id. A copy: it does not follow later changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// The ids of nodes.
    pub nodes: Vec<NodeId>,
    /// By node, its supply.
    pub supply: Vec<i64>,
    /// The ids of arcs; a convex arc appears once for each unit of its capacity.
    pub arcs: Vec<ArcId>,
    /// By arc, the id of its tail (not the position of the tail in `nodes`).
    pub tail: Vec<NodeId>,
    /// By arc, the id of its head.
    pub head: Vec<NodeId>,
    /// By arc, its lower bound.
    pub lower: Vec<i64>,
    /// By arc, its capacity.
    pub capacity: Vec<i64>,
    /// By arc, its cost per unit.
    pub cost: Vec<i64>,
    /// By arc, its flow in the last solve.
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
    /// A copy of the network.
    pub fn columns(&self) -> Columns {
        let mut columns = Columns::default();
        for (node, (&supply, &degree)) in self.supply.iter().zip(&self.degree).enumerate() {
            if degree != REMOVED {
                columns.nodes.push(node as NodeId);
                columns.supply.push(supply);
            }
        }
        for index in self.exists.iter() {
            let arc = self.arcs.get(index);
            columns.arcs.push(index as ArcId);
            columns.add(&arc);
            columns.flow.push(self.state.flow[index]);
        }
        for (slot, convex) in self.convex_arcs.range(0..self.convex_arcs.len()) {
            let units = convex.capacity as usize;
            columns
                .arcs
                .extend(repeat_n(FIRST_CONVEX_ID + slot as ArcId, units));
            let convex_flow = self.state.convex_flow[slot] as usize;
            let flow = (0..units).map(|unit| i64::from(unit < convex_flow));
            columns.flow.extend(flow);
        }
        for unit in self.convex_arcs.unit_arcs() {
            columns.add(&unit);
        }
        columns
    }
}
