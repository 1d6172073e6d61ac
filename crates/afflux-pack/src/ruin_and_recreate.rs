//! Ruin and recreate, with exact undo.

use crate::demand::{Demand, Tally};
use crate::machine::{Classes, Machine};
use crate::refill::{First, refill, value};
use fastrand::Rng;

/// How long to search.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many rounds of ruin and recreate at most.
    pub rounds: u64,
    /// How often a task may be held against a machine, over all rounds.
    pub effort: u64,
    /// Of the random numbers.
    pub seed: u64,
}

/// One in so many machines is overlooked on purpose, so that ties and habits do not rule.
const BLINK: u32 = 24;
/// Units of one class that wait are tried at most so often per round: the ruins are small.
const TRIED_PER_CLASS: i64 = 8;
/// So many machines are ruined in a round, and so many to make a gang give way.
const RUINS: usize = 3;
const RUINS_FOR_GANG: usize = 8;
/// After so many rounds without a gain the search is over.
const PATIENCE: u64 = 2_500;
/// What was removed is held against so many machines: all of a small cluster, some of a large one.
const OTHERS: usize = 48;

/// Improve a packing in place: never worth less, never dearer at equal worth.
///
/// While something waits, the first half of the rounds takes any packing with as many units,
/// whatever it costs and whoever waits: to find room for one more is worth more than that, and the
/// second half is there to mend it.
pub fn improve(
    classes: &Classes,
    machines: &mut [Machine],
    demand: &mut Demand,
    first: Option<&First>,
    limits: Limits,
) {
    if let Some(first) = first {
        start_better(classes, machines, demand, first, limits.effort / 2);
    }
    let start = (machines.to_vec(), demand.clone());
    let before = value(classes, machines, demand);
    let mut search = Search::new(classes, machines, demand, limits);
    let mut left = limits.rounds;
    if search.someone_waits() {
        search.exploring = true;
        search.run(left / 2, limits.effort);
        search.exploring = false;
        left -= left / 2;
    }
    search.run(left, limits.effort);
    if value(classes, machines, demand) < before {
        machines.clone_from_slice(&start.0);
        *demand = start.1;
    }
}

/// Take the packing from scratch if it is better than the given one.
fn start_better(
    classes: &Classes,
    machines: &mut [Machine],
    demand: &mut Demand,
    first: &First,
    effort: u64,
) {
    let mut other = (machines.to_vec(), demand.clone());
    if refill(classes, &mut other.0, &mut other.1, first, effort)
        && value(classes, &other.0, &other.1) > value(classes, machines, demand)
    {
        machines.clone_from_slice(&other.0);
        *demand = other.1;
    }
}

struct Search<'a> {
    classes: &'a Classes,
    machines: &'a mut [Machine],
    demand: &'a mut Demand,
    tally: Tally,
    rng: Rng,
    /// Machines that have units, in the order of their index.
    occupied: Vec<usize>,
    /// What a unit of each resource weighs when sizes are compared.
    scale: Vec<f64>,
    /// The size of one task of each class.
    size: Vec<f64>,
    effort: u64,
    /// Whether equal numbers are good enough, whatever they are worth and cost.
    exploring: bool,
    /// Machines as they were before this round touched them.
    undo: Vec<(usize, Machine)>,
    touched: Vec<bool>,
}

impl<'a> Search<'a> {
    fn new(
        classes: &'a Classes,
        machines: &'a mut [Machine],
        demand: &'a mut Demand,
        limits: Limits,
    ) -> Self {
        let mut placed = vec![0; classes.len()];
        for unit in machines.iter().flat_map(|machine| &machine.units) {
            placed[unit.class] += 1;
        }
        let scale = classes.scale();
        let size = classes.sizes(&scale);
        let touched = vec![false; machines.len()];
        let tally = Tally::new(demand, placed);
        let mut search = Self {
            classes,
            machines,
            demand,
            tally,
            rng: Rng::with_seed(limits.seed),
            occupied: Vec::new(),
            scale,
            size,
            effort: 0,
            exploring: false,
            undo: Vec::new(),
            touched,
        };
        search.find_occupied();
        search
    }

    fn worth(&self) -> i64 {
        let gangs = self.demand.gangs.iter().filter(|gang| gang.placed);
        self.tally.worth_of_singles() + gangs.map(|gang| gang.worth).sum::<i64>()
    }

