//! Flows for some gates decided and the others relaxed, and what is learnt from each.

use std::time::{Duration, Instant};

use crate::error::FlowError;
use crate::gates::estimate::Estimate;
use crate::gates::layout::Layout;
use crate::gates::pools::Pools;
use crate::gates::{Effort, Gate};
use crate::limits::Limits;
use crate::network::{ArcId, Network};
use crate::problem::{Terms, cost_limit};
use crate::state::State;

/// The best choice so far, with its flow.
pub(super) struct Best {
    pub cost: i128,
    pub open: Vec<bool>,
    pub state: State,
}

/// An estimate and the prices that it comes from.
pub(super) struct Priced {
    pub price: Vec<i64>,
    pub estimate: Estimate,
}

/// Why there is no flow.
pub(super) enum NoFlow {
    /// None of the choices that were asked for has one.
    Infeasible(FlowError),
    /// The effort or the limits are used up.
    Spent,
    Error(FlowError),
}

/// The network with its gates, while they are being decided.
pub(super) struct Flows<'a> {
    pub network: &'a mut Network,
    pub layout: Layout,
    pub waiting: Vec<i64>,
    limits: Limits<'a>,
    started: Instant,
    /// By member, what a unit earns while its gate is undecided.
    share: Vec<i64>,
    pub pools: Option<Pools>,
    /// From the prices of the last flow.
    pub last: Option<Priced>,
    pub best: Option<Best>,
    pub solved: usize,
    effort: Effort,
}

impl<'a> Flows<'a> {
    pub fn new(
        network: &'a mut Network,
        gates: &[Gate],
        effort: Effort,
        limits: &Limits<'a>,
    ) -> Self {
        let layout = Layout::new(&network.problem(), gates);
        let mut flows = Self {
            share: vec![0; layout.members.len()],
            layout,
            waiting: gates.iter().map(|gate| gate.waiting_cost).collect(),
            limits: *limits,
            started: Instant::now(),
            pools: None,
            last: None,
            best: None,
            solved: 0,
            effort,
            network,
        };
        // The prices of the last solve are a good start, if there was one.
        let problem = flows.network.problem();
        let nowhere = Pools::none(&problem, gates.len());
        let prices = flows.network.prices();
        let estimate = Estimate::new(&problem, &flows.layout, &nowhere, &flows.waiting, prices);
        flows.set_shares(&estimate);
        flows
    }

    /// Solves with some gates decided and the others relaxed, if there is effort left for it.
    /// Answers which undecided gates are half open, and has the best choice updated if none is.
    pub fn solve(&mut self, decided: &[Option<bool>]) -> Result<Vec<usize>, NoFlow> {
        match self.solved < self.effort.flows {
            true => self.solve_anyway(decided),
            false => Err(NoFlow::Spent),
        }
    }

    /// The same, whatever the effort.
    pub fn solve_anyway(&mut self, decided: &[Option<bool>]) -> Result<Vec<usize>, NoFlow> {
        if self.is_late() {
            return Err(NoFlow::Spent);
        }
        let left = |budget: Duration| budget.saturating_sub(self.started.elapsed());
        let limits = Limits {
            budget: self.limits.budget.map(left),
            ..self.limits
        };
        self.set_gates(decided).map_err(NoFlow::Error)?;
        self.solved += 1;
        let answer = self.network.solve(&limits).map_err(|error| match error {
            FlowError::Infeasible { .. } => NoFlow::Infeasible(error),
            FlowError::Expired => NoFlow::Spent,
            error => NoFlow::Error(error),
        })?;
        self.learn();
        let half_open = self.note(decided, answer.cost).map_err(NoFlow::Error)?;
        match answer.is_optimal() {
            true => Ok(half_open),
            false => Err(NoFlow::Spent),
        }
    }

    /// Whether the limits are reached.
    pub fn is_late(&self) -> bool {
        let budget = self.limits.budget;
        budget.is_some_and(|budget| self.started.elapsed() >= budget)
            || self.limits.interrupted.is_some_and(|asked| asked())
    }

