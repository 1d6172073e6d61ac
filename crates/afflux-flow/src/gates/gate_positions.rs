//! The position of the gates in the network, computed once before any flow is solved.

use std::iter::repeat;
use std::ops::Range;

use crate::gates::Gate;
use crate::problem::{Arc, Problem, Terms};

/// A member arc of a gate.
pub(super) struct Member {
    pub arc: usize,
    pub gate: usize,
    pub count: i64,
    /// The terms set by the caller.
    pub terms: Terms,
    pub tail: usize,
    pub head: usize,
    /// The other arcs out of the tail, if the tail is private to the gate: nothing enters it.
    pub bypass: Option<Range<usize>>,
    /// The arcs out of the head, if the head is private to the gate: nothing else enters it.
    pub onward: Option<Range<usize>>,
}

/// All members, gate by gate, and the private nodes, which only one gate uses.
///
/// The flow that an open or closed gate sends through a private node is known, so its cost is
/// computed exactly from the prices of the nodes where it arrives. The solver's prices of private
/// nodes are weaker, because they are arbitrary within a range when nothing flows.
pub(super) struct GatePositions {
    pub members: Vec<Member>,
    /// By arc, whether it is a member or leaves a private node.
    pub is_local: Vec<bool>,
    /// By node, whether it is private to a gate.
    pub is_private: Vec<bool>,
    /// By gate, its only possible state, if there is only one.
    pub decided: Vec<Option<bool>>,
    /// Arcs out of private nodes, except members.
    exits: Vec<Exit>,
}

/// An arc out of a private node.
pub(super) struct Exit {
    pub head: usize,
    cost: i64,
    /// The smaller of its capacity and the capacity out of its head.
    capacity: i64,
}

impl GatePositions {
    pub fn new(problem: &Problem<'_>, gates: &[Gate]) -> Self {
        let mut positions = Self {
            members: Vec::new(),
            is_local: vec![false; problem.arcs().len()],
            is_private: vec![false; problem.nodes()],
            decided: vec![None; gates.len()],
            exits: Vec::new(),
        };
        for (number, gate) in gates.iter().enumerate() {
            for &(id, count) in &gate.members {
                let arc = problem.arc(id as usize);
                positions.is_local[id as usize] = true;
                positions.members.push(Member {
                    arc: id as usize,
                    gate: number,
                    count,
                    terms: Terms {
                        lower: arc.lower,
                        capacity: arc.capacity,
                        cost: arc.cost,
                    },
                    tail: arc.tail,
                    head: arc.head,
                    bypass: None,
                    onward: None,
                });
            }
        }
        positions.find_private_nodes(problem);
        positions.decide_forced_gates(problem.supply());
        positions
    }

    fn find_private_nodes(&mut self, problem: &Problem<'_>) {
        let mut entering = vec![0_u32; problem.nodes()];
        let mut leaving = vec![0_u32; problem.nodes()];
        let mut members = vec![0_u32; problem.nodes()];
        let mut may_be_private = vec![true; problem.nodes()];
        for (arc, is_member) in self.all_arcs(problem) {
            if arc.capacity > 0 {
                entering[arc.head] += 1;
                leaving[arc.tail] += 1;
                members[arc.tail] += u32::from(is_member);
                may_be_private[arc.tail] &= arc.lower == 0;
            }
        }
        // An exit has a single cost, so a node with an outgoing convex arc is not treated as
        // private.
        for arc in problem.convex_arcs().unit_arcs() {
            may_be_private[arc.tail] = false;
        }
        // By private node, the next position in `exits`.
        let mut position = vec![usize::MAX; problem.nodes()];
        let mut length = 0;
        let mut claim_private = |node: usize, exits: u32| {
            position[node] = length;
            length += exits as usize;
            self.is_private[node] = true;
            Some(position[node]..length)
        };
        let supply = problem.supply();
        for member in &mut self.members {
            let (tail, head) = (member.tail, member.head);
            if may_be_private[tail]
                && entering[tail] == 0
                && members[tail] == 1
                && supply[tail] >= 0
            {
                member.bypass = claim_private(tail, leaving[tail] - 1);
            }
            if may_be_private[head]
                && entering[head] == 1
                && members[head] == 0
                && supply[head] == 0
            {
                member.onward = claim_private(head, leaving[head]);
            }
        }
        let mut capacity: Vec<i64> = supply
            .iter()
            .map(|&units| units.min(0).saturating_neg())
            .collect();
        for arc in problem.all_arcs() {
            capacity[arc.tail] = capacity[arc.tail].saturating_add(arc.capacity);
        }
        let nowhere = || Exit {
            head: 0,
            cost: 0,
            capacity: 0,
        };
        self.exits.resize_with(length, nowhere);
        for (number, arc) in problem.arcs().enumerate() {
            let position = &mut position[arc.tail];
            if *position != usize::MAX && arc.capacity > 0 && !self.is_local[number] {
                self.is_local[number] = true;
                self.exits[*position] = Exit {
                    head: arc.head,
                    cost: arc.cost,
                    capacity: arc.capacity.min(capacity[arc.head]),
                };
                *position += 1;
            }
        }
    }

