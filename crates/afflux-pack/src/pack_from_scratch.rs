//! A packing from scratch, by best fit decreasing.

use crate::classes::Classes;
use crate::items::{Items, UnitCounts};
use crate::machines::Machine;

/// The items that a packing from scratch places first.
#[derive(Clone, Debug)]
pub struct ScratchStart {
    /// The number of single tasks of each class.
    pub singles: Vec<i64>,
    /// One flag per gang.
    pub gangs: Vec<bool>,
}

/// Packs everything from scratch: fixed units, the gangs of `first`, then machine by machine.
///
/// A machine is filled with the task whose request has the largest dot product with the free
/// resources of the machine, until nothing fits (the dot-product rule of vector bin packing,
/// Panigrahy et al., "Heuristics for vector bin packing", 2011), so that complementary classes end
/// up together. All other items are tried last, smallest first. Returns false, with machines and
/// items in an unspecified state, if a fixed unit does not fit or the effort is used up.
pub(crate) fn pack_from_scratch(
    classes: &Classes,
    machines: &mut [Machine],
    items: &mut Items,
    first: &ScratchStart,
    effort: u64,
) -> bool {
    for machine in machines.iter_mut() {
        machine.clear(classes);
    }
    for gang in &mut items.gangs {
        gang.placed = false;
    }
    let mut packer = BestFit::new(classes, machines, effort);
    let mut by_size: Vec<usize> = (0..classes.len()).collect();
    by_size.sort_by(|&a, &b| packer.size(b).total_cmp(&packer.size(a)));
    for &class in &by_size {
        for _ in 0..items.fixed[class] {
            if !packer.place(class) {
                return false;
            }
        }
    }
    let mut gangs: Vec<usize> = (0..items.gangs.len()).collect();
    gangs.sort_by(|&a, &b| {
        packer
            .gang_size(items, b)
            .total_cmp(&packer.gang_size(items, a))
    });
    for &gang in gangs.iter().filter(|&&gang| first.gangs[gang]) {
        items.gangs[gang].placed = packer.place_gang(&items.gangs[gang].need);
    }
    let mut left = first.singles.clone();
    for index in 0..packer.machines.len() {
        packer.fill(index, &mut left);
    }
    for &gang in gangs.iter().rev() {
        if !items.gangs[gang].placed {
            items.gangs[gang].placed = packer.place_gang(&items.gangs[gang].need);
        }
    }
    for &class in by_size.iter().rev() {
        let taken = first.singles[class] - left[class];
        for _ in taken..items.singles[class].len() as i64 {
            if !packer.place(class) {
                break;
            }
        }
    }
    packer.effort > 0
}

/// The worth of the packing and its negated cost: larger is better.
pub(crate) fn packing_value(classes: &Classes, machines: &[Machine], items: &Items) -> (i64, i64) {
    let mut placed = vec![0; classes.len()];
    for unit in machines.iter().flat_map(|machine| &machine.units) {
        placed[unit.class] += 1;
    }
    let gangs = items.gangs.iter().filter(|gang| gang.placed);
    let worth =
        UnitCounts::new(items, placed).worth_of_singles() + gangs.map(|g| g.worth).sum::<i64>();
    let cost: i64 = machines
        .iter()
        .enumerate()
        .map(|(index, machine)| machine.cost(classes, index))
        .sum();
    (worth, -cost)
}

struct BestFit<'a> {
    classes: &'a Classes,
    machines: &'a mut [Machine],
    /// The free amount of each resource on all machines, to which requests are compared.
    total: Vec<f64>,
    /// The remaining number of comparisons of a task with a machine.
    effort: u64,
}

impl<'a> BestFit<'a> {
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

    /// Counts comparisons; returns whether effort is left.
    fn spend_effort(&mut self, comparisons: usize) -> bool {
        self.effort = self.effort.saturating_sub(comparisons as u64);
        self.effort > 0
    }

    fn size(&self, class: usize) -> f64 {
        let request = self.classes.request(class).iter().zip(&self.total);
        request.map(|(&asked, total)| asked as f64 / total).sum()
    }

    fn gang_size(&self, items: &Items, gang: usize) -> f64 {
        let need = items.gangs[gang].need.iter();
        need.map(|&(class, count)| self.size(class) * count as f64)
            .sum()
    }

    /// The dot product of a request and the free resources of a machine.
    fn alignment(&self, class: usize, machine: &Machine) -> f64 {
        let request = self.classes.request(class).iter();
        let pairs = request.zip(&machine.free).zip(&self.total);
        pairs
            .map(|((&asked, &free), total)| (asked as f64 / total) * (free.max(0) as f64 / total))
            .sum()
    }

    /// Fills one machine with the tasks left of each class.
    fn fill(&mut self, index: usize, left: &mut [i64]) {
        while self.spend_effort(left.len()) {
            let machine = &self.machines[index];
            let fitting = (0..left.len()).filter(|&class| {
                left[class] > 0
                    && self.classes.admits(class, index)
                    && machine.fits(self.classes.request(class), self.classes.devices[class])
            });
            let best_aligned = fitting.max_by(|&a, &b| {
                let (a, b) = (self.alignment(a, machine), self.alignment(b, machine));
                a.total_cmp(&b)
            });
            let Some(class) = best_aligned else {
                return;
            };
            self.put(class, index);
            left[class] -= 1;
        }
    }

    /// Places one task on the tightest machine.
    fn place(&mut self, class: usize) -> bool {
        self.place_at(class).is_some()
    }

    fn place_at(&mut self, class: usize) -> Option<usize> {
        if !self.spend_effort(self.machines.len()) {
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

    /// Places all units of a gang, or none.
    fn place_gang(&mut self, need: &[(usize, i64)]) -> bool {
        let mut placed: Vec<usize> = Vec::new();
        for &(class, count) in need {
            for _ in 0..count {
                let Some(index) = self.place_at(class) else {
                    for &index in placed.iter().rev() {
                        self.machines[index].remove_last(self.classes);
                    }
                    return false;
                };
                placed.push(index);
            }
        }
        true
    }
}
