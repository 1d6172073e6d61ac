//! Flows with some gates decided and the others relaxed, and the bounds that they give.

use std::time::{Duration, Instant};

use crate::deadline::Limits;
use crate::error::FlowError;
use crate::gates::gate_positions::GatePositions;
use crate::gates::lagrangian_bound::LagrangianBound;
use crate::gates::pools::Pools;
use crate::gates::{Effort, Gate};
use crate::network::{ArcId, Network};
use crate::problem::{Terms, cost_limit};
use crate::solver_state::SolverState;

/// The best choice so far, with its flow.
pub(super) struct BestChoice {
    pub cost: i128,
    pub open: Vec<bool>,
    pub state: SolverState,
}

pub(super) struct PricedBound {
    pub price: Vec<i64>,
    pub lagrangian: LagrangianBound,
}

/// Why there is no flow.
pub(super) enum NoFlow {
    /// No choice that agrees with the decided gates is feasible.
    Infeasible(FlowError),
    /// A limit of effort or time was reached.
    LimitReached,
    Error(FlowError),
}

/// The network while its gates are being decided.
pub(super) struct Relaxation<'a> {
    pub network: &'a mut Network,
    pub positions: GatePositions,
    pub waiting: Vec<i64>,
    limits: Limits<'a>,
    started: Instant,
    /// By member, the share of the waiting cost that a unit earns while its gate is undecided.
    share: Vec<i64>,
    pub pools: Option<Pools>,
    /// The bound from the prices of the last flow.
    pub last: Option<PricedBound>,
    pub best: Option<BestChoice>,
    pub solved: usize,
    effort: Effort,
}

impl<'a> Relaxation<'a> {
    pub fn new(
        network: &'a mut Network,
        gates: &[Gate],
        effort: Effort,
        limits: &Limits<'a>,
    ) -> Self {
        let positions = GatePositions::new(&network.problem(), gates);
        let mut flows = Self {
            share: vec![0; positions.members.len()],
            positions,
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
        // The prices of the last solve, if there was one, are a good start.
        let problem = flows.network.problem();
        let nowhere = Pools::none(&problem, gates.len());
        let prices = flows.network.prices();
        let lagrangian =
            LagrangianBound::new(&problem, &flows.positions, &nowhere, &flows.waiting, prices);
        flows.set_shares(&lagrangian);
        flows
    }

    /// Solves with some gates decided and the others relaxed, if there is effort left. Returns the
    /// undecided gates that are partly open, and updates the best choice if there is none.
    pub fn solve(&mut self, decided: &[Option<bool>]) -> Result<Vec<usize>, NoFlow> {
        match self.solved < self.effort.flows {
            true => self.solve_regardless_of_effort(decided),
            false => Err(NoFlow::LimitReached),
        }
    }

    /// The same, whatever effort is left.
    pub fn solve_regardless_of_effort(
        &mut self,
        decided: &[Option<bool>],
    ) -> Result<Vec<usize>, NoFlow> {
        if self.is_out_of_time() {
            return Err(NoFlow::LimitReached);
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
            FlowError::Expired => NoFlow::LimitReached,
            error => NoFlow::Error(error),
        })?;
        self.update_bound();
        let partly_open = self
            .record_choice(decided, answer.cost)
            .map_err(NoFlow::Error)?;
        match answer.is_optimal() {
            true => Ok(partly_open),
            false => Err(NoFlow::LimitReached),
        }
    }

    pub fn is_out_of_time(&self) -> bool {
        let budget = self.limits.budget;
        budget.is_some_and(|budget| self.started.elapsed() >= budget)
            || self
                .limits
                .interrupted
                .is_some_and(|is_interrupted| is_interrupted())
    }

    /// Restores the caller's terms of all arcs, and the flow of the best choice.
    pub fn restore(&mut self) -> Result<(), FlowError> {
        for member in &self.positions.members {
            self.network
                .restore_terms(member.arc as ArcId, member.terms)?;
        }
        if let Some(best) = &mut self.best {
            self.network.restore(std::mem::take(&mut best.state));
        }
        Ok(())
    }

    fn set_gates(&mut self, decided: &[Option<bool>]) -> Result<(), FlowError> {
        let limit = cost_limit(self.network.problem().nodes());
        for (member, &share) in self.positions.members.iter().zip(&self.share) {
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
            // Even a change to the same terms marks nodes as changed.
            if self.network.terms(member.arc as ArcId)? != terms {
                self.network.set_terms(member.arc as ArcId, terms)?;
            }
        }
        Ok(())
    }

    /// Computes the bound, and the shares for the next flow, from the prices of this flow.
    fn update_bound(&mut self) {
        let price = self.network.prices().to_vec();
        if self.pools.is_none() {
            let problem = self.network.problem();
            self.pools = Some(Pools::find(
                &problem,
                &self.positions,
                &self.waiting,
                &price,
            ));
        }
        let last = self.lagrangian(price);
        if let Some(last) = &last {
            self.set_shares(&last.lagrangian);
        }
        self.last = last;
    }

    pub fn lagrangian(&self, price: Vec<i64>) -> Option<PricedBound> {
        let problem = self.network.problem();
        let pools = self.pools.as_ref()?;
        let lagrangian =
            LagrangianBound::new(&problem, &self.positions, pools, &self.waiting, &price);
        Some(PricedBound { price, lagrangian })
    }

    /// Sets the shares of the waiting cost such that, at these prices, all members of a gate gain
    /// or lose the same per unit.
    fn set_shares(&mut self, lagrangian: &LagrangianBound) {
        let mut units = vec![0_i128; self.waiting.len()];
        for member in &self.positions.members {
            units[member.gate] += i128::from(member.count);
        }
        let members = self
            .positions
            .members
            .iter()
            .zip(&lagrangian.member_opening_cost);
        for ((member, cost), share) in members.zip(&mut self.share) {
            let gate = member.gate;
            let here = cost.div_euclid(i128::from(member.count));
            let fair = here - lagrangian.opening_cost[gate].div_euclid(units[gate]);
            *share = i64::try_from(fair).unwrap_or(if fair < 0 { i64::MIN } else { i64::MAX });
        }
    }

    /// Returns the gates that the flow leaves partly open. If there are none, the flow may be the
    /// best choice so far.
    fn record_choice(
        &mut self,
        decided: &[Option<bool>],
        cost: i128,
    ) -> Result<Vec<usize>, FlowError> {
        let mut cost = cost;
        let mut open = decided.to_vec();
        let mut partly_open = Vec::new();
        for member in &self.positions.members {
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
                partly_open.push(gate);
            }
        }
        partly_open.dedup();
        if partly_open.is_empty() {
            // A gate without members is open, which costs nothing.
            let open: Vec<bool> = open.into_iter().map(|open| open.unwrap_or(true)).collect();
            let closed = self.waiting.iter().zip(&open).filter(|&(_, &open)| !open);
            cost += closed.map(|(&cost, _)| i128::from(cost)).sum::<i128>();
            if self.best.as_ref().is_none_or(|best| cost < best.cost) {
                let state = self.network.snapshot();
                self.best = Some(BestChoice { cost, open, state });
            }
        }
        Ok(partly_open)
    }
}
