//! The part that tracks devices one by one, such as GPUs of which a task uses a share.
//!
//! Two devices that are half free cannot take a task that needs one whole.

use std::collections::HashSet;

use crate::resources::UNLIMITED;

/// The devices that one task needs: `count` different ones, with `milli` thousandths free on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRequest {
    /// The number of devices.
    pub count: usize,
    /// The share of each device, in thousandths.
    pub milli: i64,
}

/// Several requests on one machine are searched for exactly up to this number; above it the search
/// is greedy and may miss a solution.
const MAX_EXACT_REQUESTS: usize = 300;
/// The exact search ends after this many steps and may miss a solution, so that members with many
/// different shares cannot hold up the scheduler.
const MAX_SEARCH_STEPS: usize = 20_000;

/// The free thousandths of every device of every machine.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    /// Machines without an entry have no devices.
    free: Vec<Vec<i64>>,
}

impl Devices {
    /// The free thousandths by machine; an empty list if no machine has devices.
    #[must_use]
    pub fn new(free: Vec<Vec<i64>>) -> Self {
        Self { free }
    }

    /// The free thousandths of the devices of one machine.
    #[must_use]
    pub fn of(&self, machine: usize) -> &[i64] {
        self.free.get(machine).map_or(&[], Vec::as_slice)
    }

    /// Whether one more such request fits.
    #[must_use]
    pub fn fits(&self, request: DeviceRequest, machine: usize) -> bool {
        let usable = self
            .of(machine)
            .iter()
            .filter(|&&free| free >= request.milli);
        usable.count() >= request.count
    }

    /// How many such requests fit one after the other.
    #[must_use]
    pub fn room(&self, request: DeviceRequest, machine: usize) -> i64 {
        room_on_devices(self.of(machine), request)
    }

    /// Takes these devices, or with a negative sign gives them back.
    pub fn take(&mut self, machine: usize, devices: &[u32], milli: i64) {
        for &index in devices {
            self.free[machine][index as usize] -= milli;
        }
    }

    /// The devices to take: the fullest that fit; none if there are too few.
    ///
    /// If that leaves no room for `further` such requests, those with the most free shares are
    /// taken instead, which leaves as much room for them as possible.
    #[must_use]
    pub fn choose(&self, request: DeviceRequest, machine: usize, further: i64) -> Option<Vec<u32>> {
        choose(self.of(machine), request, further)
    }

    /// Devices for several requests at once; none if they do not fit together.
    ///
    /// An exact search: large shares first, with every choice of differently filled devices. It is
    /// short because machines have few devices and groups few members on one machine.
    #[must_use]
    pub fn pack(&self, requests: &[DeviceRequest], machine: usize) -> Option<Vec<Vec<u32>>> {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|&i| (-requests[i].milli, usize::MAX - requests[i].count));
        let mut chosen = vec![Vec::new(); requests.len()];
        let mut free = self.of(machine).to_vec();
        if requests.len() > MAX_EXACT_REQUESTS {
            for i in order {
                chosen[i] = choose(&free, requests[i], 0)?;
                chosen[i]
                    .iter()
                    .for_each(|&d| free[d as usize] -= requests[i].milli);
            }
            return Some(chosen);
        }
        let mut search = Search {
            requests,
            chosen: &mut chosen,
            infeasible: HashSet::new(),
            steps_left: MAX_SEARCH_STEPS,
        };
        search.place(&order, &mut free).then_some(chosen)
    }
}

/// How many such requests fit on devices with these free thousandths, one after the other.
///
/// A device has `free / milli` shares. `t` requests need `t * count` shares, at most `t` of them on
/// one device, as the devices of one request differ. They fit exactly if the sum of
/// `min(t, shares)` over the devices reaches `t * count`.
#[must_use]
pub fn room_on_devices(free: &[i64], request: DeviceRequest) -> i64 {
    let count = i64::try_from(request.count).unwrap_or(i64::MAX);
    if count == 0 {
        return UNLIMITED;
    }
    let shares: Vec<i64> = free
        .iter()
        .map(|&device| device.max(0) / request.milli)
        .collect();
    let mut fitting = shares.iter().sum::<i64>() / count;
    while fitting > 0 && shares.iter().map(|&s| s.min(fitting)).sum::<i64>() < fitting * count {
        fitting -= 1;
    }
    fitting
}

fn choose(free: &[i64], request: DeviceRequest, further: i64) -> Option<Vec<u32>> {
    let mut usable: Vec<u32> = (0..u32::try_from(free.len()).unwrap_or(u32::MAX))
        .filter(|&device| free[device as usize] >= request.milli)
        .collect();
    if usable.len() < request.count {
        return None;
    }
    usable.sort_by_key(|&device| (free[device as usize], device));
    let chosen = usable[..request.count].to_vec();
    if further > 0 {
        let mut left = free.to_vec();
        chosen
            .iter()
            .for_each(|&device| left[device as usize] -= request.milli);
        if room_on_devices(&left, request) < further {
            usable.sort_by_key(|&device| -(free[device as usize] / request.milli));
            usable.truncate(request.count);
            return Some(usable);
        }
    }
    Some(chosen)
}

