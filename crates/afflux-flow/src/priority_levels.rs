//! Levels of priority: each is served before the next, whatever that costs the next.
//!
//! # What is solved
//!
//! A level is a set of arcs, those through which its tasks enter the network. Levels are solved in
//! descending order, each as a problem of its own:
//!
//! 1. The arcs of all levels below are closed: they carry their lower bound, mostly nothing, and no
//!    more. So there should be a way past them, such as an arc for tasks that wait.
//! 2. A flow of least cost is found. What the arcs of the level carry is what the level *keeps*: it
//!    becomes their lower bound.
//! 3. The next level is opened. The flow is still feasible, so no level can fail after the first.
//!
//! No cost of a lower level can outweigh a unit of a higher one, however large, since units are
//! never weighed against each other across levels. That is also why no weights are needed, which
//! would have to grow by a factor per level until they do not fit any more.
//!
//! Each level ends where it ended in the call before, more or less. So that is where it begins, with
//! that flow and those prices, whatever has changed in between; only where there was no such call, it
//! begins with the flow of the level above. This takes memory for one flow per level.
//!
//! # What is proven
//!
//! The prices prove the last flow for the network as it was in the last solve: all levels open, and
//! those above the last with what they keep as lower bounds. So no flow costs less that lets these
//! levels keep what they have. It is not proven that they could keep nothing else:
//!
//! * Kept is how much enters through each arc, and nothing more. Lower levels may make tasks of
//!   higher ones go elsewhere, where they cost more, as long as all of them still go somewhere.
//!   Should it save cost, more of them enter than are kept.
//! * If several flows of a level cost the least and differ in what enters, for example if a task
//!   costs as much where it waits as where it runs, any of them may be the one that is kept. It is
//!   the same one for the same network with the same history, but may be another one after a warm
//!   start. Levels below take it as it is; they are not asked which they would like better. Who
//!   wants ties to be decided for running makes waiting dearer by one.

use std::collections::HashMap;
use std::time::Instant;

use crate::certificate;
use crate::error::FlowError;
use crate::limits::Limits;
use crate::network::{Answer, ArcId, Network};
use crate::problem::Terms;

/// What [`Network::solve_levels`] found; the flow and the prices are read from the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelsAnswer {
    /// What the flow costs.
    pub cost: i128,
    /// No flow costs less in which levels keep what they have in `kept`. Equal to `cost` unless
    /// the limits were reached.
    pub bound: i128,
    /// By level, how many units enter through its arcs.
    pub units: Vec<i128>,
    /// By level and by arc, in the order given, what was the lower bound when the levels below
    /// were solved. Without those levels that were not finished when the limits were reached.
    pub kept: Vec<Vec<i64>>,
}

impl LevelsAnswer {
    /// By how much a better flow could be cheaper, at most, with what is kept.
    pub fn gap(&self) -> i128 {
        self.cost.saturating_sub(self.bound)
    }

    /// Whether all levels were finished, each with a flow that is proven to cost the least.
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound && self.kept.len() == self.units.len()
    }
}

impl Network {
    /// Solves level by level, in descending priority. `levels` has, for each, the arcs through
    /// which its tasks enter.
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
    /// Afterwards, as after an error, all bounds are the caller's own again. The network has the
    /// flow and the prices of the last solve, and knows nothing of levels. With one level, or none,
    /// this is one [`Network::solve`] and nothing else.
    ///
    /// When the limits are reached, the answer is the best flow so far; levels that had not begun
    /// are still closed in it. The bound holds for any flow with all levels open that lets the
    /// finished ones keep what they have. [`FlowError::Expired`] means that not even the first
    /// level had a flow; [`FlowError::Infeasible`], that there is none with all others closed.
    ///
    /// There are no gates in such a call: a gang that could not be placed by its own level would
    /// have to be decided again by all levels below. Solve levels of gangs one by one, each by a
    /// call of [`Network::solve_gated`], and fix the gates that opened by their bounds.
    pub fn solve_levels(
        &mut self,
        levels: &[Vec<ArcId>],
        limits: &Limits<'_>,
    ) -> Result<LevelsAnswer, FlowError> {
        let own = check(self, levels)?;
        let found = match levels {
            [] | [_] => self.solve(limits).and_then(|answer| {
                self.levels = Vec::new();
                let kept = match answer.is_optimal() {
                    true => levels.iter().map(|arcs| self.all_flows(arcs)).collect(),
                    false => Ok(Vec::new()),
                };
                kept.map(|kept| (answer, kept))
            }),
            _ => {
                // The last level goes on from the last answer, unless it was not reached then.
                if self.levels.len() == levels.len() {
                    let last = levels.len() - 1;
                    if self.levels[last].is_none() {
                        self.levels[last] = Some(self.kept());
                    }
                } else {
                    self.levels = vec![None; levels.len()];
                }
                self.descend(levels, &own, limits)
            }
        };
        for (arcs, own) in levels.iter().zip(&own) {
            for (&arc, &own) in arcs.iter().zip(own) {
                self.put_terms(arc, own)?;
            }
        }
        let (Answer { cost, bound }, kept) = found?;
        let units = levels.iter().map(|arcs| {
            let flows = self.all_flows(arcs)?;
            Ok(flows.into_iter().map(i128::from).sum())
        });
        Ok(LevelsAnswer {
            cost,
            bound,
            units: units.collect::<Result<_, FlowError>>()?,
            kept,
        })
    }

