//! Going on from an earlier flow, whatever has changed since.

use super::Network;
use crate::state::State;

impl Network {
    /// Takes flow and prices of an earlier time for those of the last solve.
    ///
    /// It only has to be a good start, so nothing was kept up to date meanwhile: flow is cut to the
    /// bounds of today, even where an arc has been replaced by another one, and whatever does not
    /// add up is left for the solver to repair.
    pub(crate) fn resume(&mut self, mut state: State) {
        for node in state.price.len()..self.supply.len() {
            state.add_node();
            state.enter(node);
        }
        state.flow.resize(self.arcs.len(), 0);
        state.carried.resize(self.rows.len(), 0);
        for (node, &supply) in self.supply.iter().enumerate() {
            state.set_excess(node, i128::from(supply));
        }
        for (index, arc) in self.problem().arcs().enumerate() {
            let within = || state.flow[index].clamp(arc.lower, arc.capacity);
            let flow = arc.forced().unwrap_or_else(within);
            state.flow[index] = flow;
            if flow != 0 {
                state.send(arc.tail, arc.head, flow);
            }
        }
        for (row, convex) in self.rows.range(0..self.rows.len()) {
            let flow = convex.clamped(state.carried[row]);
            state.carried[row] = flow;
            if flow != 0 {
                let (tail, head) = convex.ends();
                state.send(tail, head, flow);
            }
        }
        let unbalanced: Vec<usize> = state.unbalanced().collect();
        for node in unbalanced {
            state.touch(node);
        }
        self.keep(state);
    }

    /// Comes back to a flow and prices. Nodes and arcs must be the same, and their bounds must
    /// admit the flow; their costs may have changed.
    pub(crate) fn keep(&mut self, state: State) {
        self.state = state;
        for index in 0..self.arcs.len() {
            let arc = self.arcs.get(index);
            match arc.forced() {
                None => self.touch_if_violating(index, arc.tail, arc.head),
                Some(units) => debug_assert_eq!(self.state.flow[index], units),
            }
        }
        for row in 0..self.rows.len() {
            self.touch_if_tempted(row);
        }
    }
}
