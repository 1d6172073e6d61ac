//! Warm starts from an earlier flow, whatever has changed since then.

use super::Network;
use crate::solver_state::SolverState;

impl Network {
    /// Replaces flow and prices by those of an earlier state.
    ///
    /// The earlier state is only a starting point: its flow is clamped to the current bounds, even
    /// if an id now belongs to another arc, and the solver repairs the imbalances.
    pub(crate) fn warm_start_from(&mut self, mut state: SolverState) {
        for node in state.price.len()..self.supply.len() {
            state.add_node();
            state.reset_node(node);
        }
        state.flow.resize(self.arcs.len(), 0);
        state.convex_flow.resize(self.convex_arcs.len(), 0);
        for (node, &supply) in self.supply.iter().enumerate() {
            state.set_excess(node, i128::from(supply));
        }
        for (index, arc) in self.problem().arcs().enumerate() {
            let in_range = || state.flow[index].clamp(arc.lower, arc.capacity);
            let flow = arc.fixed_flow().unwrap_or_else(in_range);
            state.flow[index] = flow;
            if flow != 0 {
                state.send(arc.tail, arc.head, flow);
            }
        }
        for (slot, convex) in self.convex_arcs.range(0..self.convex_arcs.len()) {
            let flow = convex.clamp_flow(state.convex_flow[slot]);
            state.convex_flow[slot] = flow;
            if flow != 0 {
                let (tail, head) = convex.ends();
                state.send(tail, head, flow);
            }
        }
        let unbalanced: Vec<usize> = state.unbalanced().collect();
        for node in unbalanced {
            state.mark_changed(node);
        }
        self.restore(state);
    }

    /// Restores a flow and prices. Nodes and arcs must be the same, and their bounds must admit the
    /// flow; their costs may have changed.
    pub(crate) fn restore(&mut self, state: SolverState) {
        self.state = state;
        for index in 0..self.arcs.len() {
            let arc = self.arcs.get(index);
            match arc.fixed_flow() {
                None => self.mark_if_violating(index, arc.tail, arc.head),
                Some(units) => debug_assert_eq!(self.state.flow[index], units),
            }
        }
        for slot in 0..self.convex_arcs.len() {
            self.mark_if_convex_violating(slot);
        }
    }
}
