//! The search for disks: for the volumes of one task, and for those of several.
//!
//! It places the largest volumes first, each on the disk that is best for it, and goes back where
//! that leaves no disk for another. States that led nowhere are remembered.

use std::collections::HashSet;

use crate::disks::{Bandwidth, Disk, DiskRequest, size};
use crate::resources::UNLIMITED;

/// Volumes on one machine are searched for exactly up to this number; above it the search is greedy
/// and may miss a solution.
const MAX_EXACT_VOLUMES: usize = 300;
/// The exact search for several tasks ends after this many steps and may miss a solution, so that
/// tasks with many different volumes cannot hold up the scheduler.
pub(crate) const MAX_SEARCH_STEPS: usize = 20_000;
/// The same where the question is asked on every machine: whether one task fits, and how many do.
pub(crate) const MAX_ROOM_STEPS: usize = 500;
/// The room for tasks with several volumes is exact up to this number; above it, it may be too low.
const MAX_EXACT_ROOM: i64 = 6;

/// How often this can be taken of what is left. What is not asked for does not matter.
fn times(left: &Bandwidth, taken: &Bandwidth) -> i64 {
    let asked = left.iter().zip(taken).filter(|&(_, &taken)| taken > 0);
    let each = asked.map(|(&left, &taken)| left.max(0) / taken);
    each.min().unwrap_or(UNLIMITED)
}

pub(crate) fn fits_on(disk: &Disk, request: &DiskRequest, volume: usize) -> bool {
    request.on(volume, disk).is_some_and(|taken| {
        let mut pairs = disk.left.iter().zip(&taken);
        pairs.all(|(&left, &taken)| taken == 0 || taken <= left)
    })
}

/// Adds so often what the volumes of a task take.
pub(crate) fn put(disks: &mut [Disk], request: &DiskRequest, chosen: &[u32], count: i64) {
    for (volume, &index) in chosen.iter().enumerate() {
        let disk = &mut disks[index as usize];
        if let Some(taken) = request.on(volume, disk) {
            add(&mut disk.left, &taken, count);
        }
    }
}

pub(crate) fn add(left: &mut Bandwidth, taken: &Bandwidth, count: i64) {
    for (left, &taken) in left.iter_mut().zip(taken) {
        *left += count * taken;
    }
}

/// Disks for the volumes of one task, as the search for several tasks would find them.
pub(crate) fn choose_for_one(disks: &[Disk], request: &DiskRequest) -> Option<Vec<u32>> {
    match request.volumes() {
        [_] => best(disks, request, 0).map(|index| vec![index]),
        _ => choose_one_by_one(disks, request)
            .or_else(|| pack(disks, &[request], MAX_ROOM_STEPS)?.pop()),
    }
}

/// Disks for the volumes of one task: the best for each, without going back.
fn choose_one_by_one(disks: &[Disk], request: &DiskRequest) -> Option<Vec<u32>> {
    let mut left = disks.to_vec();
    let mut chosen = vec![0; request.volumes().len()];
    for &volume in request.order() {
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
    if request.is_stated() { left } else { -left }
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

pub(crate) fn room_for_several(disks: &[Disk], request: &DiskRequest, at_most: i64) -> i64 {
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
    if room == 0 {
        // The search for one task has said so already.
        return 0;
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
        let least = (0..request.volumes().len()).map(|volume| {
            let each = disks.iter().filter_map(|disk| request.on(volume, disk));
            each.map(|taken| taken[kind]).min().unwrap_or(0)
        });
        let asked = least.fold(0, i64::saturating_add);
        if asked > 0 {
            bound = bound.min(left / asked);
        }
    }
    for volume in 0..request.volumes().len() {
        bound = bound.min(room_for_one(disks, request, volume));
    }
    bound
}

/// How many such volumes fit, if nothing else is placed.
pub(crate) fn room_for_one(disks: &[Disk], request: &DiskRequest, volume: usize) -> i64 {
    let each = disks.iter().filter_map(|disk| {
        let taken = request.on(volume, disk)?;
        Some(times(&disk.left, &taken))
    });
    each.fold(0, i64::saturating_add)
}

pub(crate) fn pack(
    disks: &[Disk],
    requests: &[&DiskRequest],
    steps: usize,
) -> Option<Vec<Vec<u32>>> {
    let mut order: Vec<(usize, usize)> = Vec::new();
    for (task, request) in requests.iter().enumerate() {
        order.extend((0..request.volumes().len()).map(|volume| (task, volume)));
    }
    // Equal volumes are beside each other, so that the search knows the states it comes back to.
    order.sort_by_cached_key(|&(task, volume)| size(&requests[task].volumes()[volume]));
    let mut chosen: Vec<Vec<u32>> = requests
        .iter()
        .map(|request| vec![0; request.volumes().len()])
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
