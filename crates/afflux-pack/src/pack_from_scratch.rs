//! A packing from scratch: best fit, the largest first.

use crate::demand::{Demand, Tally};
use crate::machine::{Classes, Machine};

/// What is to be placed before anything else: so many single tasks of each class, these gangs.
#[derive(Clone, Debug)]
pub struct First {
    /// Single tasks of each class.
    pub singles: Vec<i64>,
    /// One flag per gang.
    pub gangs: Vec<bool>,
}

/// Pack everything anew: fixed units, gangs that go first, then machine by machine.
///
/// A machine is filled with the task whose request points most in the direction of what is free on
/// it, and largest so, until nothing fits (the dot-product rule of vector bin packing, Panigrahy et
/// al., "Heuristics for vector bin packing", 2011): classes that complement each other end up
/// together. What did not go first is tried last, small ones first. Returns false, with machines
/// and demand in an unspecified state, if a fixed unit found no place or the effort is spent.
pub(crate) fn refill(
    classes: &Classes,
    machines: &mut [Machine],
    demand: &mut Demand,
    first: &First,
    effort: u64,
) -> bool {
    for machine in machines.iter_mut() {
        machine.clear(classes);
    }
    for gang in &mut demand.gangs {
        gang.placed = false;
    }
    let mut filler = Filler::new(classes, machines, effort);
    let mut by_size: Vec<usize> = (0..classes.len()).collect();
    by_size.sort_by(|&a, &b| filler.size(b).total_cmp(&filler.size(a)));
    for &class in &by_size {
        for _ in 0..demand.fixed[class] {
            if !filler.place(class) {
                return false;
            }
        }
    }
    let mut gangs: Vec<usize> = (0..demand.gangs.len()).collect();
    gangs.sort_by(|&a, &b| {
        filler
            .gang_size(demand, b)
            .total_cmp(&filler.gang_size(demand, a))
    });
    for &gang in gangs.iter().filter(|&&gang| first.gangs[gang]) {
        demand.gangs[gang].placed = filler.place_all(&demand.gangs[gang].need);
    }
    let mut left = first.singles.clone();
    for index in 0..filler.machines.len() {
        filler.fill(index, &mut left);
    }
    for &gang in gangs.iter().rev() {
        if !demand.gangs[gang].placed {
            demand.gangs[gang].placed = filler.place_all(&demand.gangs[gang].need);
        }
    }
    for &class in by_size.iter().rev() {
        let taken = first.singles[class] - left[class];
        for _ in taken..demand.singles[class].len() as i64 {
            if !filler.place(class) {
                break;
            }
        }
    }
    filler.effort > 0
}

/// What the packing is worth, and what it costs, negated: the larger the better.
pub(crate) fn value(classes: &Classes, machines: &[Machine], demand: &Demand) -> (i64, i64) {
    let mut placed = vec![0; classes.len()];
    for unit in machines.iter().flat_map(|machine| &machine.units) {
        placed[unit.class] += 1;
    }
    let gangs = demand.gangs.iter().filter(|gang| gang.placed);
    let worth = Tally::new(demand, placed).worth_of_singles() + gangs.map(|g| g.worth).sum::<i64>();
    let cost: i64 = machines
        .iter()
        .enumerate()
        .map(|(index, machine)| machine.cost(classes, index))
        .sum();
    (worth, -cost)
}

struct Filler<'a> {
    classes: &'a Classes,
    machines: &'a mut [Machine],
    /// What all machines have free of each resource: shares of it can be compared.
    total: Vec<f64>,
    /// How often a task may still be held against a machine.
    effort: u64,
}

impl<'a> Filler<'a> {
    fn new(classes: &'a Classes, machines: &'a mut [Machine], effort: u64) -> Self {
        let free = |r: usize| {
            machines
                .iter()
                .map(|m| m.free[r].max(0) as f64)
                .sum::<f64>()
        };
        let total = (0..classes.resources).map(|r| free(r).max(1.0)).collect();
        Self {
            classes,
            machines,
            total,
            effort,
        }
    }

    /// Whether there is effort left for so many looks.
    fn afford(&mut self, looks: usize) -> bool {
        self.effort = self.effort.saturating_sub(looks as u64);
        self.effort > 0
    }

    fn size(&self, class: usize) -> f64 {
        let request = self.classes.request(class).iter().zip(&self.total);
        request.map(|(&asked, total)| asked as f64 / total).sum()
    }

    fn gang_size(&self, demand: &Demand, gang: usize) -> f64 {
        let need = demand.gangs[gang].need.iter();
        need.map(|&(class, count)| self.size(class) * count as f64)
            .sum()
    }

    /// How much a request points in the direction of what is free.
    fn alignment(&self, class: usize, machine: &Machine) -> f64 {
        let request = self.classes.request(class).iter();
        let pairs = request.zip(&machine.free).zip(&self.total);
        pairs
            .map(|((&asked, &free), total)| (asked as f64 / total) * (free.max(0) as f64 / total))
            .sum()
    }

    /// Fill one machine from what is left of each class.
    fn fill(&mut self, index: usize, left: &mut [i64]) {
        while self.afford(left.len()) {
            let machine = &self.machines[index];
            let fitting = (0..left.len()).filter(|&class| {
                left[class] > 0
                    && self.classes.admits(class, index)
                    && machine.fits(self.classes.request(class), self.classes.devices[class])
            });
            let best = fitting.max_by(|&a, &b| {
                let (a, b) = (self.alignment(a, machine), self.alignment(b, machine));
                a.total_cmp(&b)
            });
            let Some(class) = best else {
                return;
            };
            self.put(class, index);
            left[class] -= 1;
        }
    }

    /// Place one task on the tightest machine.
    fn place(&mut self, class: usize) -> bool {
        self.place_at(class).is_some()
    }

    fn place_at(&mut self, class: usize) -> Option<usize> {
        if !self.afford(self.machines.len()) {
            return None;
        }
        let (request, devices) = (self.classes.request(class), self.classes.devices[class]);
        let fitting = (0..self.machines.len()).filter(|&index| {
            self.classes.admits(class, index) && self.machines[index].fits(request, devices)
        });
        let left = |index: usize| -> f64 {
            let free = self.machines[index].free.iter().zip(&self.total);
            free.map(|(&free, total)| free.max(0) as f64 / total).sum()
        };
        let index = fitting.min_by(|&a, &b| left(a).total_cmp(&left(b)))?;
        self.put(class, index);
        Some(index)
    }

    fn put(&mut self, class: usize, index: usize) {
        let request = self.classes.request(class);
        self.machines[index].place(class, request, self.classes.devices[class]);
    }

    /// All of a gang or nothing.
    fn place_all(&mut self, need: &[(usize, i64)]) -> bool {
        let mut placed: Vec<usize> = Vec::new();
        for &(class, count) in need {
            for _ in 0..count {
                let Some(index) = self.place_at(class) else {
                    for &index in placed.iter().rev() {
                        self.machines[index].take_last(self.classes);
                    }
                    return false;
                };
                placed.push(index);
            }
        }
        true
    }
}
