//! Disks compared with trying every disk for every volume.

#[path = "../../proptest_cases.rs"]
mod proptest_cases;

use afflux_account::{
    Account, Bandwidth, Class, Devices, Disk, DiskRequest, Disks, Part, Resources, Unit,
};
use proptest::prelude::*;
use proptest_cases::cases;

const MODELS: u32 = 2;
const MACHINES: usize = 2;

fn taken(disk: &Disk, request: &DiskRequest, volume: usize) -> Option<Bandwidth> {
    *request.volumes()[volume].get(disk.model as usize)?
}

fn with(disks: &[Disk], chosen: usize, amounts: Bandwidth, sign: i64) -> Vec<Disk> {
    let mut after = disks.to_vec();
    (0..3).for_each(|kind| after[chosen].left[kind] -= sign * amounts[kind]);
    after
}

fn fits_on(disk: &Disk, amounts: Bandwidth) -> bool {
    (0..3).all(|kind| amounts[kind] == 0 || amounts[kind] <= disk.left[kind])
}

/// Every choice of a disk for each volume that fits, with the disks after it.
fn choices(disks: &[Disk], request: &DiskRequest) -> Vec<(Vec<u32>, Vec<Disk>)> {
    if disks.is_empty() {
        return match request.is_stated() {
            true => Vec::new(),
            false => vec![(Vec::new(), Vec::new())],
        };
    }
    let mut found = vec![(Vec::new(), disks.to_vec())];
    for volume in 0..request.volumes().len() {
        let mut longer = Vec::new();
        for (chosen, left) in found {
            for (index, disk) in left.iter().enumerate() {
                let Some(amounts) = taken(disk, request, volume) else {
                    continue;
                };
                if fits_on(disk, amounts) {
                    let mut chosen: Vec<u32> = chosen.clone();
                    chosen.push(index as u32);
                    longer.push((chosen, with(&left, index, amounts, 1)));
                }
            }
        }
        found = longer;
    }
    found
}

fn fit_together(disks: &[Disk], requests: &[&DiskRequest]) -> bool {
    let Some((request, rest)) = requests.split_first() else {
        return true;
    };
    let mut tried: Vec<Vec<Disk>> = Vec::new();
    choices(disks, request).into_iter().any(|(_, left)| {
        if tried.contains(&left) {
            return false;
        }
        let fits = fit_together(&left, rest);
        tried.push(left);
        fits
    })
}

/// The most equal tasks that fit, up to a limit.
fn most(disks: &[Disk], request: &DiskRequest, limit: usize) -> usize {
    (1..=limit)
        .take_while(|&count| fit_together(disks, &vec![request; count]))
        .last()
        .unwrap_or(0)
}

fn bandwidth(largest: i64) -> impl Strategy<Value = Bandwidth> {
    let amount = prop_oneof![2 => 0..=largest, 1 => Just(0)];
    (amount.clone(), amount).prop_map(|(read, write)| [read, write, read + write])
}

fn request() -> impl Strategy<Value = DiskRequest> {
    let by_model = prop::collection::vec(
        prop_oneof![6 => bandwidth(6).prop_map(Some), 1 => Just(None)],
        MODELS as usize,
    );
    (
        prop::collection::vec(by_model, 1..=3),
        prop::bool::weighted(0.7),
    )
        .prop_map(|(volumes, is_stated)| DiskRequest::new(volumes, is_stated))
}

fn disks() -> impl Strategy<Value = Vec<Disk>> {
    let left = (-2_i64..=14, -2_i64..=14, -2_i64..=24);
    let disk = (0..MODELS, left).prop_map(|(model, (read, write, total))| Disk {
        model,
        left: [read, write, total],
    });
    prop::collection::vec(disk, 0..=3)
}

/// Asserts what is promised about the disk of a single volume.
fn assert_is_preferred(disks: &[Disk], request: &DiskRequest, chosen: u32) {
    let fitting = choices(disks, request);
    let total = |index: u32| disks[index as usize].left[2];
    let others = fitting.iter().map(|(each, _)| total(each[0]));
    let best = match request.is_stated() {
        true => others.min(),
        false => others.max(),
    };
    assert_eq!(Some(total(chosen)), best);
}

