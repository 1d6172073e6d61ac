//! Gangs compared with an exhaustive search on small instances.

mod cluster;
#[path = "../../proptest_cases.rs"]
mod proptest_cases;

use std::collections::HashSet;

use afflux_account::{DeviceRequest, Unit};
use afflux_pack::{Packing, place_gang};
use cluster::Cluster;
use proptest::prelude::*;
use proptest_cases::cases;

const RESOURCES: usize = 2;

/// A gang, and machines on which some units are placed before it.
#[derive(Clone, Debug)]
struct Instance {
    cluster: Cluster,
    packing: Packing,
    need: Vec<(usize, i64)>,
}

fn device_request() -> impl Strategy<Value = Option<DeviceRequest>> {
    let some = (
        1_usize..=2,
        prop::sample::select(vec![200, 300, 400, 500, 700, 1000]),
    );
    prop_oneof![
        1 => Just(None),
        1 => some.prop_map(|(count, milli)| Some(DeviceRequest { count, milli })),
    ]
}

/// Classes and machines of which only the requests, admissions and costs are drawn.
fn cluster(classes: usize, machines: usize) -> impl Strategy<Value = Cluster> {
    let request = prop::collection::vec(0_i64..=4, RESOURCES);
    let admitted = prop::collection::vec(prop::bool::weighted(0.85), machines);
    let cost = prop::collection::vec(0_i64..=3, machines);
    (
        prop::collection::vec(request, classes),
        prop::collection::vec(device_request(), classes),
        prop::collection::vec(admitted, classes),
        prop::collection::vec(cost, classes),
        prop::collection::vec(0_i64..=3, machines),
    )
        .prop_map(move |(requests, devices, admitted, cost, slope)| Cluster {
            requests,
            devices,
            admitted,
            cost,
            free: vec![vec![0; RESOURCES]; machines],
            free_devices: vec![Vec::new(); machines],
            slope,
        })
}

/// Each class with its count, without zeros.
fn need_of(counts: &[i64]) -> Vec<(usize, i64)> {
    let need = counts.iter().copied().enumerate();
    need.filter(|&(_, count)| count > 0).collect()
}

/// Gangs of at most nine members beside units that are already there. In half of the instances all
/// machines offer the same and differ only in the classes that they admit.
fn small_instance() -> impl Strategy<Value = Instance> {
    (1_usize..=3, 1_usize..=3).prop_flat_map(|(classes, machines)| {
        let free = prop::collection::vec(-1_i64..=9, RESOURCES);
        let devices = prop::collection::vec(prop::sample::select(vec![500, 700, 1000]), 0..=3);
        (
            cluster(classes, machines),
            prop::collection::vec(free, machines),
            prop::collection::vec(devices, machines),
            prop::collection::vec((0..classes, 0..machines), 0..=2),
            prop::collection::vec(0_i64..=3, classes),
            any::<bool>(),
        )
            .prop_map(|(mut cluster, free, free_devices, before, counts, equal)| {
                cluster.free = free;
                cluster.free_devices = free_devices;
                if equal {
                    let machines = cluster.free.len();
                    cluster.free = vec![cluster.free[0].clone(); machines];
                    cluster.free_devices = vec![cluster.free_devices[0].clone(); machines];
                }
                let mut packing = cluster.packing(RESOURCES);
                for (class, machine) in before {
                    packing.place(class, machine, 1);
                }
                Instance {
                    cluster,
                    packing,
                    need: need_of(&counts),
                }
            })
    })
}

/// Machines with exactly the room of a gang, whose members are drawn machine by machine.
fn exactly_filled_instance() -> impl Strategy<Value = Instance> {
    (2_usize..=3, 2_usize..=4).prop_flat_map(|(classes, machines)| {
        let members = prop::collection::vec(
            (
                0..classes,
                prop::array::uniform2(any::<prop::sample::Index>()),
            ),
            0..=4,
        );
        (
            cluster(classes, machines),
            prop::collection::vec(members, machines),
        )
            .prop_map(|(mut cluster, drawn)| {
                let mut counts = vec![0; cluster.requests.len()];
                for (machine, members) in drawn.into_iter().enumerate() {
                    let mut used = vec![0; 3];
                    for (class, places) in members {
                        cluster.admitted[class][machine] = true;
                        counts[class] += 1;
                        for (free, asked) in cluster.free[machine]
                            .iter_mut()
                            .zip(&cluster.requests[class])
                        {
                            *free += asked;
                        }
                        let Some(asked) = cluster.devices[class] else {
                            continue;
                        };
                        let mut devices = vec![0, 1, 2];
                        for place in places.iter().take(asked.count) {
                            used[devices.remove(place.index(devices.len()))] += asked.milli;
                        }
                    }
                    cluster.free_devices[machine] = used;
                }
                Instance {
                    packing: cluster.packing(RESOURCES),
                    cluster,
                    need: need_of(&counts),
                }
            })
    })
}

