//! Ruin and recreate, with exact undo.

use crate::items::{Items, UnitCounts};
use crate::pack_from_scratch::{ScratchStart, pack_from_scratch, packing_value};
use crate::packing::Packing;
use fastrand::Rng;

/// Limits of the search, and its seed.
#[derive(Clone, Copy, Debug)]
pub struct SearchLimits {
    /// The maximum number of rounds of ruin and recreate.
    pub rounds: u64,
    /// The maximum number of comparisons of a task with a machine, over all rounds.
    pub effort: u64,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// One in this many machines is skipped at random ("blinks"), to escape local optima.
const BLINK_RATE: u32 = 24;
/// The maximum number of waiting units of one class tried per round: the ruined machines are few.
const MAX_WAITING_TRIED_PER_CLASS: i64 = 8;
/// The maximum number of machines ruined in a round, and to remove a gang.
const MAX_RUINED: usize = 3;
const MAX_RUINED_FOR_GANG: usize = 8;
/// The search ends after this many rounds without a gain.
const MAX_ROUNDS_WITHOUT_GAIN: u64 = 2_500;
/// Removed units are tried on this many machines: on all of a small cluster, on some of a large
/// one.
const MAX_CANDIDATES: usize = 48;

/// Improves a packing in place: never worth less, never more expensive at equal worth.
///
/// While something waits, the first half of the rounds accepts any packing with at least as many
/// units, whatever its worth and cost, because room for one more unit is worth more; the second
/// half then improves worth and cost.
pub fn improve(
    packing: &mut Packing,
    items: &mut Items,
    first: Option<&ScratchStart>,
    limits: SearchLimits,
) {
    packing.account_mut().commit();
    let usable = packing.usable_machines();
    if let Some(first) = first {
        start_from_scratch_if_better(packing, &usable, items, first, limits.effort / 2);
    }
    let start = (packing.clone(), items.clone());
    let before = packing_value(packing, items);
    let mut search = RuinAndRecreate::new(packing, usable, items, limits);
    let mut left = limits.rounds;
    if search.has_waiting() {
        search.is_exploring = true;
        search.run(left / 2, limits.effort);
        search.is_exploring = false;
        left -= left / 2;
    }
    search.run(left, limits.effort);
    if packing_value(packing, items) < before {
        (*packing, *items) = start;
    }
}

/// Takes the packing from scratch if it is better than the given one.
fn start_from_scratch_if_better(
    packing: &mut Packing,
    usable: &[usize],
    items: &mut Items,
    first: &ScratchStart,
    effort: u64,
) {
    let mut other = (packing.clone(), items.clone());
    if pack_from_scratch(&mut other.0, usable, &mut other.1, first, effort)
        && packing_value(&other.0, &other.1) > packing_value(packing, items)
    {
        (*packing, *items) = other;
        packing.account_mut().commit();
    }
}

/// A machine that a round has changed: its cost, and whether it had units, before the round.
struct Touched {
    machine: usize,
    cost: i64,
    was_occupied: bool,
}

struct RuinAndRecreate<'a> {
    packing: &'a mut Packing,
    /// The machines that some class may use.
    usable: Vec<usize>,
    items: &'a mut Items,
    counts: UnitCounts,
    rng: Rng,
    /// Machines with units, in the order of their index.
    occupied: Vec<usize>,
    /// The divisor of each resource when sizes are compared: its largest request.
    scale: Vec<f64>,
    /// The size of one task of each class.
    size: Vec<f64>,
    effort: u64,
    /// Whether a packing with as many units is accepted, whatever its worth and cost.
    is_exploring: bool,
    touched: Vec<Touched>,
    is_touched: Vec<bool>,
}

impl<'a> RuinAndRecreate<'a> {
    fn new(
        packing: &'a mut Packing,
        usable: Vec<usize>,
        items: &'a mut Items,
        limits: SearchLimits,
    ) -> Self {
        let counts = UnitCounts::new(items, packing.placed());
        let classes = packing.account().classes();
        let mut scale = vec![1.0_f64; packing.account().resources().width()];
        for &(column, asked) in classes.iter().flat_map(|class| &class.request) {
            scale[column as usize] = scale[column as usize].max(asked as f64);
        }
        let scaled = |&(column, asked): &(u32, i64)| asked as f64 / scale[column as usize];
        let size = classes
            .iter()
            .map(|class| class.request.iter().map(scaled).sum())
            .collect();
        let is_touched = vec![false; packing.machines()];
        let mut search = Self {
            packing,
            usable,
            items,
            counts,
            rng: Rng::with_seed(limits.seed),
            occupied: Vec::new(),
            scale,
            size,
            effort: 0,
            is_exploring: false,
            touched: Vec::new(),
            is_touched,
        };
        search.find_occupied();
        search
    }