    fn someone_waits(&self) -> bool {
        let placed = &self.tally.placed;
        (0..placed.len()).any(|c| placed[c] < self.tally.ceiling(c))
            || self.demand.gangs.iter().any(|gang| !gang.placed)
    }

    fn find_occupied(&mut self) {
        self.occupied.clear();
        for (index, machine) in self.machines.iter().enumerate() {
            if !machine.units.is_empty() {
                self.occupied.push(index);
            }
        }
    }

    /// So many rounds, or until nothing has been gained for long.
    fn run(&mut self, rounds: u64, effort: u64) {
        let mut in_vain = 0;
        for round in 0..rounds {
            let spent = self.effort >= effort || self.occupied.is_empty();
            if spent || in_vain == PATIENCE || (self.exploring && !self.someone_waits()) {
                return;
            }
            let gained = self.round(round % 2 == 0);
            in_vain = if gained { 0 } else { in_vain + 1 };
        }
    }

    /// One round: ruin, recreate, keep or undo; whether something was gained.
    fn round(&mut self, by_cost: bool) -> bool {
        let before = (
            self.tally.placed.clone(),
            self.tally.floor.clone(),
            self.worth(),
        );
        let turned = self.choose_gangs();
        let Some(ruins) = self.choose_ruins(&turned) else {
            return false;
        };
        for &gang in &turned {
            self.turn(gang);
        }
        let mut removed = vec![0_i64; self.classes.len()];
        for &index in &ruins {
            self.touch(index);
            for unit in self.machines[index].clear(self.classes) {
                removed[unit.class] += 1;
                self.tally.placed[unit.class] -= 1;
            }
        }
        self.recreate(&removed, &ruins, by_cost);
        let gain = self.gain(before.0.iter().sum(), before.2);
        if gain.is_some_and(|gain| gain >= 0) {
            self.commit();
        } else {
            for &gang in &turned {
                self.turn(gang);
            }
            self.tally.placed = before.0;
            self.tally.floor = before.1;
            self.rollback();
        }
        gain.is_some_and(|gain| gain > 0)
    }

    /// Which gangs to turn in this round: open one, close one, or one for the other.
    fn choose_gangs(&mut self) -> Vec<usize> {
        if self.demand.gangs.is_empty() || self.rng.u32(..8) >= 3 {
            return Vec::new();
        }
        let (placed, waiting): (Vec<usize>, Vec<usize>) =
            (0..self.demand.gangs.len()).partition(|&gang| self.demand.gangs[gang].placed);
        let kind = self.rng.u32(..4);
        let mut turned = Vec::new();
        if kind != 0 && !waiting.is_empty() {
            turned.push(waiting[self.rng.usize(..waiting.len())]);
        }
        if kind <= 1 && !placed.is_empty() {
            turned.push(placed[self.rng.usize(..placed.len())]);
        }
        turned
    }

    fn turn(&mut self, gang: usize) {
        let gang = &mut self.demand.gangs[gang];
        gang.placed = !gang.placed;
        self.tally.turn(gang, gang.placed);
    }

    /// Random machines, but enough of them to hold the units of a gang that is to be closed.
    fn choose_ruins(&mut self, turned: &[usize]) -> Option<Vec<usize>> {
        let mut missing = vec![0_i64; self.classes.len()];
        for &gang in turned
            .iter()
            .filter(|&&gang| self.demand.gangs[gang].placed)
        {
            for &(class, count) in &self.demand.gangs[gang].need {
                missing[class] += count;
            }
        }
        let wanted = self.rng.usize(1..=RUINS).min(self.occupied.len());
        let mut ruins: Vec<usize> = Vec::with_capacity(RUINS_FOR_GANG);
        for _ in 0..8 * RUINS_FOR_GANG {
            let covered = missing.iter().all(|&count| count <= 0);
            if covered && ruins.len() >= wanted {
                return Some(ruins);
            }
            if ruins.len() == RUINS_FOR_GANG {
                return None;
            }
            let index = self.occupied[self.rng.usize(..self.occupied.len())];
            let units = &self.machines[index].units;
            let useful = covered || units.iter().any(|unit| missing[unit.class] > 0);
            if useful && !ruins.contains(&index) {
                for unit in units {
                    missing[unit.class] -= 1;
                }
                ruins.push(index);
            }
        }
        (!ruins.is_empty() && missing.iter().all(|&count| count <= 0)).then_some(ruins)
    }