    /// Solves one level after the other, and answers what each keeps. Leaves the bounds as they
    /// were in the last solve.
    fn descend(
        &mut self,
        levels: &[Vec<ArcId>],
        own: &[Vec<Terms>],
        limits: &Limits<'_>,
    ) -> Result<(Answer, Vec<Vec<i64>>), FlowError> {
        let started = Instant::now();
        for (arcs, own) in levels.iter().zip(own).skip(1) {
            for (&arc, &own) in arcs.iter().zip(own) {
                let capacity = own.lower;
                self.put_terms(arc, Terms { capacity, ..own })?;
            }
        }
        let last = levels.len() - 1;
        let mut kept: Vec<Vec<i64>> = Vec::with_capacity(levels.len());
        for (number, (arcs, own_here)) in levels.iter().zip(own).enumerate() {
            let left = limits
                .budget
                .map(|all| all.saturating_sub(started.elapsed()));
            if number > 0 {
                let is_late = left.is_some_and(|left| left.is_zero())
                    || limits.interrupted.is_some_and(|asked| asked());
                if is_late {
                    break;
                }
                self.open(arcs, own_here)?;
            }
            if let Some(state) = self.levels[number].take() {
                self.resume(state);
            }
            let rest = Limits {
                budget: left,
                ..*limits
            };
            let found = self.solve(&rest);
            let is_finished = found.as_ref().is_ok_and(Answer::is_optimal);
            if !is_finished && number > 0 {
                match found {
                    Ok(_) | Err(FlowError::Expired) => self.fall_back(number, &found)?,
                    Err(error) => return Err(error),
                }
                break;
            }
            let answer = found?;
            if !is_finished {
                break;
            }
            let flows = self.all_flows(arcs)?;
            if number == last {
                kept.push(flows);
                return Ok((answer, kept));
            }
            self.levels[number] = Some(self.kept());
            for ((&arc, &own), &lower) in arcs.iter().zip(own_here).zip(&flows) {
                self.put_terms(arc, Terms { lower, ..own })?;
            }
            kept.push(flows);
        }
        // Time is up, and there is a flow. Any prices prove a bound, also with all levels open.
        for (arcs, own) in levels.iter().zip(own).skip(kept.len()) {
            self.open(arcs, own)?;
        }
        let problem = self.problem();
        let cost = certificate::feasible(&problem, self.all_flow())
            .map_err(|detail| FlowError::Internal { detail })?;
        let bound = certificate::bound(&problem, self.prices()).min(cost);
        Ok((Answer { cost, bound }, kept))
    }

    /// After a level that was not finished: to the flow of the level before, unless what was found
    /// is cheaper. The flow of the level before is one for this level too, in which nobody enters.
    fn fall_back(
        &mut self,
        number: usize,
        found: &Result<Answer, FlowError>,
    ) -> Result<(), FlowError> {
        let Some(before) = &self.levels[number - 1] else {
            return Ok(());
        };
        let cost = certificate::feasible(&self.problem(), before.all_flow())
            .map_err(|detail| FlowError::Internal { detail })?;
        if !found.as_ref().is_ok_and(|found| found.cost <= cost) {
            self.resume(before.clone());
        }
        Ok(())
    }

    fn open(&mut self, arcs: &[ArcId], own: &[Terms]) -> Result<(), FlowError> {
        let mut arcs = arcs.iter().zip(own);
        arcs.try_for_each(|(&arc, &own)| self.put_terms(arc, own))
    }

    fn all_flows(&self, arcs: &[ArcId]) -> Result<Vec<i64>, FlowError> {
        self.flows(arcs.iter().copied())
    }
}

/// The terms of all arcs of levels, if each is named once.
fn check(network: &Network, levels: &[Vec<ArcId>]) -> Result<Vec<Vec<Terms>>, FlowError> {
    let mut level_of = HashMap::with_capacity(levels.iter().map(Vec::len).sum());
    let mut own = Vec::with_capacity(levels.len());
    for (number, arcs) in levels.iter().enumerate() {
        let terms: Result<Vec<Terms>, FlowError> =
            arcs.iter().map(|&arc| network.terms(arc)).collect();
        own.push(terms?);
        for &arc in arcs {
            if let Some(other) = level_of.insert(arc, number) {
                return Err(FlowError::ArcOfTwoLevels {
                    arc,
                    levels: [other, number],
                });
            }
        }
    }
    Ok(own)
}
