//! Pools: sets of nodes with room that is scarce, machines that the same gangs compete for.
//!
//! Prices show them. Within a pool, units are worth about the same everywhere; from the pool to
//! where units may wait, the price jumps. Any set of nodes makes a valid pool, which only decides
//! how good the bound is.

use crate::gates::estimate::Estimate;
use crate::gates::layout::Layout;
use crate::problem::Problem;

/// How many jumps of the price are looked at.
const JUMPS: usize = 4;

/// Not in a pool.
const NONE: u32 = u32::MAX;

/// Sets of nodes without any way from one to another but through nodes of none.
pub(super) struct Pools {
    /// By node, its pool or [`NONE`].
    pool: Vec<u32>,
    /// By pool, how many units have to leave it when all gates are closed.
    pub supply: Vec<i128>,
    /// By pool, how many units may enter it instead of going elsewhere.
    pub loose: Vec<i64>,
    /// By gate: pools, and how many units more have to leave them when the gate is open.
    pub loads: Vec<Vec<(usize, i64)>>,
}

impl Pools {
    /// The pools below the jump of the price that gates matter most for.
    pub fn find(problem: &Problem<'_>, layout: &Layout, waiting: &[i64], price: &[i64]) -> Self {
        let mut is_apart = layout.is_own.clone();
        for member in &layout.members {
            is_apart[member.tail] = true;
        }
        let prices = || price.iter().zip(&is_apart).filter(|&(_, &apart)| !apart);
        let mut levels: Vec<i64> = prices().map(|(&price, _)| price).collect();
        levels.sort_unstable();
        levels.dedup();
        let pairs = levels.windows(2);
        let mut jumps: Vec<(i64, i64)> = pairs.map(|pair| (pair[0] - pair[1], pair[0])).collect();
        jumps.sort_unstable();
        let candidates = jumps.iter().take(JUMPS).map(|&(_, level)| {
            let nodes = price.iter().zip(&is_apart);
            let inside = nodes.map(|(&price, &apart)| !apart && price <= level);
            let pools = Self::new(problem, layout, waiting.len(), inside.collect());
            let estimate = Estimate::new(problem, layout, &pools, waiting, price);
            (pools.weight(&estimate, waiting), pools)
        });
        let best = candidates.max_by_key(|&(weight, _)| weight);
        let none = || Self::none(problem, waiting.len());
        best.map_or_else(none, |(_, pools)| pools)
    }

    /// Without any pool.
    pub fn none(problem: &Problem<'_>, gates: usize) -> Self {
        Self {
            pool: vec![NONE; problem.nodes()],
            supply: Vec::new(),
            loose: Vec::new(),
            loads: vec![Vec::new(); gates],
        }
    }

    /// How much it matters which gates are open: what a unit too many or too few costs, for all
    /// units of all gates, but no more than it costs to wait.
    fn weight(&self, estimate: &Estimate, waiting: &[i64]) -> i128 {
        let of_load = |&(pool, units): &(usize, i64)| {
            let steepness = estimate.valleys[pool].steepness().unwrap_or(0);
            steepness.saturating_mul(i128::from(units.abs()))
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

    fn new(problem: &Problem<'_>, layout: &Layout, gates: usize, inside: Vec<bool>) -> Self {
        let mut sets = Sets((0..problem.nodes() as u32).collect());
        for (arc, is_local) in layout.all_arcs(problem) {
            if !is_local && arc.capacity > 0 && inside[arc.tail] && inside[arc.head] {
                sets.join(arc.tail as u32, arc.head as u32);
            }
        }
        let ranges = || {
            layout
                .members
                .iter()
                .flat_map(|m| [&m.past, &m.onward])
                .flatten()
        };
        let heads = |range| layout.exits(range).iter().map(|exit| exit.head);
        for range in ranges() {
            let mut heads = heads(range).filter(|&head| inside[head]);
            if let Some(first) = heads.next() {
                heads.for_each(|head| sets.join(first as u32, head as u32));
            }
        }
        let mut pools = Self::none(problem, gates);
        for node in (0..problem.nodes()).filter(|&node| inside[node]) {
            let root = sets.root(node as u32) as usize;
            if pools.pool[root] == NONE {
                pools.pool[root] = pools.supply.len() as u32;
                pools.supply.push(0);
                pools.loose.push(0);
            }
            pools.pool[node] = pools.pool[root];
            pools.supply[pools.pool[node] as usize] += i128::from(problem.supply()[node]);
        }
        for member in &layout.members {
            let supply = problem.supply()[member.tail];
            // What is there always, what is there with the gate open, and where.
            let tail = match &member.past {
                Some(range) => pools.entered(heads(range)),
                None => (pools.of(member.tail), true),
            };
            let head = match &member.onward {
                Some(range) => pools.entered(heads(range)),
                None => (pools.of(member.head), true),
            };
            match tail {
                (Some(pool), true) => {
                    pools.load(member.gate, pool, -member.count);
                    if member.past.is_some() {
                        pools.supply[pool] += i128::from(supply);
                    }
                }
                (Some(pool), false) => pools.loose[pool] += supply,
                (None, _) => {}
            }
            match head {
                (Some(pool), true) => pools.load(member.gate, pool, member.count),
                (Some(pool), false) => pools.loose[pool] += member.count,
                (None, _) => {}
            }
        }
        pools
    }

    /// The pool of a node.
    pub fn of(&self, node: usize) -> Option<usize> {
        Some(self.pool[node] as usize).filter(|_| self.pool[node] != NONE)
    }

    /// The pool that some of these nodes are in, and whether all are.
    fn entered(&self, heads: impl Iterator<Item = usize>) -> (Option<usize>, bool) {
        let mut entered = (None, true);
        for head in heads {
            match self.of(head) {
                Some(pool) => entered.0 = Some(pool),
                None => entered.1 = false,
            }
        }
        entered
    }

    fn load(&mut self, gate: usize, pool: usize, units: i64) {
        let loads = &mut self.loads[gate];
        match loads.iter_mut().find(|load| load.0 == pool) {
            Some(load) => load.1 += units,
            None => loads.push((pool, units)),
        }
    }
}

/// Disjoint sets of nodes, each a tree of links to its root.
struct Sets(Vec<u32>);

impl Sets {
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