    fn worth(&self) -> i64 {
        let gangs = self.items.gangs.iter().filter(|gang| gang.placed);
        self.counts.worth_of_singles() + gangs.map(|gang| gang.worth).sum::<i64>()
    }

    fn has_waiting(&self) -> bool {
        let placed = &self.counts.placed;
        (0..placed.len()).any(|c| placed[c] < self.counts.ceiling(c))
            || self.items.gangs.iter().any(|gang| !gang.placed)
    }

    fn find_occupied(&mut self) {
        self.occupied.clear();
        let occupied = (0..self.packing.machines()).filter(|&m| self.packing.count(m) > 0);
        self.occupied.extend(occupied);
    }

    /// Runs at most this many rounds; stops early without gain or effort left.
    fn run(&mut self, rounds: u64, effort: u64) {
        let mut rounds_without_gain = 0;
        for round in 0..rounds {
            let spent = self.effort >= effort || self.occupied.is_empty();
            if spent
                || rounds_without_gain == MAX_ROUNDS_WITHOUT_GAIN
                || (self.is_exploring && !self.has_waiting())
            {
                return;
            }
            let gained = self.round(round % 2 == 0);
            rounds_without_gain = if gained { 0 } else { rounds_without_gain + 1 };
        }
    }

    /// One round: ruin, recreate, then keep or undo; returns whether something was gained.
    fn round(&mut self, by_cost: bool) -> bool {
        let before = (
            self.counts.placed.clone(),
            self.counts.floor.clone(),
            self.worth(),
        );
        let flipped = self.choose_gangs_to_flip();
        let Some(ruined) = self.choose_machines(&flipped) else {
            return false;
        };
        for &gang in &flipped {
            self.flip(gang);
        }
        let mark = self.packing.account().mark();
        let mut removed = vec![0_i64; self.packing.classes()];
        for &machine in &ruined {
            self.touch(machine);
            for class in self.packing.clear(machine) {
                removed[class] += 1;
                self.counts.placed[class] -= 1;
            }
        }
        self.recreate(&removed, &ruined, by_cost);
        let gain = self.gain(before.0.iter().sum(), before.2);
        if gain.is_some_and(|gain| gain >= 0) {
            self.keep();
        } else {
            for &gang in &flipped {
                self.flip(gang);
            }
            self.counts.placed = before.0;
            self.counts.floor = before.1;
            self.undo(mark);
        }
        gain.is_some_and(|gain| gain > 0)
    }

    /// The gangs to flip in this round: place one, remove one, or replace one by another.
    fn choose_gangs_to_flip(&mut self) -> Vec<usize> {
        if self.items.gangs.is_empty() || self.rng.u32(..8) >= 3 {
            return Vec::new();
        }
        let (placed, waiting): (Vec<usize>, Vec<usize>) =
            (0..self.items.gangs.len()).partition(|&gang| self.items.gangs[gang].placed);
        let kind = self.rng.u32(..4);
        let mut flipped = Vec::new();
        if kind != 0 && !waiting.is_empty() {
            flipped.push(waiting[self.rng.usize(..waiting.len())]);
        }
        if kind <= 1 && !placed.is_empty() {
            flipped.push(placed[self.rng.usize(..placed.len())]);
        }
        flipped
    }

    fn flip(&mut self, gang: usize) {
        let gang = &mut self.items.gangs[gang];
        gang.placed = !gang.placed;
        self.counts.flip(gang, gang.placed);
    }

    /// Random machines, with all units of the gangs that are to be removed.
    fn choose_machines(&mut self, flipped: &[usize]) -> Option<Vec<usize>> {
        let mut missing = vec![0_i64; self.packing.classes()];
        for &gang in flipped
            .iter()
            .filter(|&&gang| self.items.gangs[gang].placed)
        {
            for &(class, count) in &self.items.gangs[gang].need {
                missing[class] += count;
            }
        }
        let wanted = self.rng.usize(1..=MAX_RUINED).min(self.occupied.len());
        let mut ruined: Vec<usize> = Vec::with_capacity(MAX_RUINED_FOR_GANG);
        for _ in 0..8 * MAX_RUINED_FOR_GANG {
            let covered = missing.iter().all(|&count| count <= 0);
            if covered && ruined.len() >= wanted {
                return Some(ruined);
            }
            if ruined.len() == MAX_RUINED_FOR_GANG {
                return None;
            }
            let index = self.occupied[self.rng.usize(..self.occupied.len())];
            let units = self.packing.account().units(index);
            let useful = covered || units.iter().any(|unit| missing[unit.class] > 0);
            if useful && !ruined.contains(&index) {
                for unit in units {
                    missing[unit.class] -= 1;
                }
                ruined.push(index);
            }
        }
        (!ruined.is_empty() && missing.iter().all(|&count| count <= 0)).then_some(ruined)
    }

