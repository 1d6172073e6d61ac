//! The part that tracks the bandwidth of disks, one disk at a time.
//!
//! Bandwidth of different disks never adds up: a volume is on one disk. What it takes depends on
//! the model of the disk, and read, write and total each have to fit. Several volumes may share a
//! disk.

use crate::disk_search::{
    MAX_ROOM_STEPS, MAX_SEARCH_STEPS, choose_for_one, fits_on, pack, put, room_for_one,
    room_for_several,
};

/// Read, write and total bytes per second.
pub type Bandwidth = [i64; 3];

/// What one task does on disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// By volume, and by number of the model of a disk, what it takes of such a disk; none if it
    /// cannot be there.
    volumes: Vec<Vec<Option<Bandwidth>>>,
    is_stated: bool,
    order: Vec<usize>,
}

impl DiskRequest {
    /// A request for these volumes: by volume, and by number of the model of a disk, what it takes
    /// of such a disk; none if it cannot be there. One that is stated fits only where disks are
    /// known; any other takes nothing elsewhere.
    #[must_use]
    pub fn new(volumes: Vec<Vec<Option<Bandwidth>>>, is_stated: bool) -> Self {
        let mut order: Vec<usize> = (0..volumes.len()).collect();
        order.sort_by_key(|&volume| size(&volumes[volume]));
        Self {
            volumes,
            is_stated,
            order,
        }
    }

    /// By volume and number of a model, what it takes of such a disk.
    #[must_use]
    pub fn volumes(&self) -> &[Vec<Option<Bandwidth>>] {
        &self.volumes
    }

    /// Whether the task runs only where disks are known. Otherwise it takes nothing elsewhere.
    #[must_use]
    pub fn is_stated(&self) -> bool {
        self.is_stated
    }

    /// The volumes, the largest first.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// What a volume takes of a disk; none if it cannot be there.
    pub(crate) fn on(&self, volume: usize, disk: &Disk) -> Option<Bandwidth> {
        *self.volumes[volume].get(disk.model as usize)?
    }
}

/// By which volumes are ordered: the largest first, by what they take where they take least.
pub(crate) fn size(by_model: &[Option<Bandwidth>]) -> (i64, i64, i64) {
    let least = by_model.iter().flatten().min_by_key(|taken| taken[2]);
    least.map_or((i64::MIN, 0, 0), |&[read, write, total]| {
        (-total, -read, -write)
    })
}

/// A disk of a machine: the number of its model, and what it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disk {
    /// The number of its model.
    pub model: u32,
    /// What is left of it; negative if it is overcommitted.
    pub left: Bandwidth,
}

/// The disks of every machine.
#[derive(Clone, Debug, Default)]
pub struct Disks {
    /// Machines without an entry, or with an empty one, have no known disks.
    machines: Vec<Vec<Disk>>,
}

impl Disks {
    /// The disks by machine; an empty list if no machine has known disks.
    #[must_use]
    pub fn new(machines: Vec<Vec<Disk>>) -> Self {
        Self { machines }
    }

    /// The disks of one machine.
    #[must_use]
    pub fn of(&self, machine: usize) -> &[Disk] {
        self.machines.get(machine).map_or(&[], Vec::as_slice)
    }

    /// Whether one more such task fits.
    #[must_use]
    pub fn fits(&self, request: &DiskRequest, machine: usize) -> bool {
        let disks = self.of(machine);
        if disks.is_empty() {
            return !request.is_stated;
        }
        match request.volumes.as_slice() {
            [_] => disks.iter().any(|disk| fits_on(disk, request, 0)),
            _ => choose_for_one(disks, request).is_some(),
        }
    }

    /// How many such tasks fit one after the other; `at_most` is enough to know.
    ///
    /// Exact for one volume. For several it may be too low beyond a few tasks, and where the search
    /// for those reaches its limit.
    #[must_use]
    pub fn room(&self, request: &DiskRequest, machine: usize, at_most: i64) -> i64 {
        let disks = self.of(machine);
        match request.volumes.as_slice() {
            _ if disks.is_empty() => match request.is_stated {
                true => 0,
                false => at_most,
            },
            [] => at_most,
            [_] => room_for_one(disks, request, 0).min(at_most),
            _ => room_for_several(disks, request, at_most),
        }
    }

    /// Takes what the volumes of a task take of these disks, one for each volume.
    pub fn take(&mut self, machine: usize, request: &DiskRequest, chosen: &[u32]) {
        if let Some(disks) = self.machines.get_mut(machine) {
            put(disks, request, chosen, -1);
        }
    }

    /// Gives back what was taken.
    pub fn release(&mut self, machine: usize, request: &DiskRequest, chosen: &[u32]) {
        if let Some(disks) = self.machines.get_mut(machine) {
            put(disks, request, chosen, 1);
        }
    }

    /// A disk for each volume: the fullest on which it fits, or for a task that does not state what
    /// it does the emptiest; none if the volumes do not fit.
    ///
    /// If that leaves no room for `further` such tasks, the disks are chosen so that it does, as
    /// far as the search finds them.
    #[must_use]
    pub fn choose(&self, request: &DiskRequest, machine: usize, further: i64) -> Option<Vec<u32>> {
        let disks = self.of(machine);
        if disks.is_empty() {
            return (!request.is_stated).then(Vec::new);
        }
        let chosen = choose_for_one(disks, request)?;
        if further > 0 && chosen.len() > 1 {
            let mut left = disks.to_vec();
            put(&mut left, request, &chosen, -1);
            if room_for_several(&left, request, further) < further {
                let all = vec![request; usize::try_from(further).unwrap_or(usize::MAX) + 1];
                let found = pack(disks, &all, MAX_ROOM_STEPS);
                return found.and_then(|mut all| all.pop()).or(Some(chosen));
            }
        }
        Some(chosen)
    }

