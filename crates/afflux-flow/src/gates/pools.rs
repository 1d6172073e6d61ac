//! Pools: sets of nodes with scarce capacity, such as machines that the same gangs compete for.
//!
//! Pools are found by prices. Within a pool prices differ little; between the pool and the nodes
//! where units may wait, the price jumps. Any set of nodes makes a valid pool; the set only affects
//! the quality of the bound.

use crate::gates::gate_positions::GatePositions;
use crate::gates::lagrangian_bound::LagrangianBound;
use crate::problem::Problem;

/// The number of price jumps that are tried.
const MAX_PRICE_JUMPS: usize = 4;

/// Marks a node that is in no pool.
const NO_POOL: u32 = u32::MAX;

/// Sets of nodes; every path from one to another passes a node outside all of them.
pub(super) struct Pools {
    /// By node, its pool or [`NO_POOL`].
    pool: Vec<u32>,
    /// By pool, the units that have to leave it when all gates are closed.
    pub supply: Vec<i128>,
    /// By pool, the units that may enter it or go elsewhere.
    pub optional_inflow: Vec<i64>,
    /// By gate, the pools that it uses, and the additional units that have to leave each when the
    /// gate is open.
    pub loads: Vec<Vec<(usize, i64)>>,
}

impl Pools {
    /// The pools below the price jump for which gates matter most.
    pub fn find(
        problem: &Problem<'_>,
        positions: &GatePositions,
        waiting: &[i64],
        price: &[i64],
    ) -> Self {
        let mut is_excluded = positions.is_private.clone();
        for member in &positions.members {
            is_excluded[member.tail] = true;
        }
        let prices = || {
            price
                .iter()
                .zip(&is_excluded)
                .filter(|&(_, &is_excluded)| !is_excluded)
        };
        let mut levels: Vec<i64> = prices().map(|(&price, _)| price).collect();
        levels.sort_unstable();
        levels.dedup();
        let pairs = levels.windows(2);
        let mut jumps: Vec<(i64, i64)> = pairs.map(|pair| (pair[0] - pair[1], pair[0])).collect();
        jumps.sort_unstable();
        let candidates = jumps.iter().take(MAX_PRICE_JUMPS).map(|&(_, level)| {
            let nodes = price.iter().zip(&is_excluded);
            let inside = nodes.map(|(&price, &is_excluded)| !is_excluded && price <= level);
            let pools = Self::new(problem, positions, waiting.len(), inside.collect());
            let lagrangian = LagrangianBound::new(problem, positions, &pools, waiting, price);
            (pools.weight(&lagrangian, waiting), pools)
        });
        let best = candidates.max_by_key(|&(weight, _)| weight);
        let none = || Self::none(problem, waiting.len());
        best.map_or_else(none, |(_, pools)| pools)
    }

    pub fn none(problem: &Problem<'_>, gates: usize) -> Self {
        Self {
            pool: vec![NO_POOL; problem.nodes()],
            supply: Vec::new(),
            optional_inflow: Vec::new(),
            loads: vec![Vec::new(); gates],
        }
    }

    /// How much the choice of gates matters: the cost of one unit too many or too few, for all
    /// units of all gates, but at most the waiting cost.
    fn weight(&self, lagrangian: &LagrangianBound, waiting: &[i64]) -> i128 {
        let of_load = |&(pool, units): &(usize, i64)| {
            let min_slope = lagrangian.pool_costs[pool].min_slope().unwrap_or(0);
            min_slope.saturating_mul(i128::from(units.abs()))
        };
        let gates = self.loads.iter().zip(waiting);
        gates
            .map(|(loads, &cost)| {
                loads
                    .iter()
                    .map(of_load)
                    .sum::<i128>()
                    .min(i128::from(cost))
            })
            .sum()
    }

    fn new(
        problem: &Problem<'_>,
        positions: &GatePositions,
        gates: usize,
        inside: Vec<bool>,
    ) -> Self {
        let mut sets = DisjointSets((0..problem.nodes() as u32).collect());
        for (arc, is_local) in positions.all_arcs(problem) {
            if !is_local && arc.capacity > 0 && inside[arc.tail] && inside[arc.head] {
                sets.join(arc.tail as u32, arc.head as u32);
            }
        }
        let ranges = || {
            positions
                .members
                .iter()
                .flat_map(|m| [&m.bypass, &m.onward])
                .flatten()
        };
        let heads = |range| positions.exits(range).iter().map(|exit| exit.head);
        for range in ranges() {
            let mut heads = heads(range).filter(|&head| inside[head]);
            if let Some(first) = heads.next() {
                heads.for_each(|head| sets.join(first as u32, head as u32));
            }
        }
        let mut pools = Self::none(problem, gates);
        for node in (0..problem.nodes()).filter(|&node| inside[node]) {
            let root = sets.root(node as u32) as usize;
            if pools.pool[root] == NO_POOL {
                pools.pool[root] = pools.supply.len() as u32;
                pools.supply.push(0);
                pools.optional_inflow.push(0);
            }
            pools.pool[node] = pools.pool[root];
            pools.supply[pools.pool[node] as usize] += i128::from(problem.supply()[node]);
        }
        for member in &positions.members {
            let supply = problem.supply()[member.tail];
            // The pools of the two ends, and whether all flow of the member enters them.
            let tail = match &member.bypass {
                Some(range) => pools.pool_of_heads(heads(range)),
                None => (pools.of(member.tail), true),
            };
            let head = match &member.onward {
                Some(range) => pools.pool_of_heads(heads(range)),
                None => (pools.of(member.head), true),
            };
            match tail {
                (Some(pool), true) => {
                    pools.add_load(member.gate, pool, -member.count);
                    if member.bypass.is_some() {
                        pools.supply[pool] += i128::from(supply);
                    }
                }
                (Some(pool), false) => pools.optional_inflow[pool] += supply,
                (None, _) => {}
            }
            match head {
                (Some(pool), true) => pools.add_load(member.gate, pool, member.count),
                (Some(pool), false) => pools.optional_inflow[pool] += member.count,
                (None, _) => {}
            }
        }
        pools
    }

    pub fn of(&self, node: usize) -> Option<usize> {
        Some(self.pool[node] as usize).filter(|_| self.pool[node] != NO_POOL)
    }

    /// The pool of some of these nodes, and whether all of them are in it.
    fn pool_of_heads(&self, heads: impl Iterator<Item = usize>) -> (Option<usize>, bool) {
        let mut found = (None, true);
        for head in heads {
            match self.of(head) {
                Some(pool) => found.0 = Some(pool),
                None => found.1 = false,
            }
        }
        found
    }

    fn add_load(&mut self, gate: usize, pool: usize, units: i64) {
        let loads = &mut self.loads[gate];
        match loads.iter_mut().find(|load| load.0 == pool) {
            Some(load) => load.1 += units,
            None => loads.push((pool, units)),
        }
    }
}

/// Disjoint sets of nodes (union-find), each a tree of links to its root.
struct DisjointSets(Vec<u32>);

impl DisjointSets {
    fn root(&mut self, mut node: u32) -> u32 {
        while self.0[node as usize] != node {
            let next = self.0[node as usize];
            self.0[node as usize] = self.0[next as usize];
            node = next;
        }
        node
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one.max(other) as usize] = one.min(other);
    }
}
