//! Places a whole gang, or proves that it does not fit.
//!
//! For one class this is arithmetic. Several classes compete for the same machines: two greedy
//! attempts come first, then dynamic programming over machines. Its state is the number of unplaced
//! members of each class, and a machine's move is any maximal combination of members that fits on
//! it. The number of states does not depend on the number of machines. The search is exact unless
//! it reaches one of its limits.

use std::collections::{BTreeSet, HashMap, HashSet};

use afflux_account::Disk;

use crate::packing::Packing;
use crate::related_units::place_related;

/// Limits of one search: states, combinations on one machine, and moves times states. A gang that
/// exceeds them waits for another round.
const MAX_STATES: usize = 1_000_000;
const MAX_MOVES: usize = 20_000;
const MAX_SEARCH_STEPS: usize = 20_000_000;

/// Members by class: their number.
type Combination = Vec<i64>;

/// What decides which combinations fit on a machine: the free amounts, the free devices, the disks,
/// and which classes may use it.
type Signature = (Vec<i64>, Vec<i64>, Vec<Disk>, Vec<bool>);

/// Places all members, given by class and count, or leaves the packing as it was.
#[must_use]
pub fn place_gang(packing: &mut Packing, need: &[(usize, i64)]) -> bool {
    let account = packing.account();
    if need.iter().any(|&(class, _)| account.has_rules(class)) {
        return place_related(packing, need);
    }
    if need
        .iter()
        .any(|&(class, count)| !packing.has_room(class, count))
    {
        return false;
    }
    if place_cheapest(packing, need) {
        return true;
    }
    if let [(class, _)] = need {
        let class = &packing.account().classes()[*class];
        if class.devices.is_none() && class.disks.is_none() {
            return false;
        }
    }
    place_tightest(packing, need) || Search::new(packing, need).is_some_and(Search::run)
}

/// Class by class, the one with the least room first, each member on its cheapest machine.
fn place_cheapest(packing: &mut Packing, need: &[(usize, i64)]) -> bool {
    let mut order = need.to_vec();
    order.sort_by_key(|&(class, count)| {
        packing
            .rooms(class)
            .iter()
            .map(|&room| room.min(count))
            .sum::<i64>()
    });
    place_in_order(packing, &order, Packing::place_cheapest)
}

/// Class by class, the largest first, each member on the machine with the least left.
fn place_tightest(packing: &mut Packing, need: &[(usize, i64)]) -> bool {
    let mut order = need.to_vec();
    order.sort_by(|&(a, _), &(b, _)| packing.size(b).total_cmp(&packing.size(a)));
    place_in_order(packing, &order, Packing::place_tightest)
}

fn place_in_order(
    packing: &mut Packing,
    need: &[(usize, i64)],
    place: fn(&mut Packing, usize, i64) -> i64,
) -> bool {
    let mark = packing.account().mark();
    let whole = need
        .iter()
        .all(|&(class, count)| place(packing, class, count) == count);
    if !whole {
        packing.account_mut().rollback(mark);
    }
    whole
}

/// A machine that reached new states: its moves, and which states were reached before it.
struct Step {
    machine: usize,
    moves: Vec<Combination>,
    before: Vec<bool>,
}

struct Search<'a> {
    packing: &'a mut Packing,
    classes: Vec<usize>,
    counts: Combination,
    /// What one more missing member of each class adds to the index of a state.
    stride: Vec<usize>,
    states: usize,
}

impl<'a> Search<'a> {
    fn new(packing: &'a mut Packing, need: &[(usize, i64)]) -> Option<Self> {
        let mut need = need.to_vec();
        need.sort_unstable();
        let (classes, counts): (Vec<usize>, Combination) = need.into_iter().unzip();
        let mut states = 1_usize;
        let mut stride = vec![0; counts.len()];
        for (stride, &count) in stride.iter_mut().zip(&counts).rev() {
            *stride = states;
            states = states.checked_mul(usize::try_from(count).ok()? + 1)?;
        }
        (states <= MAX_STATES).then_some(Self {
            packing,
            classes,
            counts,
            stride,
            states,
        })
    }

    /// Finds machines for all members and places them.
    fn run(mut self) -> bool {
        let Some(trail) = self.search() else {
            return false;
        };
        let mark = self.packing.account().mark();
        for (machine, members) in self.trace(&trail) {
            let units: Vec<(usize, i64)> = self.classes.iter().copied().zip(members).collect();
            let found = self.packing.account().fits_together(machine, &units);
            let placed = found.is_some_and(|units| {
                units
                    .into_iter()
                    .all(|unit| self.packing.place_unit(unit, machine))
            });
            if !placed {
                self.packing.account_mut().rollback(mark);
                return false;
            }
        }
        true
    }

    /// The machines that lead to the state without missing members; none if there are none.
    fn search(&mut self) -> Option<Vec<Step>> {
        // Which states are reached: at first that in which all members are missing.
        let mut reached = vec![false; self.states];
        reached[self.states - 1] = true;
        let mut trail = Vec::new();
        let mut moves: HashMap<Signature, Vec<Combination>> = HashMap::new();
        // A machine is skipped if an equal one before it reached no new state.
        let mut useless: HashSet<Signature> = HashSet::new();
        let mut steps = 0;
        for machine in self.usable_machines() {
            let signature = self.signature(machine);
            if useless.contains(&signature) {
                continue;
            }
            if !moves.contains_key(&signature) {
                moves.insert(signature.clone(), self.moves(machine)?);
            }
            let options = &moves[&signature];
            steps += self.states * options.len();
            if steps > MAX_SEARCH_STEPS {
                return None;
            }
            let after = self.after(&reached, options);
            if after == reached {
                useless.insert(signature);
                continue;
            }
            useless.clear();
            let before = std::mem::replace(&mut reached, after);
            trail.push(Step {
                machine,
                moves: options.clone(),
                before,
            });
            if reached[0] {
                return Some(trail);
            }
        }
        None
    }

