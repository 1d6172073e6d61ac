//! Branch and bound over gates.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use crate::deadline::Limits;
use crate::error::FlowError;
use crate::gates::knapsack_bound::{KnapsackBound, knapsack_bound};
use crate::gates::relaxation::{NoFlow, PricedBound, Relaxation};
use crate::gates::{Effort, Gate, GatedAnswer};
use crate::network::Network;

/// The maximum number of flows to round one choice.
const MAX_ROUNDING_FLOWS: usize = 8;

/// The maximum number of choices that are tried in the first branch, and in each later one.
const MAX_CANDIDATES: [usize; 2] = [16, 2];

/// The number of bisection steps between two price vectors.
const BISECTIONS: u32 = 5;

/// The set of choices that agree with the decided gates.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Branch {
    /// A lower bound on their cost. The branch with the smallest bound comes first.
    bound: Reverse<i128>,
    /// The number of splits so far. Of two branches with the same bound the deeper one comes first.
    depth: usize,
    decided: Vec<Option<bool>>,
}

pub(super) struct BranchAndBound<'a> {
    flows: Relaxation<'a>,
    effort: Effort,
    /// Branches that may still contain a better choice.
    branches: BinaryHeap<Branch>,
    /// Choices that have been tried.
    tried: HashSet<Vec<bool>>,
    /// The Lagrangian bound that was highest so far, with its prices.
    best_prices: Option<PricedBound>,
}

impl<'a> BranchAndBound<'a> {
    pub fn new(
        network: &'a mut Network,
        gates: &[Gate],
        effort: Effort,
        limits: &Limits<'a>,
    ) -> Self {
        let flows = Relaxation::new(network, gates, effort, limits);
        let all = Branch {
            bound: Reverse(i128::MIN),
            depth: 0,
            decided: flows.positions.decided.clone(),
        };
        Self {
            flows,
            effort,
            branches: BinaryHeap::from([all]),
            tried: HashSet::new(),
            best_prices: None,
        }
    }

    /// Searches until the best choice is proven to be within the allowed gap, or a limit is
    /// reached.
    pub fn run(mut self) -> Result<GatedAnswer, FlowError> {
        let found = self.search();
        self.flows.restore()?;
        found?;
        let left = self.branches.into_iter().map(|branch| branch.bound.0).min();
        match self.flows.best {
            Some(best) => Ok(GatedAnswer {
                cost: best.cost,
                bound: left.unwrap_or(best.cost).min(best.cost),
                open: best.open,
                flows: self.flows.solved,
            }),
            None => Err(FlowError::Expired),
        }
    }

    fn search(&mut self) -> Result<(), FlowError> {
        let mut infeasible = None;
        while let Some(mut branch) = self.branches.pop() {
            if self.is_good_enough(branch.bound.0) {
                self.branches.push(branch);
                return Ok(());
            }
            match self.explore(&mut branch) {
                Ok(()) => {}
                Err(NoFlow::Infeasible(error)) => infeasible = Some(error),
                Err(NoFlow::Error(error)) => return Err(error),
                Err(NoFlow::LimitReached) => {
                    self.branches.push(branch);
                    return self.close_all();
                }
            }
        }
        match (infeasible, &self.flows.best) {
            (Some(error), None) => Err(error),
            _ => Ok(()),
        }
    }

    /// If there is no feasible choice yet, closes all gates that can be closed.
    fn close_all(&mut self) -> Result<(), FlowError> {
        if self.flows.best.is_some() {
            return Ok(());
        }
        let decided = self.flows.positions.decided.iter();
        let closed: Vec<_> = decided.map(|decided| decided.or(Some(false))).collect();
        match self.flows.solve_regardless_of_effort(&closed) {
            Ok(_) | Err(NoFlow::LimitReached) => {}
            Err(NoFlow::Infeasible(error) | NoFlow::Error(error)) => return Err(error),
        }
        let branches = std::mem::take(&mut self.branches);
        for mut branch in branches {
            if self.tighten(&mut branch).is_some() {
                self.branches.push(branch);
            }
        }
        Ok(())
    }

    /// Explores a branch until it cannot contain a better choice, or splits it.
    fn explore(&mut self, branch: &mut Branch) -> Result<(), NoFlow> {
        if self.tighten(branch).is_none() && self.best_prices.is_some() {
            return Ok(());
        }
        let partly_open = self.flows.solve(&branch.decided)?;
        if branch.decided.iter().all(Option::is_some) {
            return Ok(());
        }
        let Some(mut knapsack) = self.tighten(branch) else {
            return Ok(());
        };
        for _ in 0..MAX_CANDIDATES[branch.depth.min(1)] {
            if self.is_good_enough(branch.bound.0) || !self.tried.insert(knapsack.choice.clone()) {
                break;
            }
            self.round_choice(branch, &knapsack.choice)?;
            match self.tighten(branch) {
                Some(better) => knapsack = better,
                None => return Ok(()),
            }
        }
        self.branch_on_gate(branch, &knapsack, &partly_open);
        Ok(())
    }

    /// Updates the bound of a branch, and decides gates with a single possible state. None if the
    /// branch cannot contain a better choice, or if there is no bound yet.
    fn tighten(&mut self, branch: &mut Branch) -> Option<KnapsackBound> {
        let mut highest = None;
        if let Some(last) = self.flows.last.take() {
            highest = Some(self.tighten_by(branch, &last)?);
            self.improve_prices(branch, last);
        }
        if let Some(best_prices) = &self.best_prices {
            highest = Some(self.tighten_by(branch, best_prices)?);
        }
        highest
    }

