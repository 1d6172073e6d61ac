//! Small networks as a scheduler builds them: machines with slots, classes of tasks, gangs.

use afflux_flow::{ArcId, Network, Problem, Terms};
use proptest::prelude::*;

use crate::columns::Columns;
use crate::reference::least_cost;

#[derive(Debug, Clone)]
pub struct SchedulerNetwork {
    pub supply: Vec<i64>,
    /// Tail, head, and terms.
    pub arcs: Vec<(u32, u32, Terms)>,
}

pub fn terms(lower: i64, capacity: i64, cost: i64) -> Terms {
    Terms {
        lower,
        capacity,
        cost,
    }
}

impl SchedulerNetwork {
    /// A sink, node 0, and machines, the nodes from 1 on, with slots of these costs.
    pub fn with_machines(slots: Vec<Vec<i64>>) -> Self {
        let supply = vec![0; slots.len() + 1];
        let slots = (1..).zip(slots).flat_map(|(machine, costs)| {
            let slot = move |cost| (machine, 0, terms(0, 1, cost));
            costs.into_iter().map(slot)
        });
        Self {
            supply,
            arcs: slots.collect(),
        }
    }

    /// Adds a source of `count` tasks, an arc to the sink on which they may wait, and their class
    /// with the machines that admit it: number (modulo `machines`), room and cost. Returns the arc
    /// from the source to the class.
    pub fn add_class(
        &mut self,
        count: i64,
        waiting: Terms,
        admitted: &[(usize, i64, i64)],
        machines: usize,
    ) -> ArcId {
        let source = self.supply.len() as u32;
        self.supply.extend([count, 0]);
        self.supply[0] -= count;
        let entry = self.arcs.len() as ArcId;
        self.arcs.push((source, source + 1, terms(0, count, 0)));
        self.arcs.push((source, 0, waiting));
        for &(machine, room, cost) in admitted {
            let machine = 1 + (machine % machines) as u32;
            self.arcs.push((source + 1, machine, terms(0, room, cost)));
        }
        entry
    }

    pub fn network(&self) -> Network {
        let mut network = Network::new();
        network.add_nodes(&self.supply).unwrap();
        for &(tail, head, terms) in &self.arcs {
            network.add_arc(tail, head, terms).unwrap();
        }
        network
    }

    /// Calls `work` with the problem.
    pub fn with_problem<T>(&self, work: impl FnOnce(&Problem<'_>) -> T) -> T {
        let arcs = self.arcs.iter().map(|&(tail, head, terms)| {
            let Terms {
                lower,
                capacity,
                cost,
            } = terms;
            (tail as i32, head as i32, lower, capacity, cost)
        });
        let arcs: Vec<_> = arcs.collect();
        work(&Columns::new(&self.supply, &arcs).problem().unwrap())
    }

    pub fn least_cost(&self) -> Option<i128> {
        self.with_problem(least_cost)
    }

    pub fn has_same_terms(&self, network: &Network) -> bool {
        let is_same = |arc: usize| network.terms(arc as ArcId) == Ok(self.arcs[arc].2);
        (0..self.arcs.len()).all(is_same)
    }

    /// Checks that the flow of a network is feasible in this model; returns its cost.
    pub fn check_flow(&self, network: &Network) -> Result<i128, TestCaseError> {
        let mut sent = vec![0; self.supply.len()];
        let mut cost = 0;
        for (arc, &(tail, head, terms)) in self.arcs.iter().enumerate() {
            let flow = network.flow(arc as ArcId).unwrap();
            prop_assert!(terms.lower <= flow && flow <= terms.capacity);
            sent[tail as usize] += flow;
            sent[head as usize] -= flow;
            cost += i128::from(flow) * i128::from(terms.cost);
        }
        prop_assert_eq!(&sent, &self.supply);
        Ok(cost)
    }
}
