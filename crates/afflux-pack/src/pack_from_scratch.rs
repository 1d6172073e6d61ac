//! A packing from scratch, by best fit decreasing.

use crate::items::{Items, UnitCounts};
use crate::packing::Packing;

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
/// up together. All other items are tried last, smallest first. Returns false, with packing and
/// items in an unspecified state, if a fixed unit does not fit or the effort is used up.
pub(crate) fn pack_from_scratch(
    packing: &mut Packing,
    usable: &[usize],
    items: &mut Items,
    first: &ScratchStart,
    effort: u64,
) -> bool {
    for &machine in usable {
        packing.clear(machine);
    }
    for gang in &mut items.gangs {
        gang.placed = false;
    }
    let mut packer = BestFit::new(packing, usable, effort);
    let mut by_size: Vec<usize> = (0..first.singles.len()).collect();
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
    for &machine in usable {
        packer.fill(machine, &mut left);
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
pub(crate) fn packing_value(packing: &Packing, items: &Items) -> (i64, i64) {
    let gangs = items.gangs.iter().filter(|gang| gang.placed);
    let singles = UnitCounts::new(items, packing.placed()).worth_of_singles();
    (
        singles + gangs.map(|g| g.worth).sum::<i64>(),
        -packing.cost(),
    )
}

struct BestFit<'a> {
    packing: &'a mut Packing,
    /// The free amount of each resource on all machines, to which requests are compared.
    total: Vec<f64>,
    /// The remaining number of comparisons of a task with a machine.
    effort: u64,
}

impl<'a> BestFit<'a> {
    fn new(packing: &'a mut Packing, usable: &[usize], effort: u64) -> Self {
        let resources = packing.account().resources();
        let mut total = vec![0.0; resources.width()];
        for &machine in usable {
            for (total, &free) in total.iter_mut().zip(resources.of(machine)) {
                *total += free.max(0) as f64;
            }
        }
        total.iter_mut().for_each(|total| *total = total.max(1.0));
        Self {
            packing,
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
        let request = self.packing.account().classes()[class].request.iter();
        request
            .map(|&(column, asked)| asked as f64 / self.total[column as usize])
            .sum()
    }

    fn gang_size(&self, items: &Items, gang: usize) -> f64 {
        let need = items.gangs[gang].need.iter();
        need.map(|&(class, count)| self.size(class) * count as f64)
            .sum()
    }

    /// The dot product of a request and the free resources of a machine.
    fn alignment(&self, class: usize, machine: usize) -> f64 {
        let account = self.packing.account();
        let free = account.resources().of(machine);
        let shares = account.classes()[class]
            .request
            .iter()
            .map(|&(column, asked)| {
                let total = self.total[column as usize];
                (asked as f64 / total) * (free[column as usize].max(0) as f64 / total)
            });
        shares.sum()
    }

    /// Fills one machine with the tasks left of each class.
    fn fill(&mut self, machine: usize, left: &mut [i64]) {
        while self.spend_effort(left.len()) {
            let fitting = (0..left.len())
                .filter(|&class| left[class] > 0 && self.packing.fits(class, machine));
            let best_aligned = fitting.max_by(|&a, &b| {
                let (a, b) = (self.alignment(a, machine), self.alignment(b, machine));
                a.total_cmp(&b)
            });
            let Some(class) = best_aligned else {
                return;
            };
            left[class] -= self.packing.place(class, machine, 1);
        }
    }

    /// Places one task on the tightest machine.
    fn place(&mut self, class: usize) -> bool {
        if !self.spend_effort(self.packing.machines_of(class).len()) {
            return false;
        }
        let resources = self.packing.account().resources();
        let left = |machine: usize| -> f64 {
            let free = resources.of(machine).iter().zip(&self.total);
            free.map(|(&free, total)| free.max(0) as f64 / total).sum()
        };
        let machines = self.packing.machines_of(class).iter();
        let tightest = machines
            .map(|&machine| machine as usize)
            .filter(|&machine| self.packing.account().fits(class, machine))
            .min_by(|&a, &b| left(a).total_cmp(&left(b)));
        tightest.is_some_and(|machine| self.packing.place(class, machine, 1) == 1)
    }

    /// Places all units of a gang, or none.
    fn place_gang(&mut self, need: &[(usize, i64)]) -> bool {
        let mark = self.packing.account().mark();
        let whole = need
            .iter()
            .all(|&(class, count)| (0..count).all(|_| self.place(class)));
        if !whole {
            self.packing.account_mut().rollback(mark);
        }
        whole
    }
}