    /// Put back what was removed, together with what waits, in random order.
    fn recreate(&mut self, removed: &[i64], ruins: &[usize], by_cost: bool) {
        let mut items: Vec<(f64, usize)> = Vec::new();
        let shuffle = self.rng.u32(..4) == 0;
        let needed_first = self.rng.bool();
        let mut anywhere = vec![false; removed.len()];
        for (class, &back) in removed.iter().enumerate() {
            let needed = (self.tally.floor[class] - self.tally.placed[class]).max(0);
            let most = self.tally.ceiling(class) - self.tally.placed[class];
            let count = most.min(needed.max(back) + TRIED_PER_CLASS);
            // What waited alone did not fit anywhere before: only the ruins can take it.
            anywhere[class] = back > 0 || needed > 0;
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
        let nearby = self.with_others(ruins);
        let mut full = vec![false; removed.len()];
        for (_, class) in items {
            if full[class] {
                continue;
            }
            let candidates = if anywhere[class] { &nearby } else { ruins };
            let found = self.best(class, candidates, by_cost);
            match found {
                Some(index) => {
                    self.touch(index);
                    let request = self.classes.request(class);
                    self.machines[index].place(class, request, self.classes.devices[class]);
                    self.tally.placed[class] += 1;
                }
                None => full[class] = true,
            }
        }
    }

    /// The ruins and, of a large cluster a random part, of a small one all other machines.
    fn with_others(&mut self, ruins: &[usize]) -> Vec<usize> {
        let count = self.machines.len();
        if count <= OTHERS {
            return (0..count).collect();
        }
        let mut chosen = ruins.to_vec();
        while chosen.len() < OTHERS {
            let index = self.rng.usize(..count);
            if !chosen.contains(&index) {
                chosen.push(index);
            }
        }
        chosen
    }

    /// The cheapest or the tightest machine that takes a task, some overlooked by chance.
    fn best(&mut self, class: usize, candidates: &[usize], by_cost: bool) -> Option<usize> {
        let request = self.classes.request(class);
        let devices = self.classes.devices[class];
        let mut best: Option<(f64, usize)> = None;
        let mut overlooked = None;
        for &index in candidates {
            self.effort += 1;
            let machine = &self.machines[index];
            if !self.classes.admits(class, index) || !machine.fits(request, devices) {
                continue;
            }
            if self.rng.u32(..BLINK) == 0 {
                overlooked = Some(index);
                continue;
            }
            let key = if by_cost {
                let slots = machine.slope * machine.units.len() as i64;
                (self.classes.cost_on(class, index) + slots) as f64
            } else {
                let left = machine.free.iter().zip(&self.scale);
                left.map(|(&free, &scale)| free.max(0) as f64 / scale).sum()
            };
            if best.is_none_or(|(least, _)| key < least) {
                best = Some((key, index));
            }
        }
        best.map(|(_, index)| index).or(overlooked)
    }

    /// By how much the packing is better than before, in units, worth or cost; None if it must not
    /// be.
    fn gain(&self, placed_before: i64, worth_before: i64) -> Option<i64> {
        if !self.tally.is_valid() {
            return None;
        }
        if self.exploring {
            return Some(self.tally.placed.iter().sum::<i64>() - placed_before);
        }
        let more = self.worth() - worth_before;
        if more != 0 {
            return Some(more);
        }
        let saved = self.undo.iter().map(|(index, old)| {
            old.cost(self.classes, *index) - self.machines[*index].cost(self.classes, *index)
        });
        Some(saved.sum())
    }

    fn touch(&mut self, index: usize) {
        if !self.touched[index] {
            self.touched[index] = true;
            self.undo.push((index, self.machines[index].clone()));
        }
    }

    fn commit(&mut self) {
        let mut changed = false;
        for (index, old) in self.undo.drain(..) {
            self.touched[index] = false;
            changed |= old.units.is_empty() != self.machines[index].units.is_empty();
        }
        if changed {
            self.find_occupied();
        }
    }

    fn rollback(&mut self) {
        for (index, old) in self.undo.drain(..) {
            self.touched[index] = false;
            self.machines[index] = old;
        }
    }
}
