//! Branch and bound over gates.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use crate::error::FlowError;
use crate::gates::flows::{Flows, NoFlow, Priced};
use crate::gates::ranking::{Ranking, rank};
use crate::gates::{Effort, Gate, GatedAnswer};
use crate::limits::Limits;
use crate::network::Network;

/// Flows to round one choice, at most.
const ROUNDINGS: usize = 8;

/// Choices that are tried in one branch, at most: in the first one, and in each part of it.
const CANDIDATES: [usize; 2] = [16, 2];

/// How many halvings find the best prices between two.
const HALVINGS: u32 = 5;

/// The choices that agree with what is decided.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Branch {
    /// All of them cost this or more. The least comes first.
    bound: Reverse<i128>,
    /// How often branches were split. Of two with the same bound the deeper one comes first.
    depth: usize,
    decided: Vec<Option<bool>>,
}

pub(super) struct Search<'a> {
    flows: Flows<'a>,
    effort: Effort,
    /// Branches that are not done.
    branches: BinaryHeap<Branch>,
    /// Choices that were tried.
    tried: HashSet<Vec<bool>>,
    /// The estimate with the highest bound so far.
    leading: Option<Priced>,
}

impl<'a> Search<'a> {
    pub fn new(
        network: &'a mut Network,
        gates: &[Gate],
        effort: Effort,
        limits: &Limits<'a>,
    ) -> Self {
        let flows = Flows::new(network, gates, effort, limits);
        let all = Branch {
            bound: Reverse(i128::MIN),
            depth: 0,
            decided: flows.layout.decided.clone(),
        };
        Self {
            flows,
            effort,
            branches: BinaryHeap::from([all]),
            tried: HashSet::new(),
            leading: None,
        }
    }