    /// Gives all arcs back the terms that the caller has set, with the flow of the best choice.
    pub fn restore(&mut self) -> Result<(), FlowError> {
        for member in &self.layout.members {
            self.network.put_terms(member.arc as ArcId, member.terms)?;
        }
        if let Some(best) = &mut self.best {
            self.network.keep(std::mem::take(&mut best.state));
        }
        Ok(())
    }

    fn set_gates(&mut self, decided: &[Option<bool>]) -> Result<(), FlowError> {
        let limit = cost_limit(self.network.problem().nodes());
        for (member, &share) in self.layout.members.iter().zip(&self.share) {
            let own = member.terms;
            let (lower, capacity, cost) = match decided[member.gate] {
                Some(true) => (member.count, member.count, own.cost),
                Some(false) => (0, 0, own.cost),
                None => {
                    let cost = own.cost.saturating_sub(share).clamp(-limit, limit);
                    (0, member.count, cost)
                }
            };
            let terms = Terms {
                lower,
                capacity,
                cost,
            };
            // A change makes work, even one that changes nothing.
            if self.network.terms(member.arc as ArcId)? != terms {
                self.network.set_terms(member.arc as ArcId, terms)?;
            }
        }
        Ok(())
    }

    /// Takes an estimate, and shares for the next flow, from the prices of this one.
    fn learn(&mut self) {
        let price = self.network.prices().to_vec();
        if self.pools.is_none() {
            let problem = self.network.problem();
            self.pools = Some(Pools::find(&problem, &self.layout, &self.waiting, &price));
        }
        let last = self.estimate(price);
        if let Some(last) = &last {
            self.set_shares(&last.estimate);
        }
        self.last = last;
    }

    /// An estimate from any prices.
    pub fn estimate(&self, price: Vec<i64>) -> Option<Priced> {
        let problem = self.network.problem();
        let pools = self.pools.as_ref()?;
        let estimate = Estimate::new(&problem, &self.layout, pools, &self.waiting, &price);
        Some(Priced { price, estimate })
    }

    /// Shares of the waiting cost such that, at these prices, all members of a gate gain or lose
    /// the same per unit.
    fn set_shares(&mut self, estimate: &Estimate) {
        let mut units = vec![0_i128; self.waiting.len()];
        for member in &self.layout.members {
            units[member.gate] += i128::from(member.count);
        }
        let members = self.layout.members.iter().zip(&estimate.opening_member);
        for ((member, cost), share) in members.zip(&mut self.share) {
            let gate = member.gate;
            let here = cost.div_euclid(i128::from(member.count));
            let fair = here - estimate.opening[gate].div_euclid(units[gate]);
            *share = i64::try_from(fair).unwrap_or(if fair < 0 { i64::MIN } else { i64::MAX });
        }
    }

    /// Which gates the flow leaves half open. If none, what it costs may be the best so far.
    fn note(&mut self, decided: &[Option<bool>], cost: i128) -> Result<Vec<usize>, FlowError> {
        let mut cost = cost;
        let mut open = decided.to_vec();
        let mut half_open = Vec::new();
        for member in &self.layout.members {
            let gate = member.gate;
            if decided[gate].is_some() {
                continue;
            }
            let flow = self.network.flow(member.arc as ArcId)?;
            let earned = member.terms.cost - self.network.terms(member.arc as ArcId)?.cost;
            cost += i128::from(earned) * i128::from(flow);
            let is_open = flow == member.count;
            let is_same = *open[gate].get_or_insert(is_open) == is_open;
            if !is_same || (flow > 0 && !is_open) {
                half_open.push(gate);
            }
        }
        half_open.dedup();
        if half_open.is_empty() {
            // A gate without members is best left open: it costs nothing.
            let open: Vec<bool> = open.into_iter().map(|open| open.unwrap_or(true)).collect();
            let closed = self.waiting.iter().zip(&open).filter(|&(_, &open)| !open);
            cost += closed.map(|(&cost, _)| i128::from(cost)).sum::<i128>();
            if self.best.as_ref().is_none_or(|best| cost < best.cost) {
                let state = self.network.kept();
                self.best = Some(Best { cost, open, state });
            }
        }
        Ok(half_open)
    }
}
