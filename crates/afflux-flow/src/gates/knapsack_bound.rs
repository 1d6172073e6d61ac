//! The best choice by a Lagrangian bound, and a bound for each gate in its other state.

use crate::gates::flip_knapsack::{Flip, KnapsackTable};
use crate::gates::lagrangian_bound::LagrangianBound;
use crate::gates::pools::Pools;

/// The maximum number of table cells for one bound: 64 MB, and less time than a flow of that size.
const MAX_TABLE_CELLS: usize = 1 << 23;

/// Larger than any loss; twice this value still fits 64 bits.
const MAX_LOSS: i64 = i64::MAX / 4;

/// A bound for all choices that agree with the decided gates.
pub(super) struct KnapsackBound {
    /// A lower bound on the cost of all these choices.
    pub bound: i128,
    /// A choice of low cost by the Lagrangian bound.
    pub choice: Vec<bool>,
    /// By gate, lower bounds for choices with the gate closed and open.
    pub bounds: Vec<[i128; 2]>,
}

/// Bounds the choices that cost less than `limit`; none if there are none.
///
/// Every gate first takes the state that is cheaper by itself. A pool may then have more or fewer
/// units than it should, and the pool cost adds the loss. Which gates to flip instead is a knapsack
/// problem for each pool. A gate with members in several pools is split between them, by units; its
/// parts may then have different states, which lowers the bound but keeps it valid.
pub(super) fn knapsack_bound(
    lagrangian: &LagrangianBound,
    pools: &Pools,
    decided: &[Option<bool>],
    limit: Option<i128>,
) -> Option<KnapsackBound> {
    let gates = || lagrangian.opening_cost.iter().zip(decided);
    let mut choice: Vec<bool> = gates()
        .map(|(&cost, decided)| decided.unwrap_or(cost < 0))
        .collect();
    let costs = lagrangian.opening_cost.iter().zip(&choice);
    let base = lagrangian.base
        + costs
            .filter_map(|(&cost, &open)| open.then_some(cost))
            .sum::<i128>();
    let max_loss = match limit {
        Some(limit) if limit <= base => return None,
        Some(limit) => i64::try_from(limit - base)
            .unwrap_or(MAX_LOSS)
            .min(MAX_LOSS),
        None => MAX_LOSS,
    };
    let mut units = pools.supply.clone();
    for (loads, _) in pools.loads.iter().zip(&choice).filter(|&(_, &open)| open) {
        for &(pool, load) in loads {
            units[pool] += i128::from(load);
        }
    }
    let flips = flips(lagrangian, pools, decided, &choice, max_loss);

    let mut bound = base;
    // By gate, the loss of its parts above the minimum when it keeps its state, and when it is
    // flipped.
    let mut losses = vec![[0_i128; 2]; choice.len()];
    let mut parts_flipped = vec![0; choice.len()];
    let mut cells = MAX_TABLE_CELLS;
    for ((mut flips, pool_cost), units) in flips.into_iter().zip(&lagrangian.pool_costs).zip(units)
    {
        let all = flips.len();
        let (count, used) = fitting_flips(&flips, cells);
        flips.truncate(count);
        cells -= used;
        let table = KnapsackTable::new(&flips, max_loss, |more| {
            pool_cost.value_at(units + i128::from(more))
        });
        let min_loss = table.min_loss();
        for gate in table.flipped_gates(&flips) {
            parts_flipped[gate] += 1;
        }
        // If `max_loss` is only the cap of the table, larger losses are possible.
        if count < all || (min_loss.is_none() && max_loss == MAX_LOSS) {
            continue;
        }
        let min_loss = min_loss?;
        bound += i128::from(min_loss);
        for (flip, [stays, flipped]) in flips.iter().zip(table.losses_by_state(&flips)) {
            losses[flip.gate][0] += i128::from(stays - min_loss);
            losses[flip.gate][1] += i128::from(flipped - min_loss);
        }
    }
    if limit.is_some_and(|limit| bound >= limit) {
        return None;
    }
    let mut bounds = Vec::with_capacity(choice.len());
    for (gate, open) in choice.iter_mut().enumerate() {
        let parts = pools.loads[gate].len();
        let loss = lagrangian.opening_cost[gate].abs();
        let flipped = match decided[gate] {
            Some(_) => i128::MAX,
            None if parts == 0 => bound + loss,
            None => (base + loss).max(bound + losses[gate][1]),
        };
        let mut states = [flipped; 2];
        states[usize::from(*open)] = bound + losses[gate][0];
        bounds.push(states);
        // A gate is open only if all of its parts are.
        *open = match *open {
            true => parts_flipped[gate] == 0,
            false => parts > 0 && parts_flipped[gate] == parts,
        };
    }
    Some(KnapsackBound {
        bound,
        choice,
        bounds,
    })
}

/// By pool, the gates that could be flipped there at a loss below `max_loss`, cheapest first.
fn flips(
    lagrangian: &LagrangianBound,
    pools: &Pools,
    decided: &[Option<bool>],
    choice: &[bool],
    max_loss: i64,
) -> Vec<Vec<Flip>> {
    let mut flips: Vec<Vec<Flip>> = pools.supply.iter().map(|_| Vec::new()).collect();
    for gate in (0..choice.len()).filter(|&gate| decided[gate].is_none()) {
        let loss = match i64::try_from(lagrangian.opening_cost[gate].abs()) {
            Ok(loss) if loss < max_loss => loss,
            _ => continue,
        };
        let loads = &pools.loads[gate];
        let mut left = (
            loss,
            loads
                .iter()
                .map(|load| i128::from(load.1.abs()))
                .sum::<i128>(),
        );
        for &(pool, units) in loads {
            let here = i128::from(units.abs());
            let part = (i128::from(left.0) * here).checked_div(left.1).unwrap_or(0) as i64;
            left = (left.0 - part, left.1 - here);
            flips[pool].push(Flip {
                gate,
                loss: part,
                step: if choice[gate] { -units } else { units },
            });
        }
    }
    for flips in &mut flips {
        flips.sort_unstable_by_key(|flip| (flip.loss, flip.gate));
    }
    flips
}

/// The number of flips whose table has at most `cells` cells, and the size of that table.
fn fitting_flips(flips: &[Flip], cells: usize) -> (usize, usize) {
    let mut width = 1_usize;
    let mut used = 0;
    for (index, flip) in flips.iter().enumerate() {
        let step = usize::try_from(flip.step.unsigned_abs()).unwrap_or(usize::MAX);
        width = width.saturating_add(step);
        let table = width.saturating_mul(index + 2);
        if table > cells {
            return (index, used);
        }
        used = table;
    }
    (flips.len(), used)
}
