//! A lower bound on the cost of every choice of gates, from the prices of one flow.

use crate::gates::gate_positions::{ExitCosts, GatePositions};
use crate::gates::pool_cost::PoolCost;
use crate::gates::pools::Pools;
use crate::problem::Problem;

/// A lower bound on the cost of each choice y: base + sum over gates of d(g) y(g) + sum over pools
/// of V(units that have to leave the pool).
pub(super) struct LagrangianBound {
    pub base: i128,
    /// d, by gate: the cost of opening it less its waiting cost.
    pub opening_cost: Vec<i128>,
    /// By member, its part of the cost of opening its gate.
    pub member_opening_cost: Vec<i128>,
    /// V, by pool.
    pub pool_costs: Vec<PoolCost>,
}

impl LagrangianBound {
    /// The bound from any prices and any pools; each choice of both is valid.
    pub fn new(
        problem: &Problem<'_>,
        positions: &GatePositions,
        pools: &Pools,
        waiting: &[i64],
        price: &[i64],
    ) -> Self {
        let mut lagrangian = Self {
            base: waiting.iter().map(|&cost| i128::from(cost)).sum(),
            opening_cost: waiting.iter().map(|&cost| -i128::from(cost)).collect(),
            member_opening_cost: Vec::with_capacity(positions.members.len()),
            pool_costs: pools.supply.iter().map(|_| PoolCost::default()).collect(),
        };
        let supplies = problem
            .supply()
            .iter()
            .zip(price)
            .zip(&positions.is_private);
        for ((&units, &price), &is_private) in supplies {
            if units != 0 && !is_private {
                lagrangian.base -= i128::from(units) * i128::from(price);
            }
        }
        lagrangian.add_arcs(problem, positions, pools, price);
        lagrangian.add_members(problem, positions, price);
        for (pool_cost, &units) in lagrangian.pool_costs.iter_mut().zip(&pools.optional_inflow) {
            pool_cost.add_arc(0, 0, 0, units);
            pool_cost.finish();
        }
        lagrangian
    }

    /// Adds arcs that no gate decides, each with the flow that is cheapest by itself.
    fn add_arcs(
        &mut self,
        problem: &Problem<'_>,
        positions: &GatePositions,
        pools: &Pools,
        price: &[i64],
    ) {
        for (arc, is_local) in positions.all_arcs(problem) {
            if is_local {
                continue;
            }
            let reduced = arc.cost + price[arc.tail] - price[arc.head];
            let units = if reduced < 0 { arc.capacity } else { arc.lower };
            if units != 0 {
                self.base += i128::from(reduced) * i128::from(units);
            }
            let (from, to) = (pools.of(arc.tail), pools.of(arc.head));
            if from != to {
                let (more, less) = (arc.capacity - units, units - arc.lower);
                if let Some(pool) = from {
                    self.pool_costs[pool].add_arc(units, reduced, more, less);
                }
                if let Some(pool) = to {
                    self.pool_costs[pool].add_arc(-units, reduced, less, more);
                }
            }
        }
    }

    /// Adds the flow through open gates and the flow past closed gates.
    fn add_members(&mut self, problem: &Problem<'_>, positions: &GatePositions, price: &[i64]) {
        let mut exits = ExitCosts {
            price,
            offers: Vec::new(),
        };
        for member in &positions.members {
            let count = i128::from(member.count);
            let mut cost = i128::from(member.terms.cost) * count;
            // If there is not enough capacity, a flow will prove it; here it costs nothing.
            cost += match &member.onward {
                Some(range) => exits
                    .cost(positions.exits(range), member.count)
                    .unwrap_or(0),
                None => -i128::from(price[member.head]) * count,
            };
            cost += match &member.bypass {
                Some(range) => {
                    let arcs = positions.exits(range);
                    let supply = problem.supply()[member.tail];
                    let closed = exits.cost(arcs, supply).unwrap_or(0);
                    self.base += closed;
                    let open = exits.cost(arcs, (supply - member.count).max(0));
                    open.unwrap_or(0) - closed
                }
                None => i128::from(price[member.tail]) * count,
            };
            self.opening_cost[member.gate] += cost;
            self.member_opening_cost.push(cost);
        }
    }

    /// The lower bound for a choice; none if the choice is infeasible.
    pub fn value_of(&self, pools: &Pools, open: &[bool]) -> Option<i128> {
        let mut units = pools.supply.clone();
        let mut cost = self.base;
        for (gate, _) in open.iter().enumerate().filter(|&(_, &open)| open) {
            cost += self.opening_cost[gate];
            for &(pool, load) in &pools.loads[gate] {
                units[pool] += i128::from(load);
            }
        }
        let mut pools = self.pool_costs.iter().zip(units);
        pools.try_fold(cost, |cost, (pool_cost, units)| {
            Some(cost + pool_cost.value_at(units)?)
        })
    }
}
