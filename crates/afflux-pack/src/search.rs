//! Ruin and recreate, with exact undo.

use crate::machine::{Classes, Machine};
use fastrand::Rng;

/// How many units of each class there must and may be, and how long to search.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Fewer units of a class than this are never accepted.
    pub at_least: Vec<i64>,
    /// There are no more units of a class than this.
    pub at_most: Vec<i64>,
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

/// Improve a packing in place: never fewer units in all, never dearer at equal numbers.
pub fn improve(classes: &Classes, machines: &mut [Machine], limits: &Limits) {
    let mut search = Search::new(classes, machines, limits);
    for round in 0..limits.rounds {
        if search.effort >= limits.effort || search.occupied.is_empty() {
            break;
        }
        search.round(round % 2 == 0);
    }
}

struct Search<'a> {
    classes: &'a Classes,
    machines: &'a mut [Machine],
    limits: &'a Limits,
    rng: Rng,
    /// Units of each class that are placed.
    placed: Vec<i64>,
    /// Machines that have units, in the order of their index.
    occupied: Vec<usize>,
    /// What a unit of each resource weighs when sizes are compared.
    scale: Vec<f64>,
    /// The size of one task of each class.
    size: Vec<f64>,
    effort: u64,
    /// Machines as they were before this round touched them.
    undo: Vec<(usize, Machine)>,
    touched: Vec<bool>,
}

impl<'a> Search<'a> {
    fn new(classes: &'a Classes, machines: &'a mut [Machine], limits: &'a Limits) -> Self {
        let mut placed = vec![0; classes.len()];
        for machine in machines.iter() {
            for unit in &machine.units {
                placed[unit.class] += 1;
            }
        }
        let scale: Vec<f64> = (0..classes.resources)
            .map(|r| {
                let largest = (0..classes.len()).map(|c| classes.request(c)[r]).max();
                largest.unwrap_or(0).max(1) as f64
            })
            .collect();
        let size = (0..classes.len())
            .map(|c| {
                let request = classes.request(c).iter().zip(&scale);
                request.map(|(&asked, &s)| asked as f64 / s).sum()
            })
            .collect();
        let count = machines.len();
        let mut search = Self {
            classes,
            machines,
            limits,
            rng: Rng::with_seed(limits.seed),
            placed,
            occupied: Vec::new(),
            scale,
            size,
            effort: 0,
            undo: Vec::new(),
            touched: vec![false; count],
        };
        search.find_occupied();
        search
    }

    fn find_occupied(&mut self) {
        self.occupied.clear();
        for (index, machine) in self.machines.iter().enumerate() {
            if !machine.units.is_empty() {
                self.occupied.push(index);
            }
        }
    }

    /// One round: ruin, recreate, keep or undo.
    fn round(&mut self, by_cost: bool) {
        let ruins = self.choose_ruins();
        let mut removed = vec![0_i64; self.classes.len()];
        for &index in &ruins {
            self.touch(index);
            for unit in self.machines[index].clear(self.classes) {
                removed[unit.class] += 1;
            }
        }
        let before = self.placed.clone();
        for (class, count) in removed.iter().enumerate() {
            self.placed[class] -= count;
        }
        self.recreate(&removed, &ruins, by_cost);
        if self.is_no_worse(&before) {
            self.commit();
        } else {
            self.placed = before;
            self.rollback();
        }
    }

    fn choose_ruins(&mut self) -> Vec<usize> {
        let wanted = self.rng.usize(1..=3).min(self.occupied.len());
        let mut ruins = Vec::with_capacity(wanted);
        while ruins.len() < wanted {
            let index = self.occupied[self.rng.usize(..self.occupied.len())];
            if !ruins.contains(&index) {
                ruins.push(index);
            }
        }
        ruins
    }

    /// Put back what was removed, together with what waits, in random order.
    fn recreate(&mut self, removed: &[i64], ruins: &[usize], by_cost: bool) {
        let mut items: Vec<(f64, usize)> = Vec::new();
        let shuffle = self.rng.u32(..4) == 0;
        for (class, &back) in removed.iter().enumerate() {
            let waiting = (self.limits.at_most[class] - self.placed[class]).max(0);
            let count = waiting.min(back + TRIED_PER_CLASS);
            for _ in 0..count {
                let noise = 0.5 + self.rng.f64();
                let key = if shuffle { noise } else { self.size[class] * noise };
                items.push((-key, class));
            }
        }
        items.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut full = vec![false; removed.len()];
        for (_, class) in items {
            if full[class] {
                continue;
            }
            // What waited did not fit anywhere before: only the ruins can take it.
            let found = if removed[class] > 0 {
                self.best(class, 0..self.machines.len(), by_cost)
            } else {
                self.best(class, ruins.iter().copied(), by_cost)
            };
            match found {
                Some(index) => {
                    self.touch(index);
                    let request = self.classes.request(class);
                    self.machines[index].place(class, request, self.classes.devices[class]);
                    self.placed[class] += 1;
                }
                None => full[class] = true,
            }
        }
    }

    /// The cheapest or the tightest machine that takes a task, some overlooked by chance.
    fn best(
        &mut self,
        class: usize,
        candidates: impl Iterator<Item = usize>,
        by_cost: bool,
    ) -> Option<usize> {
        let request = self.classes.request(class);
        let devices = self.classes.devices[class];
        let mut best: Option<(f64, usize)> = None;
        let mut overlooked = None;
        for index in candidates {
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

    fn is_no_worse(&self, before: &[i64]) -> bool {
        let kept = self.placed.iter().zip(&self.limits.at_least);
        if kept.into_iter().any(|(have, need)| have < need) {
            return false;
        }
        let now: i64 = self.placed.iter().sum();
        let then: i64 = before.iter().sum();
        if now != then {
            return now > then;
        }
        let change: i64 = self
            .undo
            .iter()
            .map(|(index, old)| {
                self.machines[*index].cost(self.classes, *index) - old.cost(self.classes, *index)
            })
            .sum();
        change <= 0
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