    /// Decides gates for which the capacity allows only one state.
    fn decide_forced_gates(&mut self, supply: &[i64]) {
        let capacity = |range: &Range<usize>| -> i128 {
            let exits = self.exits[range.clone()].iter();
            exits.map(|exit| i128::from(exit.capacity)).sum()
        };
        for member in &self.members {
            let decided = &mut self.decided[member.gate];
            if member
                .onward
                .as_ref()
                .is_some_and(|range| capacity(range) < member.count.into())
            {
                *decided = Some(false);
            }
            if let Some(range) = &member.bypass {
                let (capacity, supply) = (capacity(range), supply[member.tail]);
                if supply < member.count || capacity < i128::from(supply - member.count) {
                    *decided = Some(false);
                } else if capacity < supply.into() {
                    decided.get_or_insert(true);
                }
            }
        }
    }

    /// All arcs, and whether they are local; convex arcs never are.
    pub fn all_arcs(&self, problem: &Problem<'_>) -> impl Iterator<Item = (Arc, bool)> {
        let is_local = self.is_local.iter().copied().chain(repeat(false));
        problem.all_arcs().zip(is_local)
    }

    pub fn exits(&self, range: &Range<usize>) -> &[Exit] {
        &self.exits[range.clone()]
    }
}

/// Computes the cost of sending units along the arcs out of a private node, at the prices of the
/// nodes where they arrive.
pub(super) struct ExitCosts<'a> {
    pub price: &'a [i64],
    /// Costs and capacities; reused memory.
    pub offers: Vec<(i64, i64)>,
}

impl ExitCosts<'_> {
    /// The minimum cost of these units; none if the capacity is too small.
    pub fn cost(&mut self, exits: &[Exit], units: i64) -> Option<i128> {
        let exits = exits.iter().filter(|exit| exit.capacity > 0);
        let offers = exits.map(|exit| (exit.cost - self.price[exit.head], exit.capacity));
        self.offers.clear();
        self.offers.extend(offers);
        cheapest(&mut self.offers, units)
    }
}

fn cheapest(offers: &mut [(i64, i64)], units: i64) -> Option<i128> {
    let mut left = units;
    let mut sum = 0;
    // Every arc carries at least one unit, so no more arcs than units are needed.
    let enough = usize::try_from(units).ok()?.min(offers.len());
    if 0 < enough && enough < offers.len() {
        offers.select_nth_unstable(enough - 1);
    }
    let offers = &mut offers[..enough];
    offers.sort_unstable();
    for &mut (cost, capacity) in offers {
        let units = capacity.min(left);
        sum += i128::from(cost) * i128::from(units);
        left -= units;
    }
    (left == 0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::cheapest;

    #[test]
    fn units_use_the_cheapest_arcs_first() {
        let offers = [(5, 2), (1, 1), (3, 4), (9, 9)];
        assert_eq!(cheapest(&mut offers.to_vec(), 0), Some(0));
        assert_eq!(cheapest(&mut offers.to_vec(), 1), Some(1));
        assert_eq!(cheapest(&mut offers.to_vec(), 3), Some(7));
        assert_eq!(cheapest(&mut offers.to_vec(), 8), Some(32));
        assert_eq!(cheapest(&mut offers.to_vec(), 16), Some(104));
        assert_eq!(cheapest(&mut offers.to_vec(), 17), None);
    }
}