fn account(classes: &[DiskRequest], machines: &[Vec<Disk>]) -> Account {
    let classes = classes.iter().map(|asked| Class {
        request: vec![(0, 1)],
        disks: Some(asked.clone()),
        ..Class::default()
    });
    let resources = Resources::new(1, vec![30; machines.len()]);
    let count = machines.len();
    Account::new(classes.collect(), resources, Devices::default(), count)
        .with_disks(Disks::new(machines.to_vec()))
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn a_task_fits_exactly_if_some_choice_of_disks_exists(
        disks in disks(),
        request in request(),
    ) {
        let possible = choices(&disks, &request);
        let all = Disks::new(vec![disks.clone()]);
        prop_assert_eq!(all.fits(&request, 0), !possible.is_empty());
        match all.choose(&request, 0, 0) {
            None => prop_assert!(possible.is_empty()),
            Some(chosen) => {
                prop_assert!(possible.iter().any(|(each, _)| *each == chosen));
                if let [chosen] = chosen[..] {
                    assert_is_preferred(&disks, &request, chosen);
                }
            }
        }
    }

    #[test]
    fn room_is_the_largest_number_of_tasks_that_fit_together(
        disks in disks(),
        request in request(),
    ) {
        let all = Disks::new(vec![disks.clone()]);
        let room = all.room(&request, 0, 4);
        prop_assert_eq!(room, most(&disks, &request, 4) as i64);
    }

    #[test]
    fn as_many_tasks_as_there_is_room_for_are_taken_if_it_is_known_how_many_follow(
        disks in disks(),
        request in request(),
    ) {
        let mut all = Disks::new(vec![disks]);
        let room = all.room(&request, 0, 6);
        for further in (0..room).rev() {
            let chosen = all.choose(&request, 0, further).expect("there is room");
            all.take(0, &request, &chosen);
            prop_assert!(all.room(&request, 0, 6) >= further);
        }
    }

    #[test]
    fn tasks_are_packed_together_exactly_if_some_choice_for_each_exists(
        disks in disks(),
        requests in prop::collection::vec(request(), 0..=3),
    ) {
        let asked: Vec<&DiskRequest> = requests.iter().collect();
        let mut all = Disks::new(vec![disks.clone()]);
        let found = all.pack(&asked, 0);
        prop_assert_eq!(found.is_some(), fit_together(&disks, &asked));
        for (chosen, request) in found.unwrap_or_default().iter().zip(&requests) {
            let possible = choices(all.of(0), request);
            prop_assert!(possible.iter().any(|(each, _)| each == chosen));
            all.take(0, request, chosen);
        }
    }

    #[test]
    fn more_volumes_than_are_searched_exactly_never_overcommit_a_disk(
        mut disks in disks(),
        requests in prop::collection::vec(request(), 301..=310),
    ) {
        disks.iter_mut().for_each(|disk| disk.left = disk.left.map(|left| 100 * left));
        let asked: Vec<&DiskRequest> = requests.iter().collect();
        let mut all = Disks::new(vec![disks]);
        for (chosen, request) in all.pack(&asked, 0).unwrap_or_default().iter().zip(&requests) {
            for (volume, &index) in chosen.iter().enumerate() {
                let disk = all.of(0)[index as usize];
                prop_assert!(taken(&disk, request, volume).is_some_and(|each| fits_on(&disk, each)));
                let one = DiskRequest::new(vec![request.volumes()[volume].clone()], true);
                all.take(0, &one, &[index]);
            }
        }
    }

    #[test]
    fn whatever_is_taken_and_released_rolls_back_exactly(
        classes in prop::collection::vec(request(), 1..=3),
        machines in prop::collection::vec(disks(), MACHINES),
        steps in prop::collection::vec((0_u8..4, any::<prop::sample::Index>(), 0..MACHINES), 1..=30),
    ) {
        let mut account = account(&classes, &machines);
        let mut marks = Vec::new();
        for (kind, index, machine) in steps {
            let class = index.index(classes.len());
            match kind {
                0 => marks.push((account.mark(), snapshot(&account))),
                1 if !marks.is_empty() => {
                    marks.truncate(index.index(marks.len()) + 1);
                    let (mark, before) = &marks[marks.len() - 1];
                    account.rollback(*mark);
                    prop_assert_eq!(&snapshot(&account), before);
                }
                2 => { let _ = account.release(class, machine); }
                _ => {
                    let fits = account.fits(class, machine);
                    prop_assert_eq!(account.take(class, machine, None, 0), fits);
                }
            }
            for (machine, offered) in machines.iter().enumerate() {
                let mut left = offered.clone();
                for Unit { class, devices } in account.units(machine) {
                    for (volume, &disk) in devices.iter().enumerate() {
                        let amounts = taken(&left[disk as usize], &classes[*class], volume);
                        let amounts = amounts.expect("it can be there");
                        left = with(&left, disk as usize, amounts, 1);
                    }
                }
                prop_assert_eq!(account.disks().of(machine), &left[..]);
                for (class, asked) in classes.iter().enumerate() {
                    let parts: Vec<Part> = account.refusals(class, machine).collect();
                    let lacks_disks = choices(&left, asked).is_empty();
                    prop_assert_eq!(parts.contains(&Part::Disks), lacks_disks);
                    prop_assert_eq!(account.fits(class, machine), parts.is_empty());
                }
            }
        }
    }

    #[test]
    fn units_fit_together_exactly_if_their_volumes_do(
        classes in prop::collection::vec(request(), 1..=2),
        disks in disks(),
        counts in prop::collection::vec(0_i64..=2, 2),
    ) {
        let mut account = account(&classes, std::slice::from_ref(&disks));
        let units: Vec<(usize, i64)> = (0..classes.len()).zip(counts).collect();
        let asked: Vec<&DiskRequest> = units
            .iter()
            .flat_map(|&(class, count)| std::iter::repeat_n(&classes[class], count as usize))
            .collect();
        let found = account.fits_together(0, &units);
        prop_assert_eq!(found.is_some(), fit_together(&disks, &asked));
        for unit in found.unwrap_or_default() {
            let possible = choices(account.disks().of(0), &classes[unit.class]);
            prop_assert!(possible.iter().any(|(each, _)| *each == unit.devices));
            prop_assert!(account.take(unit.class, 0, Some(unit.devices), 0));
        }
    }
}

/// Everything that a rollback restores.
fn snapshot(account: &Account) -> (Vec<Vec<Disk>>, Vec<Vec<Unit>>, Vec<i64>) {
    let machines = 0..account.machines();
    (
        machines
            .clone()
            .map(|m| account.disks().of(m).to_vec())
            .collect(),
        machines.map(|m| account.units(m).to_vec()).collect(),
        account.resources().all().to_vec(),
    )
}