    /// Updates the bound of a branch by a Lagrangian bound, and decides gates with a single
    /// possible state.
    fn tighten_by(&self, branch: &mut Branch, by: &PricedBound) -> Option<KnapsackBound> {
        let limit = self.flows.best.as_ref().map(|best| best.cost);
        let pools = self.flows.pools.as_ref()?;
        let knapsack = knapsack_bound(&by.lagrangian, pools, &branch.decided, limit)?;
        for (decided, bounds_by_state) in branch.decided.iter_mut().zip(&knapsack.bounds) {
            let is_possible = bounds_by_state.map(|bound| limit.is_none_or(|limit| bound < limit));
            match (*decided, is_possible) {
                (None, [false, false]) => return None,
                (None, [is_closed, is_open]) if is_closed != is_open => *decided = Some(is_open),
                _ => {}
            }
        }
        branch.bound = branch.bound.min(Reverse(knapsack.bound));
        Some(knapsack)
    }

    /// Looks for prices with the highest bound between the best prices so far and new ones.
    ///
    /// The bound is a concave function of the prices. At each point, the choice of minimum cost
    /// shows on which side the bound is higher.
    fn improve_prices(&mut self, branch: &Branch, new: PricedBound) {
        let (Some(old), Some(pools)) = (self.best_prices.take(), &self.flows.pools) else {
            self.best_prices = Some(new);
            return;
        };
        let limit = self.flows.best.as_ref().map(|best| best.cost);
        let bound_by = |priced: &PricedBound| {
            knapsack_bound(&priced.lagrangian, pools, &branch.decided, limit)
        };
        let parts = 1_i128 << BISECTIONS;
        let (mut low, mut high) = (0, parts);
        let mut best: Option<(i128, PricedBound)> = None;
        while high - low > 1 && !self.flows.is_out_of_time() {
            let middle = (low + high) / 2;
            let ends = old.price.iter().zip(&new.price);
            let price = ends.map(|(&old, &new)| {
                let part = (i128::from(new) - i128::from(old)) * middle / parts;
                old + part as i64
            });
            let Some(between) = self.flows.lagrangian(price.collect()) else {
                break;
            };
            let Some(knapsack) = bound_by(&between) else {
                // No choice is left below the limit.
                best = Some((i128::MAX, between));
                break;
            };
            let [at_old, at_new] =
                [&old, &new].map(|end| end.lagrangian.value_of(pools, &knapsack.choice));
            match at_new > at_old || at_new.is_none() {
                true => low = middle,
                false => high = middle,
            }
            if best.as_ref().is_none_or(|best| best.0 < knapsack.bound) {
                best = Some((knapsack.bound, between));
            }
        }
        let before = bound_by(&old).map_or(i128::MAX, |knapsack| knapsack.bound);
        self.best_prices = match best {
            Some((bound, between)) if bound > before => Some(between),
            _ => Some(old),
        };
    }

    /// Rounds a choice of the branch to a feasible one: solves with its open gates relaxed, and
    /// closes those that are partly open in the flow.
    fn round_choice(&mut self, branch: &Branch, choice: &[bool]) -> Result<(), NoFlow> {
        let both = branch.decided.iter().zip(choice);
        let mut decided: Vec<Option<bool>> = both
            .map(|(&decided, &open)| decided.or((!open).then_some(false)))
            .collect();
        for _ in 0..MAX_ROUNDING_FLOWS {
            match self.flows.solve(&decided) {
                Ok(partly_open) if !partly_open.is_empty() => {
                    for gate in partly_open {
                        decided[gate] = Some(false);
                    }
                }
                // Flow may need gates that were closed here.
                Ok(_) | Err(NoFlow::Infeasible(_)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Splits a branch at the gate whose two states both raise the bound most; at a gate that is
    /// partly open in the relaxation, if there is one.
    fn branch_on_gate(&mut self, branch: &Branch, knapsack: &KnapsackBound, partly_open: &[usize]) {
        let is_free = |gate: &usize| branch.decided[*gate].is_none();
        let score = |&gate: &usize| {
            let [closed, open] = knapsack.bounds[gate];
            let is_partly_open = partly_open.contains(&gate);
            (
                is_partly_open,
                closed.min(open),
                closed.max(open),
                Reverse(gate),
            )
        };
        let free = (0..branch.decided.len()).filter(is_free);
        let Some(gate) = free.max_by_key(score) else {
            // A single choice is left, whose bound only its flow can raise.
            self.branches.push(branch.clone());
            return;
        };
        for open in [false, true] {
            let mut part = branch.clone();
            part.depth += 1;
            part.decided[gate] = Some(open);
            part.bound = part
                .bound
                .min(Reverse(knapsack.bounds[gate][usize::from(open)]));
            self.branches.push(part);
        }
    }

    /// Whether the best choice is within the allowed gap of this bound.
    fn is_good_enough(&self, bound: i128) -> bool {
        self.flows.best.as_ref().is_some_and(|best| {
            let gap = best.cost.saturating_sub(bound).max(0);
            let allowed = best
                .cost
                .saturating_abs()
                .saturating_mul(self.effort.gap_ppm.into());
            gap.saturating_mul(1_000_000) <= allowed
        })
    }
}
