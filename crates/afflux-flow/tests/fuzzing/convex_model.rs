//! A simple model of a convex arc.

use afflux_flow::{ConvexTerms, NodeId, Terms};

/// Its ends, bounds and costs.
#[derive(Debug, Clone)]
pub struct Convex {
    pub tail: NodeId,
    pub head: NodeId,
    pub lower: i64,
    pub capacity: i64,
    pub costs: Vec<i64>,
}

impl Convex {
    pub fn terms(&self) -> ConvexTerms<'_> {
        ConvexTerms {
            lower: self.lower,
            capacity: self.capacity,
            costs: &self.costs,
        }
    }

    /// The equivalent parallel arcs.
    pub fn units(&self) -> impl Iterator<Item = (NodeId, NodeId, Terms)> {
        let units = (0..self.capacity).zip(&self.costs);
        units.map(|(unit, &cost)| {
            let terms = Terms {
                lower: i64::from(unit < self.lower),
                capacity: 1,
                cost,
            };
            (self.tail, self.head, terms)
        })
    }
}