/// What is left to place, and what the devices have free, in ascending order.
type SearchState = (usize, Vec<i64>);

/// The search for devices for several requests.
struct Search<'a> {
    requests: &'a [DeviceRequest],
    /// By request, the devices found last.
    chosen: &'a mut [Vec<u32>],
    infeasible: HashSet<SearchState>,
    steps_left: usize,
}

impl Search<'_> {
    /// Whether the requests of `order` fit on what is free.
    fn place(&mut self, order: &[usize], free: &mut [i64]) -> bool {
        let Some((&next, rest)) = order.split_first() else {
            return true;
        };
        if self.steps_left == 0 {
            return false;
        }
        self.steps_left -= 1;
        let mut key = free.to_vec();
        key.sort_unstable();
        let state = (rest.len(), key);
        if self.infeasible.contains(&state) {
            return false;
        }
        let request = self.requests[next];
        for devices in choices(free, request) {
            devices
                .iter()
                .for_each(|&device| free[device as usize] -= request.milli);
            let found = self.place(rest, free);
            devices
                .iter()
                .for_each(|&device| free[device as usize] += request.milli);
            if found {
                self.chosen[next] = devices;
                return true;
            }
        }
        self.infeasible.insert(state);
        false
    }
}

/// Choices of devices with enough left, one for each multiset of what they have left.
fn choices(free: &[i64], request: DeviceRequest) -> Vec<Vec<u32>> {
    let mut usable: Vec<u32> = (0..u32::try_from(free.len()).unwrap_or(u32::MAX))
        .filter(|&device| free[device as usize] >= request.milli)
        .collect();
    usable.sort_by_key(|&device| (free[device as usize], device));
    let mut found = Vec::new();
    extend(free, &usable, request.count, &mut Vec::new(), &mut found);
    found
}

/// Completes a choice. Of equally filled devices the first ones are taken: another would give the
/// same multiset.
fn extend(
    free: &[i64],
    usable: &[u32],
    missing: usize,
    chosen: &mut Vec<u32>,
    found: &mut Vec<Vec<u32>>,
) {
    if missing == 0 {
        found.push(chosen.clone());
        return;
    }
    let mut last = None;
    for (position, &device) in usable.iter().enumerate() {
        if usable.len() - position < missing {
            return;
        }
        let left = free[device as usize];
        if last == Some(left) {
            continue;
        }
        last = Some(left);
        chosen.push(device);
        extend(free, &usable[position + 1..], missing - 1, chosen, found);
        chosen.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: DeviceRequest = DeviceRequest {
        count: 1,
        milli: 500,
    };
    const TWO: DeviceRequest = DeviceRequest {
        count: 2,
        milli: 400,
    };

    fn devices(free: &[i64]) -> Devices {
        Devices::new(vec![free.to_vec()])
    }

    #[test]
    fn shares_of_different_devices_never_add_up() {
        let whole = DeviceRequest {
            count: 1,
            milli: 1000,
        };
        assert!(!devices(&[500, 500]).fits(whole, 0));
        assert_eq!(devices(&[500, 500]).room(HALF, 0), 2);
        assert_eq!(Devices::default().room(HALF, 3), 0);
    }

    #[test]
    fn the_devices_of_one_request_differ() {
        assert!(!devices(&[1000]).fits(TWO, 0));
        assert!(devices(&[400, 1000]).fits(TWO, 0));
        assert_eq!(room_on_devices(&[1000, 400], TWO), 1);
    }

    #[test]
    fn the_fullest_devices_are_chosen_unless_further_requests_need_them() {
        assert_eq!(devices(&[1000, 600, 200]).choose(HALF, 0, 0), Some(vec![1]));
        let pair = DeviceRequest {
            count: 2,
            milli: 500,
        };
        assert_eq!(
            devices(&[500, 500, 1000]).choose(pair, 0, 1),
            Some(vec![2, 0])
        );
        assert_eq!(devices(&[499]).choose(HALF, 0, 0), None);
    }

    #[test]
    fn a_search_over_many_different_shares_ends() {
        let requests: Vec<DeviceRequest> = (0..17)
            .map(|number| DeviceRequest {
                count: 1,
                milli: 340 + 9 * number,
            })
            .collect();
        assert!(devices(&[1000; 8]).pack(&requests, 0).is_none());
    }

    #[test]
    fn requests_are_packed_together_exactly() {
        let large = DeviceRequest {
            count: 1,
            milli: 700,
        };
        let small = DeviceRequest {
            count: 2,
            milli: 300,
        };
        let found = devices(&[1000, 300])
            .pack(&[small, large], 0)
            .expect("they fit");
        assert_eq!(found, [vec![0, 1], vec![0]]);
        assert!(devices(&[1000, 200]).pack(&[small, large], 0).is_none());
    }
}
