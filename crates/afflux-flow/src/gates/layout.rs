//! Where the gates are in the network: looked up once, before any flow is solved.

use std::iter::repeat;
use std::ops::Range;

use crate::gates::Gate;
use crate::problem::{Arc, Problem, Terms};

/// An arc of a gate.
pub(super) struct Member {
    pub arc: usize,
    pub gate: usize,
    pub count: i64,
    /// As the caller has set them.
    pub terms: Terms,
    pub tail: usize,
    pub head: usize,
    /// The other arcs out of the tail, if the tail is the gate's own: nothing enters it.
    pub past: Option<Range<usize>>,
    /// The arcs out of the head, if the head is the gate's own: nothing else enters it.
    pub onward: Option<Range<usize>>,
}

/// All members, gate by gate, and the nodes that only one gate uses.
///
/// What an open or closed gate sends through a node of its own is known, so what that costs is
/// computed exactly, from the prices of the nodes where it arrives. The solver's prices of own
/// nodes would tell less: nothing holds them in place when nothing flows.
pub(super) struct Layout {
    pub members: Vec<Member>,
    /// By arc, whether it is a member or leaves a gate's own node.
    pub is_local: Vec<bool>,
    /// By node, whether it is a gate's own.
    pub is_own: Vec<bool>,
    /// By gate, the only way it can go, if there is only one.
    pub decided: Vec<Option<bool>>,
    /// Arcs out of gates' own nodes, but members.
    exits: Vec<Exit>,
}

/// An arc out of a gate's own node.
pub(super) struct Exit {
    pub head: usize,
    cost: i64,
    /// What it can carry, and what can go on from its head.
    room: i64,
}

impl Layout {
    pub fn new(problem: &Problem<'_>, gates: &[Gate]) -> Self {
        let mut layout = Self {
            members: Vec::new(),
            is_local: vec![false; problem.arcs().len()],
            is_own: vec![false; problem.nodes()],
            decided: vec![None; gates.len()],
            exits: Vec::new(),
        };
        for (number, gate) in gates.iter().enumerate() {
            for &(id, count) in &gate.members {
                let arc = problem.arc(id as usize);
                layout.is_local[id as usize] = true;
                layout.members.push(Member {
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
                    past: None,
                    onward: None,
                });
            }
        }
        layout.find_own(problem);
        layout.decide(problem.supply());
        layout
    }

    fn find_own(&mut self, problem: &Problem<'_>) {
        let mut entering = vec![0_u32; problem.nodes()];
        let mut leaving = vec![0_u32; problem.nodes()];
        let mut members = vec![0_u32; problem.nodes()];
        let mut is_free = vec![true; problem.nodes()];
        for (arc, is_member) in self.all_arcs(problem) {
            if arc.capacity > 0 {
                entering[arc.head] += 1;
                leaving[arc.tail] += 1;
                members[arc.tail] += u32::from(is_member);
                is_free[arc.tail] &= arc.lower == 0;
            }
        }
        // An exit has one cost, so a node that a convex arc leaves is not taken for a gate's own.
        for arc in problem.rows().pieces() {
            is_free[arc.tail] = false;
        }
        // The next place in `exits` for an arc out of each own node.
        let mut place = vec![usize::MAX; problem.nodes()];
        let mut length = 0;
        let mut own = |node: usize, exits: u32| {
            place[node] = length;
            length += exits as usize;
            self.is_own[node] = true;
            Some(place[node]..length)
        };
        let supply = problem.supply();
        for member in &mut self.members {
            let (tail, head) = (member.tail, member.head);
            if is_free[tail] && entering[tail] == 0 && members[tail] == 1 && supply[tail] >= 0 {
                member.past = own(tail, leaving[tail] - 1);
            }
            if is_free[head] && entering[head] == 1 && members[head] == 0 && supply[head] == 0 {
                member.onward = own(head, leaving[head]);
            }
        }
        let mut room: Vec<i64> = supply
            .iter()
            .map(|&units| units.min(0).saturating_neg())
            .collect();
        for arc in problem.all_arcs() {
            room[arc.tail] = room[arc.tail].saturating_add(arc.capacity);
        }
        let nowhere = || Exit {
            head: 0,
            cost: 0,
            room: 0,
        };
        self.exits.resize_with(length, nowhere);
        for (number, arc) in problem.arcs().enumerate() {
            let place = &mut place[arc.tail];
            if *place != usize::MAX && arc.capacity > 0 && !self.is_local[number] {
                self.is_local[number] = true;
                self.exits[*place] = Exit {
                    head: arc.head,
                    cost: arc.cost,
                    room: arc.capacity.min(room[arc.head]),
                };
                *place += 1;
            }
        }
    }

    /// Finds gates without room for one of their ways.
    fn decide(&mut self, supply: &[i64]) {
        let room = |range: &Range<usize>| -> i128 {
            let exits = self.exits[range.clone()].iter();
            exits.map(|exit| i128::from(exit.room)).sum()
        };
        for member in &self.members {
            let decided = &mut self.decided[member.gate];
            if member
                .onward
                .as_ref()
                .is_some_and(|range| room(range) < member.count.into())
            {
                *decided = Some(false);
            }
            if let Some(range) = &member.past {
                let (room, supply) = (room(range), supply[member.tail]);
                if supply < member.count || room < i128::from(supply - member.count) {
                    *decided = Some(false);
                } else if room < supply.into() {
                    decided.get_or_insert(true);
                }
            }
        }
    }

    /// All arcs, and whether they are local; convex ones never are.
    pub fn all_arcs(&self, problem: &Problem<'_>) -> impl Iterator<Item = (Arc, bool)> {
        let is_local = self.is_local.iter().copied().chain(repeat(false));
        problem.all_arcs().zip(is_local)
    }

    /// The arcs of a range.
    pub fn exits(&self, range: &Range<usize>) -> &[Exit] {
        &self.exits[range.clone()]
    }
}

/// Sends units along the arcs out of an own node, at the prices of the nodes where they arrive.
pub(super) struct Exits<'a> {
    pub price: &'a [i64],
    /// Costs and room; memory that is used again.
    pub offers: Vec<(i64, i64)>,
}

impl Exits<'_> {
    /// What so many units cost at least; none if there is too little room.
    pub fn cost(&mut self, exits: &[Exit], units: i64) -> Option<i128> {
        let exits = exits.iter().filter(|exit| exit.room > 0);
        let offers = exits.map(|exit| (exit.cost - self.price[exit.head], exit.room));
        self.offers.clear();
        self.offers.extend(offers);
        cheapest(&mut self.offers, units)
    }
}

fn cheapest(offers: &mut [(i64, i64)], units: i64) -> Option<i128> {
    let mut left = units;
    let mut sum = 0;
    // Every arc has room for one at least, so as many arcs as units are enough.
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
    fn units_take_the_cheapest_arcs() {
        let offers = [(5, 2), (1, 1), (3, 4), (9, 9)];
        assert_eq!(cheapest(&mut offers.to_vec(), 0), Some(0));
        assert_eq!(cheapest(&mut offers.to_vec(), 1), Some(1));
        assert_eq!(cheapest(&mut offers.to_vec(), 3), Some(7));
        assert_eq!(cheapest(&mut offers.to_vec(), 8), Some(32));
        assert_eq!(cheapest(&mut offers.to_vec(), 16), Some(104));
        assert_eq!(cheapest(&mut offers.to_vec(), 17), None);
    }
}
