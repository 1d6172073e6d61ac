//! Priority levels: each level is solved before the next, whatever that costs the next.
//!
//! # What is solved
//!
//! A level is the set of arcs through which its tasks enter the network. Levels are solved in
//! descending order of priority, each as a problem of its own:
//!
//! 1. The arcs of all lower levels are closed: their capacity is their lower bound, usually zero.
//!    So each task of a level needs another arc, such as one for tasks that wait.
//! 2. A flow of minimum cost is found. The flow on the arcs of the level is *guaranteed* to the
//!    level: it becomes their lower bound.
//! 3. The next level is opened. The flow is still feasible, so no level can fail after the first.
//!
//! No cost of a lower level can outweigh a unit of a higher one, because units are never compared
//! across levels. A single problem with weights would need weights that grow by a factor per level
//! until they do not fit 64 bits.
//!
//! Each level usually ends near the flow with which it ended in the call before. So it starts from
//! that flow and those prices, whatever has changed since; without such a call it starts from the
//! flow of the level above. This needs memory for one flow per level.
//!
//! # What is proven
//!
//! The prices prove the last flow for the network of the last solve: all levels open, and all
//! levels above the last with their guaranteed flow as lower bounds. So no flow that preserves
//! these guarantees costs less. Other guarantees may be possible:
//!
//! * Only the flow through each entering arc is guaranteed. Lower levels may move tasks of higher
//!   levels to more expensive places, as long as all of them are still placed. If it saves cost,
//!   more units enter than are guaranteed.
//! * If several flows of a level are optimal and differ in the flow that enters, for example if
//!   waiting costs a task as much as running, any of them may be guaranteed. The same network with
//!   the same history gives the same one, but a warm start may give another. Lower levels have no
//!   influence on it. A caller that prefers running makes waiting more expensive by one.

use std::collections::HashMap;
use std::time::Instant;

use crate::certificate;
use crate::deadline::Limits;
use crate::error::FlowError;
use crate::network::{Answer, ArcId, Network};
use crate::problem::Terms;

/// The answer of [`Network::solve_levels`]; flow and prices are read from the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelsAnswer {
    /// The cost of the flow.
    pub cost: i128,
    /// A lower bound on the cost of every flow that preserves the guarantees in `guaranteed`. Equal
    /// to `cost` unless a limit was reached.
    pub bound: i128,
    /// By level, the units that enter through its arcs.
    pub units: Vec<i128>,
    /// By level and by arc, in the order given, the guaranteed flow: the lower bound while lower
    /// levels were solved. Only levels that were finished before a limit was reached are included.
    pub guaranteed: Vec<Vec<i64>>,
}

impl LevelsAnswer {
    /// An upper bound on what a better flow with the same guarantees could save.
    pub fn gap(&self) -> i128 {
        self.cost.saturating_sub(self.bound)
    }

    /// Whether all levels were finished with a proven optimal flow.
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound && self.guaranteed.len() == self.units.len()
    }
}

impl Network {
    /// Solves level by level, in descending priority. `levels` has, for each level, the arcs
    /// through which its tasks enter.
    ///
    /// ```
    /// use afflux_flow::{Limits, Network, Terms};
    ///
    /// let mut network = Network::new();
    /// let arc = |capacity, cost| Terms { lower: 0, capacity, cost };
    /// let sink = network.add_node(-5)?;
    /// let machine = network.add_node(0)?;
    /// network.add_arc(machine, sink, arc(3, 0))?;
    /// let mut levels = Vec::new();
    /// for (tasks, waiting_cost) in [(2, 10), (3, 1000)] {
    ///     let source = network.add_node(tasks)?;
    ///     levels.push(vec![network.add_arc(source, machine, arc(tasks, 1))?]);
    ///     network.add_arc(source, sink, arc(tasks, waiting_cost))?;
    /// }
    /// // There is room for three tasks. The two of the first level go first, although those of the
    /// // second pay more for waiting.
    /// let answer = network.solve_levels(&levels, &Limits::default())?;
    /// assert_eq!(answer.units, [2, 1]);
    /// assert_eq!((answer.cost, answer.bound), (2 + 1 + 2 * 1000, 2003));
    /// # Ok::<(), afflux_flow::FlowError>(())
    /// ```
    ///
    /// Afterwards, also after an error, all bounds are restored. The network has the flow and the
    /// prices of the last solve. With one level or none, this is the same as [`Network::solve`].
    ///
    /// If a limit is reached, the answer is the best flow so far, in which levels that have not
    /// begun are closed. The bound holds for any flow with all levels open that preserves the
    /// guarantees of finished levels. [`FlowError::Expired`] means that the first level has no
    /// feasible flow yet; [`FlowError::Infeasible`], that there is none with all other levels
    /// closed.
    ///
    /// Gates cannot be part of such a call, because each lower level would have to decide them
    /// again. Solve levels with gangs one by one, each by [`Network::solve_gated`], and fix the
    /// open gates by their bounds.
    pub fn solve_levels(
        &mut self,
        levels: &[Vec<ArcId>],
        limits: &Limits<'_>,
    ) -> Result<LevelsAnswer, FlowError> {
        let original = check(self, levels)?;
        let found = match levels {
            [] | [_] => self.solve(limits).and_then(|answer| {
                self.level_states = Vec::new();
                let guaranteed = match answer.is_optimal() {
                    true => levels.iter().map(|arcs| self.flows_of(arcs)).collect(),
                    false => Ok(Vec::new()),
                };
                guaranteed.map(|guaranteed| (answer, guaranteed))
            }),
            _ => {
                // The last level starts from the last answer, unless the last call did not reach
                // it.
                if self.level_states.len() == levels.len() {
                    let last = levels.len() - 1;
                    if self.level_states[last].is_none() {
                        self.level_states[last] = Some(self.snapshot());
                    }
                } else {
                    self.level_states = vec![None; levels.len()];
                }
                self.solve_in_order(levels, &original, limits)
            }
        };
        for (arcs, original) in levels.iter().zip(&original) {
            for (&arc, &original) in arcs.iter().zip(original) {
                self.restore_terms(arc, original)?;
            }
        }
        let (Answer { cost, bound }, guaranteed) = found?;
        let units = levels.iter().map(|arcs| {
            let flows = self.flows_of(arcs)?;
            Ok(flows.into_iter().map(i128::from).sum())
        });
        Ok(LevelsAnswer {
            cost,
            bound,
            units: units.collect::<Result<_, FlowError>>()?,
            guaranteed,
        })
    }