/// What is free on every machine: amounts and devices.
type Free = (Vec<Vec<i64>>, Vec<Vec<i64>>);

/// What the units leave, counted from the tables.
fn free(cluster: &Cluster, packing: &Packing) -> Free {
    let (mut free, mut devices) = (cluster.free.clone(), cluster.free_devices.clone());
    for machine in 0..free.len() {
        for unit in packing.account().units(machine) {
            take(cluster, &mut free[machine], unit.class);
            for &index in &unit.devices {
                let asked = cluster.devices[unit.class].expect("it has devices");
                devices[machine][index as usize] -= asked.milli;
            }
        }
    }
    (free, devices)
}

fn take(cluster: &Cluster, free: &mut [i64], class: usize) {
    for (left, asked) in free.iter_mut().zip(&cluster.requests[class]) {
        *left -= asked;
    }
}

/// Whether all members fit: tries every machine and every choice of devices for each of them.
fn fits_exhaustively(
    cluster: &Cluster,
    members: &[usize],
    free: &Free,
    failed: &mut HashSet<(usize, Free)>,
) -> bool {
    let Some((&class, rest)) = members.split_first() else {
        return true;
    };
    let state = (members.len(), free.clone());
    if failed.contains(&state) {
        return false;
    }
    for machine in 0..cluster.free.len() {
        let mut asked = cluster.requests[class].iter().zip(&free.0[machine]);
        let enough = asked.all(|(&asked, &left)| asked == 0 || asked <= left);
        if !enough || !cluster.admitted[class][machine] {
            continue;
        }
        let devices = free.1[machine].len();
        for chosen in 0_u32..1 << devices {
            let wanted = cluster.devices[class];
            let chosen: Vec<usize> = (0..devices).filter(|d| chosen >> d & 1 == 1).collect();
            let milli = wanted.map_or(0, |wanted| wanted.milli);
            let is_choice = chosen.len() == wanted.map_or(0, |wanted| wanted.count)
                && chosen.iter().all(|&d| free.1[machine][d] >= milli);
            if !is_choice {
                continue;
            }
            let mut left = free.clone();
            take(cluster, &mut left.0[machine], class);
            chosen.iter().for_each(|&d| left.1[machine][d] -= milli);
            if fits_exhaustively(cluster, rest, &left, failed) {
                return true;
            }
        }
    }
    failed.insert(state);
    false
}

fn units(packing: &Packing) -> Vec<Vec<Unit>> {
    let account = packing.account();
    (0..account.machines())
        .map(|machine| account.units(machine).to_vec())
        .collect()
}

/// Asserts that exactly the members were added, and that everything that was there stays.
fn assert_placed(before: &Instance, after: &Packing) {
    before.cluster.assert_exact(after);
    let mut added = vec![0; before.cluster.requests.len()];
    for (old, new) in units(&before.packing).into_iter().zip(units(after)) {
        assert_eq!(old, new[..old.len()]);
        new[old.len()..]
            .iter()
            .for_each(|unit| added[unit.class] += 1);
    }
    assert_eq!(need_of(&added), before.need);
}

fn assert_unchanged(before: &Instance, after: &Packing) {
    before.cluster.assert_exact(after);
    assert_eq!(units(&before.packing), units(after));
    assert_eq!(before.packing.account().mark(), after.account().mark());
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn a_gang_is_placed_whole_exactly_if_it_fits_and_otherwise_nothing_changes(
        before in small_instance(),
    ) {
        before.cluster.assert_exact(&before.packing);
        let members: Vec<usize> = before
            .need
            .iter()
            .flat_map(|&(class, count)| std::iter::repeat_n(class, count as usize))
            .collect();
        let free = free(&before.cluster, &before.packing);
        let expected = fits_exhaustively(&before.cluster, &members, &free, &mut HashSet::new());
        let mut after = before.packing.clone();
        prop_assert_eq!(place_gang(&mut after, &before.need), expected);
        if expected {
            assert_placed(&before, &after);
        } else {
            assert_unchanged(&before, &after);
        }
        after.account_mut().rollback(before.packing.account().mark());
        assert_unchanged(&before, &after);
    }

    #[test]
    fn a_gang_that_fills_the_machines_exactly_is_placed(before in exactly_filled_instance()) {
        let mut after = before.packing.clone();
        prop_assert!(place_gang(&mut after, &before.need));
        assert_placed(&before, &after);
    }
}
