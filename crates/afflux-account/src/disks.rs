//! The part that tracks the bandwidth of disks, one disk at a time.
//!
//! Bandwidth of different disks never adds up: a volume is on one disk. What it takes depends on
//! the model of the disk, and read, write and total each have to fit. Several volumes may share a
//! disk.

use std::collections::HashSet;

use crate::resources::UNLIMITED;

/// Read, write and total bytes per second.
pub type Bandwidth = [i64; 3];

/// What one task does on disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskRequest {
    /// By volume, and by number of the model of a disk, what it takes of such a disk; none if it
    /// cannot be there.
    pub volumes: Vec<Vec<Option<Bandwidth>>>,
    /// Whether the task runs only where disks are known. Otherwise it takes nothing elsewhere.
    pub is_stated: bool,
}

impl DiskRequest {
    /// What a volume takes of a disk; none if it cannot be there.
    fn on(&self, volume: usize, disk: &Disk) -> Option<Bandwidth> {
        *self.volumes[volume].get(disk.model as usize)?
    }
}

/// A disk of a machine: the number of its model, and what it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disk {
    /// The number of its model.
    pub model: u32,
    /// What is left of it; negative if it is overcommitted.
    pub left: Bandwidth,
}

/// Volumes on one machine are searched for exactly up to this number; above it the search is greedy
/// and may miss a solution.
const MAX_EXACT_VOLUMES: usize = 300;
/// The exact search ends after this many steps and may miss a solution, so that tasks with many
/// different volumes cannot hold up the scheduler. Room is asked for on every machine.
const MAX_SEARCH_STEPS: usize = 20_000;
const MAX_ROOM_STEPS: usize = 2_000;
/// The room for tasks with several volumes is counted up to this number.
const MAX_COUNTED_ROOM: i64 = 1_000;

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
            _ => pack(disks, &[request], MAX_SEARCH_STEPS).is_some(),
        }
    }

    /// How many such tasks fit one after the other; `at_most` is enough to know.
    ///
    /// Exact for one volume. For several it may be too low: it is counted up to a limit, and the
    /// search behind it is bounded.
    #[must_use]
    pub fn room(&self, request: &DiskRequest, machine: usize, at_most: i64) -> i64 {
        let disks = self.of(machine);
        match request.volumes.as_slice() {
            _ if disks.is_empty() => match request.is_stated {
                true => 0,
                false => at_most,
            },
            [] => at_most,
            [_] => {
                let each = disks.iter().filter_map(|disk| {
                    let taken = request.on(0, disk)?;
                    Some(times(&disk.left, &taken))
                });
                each.fold(0_i64, i64::saturating_add).min(at_most)
            }
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
        if request.volumes.len() == 1 {
            let best = by_preference(disks, request, 0).into_iter().next()?;
            return Some(vec![best]);
        }
        let chosen = pack(disks, &[request], MAX_SEARCH_STEPS)?.pop()?;
        if further > 0 {
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

/// How often this can be taken of what is left. What is not asked for does not matter.
fn times(left: &Bandwidth, taken: &Bandwidth) -> i64 {
    let asked = left.iter().zip(taken).filter(|&(_, &taken)| taken > 0);
    let each = asked.map(|(&left, &taken)| left.max(0) / taken);
    each.min().unwrap_or(UNLIMITED)
}

fn fits_on(disk: &Disk, request: &DiskRequest, volume: usize) -> bool {
    request.on(volume, disk).is_some_and(|taken| {
        let mut pairs = disk.left.iter().zip(&taken);
        pairs.all(|(&left, &taken)| taken == 0 || taken <= left)
    })
}

/// Adds so often what the volumes of a task take.
fn put(disks: &mut [Disk], request: &DiskRequest, chosen: &[u32], count: i64) {
    for (volume, &index) in chosen.iter().enumerate() {
        let disk = &mut disks[index as usize];
        if let Some(taken) = request.on(volume, disk) {
            add(&mut disk.left, &taken, count);
        }
    }
}

fn add(left: &mut Bandwidth, taken: &Bandwidth, count: i64) {
    for (left, &taken) in left.iter_mut().zip(taken) {
        *left += count * taken;
    }
}

/// The disks on which a volume fits, the best first.
fn by_preference(disks: &[Disk], request: &DiskRequest, volume: usize) -> Vec<u32> {
    let fitting = (0..).zip(disks);
    let fitting = fitting.filter(|&(_, disk)| fits_on(disk, request, volume));
    let mut found: Vec<(i64, u32)> = fitting
        .map(|(index, disk)| {
            let [_, _, left] = disk.left;
            (if request.is_stated { left } else { -left }, index)
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, index)| index).collect()
}

fn room_for_several(disks: &[Disk], request: &DiskRequest, at_most: i64) -> i64 {
    let at_most = at_most
        .min(MAX_COUNTED_ROOM)
        .min(bound_of_room(disks, request));
    let mut left = disks.to_vec();
    let mut room = 0;
    while room < at_most {
        let Some(chosen) = pack(&left, &[request], MAX_ROOM_STEPS).and_then(|mut all| all.pop())
        else {
            break;
        };
        put(&mut left, request, &chosen, -1);
        room += 1;
    }
    // One task after the other may have left gaps that others would fill.
    while room < at_most {
        let all = vec![request; usize::try_from(room).unwrap_or(0) + 1];
        if all.len() * request.volumes.len() > MAX_EXACT_VOLUMES
            || pack(disks, &all, MAX_ROOM_STEPS).is_none()
        {
            break;
        }
        room += 1;
    }
    room
}

/// No more such tasks than this fit, if all disks were one.
fn bound_of_room(disks: &[Disk], request: &DiskRequest) -> i64 {
    let mut bound = UNLIMITED;
    for kind in 0..3 {
        let left = disks.iter().map(|disk| disk.left[kind].max(0));
        let left = left.fold(0, i64::saturating_add);
        let least = (0..request.volumes.len()).map(|volume| {
            let each = disks.iter().filter_map(|disk| request.on(volume, disk));
            each.map(|taken| taken[kind]).min().unwrap_or(0)
        });
        let asked = least.fold(0, i64::saturating_add);
        if asked > 0 {
            bound = bound.min(left / asked);
        }
    }
    bound
}

fn pack(disks: &[Disk], requests: &[&DiskRequest], steps: usize) -> Option<Vec<Vec<u32>>> {
    let mut order: Vec<(usize, usize)> = Vec::new();
    for (task, request) in requests.iter().enumerate() {
        order.extend((0..request.volumes.len()).map(|volume| (task, volume)));
    }
    let size = |&(task, volume): &(usize, usize)| {
        let each = disks
            .iter()
            .filter_map(|disk| requests[task].on(volume, disk));
        each.min()
    };
    // Volumes that fit on no disk come first, equal ones beside each other.
    order.sort_by_cached_key(|item| size(item).map(|[read, write, total]| (-total, -read, -write)));
    let mut chosen: Vec<Vec<u32>> = requests
        .iter()
        .map(|request| vec![0; request.volumes.len()])
        .collect();
    let mut left = disks.to_vec();
    if order.len() > MAX_EXACT_VOLUMES {
        for (task, volume) in order {
            let best = *by_preference(&left, requests[task], volume).first()?;
            let taken = requests[task].on(volume, &left[best as usize])?;
            add(&mut left[best as usize].left, &taken, -1);
            chosen[task][volume] = best;
        }
        return Some(chosen);
    }
    let mut search = Search {
        requests,
        chosen: &mut chosen,
        infeasible: HashSet::new(),
        steps_left: steps,
    };
    search.place(&order, &mut left).then_some(chosen)
}

/// The search for disks for several volumes.
struct Search<'a> {
    requests: &'a [&'a DiskRequest],
    /// By task and volume, the disk found last.
    chosen: &'a mut [Vec<u32>],
    /// How many volumes were left to place, and the disks in ascending order.
    infeasible: HashSet<(usize, Vec<Disk>)>,
    steps_left: usize,
}

impl Search<'_> {
    /// Whether the volumes of `order` fit on what is left.
    fn place(&mut self, order: &[(usize, usize)], left: &mut [Disk]) -> bool {
        let Some((&(task, volume), rest)) = order.split_first() else {
            return true;
        };
        if self.steps_left == 0 {
            return false;
        }
        self.steps_left -= 1;
        let mut key = left.to_vec();
        key.sort_unstable();
        let state = (rest.len(), key);
        if self.infeasible.contains(&state) {
            return false;
        }
        let request = self.requests[task];
        let mut tried: Vec<Disk> = Vec::new();
        for index in by_preference(left, request, volume) {
            let before = left[index as usize];
            let Some(taken) = request.on(volume, &before) else {
                continue;
            };
            // Of equal disks one is enough.
            if tried.contains(&before) {
                continue;
            }
            tried.push(before);
            add(&mut left[index as usize].left, &taken, -1);
            let found = self.place(rest, left);
            left[index as usize] = before;
            if found {
                self.chosen[task][volume] = index;
                return true;
            }
        }
        self.infeasible.insert(state);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task with volumes that take the same of every model.
    fn request(volumes: &[Bandwidth]) -> DiskRequest {
        DiskRequest {
            volumes: volumes.iter().map(|&taken| vec![Some(taken)]).collect(),
            is_stated: true,
        }
    }

    fn default_charge(taken: Bandwidth) -> DiskRequest {
        DiskRequest {
            is_stated: false,
            ..request(&[taken])
        }
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
        let cheap_on_second = DiskRequest {
            volumes: vec![vec![Some([8, 0, 8]), Some([2, 0, 2]), None]],
            is_stated: true,
        };
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