    /// Solves one level after the other; returns the guaranteed flows. Leaves the bounds of the
    /// last solve.
    fn solve_in_order(
        &mut self,
        levels: &[Vec<ArcId>],
        original: &[Vec<Terms>],
        limits: &Limits<'_>,
    ) -> Result<(Answer, Vec<Vec<i64>>), FlowError> {
        let started = Instant::now();
        for (arcs, original) in levels.iter().zip(original).skip(1) {
            for (&arc, &original) in arcs.iter().zip(original) {
                let capacity = original.lower;
                self.restore_terms(
                    arc,
                    Terms {
                        capacity,
                        ..original
                    },
                )?;
            }
        }
        let last = levels.len() - 1;
        let mut guaranteed: Vec<Vec<i64>> = Vec::with_capacity(levels.len());
        for (number, (arcs, original_here)) in levels.iter().zip(original).enumerate() {
            let left = limits
                .budget
                .map(|all| all.saturating_sub(started.elapsed()));
            if number > 0 {
                let is_out_of_time = left.is_some_and(|left| left.is_zero())
                    || limits
                        .interrupted
                        .is_some_and(|is_interrupted| is_interrupted());
                if is_out_of_time {
                    break;
                }
                self.open_level(arcs, original_here)?;
            }
            if let Some(state) = self.level_states[number].take() {
                self.warm_start_from(state);
            }
            let rest = Limits {
                budget: left,
                ..*limits
            };
            let found = self.solve(&rest);
            let is_finished = found.as_ref().is_ok_and(Answer::is_optimal);
            if !is_finished && number > 0 {
                match found {
                    Ok(_) | Err(FlowError::Expired) => self.restore_better_flow(number, &found)?,
                    Err(error) => return Err(error),
                }
                break;
            }
            let answer = found?;
            if !is_finished {
                break;
            }
            let flows = self.flows_of(arcs)?;
            if number == last {
                guaranteed.push(flows);
                return Ok((answer, guaranteed));
            }
            self.level_states[number] = Some(self.snapshot());
            for ((&arc, &original), &lower) in arcs.iter().zip(original_here).zip(&flows) {
                self.restore_terms(arc, Terms { lower, ..original })?;
            }
            guaranteed.push(flows);
        }
        // A limit was reached, and there is a feasible flow. Any prices prove a bound, also with
        // all levels open.
        for (arcs, original) in levels.iter().zip(original).skip(guaranteed.len()) {
            self.open_level(arcs, original)?;
        }
        let problem = self.problem();
        let cost = certificate::feasible(&problem, self.all_flow())
            .map_err(|detail| FlowError::Internal { detail })?;
        let bound = certificate::bound(&problem, self.prices()).min(cost);
        Ok((Answer { cost, bound }, guaranteed))
    }

    /// After an unfinished level: restores the flow of the level before, unless the flow found is
    /// cheaper. The former is feasible for this level too, with no units entering.
    fn restore_better_flow(
        &mut self,
        number: usize,
        found: &Result<Answer, FlowError>,
    ) -> Result<(), FlowError> {
        let Some(before) = &self.level_states[number - 1] else {
            return Ok(());
        };
        let cost = certificate::feasible(&self.problem(), before.all_flow())
            .map_err(|detail| FlowError::Internal { detail })?;
        if !found.as_ref().is_ok_and(|found| found.cost <= cost) {
            self.warm_start_from(before.clone());
        }
        Ok(())
    }

    fn open_level(&mut self, arcs: &[ArcId], original: &[Terms]) -> Result<(), FlowError> {
        let mut arcs = arcs.iter().zip(original);
        arcs.try_for_each(|(&arc, &original)| self.restore_terms(arc, original))
    }

    fn flows_of(&self, arcs: &[ArcId]) -> Result<Vec<i64>, FlowError> {
        self.flows(arcs.iter().copied())
    }
}

/// The terms of all arcs of all levels; an error if an arc is named twice.
fn check(network: &Network, levels: &[Vec<ArcId>]) -> Result<Vec<Vec<Terms>>, FlowError> {
    let mut level_of = HashMap::with_capacity(levels.iter().map(Vec::len).sum());
    let mut original = Vec::with_capacity(levels.len());
    for (number, arcs) in levels.iter().enumerate() {
        let terms: Result<Vec<Terms>, FlowError> =
            arcs.iter().map(|&arc| network.terms(arc)).collect();
        original.push(terms?);
        for &arc in arcs {
            if let Some(other) = level_of.insert(arc, number) {
                return Err(FlowError::ArcOfTwoLevels {
                    arc,
                    levels: [other, number],
                });
            }
        }
    }
    Ok(original)
}
