//! The best choice by an estimate, and what each gate's other way would cost.

use crate::gates::estimate::Estimate;
use crate::gates::knapsack::{Table, Turn};
use crate::gates::pools::Pools;

/// Values in all tables of one ranking, at most: 64 MB, and less time than a flow of that size.
const CELLS: usize = 1 << 23;

/// More than any loss, and twice as much still fits.
const NEVER: i64 = i64::MAX / 4;

/// What an estimate says about the choices that agree with what is decided.
pub(super) struct Ranking {
    /// All of them cost this or more.
    pub bound: i128,
    /// A good one, by the estimate.
    pub choice: Vec<bool>,
    /// By gate: those with the gate closed, and open, cost this or more.
    pub ways: Vec<[i128; 2]>,
}

/// Ranks the choices that cost less than `limit`; none if there are none.
///
/// Every gate first goes the way that is cheaper by itself. That may load a pool with more or fewer
/// units than it should have, and the estimate adds the loss. Which gates to turn round instead is
/// a knapsack problem for each pool. A gate with members in several pools is split between them, by
/// units; its parts may then go different ways, which makes the bound lower, but keeps it valid.
pub(super) fn rank(
    estimate: &Estimate,
    pools: &Pools,
    decided: &[Option<bool>],
    limit: Option<i128>,
) -> Option<Ranking> {
    let gates = || estimate.opening.iter().zip(decided);
    let mut choice: Vec<bool> = gates()
        .map(|(&cost, decided)| decided.unwrap_or(cost < 0))
        .collect();
    let costs = estimate.opening.iter().zip(&choice);
    let base = estimate.base
        + costs
            .filter_map(|(&cost, &open)| open.then_some(cost))
            .sum::<i128>();
    let most = match limit {
        Some(limit) if limit <= base => return None,
        Some(limit) => i64::try_from(limit - base).unwrap_or(NEVER).min(NEVER),
        None => NEVER,
    };
    let mut units = pools.supply.clone();
    for (loads, _) in pools.loads.iter().zip(&choice).filter(|&(_, &open)| open) {
        for &(pool, load) in loads {
            units[pool] += i128::from(load);
        }
    }
    let turns = turns(estimate, pools, decided, &choice, most);

    let mut bound = base;
    // By gate, what its parts lose more than they have to when it stays, and when it is turned.
    let mut losses = vec![[0_i128; 2]; choice.len()];
    let mut parts_turned = vec![0; choice.len()];
    let mut cells = CELLS;
    for ((mut turns, valley), units) in turns.into_iter().zip(&estimate.valleys).zip(units) {
        let all = turns.len();
        let (count, used) = fitting(&turns, cells);
        turns.truncate(count);
        cells -= used;
        let table = Table::new(&turns, most, |more| valley.at(units + i128::from(more)));
        let least = table.least();
        for gate in table.trace(&turns) {
            parts_turned[gate] += 1;
        }
        // Where the most is only the most that can be counted, more than that is not too dear.
        if count < all || (least.is_none() && most == NEVER) {
            continue;
        }
        let least = least?;
        bound += i128::from(least);
        for (turn, [stays, turned]) in turns.iter().zip(table.losses(&turns)) {
            losses[turn.gate][0] += i128::from(stays - least);
            losses[turn.gate][1] += i128::from(turned - least);
        }
    }
    if limit.is_some_and(|limit| bound >= limit) {
        return None;
    }
    let mut ways = Vec::with_capacity(choice.len());
    for (gate, open) in choice.iter_mut().enumerate() {
        let parts = pools.loads[gate].len();
        let loss = estimate.opening[gate].abs();
        let turned = match decided[gate] {
            Some(_) => i128::MAX,
            None if parts == 0 => bound + loss,
            None => (base + loss).max(bound + losses[gate][1]),
        };
        let mut way = [turned; 2];
        way[usize::from(*open)] = bound + losses[gate][0];
        ways.push(way);
        // Open only where all parts are.
        *open = match *open {
            true => parts_turned[gate] == 0,
            false => parts > 0 && parts_turned[gate] == parts,
        };
    }
    Some(Ranking {
        bound,
        choice,
        ways,
    })
}

/// By pool, the gates that could go either way there without costing too much by itself, cheapest
/// first.
fn turns(
    estimate: &Estimate,
    pools: &Pools,
    decided: &[Option<bool>],
    choice: &[bool],
    most: i64,
) -> Vec<Vec<Turn>> {
    let mut turns: Vec<Vec<Turn>> = pools.supply.iter().map(|_| Vec::new()).collect();
    for gate in (0..choice.len()).filter(|&gate| decided[gate].is_none()) {
        let loss = match i64::try_from(estimate.opening[gate].abs()) {
            Ok(loss) if loss < most => loss,
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
            turns[pool].push(Turn {
                gate,
                loss: part,
                step: if choice[gate] { -units } else { units },
            });
        }
    }
    for turns in &mut turns {
        turns.sort_unstable_by_key(|turn| (turn.loss, turn.gate));
    }
    turns
}

/// How many of the turns have a table of so many cells at most, and how many it has then.
fn fitting(turns: &[Turn], cells: usize) -> (usize, usize) {
    let mut width = 1_usize;
    let mut used = 0;
    for (index, turn) in turns.iter().enumerate() {
        let step = usize::try_from(turn.step.unsigned_abs()).unwrap_or(usize::MAX);
        width = width.saturating_add(step);
        let table = width.saturating_mul(index + 2);
        if table > cells {
            return (index, used);
        }
        used = table;
    }
    (turns.len(), used)
}
