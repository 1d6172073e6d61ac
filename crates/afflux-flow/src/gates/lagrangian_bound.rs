//! What every choice of gates costs at least, by the prices of one flow.

use crate::gates::layout::{Exits, Layout};
use crate::gates::pools::Pools;
use crate::gates::valley::Valley;
use crate::problem::Problem;

/// A lower bound on the cost of each choice y:
/// base + sum over gates of d(g) y(g) + sum over pools of V(units that have to leave the pool).
pub(super) struct Estimate {
    pub base: i128,
    /// d, by gate: what opening it costs, less what it costs to wait.
    pub opening: Vec<i128>,
    /// By member, what opening its gate costs there.
    pub opening_member: Vec<i128>,
    /// V, by pool.
    pub valleys: Vec<Valley>,
}

impl Estimate {
    /// From any prices and any pools.
    pub fn new(
        problem: &Problem<'_>,
        layout: &Layout,
        pools: &Pools,
        waiting: &[i64],
        price: &[i64],
    ) -> Self {
        let mut estimate = Self {
            base: waiting.iter().map(|&cost| i128::from(cost)).sum(),
            opening: waiting.iter().map(|&cost| -i128::from(cost)).collect(),
            opening_member: Vec::with_capacity(layout.members.len()),
            valleys: pools.supply.iter().map(|_| Valley::default()).collect(),
        };
        let supplies = problem.supply().iter().zip(price).zip(&layout.is_own);
        for ((&units, &price), &is_own) in supplies {
            if units != 0 && !is_own {
                estimate.base -= i128::from(units) * i128::from(price);
            }
        }
        estimate.add_arcs(problem, layout, pools, price);
        estimate.add_members(problem, layout, price);
        for (valley, &units) in estimate.valleys.iter_mut().zip(&pools.loose) {
            valley.add(0, 0, 0, units);
            valley.finish();
        }
        estimate
    }

    /// Arcs that are free of gates, each with the flow that is cheapest by itself.
    fn add_arcs(&mut self, problem: &Problem<'_>, layout: &Layout, pools: &Pools, price: &[i64]) {
        for (arc, is_local) in layout.all_arcs(problem) {
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
                    self.valleys[pool].add(units, reduced, more, less);
                }
                if let Some(pool) = to {
                    self.valleys[pool].add(-units, reduced, less, more);
                }
            }
        }
    }

    /// What open gates send, and what closed ones send past.
    fn add_members(&mut self, problem: &Problem<'_>, layout: &Layout, price: &[i64]) {
        let mut exits = Exits {
            price,
            offers: Vec::new(),
        };
        for member in &layout.members {
            let count = i128::from(member.count);
            let mut cost = i128::from(member.terms.cost) * count;
            // Where there is no room for it, a flow will say so; here it costs nothing.
            cost += match &member.onward {
                Some(range) => exits.cost(layout.exits(range), member.count).unwrap_or(0),
                None => -i128::from(price[member.head]) * count,
            };
            cost += match &member.past {
                Some(range) => {
                    let arcs = layout.exits(range);
                    let supply = problem.supply()[member.tail];
                    let closed = exits.cost(arcs, supply).unwrap_or(0);
                    self.base += closed;
                    let open = exits.cost(arcs, (supply - member.count).max(0));
                    open.unwrap_or(0) - closed
                }
                None => i128::from(price[member.tail]) * count,
            };
            self.opening[member.gate] += cost;
            self.opening_member.push(cost);
        }
    }

    /// What a choice costs at least; none if it has no flow.
    pub fn of(&self, pools: &Pools, open: &[bool]) -> Option<i128> {
        let mut units = pools.supply.clone();
        let mut cost = self.base;
        for (gate, _) in open.iter().enumerate().filter(|&(_, &open)| open) {
            cost += self.opening[gate];
            for &(pool, load) in &pools.loads[gate] {
                units[pool] += i128::from(load);
            }
        }
        let mut pools = self.valleys.iter().zip(units);
        pools.try_fold(cost, |cost, (valley, units)| Some(cost + valley.at(units)?))
    }
}
