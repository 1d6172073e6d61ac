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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// By volume, and by number of the model of a disk, what it takes of such a disk; none if it
    /// cannot be there.
    volumes: Vec<Vec<Option<Bandwidth>>>,
    is_stated: bool,
    /// The volumes, the largest first.
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

    /// What a volume takes of a disk; none if it cannot be there.
    fn on(&self, volume: usize, disk: &Disk) -> Option<Bandwidth> {
        *self.volumes[volume].get(disk.model as usize)?
    }
}

/// By which volumes are ordered: the largest first, by what they take where they take least.
fn size(by_model: &[Option<Bandwidth>]) -> (i64, i64, i64) {
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

/// Volumes on one machine are searched for exactly up to this number; above it the search is greedy
/// and may miss a solution.
const MAX_EXACT_VOLUMES: usize = 300;
/// The exact search ends after this many steps and may miss a solution, so that tasks with many
/// different volumes cannot hold up the scheduler. Room is asked for on every machine.
const MAX_SEARCH_STEPS: usize = 20_000;
const MAX_ROOM_STEPS: usize = 500;
/// The room for tasks with several volumes is exact up to this number; above it, it may be too low.
const MAX_EXACT_ROOM: i64 = 6;

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

/// Disks for the volumes of one task, as the search for several tasks would find them.
fn choose_for_one(disks: &[Disk], request: &DiskRequest) -> Option<Vec<u32>> {
    match request.volumes.as_slice() {
        [_] => best(disks, request, 0).map(|index| vec![index]),
        _ => choose_one_by_one(disks, request)
            .or_else(|| pack(disks, &[request], MAX_SEARCH_STEPS)?.pop()),
    }
}

/// Disks for the volumes of one task: the best for each, without going back.
fn choose_one_by_one(disks: &[Disk], request: &DiskRequest) -> Option<Vec<u32>> {
    let mut left = disks.to_vec();
    let mut chosen = vec![0; request.volumes.len()];
    for &volume in &request.order {
        let index = best(&left, request, volume)?;
        let taken = request.on(volume, &left[index as usize])?;
        add(&mut left[index as usize].left, &taken, -1);
        chosen[volume] = index;
    }
    Some(chosen)
}

/// The best disk on which a volume fits.
fn best(disks: &[Disk], request: &DiskRequest, volume: usize) -> Option<u32> {
    let fitting = (0..).zip(disks);
    let fitting = fitting.filter(|&(_, disk)| fits_on(disk, request, volume));
    let first = fitting.min_by_key(|&(index, disk)| (preference(disk, request), index));
    first.map(|(index, _)| index)
}

/// Lower is better: the fullest disk, or for a default charge the emptiest.
fn preference(disk: &Disk, request: &DiskRequest) -> i64 {
    let [_, _, left] = disk.left;
    if request.is_stated { left } else { -left }
}

/// The disks on which a volume fits, the best first.
fn by_preference(disks: &[Disk], request: &DiskRequest, volume: usize) -> Vec<u32> {
    let fitting = (0..).zip(disks);
    let fitting = fitting.filter(|&(_, disk)| fits_on(disk, request, volume));
    let mut found: Vec<(i64, u32)> = fitting
        .map(|(index, disk)| (preference(disk, request), index))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, index)| index).collect()
}

fn room_for_several(disks: &[Disk], request: &DiskRequest, at_most: i64) -> i64 {
    let at_most = at_most.min(bound_of_room(disks, request));
    let mut left = disks.to_vec();
    let mut room = 0;
    while room < at_most {
        let Some(chosen) = choose_for_one(&left, request) else {
            break;
        };
        // The next tasks would choose the same disks as long as these have enough left.
        let repeated = repetitions(&left, request, &chosen).min(at_most - room);
        put(&mut left, request, &chosen, -repeated);
        room += repeated;
    }
    // One task after the other may have left gaps that others would fill.
    while room < at_most.min(MAX_EXACT_ROOM) {
        let all = vec![request; usize::try_from(room).unwrap_or(0) + 1];
        if pack(disks, &all, MAX_ROOM_STEPS).is_none() {
            break;
        }
        room += 1;
    }
    room
}

/// How many such tasks fit on the same disks, at least the one that is known to fit.
fn repetitions(disks: &[Disk], request: &DiskRequest, chosen: &[u32]) -> i64 {
    let mut taken = vec![[0; 3]; disks.len()];
    for (volume, &index) in chosen.iter().enumerate() {
        if let Some(amounts) = request.on(volume, &disks[index as usize]) {
            add(&mut taken[index as usize], &amounts, 1);
        }
    }
    let each = disks.iter().zip(&taken);
    let each = each.map(|(disk, taken)| times(&disk.left, taken));
    each.min().unwrap_or(1).max(1)
}

/// No more such tasks than this fit: if all disks were one, and if each volume had them alone.
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
    for volume in 0..request.volumes.len() {
        bound = bound.min(room_for_one(disks, request, volume));
    }
    bound
}

/// How many such volumes fit, if nothing else is placed.
fn room_for_one(disks: &[Disk], request: &DiskRequest, volume: usize) -> i64 {
    let each = disks.iter().filter_map(|disk| {
        let taken = request.on(volume, disk)?;
        Some(times(&disk.left, &taken))
    });
    each.fold(0, i64::saturating_add)
}

fn pack(disks: &[Disk], requests: &[&DiskRequest], steps: usize) -> Option<Vec<Vec<u32>>> {
    let mut order: Vec<(usize, usize)> = Vec::new();
    for (task, request) in requests.iter().enumerate() {
        order.extend((0..request.volumes.len()).map(|volume| (task, volume)));
    }
    // Equal volumes are beside each other, so that the search knows the states it comes back to.
    order.sort_by_cached_key(|&(task, volume)| size(&requests[task].volumes[volume]));
    let mut chosen: Vec<Vec<u32>> = requests
        .iter()
        .map(|request| vec![0; request.volumes.len()])
        .collect();
    let mut left = disks.to_vec();
    if order.len() > MAX_EXACT_VOLUMES {
        for (task, volume) in order {
            let index = best(&left, requests[task], volume)?;
            let taken = requests[task].on(volume, &left[index as usize])?;
            add(&mut left[index as usize].left, &taken, -1);
            chosen[task][volume] = index;
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