    fn usable_machines(&self) -> Vec<usize> {
        let mut usable = BTreeSet::new();
        for &class in &self.classes {
            let machines = self
                .packing
                .machines_of(class)
                .iter()
                .map(|&machine| machine as usize);
            usable.extend(machines.filter(|&machine| self.packing.fits(class, machine)));
        }
        usable.into_iter().collect()
    }

    fn signature(&self, machine: usize) -> Signature {
        let account = self.packing.account();
        let admitted = self
            .classes
            .iter()
            .map(|&c| self.packing.cost_on(c, machine).is_some());
        let free = account.resources().of(machine).to_vec();
        (
            free,
            account.devices().of(machine).to_vec(),
            account.disks().of(machine).to_vec(),
            admitted.collect(),
        )
    }

    /// Combinations of members that fit on the machine together and cannot be extended; none if
    /// there are too many.
    fn moves(&self, machine: usize) -> Option<Vec<Combination>> {
        let mut fitting = BTreeSet::from([vec![0; self.classes.len()]]);
        for (index, &class) in self.classes.iter().enumerate() {
            let most = self.counts[index].min(self.packing.room(class, machine));
            for smaller in fitting.clone() {
                for members in 1..=most {
                    let mut larger = smaller.clone();
                    larger[index] = members;
                    let units: Vec<(usize, i64)> = self
                        .classes
                        .iter()
                        .copied()
                        .zip(larger.iter().copied())
                        .collect();
                    if self
                        .packing
                        .account()
                        .fits_together(machine, &units)
                        .is_none()
                    {
                        break;
                    }
                    fitting.insert(larger);
                }
                if fitting.len() > MAX_MOVES {
                    return None;
                }
            }
        }
        let extended = |combination: &Combination, index: usize| {
            let mut larger = combination.clone();
            larger[index] += 1;
            fitting.contains(&larger)
        };
        let is_maximal = |combination: &&Combination| {
            combination.iter().any(|&members| members > 0)
                && !(0..combination.len()).any(|index| extended(combination, index))
        };
        Some(fitting.iter().filter(is_maximal).cloned().collect())
    }

    /// The state after a move, which may place fewer members than it could.
    fn moved(&self, state: usize, placed: &Combination) -> usize {
        let mut after = state;
        for (index, &members) in placed.iter().enumerate() {
            after -= self.stride[index] * self.missing(state, index).min(members as usize);
        }
        after
    }

    /// The number of missing members of a class in a state.
    fn missing(&self, state: usize, index: usize) -> usize {
        state / self.stride[index] % (self.counts[index] as usize + 1)
    }

    /// The states that are reached with one machine more.
    fn after(&self, reached: &[bool], moves: &[Combination]) -> Vec<bool> {
        let mut after = reached.to_vec();
        for state in (0..self.states).filter(|&state| reached[state]) {
            for placed in moves {
                after[self.moved(state, placed)] = true;
            }
        }
        after
    }

    /// The members on each machine on the way to the state without missing members.
    fn trace(&self, trail: &[Step]) -> Vec<(usize, Combination)> {
        let mut found = Vec::new();
        let mut state = 0;
        for step in trail.iter().rev() {
            if step.before[state] {
                continue;
            }
            let earlier = (0..self.states)
                .filter(|&earlier| step.before[earlier])
                .find(|&earlier| {
                    step.moves
                        .iter()
                        .any(|placed| self.moved(earlier, placed) == state)
                });
            let Some(earlier) = earlier else {
                continue;
            };
            let missing = |index| self.missing(earlier, index) - self.missing(state, index);
            found.push((
                step.machine,
                (0..self.counts.len()).map(|i| missing(i) as i64).collect(),
            ));
            state = earlier;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use afflux_account::{Account, Class, Devices, Resources};

    use super::*;
    use crate::packing::PairColumns;

    #[test]
    fn the_search_places_a_gang_that_both_greedy_attempts_miss() {
        let class = |asked| Class {
            request: vec![(0, asked)],
            ..Class::default()
        };
        let free = Resources::new(1, vec![7, 7]);
        let account = Account::new(vec![class(3), class(2)], free, Devices::default(), 2);
        let pairs = PairColumns {
            first: &[0, 2, 4],
            machine: &[0, 1, 0, 1],
            cost: &[0; 4],
            room: None,
        };
        let mut packing = Packing::new(account, pairs, vec![3.0]);
        let need = [(0, 2), (1, 4)];
        assert!(!place_cheapest(&mut packing, &need));
        assert!(!place_tightest(&mut packing, &need));
        assert_eq!(packing.placed(), [0, 0]);
        assert!(place_gang(&mut packing, &need));
        assert_eq!(packing.placed(), [2, 4]);
        assert_eq!(packing.account().resources().all(), [0, 0]);
    }
}