    /// Disks for the volumes of several tasks at once; none if they do not fit together.
    ///
    /// The search is exact within its limits: large volumes first, on every disk.
    #[must_use]
    pub fn pack(&self, requests: &[&DiskRequest], machine: usize) -> Option<Vec<Vec<u32>>> {
        let disks = self.of(machine);
        if disks.is_empty() {
            let are_free = requests.iter().all(|request| !request.is_stated);
            return are_free.then(|| vec![Vec::new(); requests.len()]);
        }
        pack(disks, requests, MAX_SEARCH_STEPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task with volumes that take the same of every model.
    fn request(volumes: &[Bandwidth]) -> DiskRequest {
        let volumes = volumes.iter().map(|&taken| vec![Some(taken)]);
        DiskRequest::new(volumes.collect(), true)
    }

    fn default_charge(taken: Bandwidth) -> DiskRequest {
        DiskRequest::new(vec![vec![Some(taken)]], false)
    }

    /// A machine with disks that have as much left for reading as for writing.
    fn disks(left: &[i64]) -> Disks {
        let each = left.iter().map(|&left| Disk {
            model: 0,
            left: [left, left, 2 * left],
        });
        Disks::new(vec![each.collect()])
    }

    #[test]
    fn bandwidth_of_different_disks_never_adds_up() {
        let large = request(&[[6, 0, 6]]);
        assert!(!disks(&[5, 5]).fits(&large, 0));
        assert_eq!(disks(&[13, 5]).room(&large, 0, 9), 2);
    }

    #[test]
    fn read_write_and_total_each_have_to_fit() {
        let disk =
            |left| Disks::new(vec![vec![Disk { model: 0, left }]]).fits(&request(&[[3, 2, 5]]), 0);
        assert!(disk([3, 2, 5]));
        assert!(!disk([2, 2, 5]));
        assert!(!disk([3, 1, 5]));
        assert!(!disk([3, 2, 4]));
    }

    #[test]
    fn what_is_not_asked_for_may_be_overcommitted() {
        let disks = Disks::new(vec![vec![Disk {
            model: 0,
            left: [4, -1, 3],
        }]]);
        assert_eq!(disks.room(&request(&[[1, 0, 1]]), 0, 9), 3);
        assert!(!disks.fits(&request(&[[1, 1, 2]]), 0));
    }

    #[test]
    fn the_fullest_disk_is_chosen_and_the_emptiest_for_a_default_charge() {
        let disks = disks(&[9, 5, 3]);
        assert_eq!(disks.choose(&request(&[[4, 0, 4]]), 0, 0), Some(vec![1]));
        assert_eq!(
            disks.choose(&default_charge([1, 1, 2]), 0, 0),
            Some(vec![0])
        );
    }

    #[test]
    fn without_known_disks_only_a_default_charge_fits_and_takes_nothing() {
        let none = Disks::default();
        assert_eq!(none.room(&request(&[[1, 0, 1]]), 7, 3), 0);
        assert_eq!(none.room(&default_charge([1, 0, 1]), 7, 3), 3);
        assert_eq!(none.choose(&default_charge([1, 0, 1]), 7, 0), Some(vec![]));
        assert!(none.pack(&[&request(&[[1, 0, 1]])], 7).is_none());
        assert!(!disks(&[0]).fits(&default_charge([1, 0, 1]), 0));
    }

    #[test]
    fn a_volume_takes_of_each_model_what_it_costs_there() {
        let by_model = vec![Some([8, 0, 8]), Some([2, 0, 2]), None];
        let cheap_on_second = DiskRequest::new(vec![by_model], true);
        let disk = |model| Disk {
            model,
            left: [5, 5, 10],
        };
        let disks = Disks::new(vec![vec![disk(0), disk(1), disk(2), disk(7)]]);
        assert_eq!(disks.choose(&cheap_on_second, 0, 0), Some(vec![1]));
        assert_eq!(disks.room(&cheap_on_second, 0, 9), 2);
    }

    #[test]
    fn volumes_of_one_task_may_share_a_disk_and_fill_the_disks_exactly() {
        let three = request(&[[3, 0, 3], [3, 0, 3], [4, 0, 4]]);
        assert_eq!(disks(&[10]).choose(&three, 0, 0), Some(vec![0, 0, 0]));
        let chosen = disks(&[6, 4]).choose(&three, 0, 0);
        assert_eq!(chosen, Some(vec![0, 0, 1]));
        assert!(!disks(&[5, 5]).fits(&three, 0));
    }

    #[test]
    fn room_for_several_volumes_counts_what_fits_together() {
        // One after the other: 3 and 2 go to the first disk, and then only one task fits.
        let pair = request(&[[3, 0, 3], [2, 0, 2]]);
        assert_eq!(disks(&[6, 4]).room(&pair, 0, 9), 2);
        let first = disks(&[6, 4]).choose(&pair, 0, 1).expect("it fits");
        let mut rest = disks(&[6, 4]);
        rest.take(0, &pair, &first);
        assert!(rest.fits(&pair, 0));
    }

    #[test]
    fn a_search_over_many_different_volumes_ends() {
        let each: Vec<DiskRequest> = (0..40)
            .map(|n| request(&[[340 + 9 * n, 0, 340 + 9 * n]]))
            .collect();
        let all: Vec<&DiskRequest> = each.iter().collect();
        assert!(disks(&[1000; 20]).pack(&all, 0).is_none());
    }
}