    /// Inserts removed and waiting units in random order.
    fn recreate(&mut self, removed: &[i64], ruined: &[usize], by_cost: bool) {
        let mut items: Vec<(f64, usize)> = Vec::new();
        let shuffle = self.rng.u32(..4) == 0;
        let needed_first = self.rng.bool();
        let mut try_other_machines = vec![false; removed.len()];
        for (class, &back) in removed.iter().enumerate() {
            let needed = (self.counts.floor[class] - self.counts.placed[class]).max(0);
            let most = self.counts.ceiling(class) - self.counts.placed[class];
            let count = most.min(needed.max(back) + MAX_WAITING_TRIED_PER_CLASS);
            // Waiting units alone fitted nowhere before: only ruined machines can take them.
            try_other_machines[class] = back > 0 || needed > 0;
            for number in 0..count {
                let noise = 0.5 + self.rng.f64();
                let key = if shuffle {
                    noise
                } else {
                    self.size[class] * noise
                };
                let first = needed_first && number < needed;
                items.push((if first { -key - 1e9 } else { -key }, class));
            }
        }
        items.sort_by(|a, b| a.0.total_cmp(&b.0));
        let nearby = self.candidate_machines(ruined);
        let mut full = vec![false; removed.len()];
        for (_, class) in items {
            if full[class] {
                continue;
            }
            let candidates = if try_other_machines[class] {
                &nearby
            } else {
                ruined
            };
            match self.best_machine(class, candidates, by_cost) {
                Some(index) => {
                    self.touch(index);
                    self.counts.placed[class] += self.packing.place(class, index, 1);
                }
                None => full[class] = true,
            }
        }
    }

    /// The ruined machines and all others of a small cluster, or a random part of a large one.
    fn candidate_machines(&mut self, ruined: &[usize]) -> Vec<usize> {
        let count = self.usable.len();
        if count <= MAX_CANDIDATES {
            return self.usable.clone();
        }
        let mut chosen = ruined.to_vec();
        while chosen.len() < MAX_CANDIDATES {
            let index = self.usable[self.rng.usize(..count)];
            if !chosen.contains(&index) {
                chosen.push(index);
            }
        }
        chosen
    }

    /// The cheapest or tightest machine that takes a task; some are skipped at random.
    fn best_machine(&mut self, class: usize, candidates: &[usize], by_cost: bool) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        let mut skipped = None;
        for &index in candidates {
            self.effort += 1;
            if !self.packing.account().fits(class, index) {
                continue;
            }
            let Some(cost) = self.packing.cost_on(class, index) else {
                continue;
            };
            if self.rng.u32(..BLINK_RATE) == 0 {
                skipped = Some(index);
                continue;
            }
            let key = if by_cost {
                self.packing.marginal_cost(index, cost) as f64
            } else {
                let free = self.packing.account().resources().of(index);
                let left = free.iter().zip(&self.scale);
                left.map(|(&free, &scale)| free.max(0) as f64 / scale).sum()
            };
            if best.is_none_or(|(least, _)| key < least) {
                best = Some((key, index));
            }
        }
        best.map(|(_, index)| index).or(skipped)
    }

    /// The gain over the packing before, in units, worth or cost; none if the packing is not valid.
    fn gain(&self, placed_before: i64, worth_before: i64) -> Option<i64> {
        if !self.counts.is_valid() {
            return None;
        }
        if self.is_exploring {
            return Some(self.counts.placed.iter().sum::<i64>() - placed_before);
        }
        let more = self.worth() - worth_before;
        if more != 0 {
            return Some(more);
        }
        let saved =
            |touched: &Touched| touched.cost - self.packing.cost_of_machine(touched.machine);
        Some(self.touched.iter().map(saved).sum())
    }

    /// Notes the machine as it is before this round changes it.
    fn touch(&mut self, machine: usize) {
        if !self.is_touched[machine] {
            self.is_touched[machine] = true;
            self.touched.push(Touched {
                machine,
                cost: self.packing.cost_of_machine(machine),
                was_occupied: self.packing.count(machine) > 0,
            });
        }
    }

    fn keep(&mut self) {
        let mut changed = false;
        for touched in self.touched.drain(..) {
            self.is_touched[touched.machine] = false;
            changed |= touched.was_occupied != (self.packing.count(touched.machine) > 0);
        }
        self.packing.account_mut().commit();
        if changed {
            self.find_occupied();
        }
    }

    fn undo(&mut self, mark: usize) {
        for touched in self.touched.drain(..) {
            self.is_touched[touched.machine] = false;
        }
        self.packing.account_mut().rollback(mark);
    }
}