    /// Searches until the best choice is proven to be good enough, or the effort is used up.
    pub fn run(mut self) -> Result<GatedAnswer, FlowError> {
        let found = self.find();
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

    fn find(&mut self) -> Result<(), FlowError> {
        let mut infeasible = None;
        while let Some(mut branch) = self.branches.pop() {
            if self.is_enough(branch.bound.0) {
                self.branches.push(branch);
                return Ok(());
            }
            match self.explore(&mut branch) {
                Ok(()) => {}
                Err(NoFlow::Infeasible(error)) => infeasible = Some(error),
                Err(NoFlow::Error(error)) => return Err(error),
                Err(NoFlow::Spent) => {
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

    /// The last resort, if there is no choice to show yet: closes all gates that can be closed.
    fn close_all(&mut self) -> Result<(), FlowError> {
        if self.flows.best.is_some() {
            return Ok(());
        }
        let decided = self.flows.layout.decided.iter();
        let closed: Vec<_> = decided.map(|decided| decided.or(Some(false))).collect();
        match self.flows.solve_anyway(&closed) {
            Ok(_) | Err(NoFlow::Spent) => {}
            Err(NoFlow::Infeasible(error) | NoFlow::Error(error)) => return Err(error),
        }
        let branches = std::mem::take(&mut self.branches);
        for mut branch in branches {
            if self.settle(&mut branch).is_some() {
                self.branches.push(branch);
            }
        }
        Ok(())
    }

    /// Works on a branch until nothing in it can be better than the best, or splits it.
    fn explore(&mut self, branch: &mut Branch) -> Result<(), NoFlow> {
        if self.settle(branch).is_none() && self.leading.is_some() {
            return Ok(());
        }
        let half_open = self.flows.solve(&branch.decided)?;
        if branch.decided.iter().all(Option::is_some) {
            return Ok(());
        }
        let Some(mut ranking) = self.settle(branch) else {
            return Ok(());
        };
        for _ in 0..CANDIDATES[branch.depth.min(1)] {
            if self.is_enough(branch.bound.0) || !self.tried.insert(ranking.choice.clone()) {
                break;
            }
            self.round(branch, &ranking.choice)?;
            match self.settle(branch) {
                Some(better) => ranking = better,
                None => return Ok(()),
            }
        }
        self.split(branch, &ranking, &half_open);
        Ok(())
    }

    /// Bounds a branch, and decides the gates that have one way left. None if nothing in it is
    /// better than the best, or if there is no estimate yet.
    fn settle(&mut self, branch: &mut Branch) -> Option<Ranking> {
        let mut highest = None;
        if let Some(last) = self.flows.last.take() {
            highest = Some(self.narrow(branch, &last)?);
            self.lead(branch, last);
        }
        if let Some(leading) = &self.leading {
            highest = Some(self.narrow(branch, leading)?);
        }
        highest
    }

    /// Bounds a branch by an estimate, and decides the gates that have one way left.
    fn narrow(&self, branch: &mut Branch, by: &Priced) -> Option<Ranking> {
        let limit = self.flows.best.as_ref().map(|best| best.cost);
        let pools = self.flows.pools.as_ref()?;
        let ranking = rank(&by.estimate, pools, &branch.decided, limit)?;
        for (decided, way) in branch.decided.iter_mut().zip(&ranking.ways) {
            let is_left = way.map(|bound| limit.is_none_or(|limit| bound < limit));
            match (*decided, is_left) {
                (None, [false, false]) => return None,
                (None, [is_closed, is_open]) if is_closed != is_open => *decided = Some(is_open),
                _ => {}
            }
        }
        branch.bound = branch.bound.min(Reverse(ranking.bound));
        Some(ranking)
    }

    /// Looks for prices with the highest bound between the leading ones and new ones.
    ///
    /// The bound is a concave function of the prices. At each point between, the choice that has
    /// the least cost there tells on which side the bound is higher.
    fn lead(&mut self, branch: &Branch, new: Priced) {
        let (Some(old), Some(pools)) = (self.leading.take(), &self.flows.pools) else {
            self.leading = Some(new);
            return;
        };
        let limit = self.flows.best.as_ref().map(|best| best.cost);
        let rank = |priced: &Priced| rank(&priced.estimate, pools, &branch.decided, limit);
        let parts = 1_i128 << HALVINGS;
        let (mut low, mut high) = (0, parts);
        let mut best: Option<(i128, Priced)> = None;
        while high - low > 1 && !self.flows.is_late() {
            let middle = (low + high) / 2;
            let ends = old.price.iter().zip(&new.price);
            let price = ends.map(|(&old, &new)| {
                let part = (i128::from(new) - i128::from(old)) * middle / parts;
                old + part as i64
            });
            let Some(between) = self.flows.estimate(price.collect()) else {
                break;
            };
            let Some(ranking) = rank(&between) else {
                // Nothing is left below the limit.
                best = Some((i128::MAX, between));
                break;
            };
            let [at_old, at_new] = [&old, &new].map(|end| end.estimate.of(pools, &ranking.choice));
            match at_new > at_old || at_new.is_none() {
                true => low = middle,
                false => high = middle,
            }
            if best.as_ref().is_none_or(|best| best.0 < ranking.bound) {
                best = Some((ranking.bound, between));
            }
        }
        let before = rank(&old).map_or(i128::MAX, |ranking| ranking.bound);
        self.leading = match best {
            Some((bound, between)) if bound > before => Some(between),
            _ => Some(old),
        };
    }

    /// Makes a choice of the branch into one with a flow: solves with its open gates relaxed, and
    /// closes those that come out half open.
    fn round(&mut self, branch: &Branch, choice: &[bool]) -> Result<(), NoFlow> {
        let both = branch.decided.iter().zip(choice);
        let mut decided: Vec<Option<bool>> = both
            .map(|(&decided, &open)| decided.or((!open).then_some(false)))
            .collect();
        for _ in 0..ROUNDINGS {
            match self.flows.solve(&decided) {
                Ok(half_open) if !half_open.is_empty() => {
                    for gate in half_open {
                        decided[gate] = Some(false);
                    }
                }
                // There may be something that only the gates closed here would have let through.
                Ok(_) | Err(NoFlow::Infeasible(_)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Splits a branch at the gate whose two ways both raise the bound most; one that is half open
    /// in the relaxation, if there is one.
    fn split(&mut self, branch: &Branch, ranking: &Ranking, half_open: &[usize]) {
        let is_free = |gate: &usize| branch.decided[*gate].is_none();
        let score = |&gate: &usize| {
            let [closed, open] = ranking.ways[gate];
            let is_half_open = half_open.contains(&gate);
            (
                is_half_open,
                closed.min(open),
                closed.max(open),
                Reverse(gate),
            )
        };
        let free = (0..branch.decided.len()).filter(is_free);
        let Some(gate) = free.max_by_key(score) else {
            // What is left is a single choice, without any way to be better but by its flow.
            self.branches.push(branch.clone());
            return;
        };
        for open in [false, true] {
            let mut part = branch.clone();
            part.depth += 1;
            part.decided[gate] = Some(open);
            part.bound = part
                .bound
                .min(Reverse(ranking.ways[gate][usize::from(open)]));
            self.branches.push(part);
        }
    }

    /// Whether the best choice is good enough if no other costs less than this.
    fn is_enough(&self, bound: i128) -> bool {
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
