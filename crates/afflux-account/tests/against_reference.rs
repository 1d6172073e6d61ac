//! The account compared with a reference that knows only the units and counts everything anew.

#[path = "../../proptest_cases.rs"]
mod proptest_cases;

use afflux_account::{
    Account, Class, DeviceRequest, Devices, Part, Resources, UNLIMITED, Unit, room_on_devices,
};
use proptest::prelude::*;
use proptest_cases::cases;

const RESOURCES: usize = 3;
const MACHINES: usize = 2;
const SHARES: [i64; 6] = [250, 300, 400, 500, 700, 1000];

/// What one task of a class asks for: every amount, with zeros, and the devices.
#[derive(Clone, Debug)]
struct Asked {
    amounts: Vec<i64>,
    devices: Option<DeviceRequest>,
}

/// The offered amounts and devices, and the units on every machine.
#[derive(Clone, Debug)]
struct Reference {
    classes: Vec<Asked>,
    offered: Vec<Vec<i64>>,
    offered_devices: Vec<Vec<i64>>,
    units: Vec<Vec<Unit>>,
}

impl Reference {
    fn account(&self) -> Account {
        let classes = self.classes.iter().map(|asked| Class {
            request: (0..)
                .zip(asked.amounts.iter().copied())
                .filter(|&(_, amount)| amount > 0)
                .collect(),
            devices: asked.devices,
            ..Class::default()
        });
        let resources = Resources::new(RESOURCES, self.offered.concat());
        let devices = match self.offered_devices.iter().all(Vec::is_empty) {
            true => Devices::default(),
            false => Devices::new(self.offered_devices.clone()),
        };
        Account::new(classes.collect(), resources, devices, MACHINES)
    }

    fn free(&self, machine: usize) -> Vec<i64> {
        let used = |column: usize| -> i64 {
            let units = self.units[machine].iter();
            units
                .map(|unit| self.classes[unit.class].amounts[column])
                .sum()
        };
        (0..RESOURCES)
            .map(|column| self.offered[machine][column] - used(column))
            .collect()
    }

    fn free_devices(&self, machine: usize) -> Vec<i64> {
        let mut free = self.offered_devices[machine].clone();
        for unit in &self.units[machine] {
            for &device in &unit.devices {
                let asked = self.classes[unit.class].devices.expect("it asks for them");
                free[device as usize] -= asked.milli;
            }
        }
        free
    }

    fn lacking(&self, class: usize, machine: usize) -> Vec<Part> {
        let free = self.free(machine);
        let amounts = &self.classes[class].amounts;
        (0..RESOURCES)
            .filter(|&column| amounts[column] > 0 && amounts[column] > free[column])
            .map(|column| Part::Resource(column as u32))
            .collect()
    }

    fn refusals(&self, class: usize, machine: usize) -> Vec<Part> {
        let mut refusals = self.lacking(class, machine);
        if let Some(asked) = self.classes[class].devices {
            if choices(&self.free_devices(machine), asked).is_empty() {
                refusals.push(Part::Devices);
            }
        }
        refusals
    }

    fn room(&self, class: usize, machine: usize) -> i64 {
        let Asked { amounts, devices } = &self.classes[class];
        let free = self.free(machine);
        let fits = |count: i64| {
            (0..RESOURCES).all(|r| amounts[r] == 0 || count * amounts[r] <= free[r].max(0))
        };
        let on_devices = devices.map(|asked| most_requests(&self.free_devices(machine), asked));
        if on_devices.is_none() && amounts.iter().all(|&amount| amount == 0) {
            return UNLIMITED;
        }
        (1..)
            .take_while(|&count| fits(count) && on_devices.is_none_or(|most| count <= most))
            .last()
            .unwrap_or(0)
    }
}

/// All choices of different devices with enough free, as indices in ascending order.
fn choices(free: &[i64], asked: DeviceRequest) -> Vec<Vec<u32>> {
    (0_u32..1 << free.len())
        .map(|set| (0..free.len() as u32).filter(move |d| set >> d & 1 == 1))
        .map(Iterator::collect::<Vec<u32>>)
        .filter(|chosen| chosen.len() == asked.count)
        .filter(|chosen| chosen.iter().all(|&d| free[d as usize] >= asked.milli))
        .collect()
}

fn left(free: &[i64], chosen: &[u32], milli: i64) -> Vec<i64> {
    let mut left = free.to_vec();
    chosen.iter().for_each(|&d| left[d as usize] -= milli);
    left
}

/// Whether all requests fit: tries every choice for each of them.
fn fit_together(free: &[i64], requests: &[DeviceRequest]) -> bool {
    let Some((&asked, rest)) = requests.split_first() else {
        return true;
    };
    choices(free, asked)
        .iter()
        .any(|chosen| fit_together(&left(free, chosen, asked.milli), rest))
}

/// The most equal requests that fit: tries every choice for each of them.
fn most_requests(free: &[i64], asked: DeviceRequest) -> i64 {
    // All equal requests can be put in the order of their choices, so only later ones are tried.
    fn search(free: &[i64], asked: DeviceRequest, all: &[Vec<u32>]) -> i64 {
        let fitting = |chosen: &[u32]| chosen.iter().all(|&d| free[d as usize] >= asked.milli);
        (0..all.len())
            .filter(|&i| fitting(&all[i]))
            .map(|i| 1 + search(&left(free, &all[i], asked.milli), asked, &all[i..]))
            .max()
            .unwrap_or(0)
    }
    search(free, asked, &choices(free, asked))
}

/// Asserts that a unit gets different devices with enough free.
fn assert_is_choice(free: &[i64], asked: DeviceRequest, devices: &[u32]) {
    let mut sorted = devices.to_vec();
    sorted.sort_unstable();
    assert!(
        choices(free, asked).contains(&sorted),
        "{devices:?} of {free:?}"
    );
}

/// Asserts what is promised about the devices that the account chooses itself.
fn assert_is_best_choice(free: &[i64], asked: DeviceRequest, further: i64, devices: &[u32]) {
    assert_is_choice(free, asked, devices);
    let room_after = |chosen: &[u32]| most_requests(&left(free, chosen, asked.milli), asked);
    let mut fullest: Vec<u32> = (0..free.len() as u32)
        .filter(|&d| free[d as usize] >= asked.milli)
        .collect();
    fullest.sort_by_key(|&d| (free[d as usize], d));
    fullest.truncate(asked.count);
    if room_after(&fullest) >= further {
        assert_eq!(devices, fullest);
    } else {
        let all = choices(free, asked);
        let most = all.iter().map(|chosen| room_after(chosen)).max();
        assert_eq!(Some(room_after(devices)), most);
    }
}

/// Asserts that every answer of the account is that of the reference.
fn assert_equal(account: &Account, reference: &Reference) {
    for machine in 0..MACHINES {
        assert_eq!(account.units(machine), reference.units[machine]);
        assert_eq!(account.resources().of(machine), reference.free(machine));
        let devices = account.devices().of(machine);
        assert_eq!(devices, reference.free_devices(machine));
        for (class, asked) in reference.classes.iter().enumerate() {
            let refusals: Vec<Part> = account.refusals(class, machine).collect();
            assert_eq!(refusals, reference.refusals(class, machine));
            assert_eq!(account.fits(class, machine), refusals.is_empty());
            assert_eq!(account.room(class, machine), reference.room(class, machine));
            if let Some(asked) = asked.devices {
                let most = most_requests(devices, asked);
                assert_eq!(room_on_devices(devices, asked), most);
                assert_eq!(account.devices().room(asked, machine), most);
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Takes a unit, with the drawn one of all choices of devices or one that the account chooses.
    Take {
        class: prop::sample::Index,
        machine: usize,
        chosen: Option<prop::sample::Index>,
        further: i64,
    },
    Release {
        class: prop::sample::Index,
        machine: usize,
    },
    Mark,
    /// Rolls back to one of the valid marks.
    Rollback(prop::sample::Index),
    Commit,
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    let take = (index(), 0..MACHINES, prop::option::of(index()), 0_i64..=3);
    prop_oneof![
        8 => take.prop_map(|(class, machine, chosen, further)| Step::Take {
            class, machine, chosen, further,
        }),
        4 => (index(), 0..MACHINES).prop_map(|(class, machine)| Step::Release { class, machine }),
        3 => Just(Step::Mark),
        2 => index().prop_map(Step::Rollback),
        1 => Just(Step::Commit),
    ]
}

fn device_request() -> impl Strategy<Value = DeviceRequest> {
    (1_usize..=3, prop::sample::select(&SHARES[..]))
        .prop_map(|(count, milli)| DeviceRequest { count, milli })
}

/// The free thousandths of the devices of a machine, some of them overcommitted.
fn device_amounts() -> impl Strategy<Value = Vec<i64>> {
    let whole_or_less = prop_oneof![3 => Just(1000), 2 => 0_i64..=1000, 1 => -200_i64..0];
    prop::collection::vec(whole_or_less, 0..=3)
}

fn asked() -> impl Strategy<Value = Asked> {
    let amount = prop_oneof![2 => Just(0_i64), 3 => 1_i64..=4];
    let devices = prop::option::of(device_request());
    (prop::collection::vec(amount, RESOURCES), devices)
        .prop_map(|(amounts, devices)| Asked { amounts, devices })
}

fn empty_machines() -> impl Strategy<Value = Reference> {
    let offered = prop::collection::vec(-3_i64..=16, RESOURCES);
    (
        prop::collection::vec(asked(), 1..=4),
        prop::collection::vec(offered, MACHINES),
        prop::collection::vec(device_amounts(), MACHINES),
    )
        .prop_map(|(classes, offered, offered_devices)| Reference {
            classes,
            offered,
            offered_devices,
            units: vec![Vec::new(); MACHINES],
        })
}

/// The account and the reference side by side.
struct Pair {
    account: Account,
    reference: Reference,
    /// The valid marks, with the reference and the number of changes at each of them.
    marks: Vec<(usize, Reference, usize)>,
    /// The changes since the last commit: the units taken, none for a released one.
    changes: Vec<Option<(usize, usize, Vec<u32>)>>,
}

impl Pair {
    fn apply(&mut self, step: Step) {
        let classes = self.reference.classes.len();
        match step {
            Step::Take {
                class,
                machine,
                chosen,
                further,
            } => self.take(class.index(classes), machine, chosen, further),
            Step::Release { class, machine } => self.release(class.index(classes), machine),
            Step::Mark => {
                let mark = (
                    self.account.mark(),
                    self.reference.clone(),
                    self.changes.len(),
                );
                self.marks.push(mark);
            }
            Step::Rollback(index) if !self.marks.is_empty() => {
                self.marks.truncate(index.index(self.marks.len()) + 1);
                let (mark, reference, changes) = &self.marks[self.marks.len() - 1];
                self.account.rollback(*mark);
                self.reference = reference.clone();
                self.changes.truncate(*changes);
            }
            Step::Rollback(_) => {}
            Step::Commit => {
                self.account.commit();
                self.marks.clear();
                self.changes.clear();
            }
        }
    }

    fn take(
        &mut self,
        class: usize,
        machine: usize,
        chosen: Option<prop::sample::Index>,
        further: i64,
    ) {
        if !self.reference.lacking(class, machine).is_empty() {
            return;
        }
        let free = self.reference.free_devices(machine);
        let asked = self.reference.classes[class].devices;
        let all = asked.map_or(vec![Vec::new()], |asked| choices(&free, asked));
        if all.is_empty() {
            assert!(!self.account.take(class, machine, None, further));
            return;
        }
        let mut chosen = chosen.map(|index| all[index.index(all.len())].clone());
        // The order in which devices are named does not matter.
        chosen.iter_mut().for_each(|devices| devices.reverse());
        assert!(self.account.take(class, machine, chosen.clone(), further));
        let unit = self.account.units(machine).last().expect("just taken");
        assert_eq!(unit.class, class);
        match (asked, chosen) {
            (None, _) => assert!(unit.devices.is_empty()),
            (Some(_), Some(chosen)) => assert_eq!(unit.devices, chosen),
            (Some(asked), None) => assert_is_best_choice(&free, asked, further, &unit.devices),
        }
        self.changes
            .push(Some((class, machine, unit.devices.clone())));
        self.reference.units[machine].push(unit.clone());
    }

    fn release(&mut self, class: usize, machine: usize) {
        let units = &mut self.reference.units[machine];
        let last = units.iter().rposition(|unit| unit.class == class);
        assert_eq!(self.account.release(class, machine), last.is_some());
        if let Some(last) = last {
            units.remove(last);
            self.changes.push(None);
        }
    }

    fn assert_taken_since_marks(&self) {
        for &(mark, _, changes) in &self.marks {
            let since: Option<Vec<_>> = self.changes[changes..].iter().cloned().collect();
            if let Some(taken) = since {
                assert_eq!(self.account.taken_since(mark), taken);
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn every_answer_matches_a_recount_after_any_sequence_of_changes(
        reference in empty_machines(),
        steps in prop::collection::vec(step(), 1..=40),
    ) {
        let mut pair = Pair {
            account: reference.account(),
            reference,
            marks: Vec::new(),
            changes: Vec::new(),
        };
        assert_equal(&pair.account, &pair.reference);
        for step in steps {
            pair.apply(step);
            assert_equal(&pair.account, &pair.reference);
            pair.assert_taken_since_marks();
        }
    }

    #[test]
    fn as_many_tasks_as_there_is_room_for_are_taken_if_the_account_knows_how_many_follow(
        reference in empty_machines(),
    ) {
        for class in 0..reference.classes.len() {
            let mut account = reference.account();
            let room = account.room(class, 0).min(20);
            for further in (0..room).rev() {
                prop_assert!(account.fits(class, 0));
                prop_assert!(account.take(class, 0, None, further));
            }
            prop_assert!(room == 20 || !account.fits(class, 0));
        }
    }

    #[test]
    fn units_fit_together_exactly_if_some_choice_of_devices_exists(
        reference in empty_machines(),
        before in prop::collection::vec(any::<prop::sample::Index>(), 0..=2),
        counts in prop::collection::vec((any::<prop::sample::Index>(), 0_i64..=2), 1..=4),
    ) {
        let (mut account, mut reference) = (reference.account(), reference);
        let classes = reference.classes.len();
        for class in before.iter().map(|class| class.index(classes)) {
            if account.fits(class, 0) {
                prop_assert!(account.take(class, 0, None, 0));
            }
        }
        reference.units[0] = account.units(0).to_vec();
        let asked: Vec<(usize, i64)> = counts
            .iter()
            .map(|(class, count)| (class.index(classes), *count))
            .collect();
        let units: Vec<usize> = asked
            .iter()
            .flat_map(|&(class, count)| std::iter::repeat_n(class, count as usize))
            .collect();
        let free = reference.free(0);
        let enough = (0..RESOURCES).all(|column| {
            let amounts = units.iter().map(|&class| reference.classes[class].amounts[column]);
            let sum: i64 = amounts.sum();
            sum == 0 || sum <= free[column]
        });
        let requests: Vec<DeviceRequest> = units
            .iter()
            .filter_map(|&class| reference.classes[class].devices)
            .collect();
        let free_devices = reference.free_devices(0);
        let found = account.fits_together(0, &asked);
        prop_assert_eq!(found.is_some(), enough && fit_together(&free_devices, &requests));
        assert_equal(&account, &reference);
        if let Some(found) = found {
            let order: Vec<usize> = found.iter().map(|unit| unit.class).collect();
            prop_assert_eq!(order, units);
            for unit in found {
                prop_assert!(account.fits(unit.class, 0));
                let free = reference.free_devices(0);
                match reference.classes[unit.class].devices {
                    Some(asked) => assert_is_choice(&free, asked, &unit.devices),
                    None => prop_assert!(unit.devices.is_empty()),
                }
                prop_assert!(account.take(unit.class, 0, Some(unit.devices.clone()), 0));
                reference.units[0].push(unit);
                assert_equal(&account, &reference);
            }
        }
    }

    #[test]
    fn requests_are_packed_together_exactly_if_some_choice_for_each_of_them_exists(
        free in device_amounts(),
        requests in prop::collection::vec(device_request(), 0..=6),
    ) {
        let found = Devices::new(vec![free.clone()]).pack(&requests, 0);
        prop_assert_eq!(found.is_some(), fit_together(&free, &requests));
        if let Some(found) = found {
            prop_assert_eq!(found.len(), requests.len());
            let mut free = free;
            for (devices, &asked) in found.iter().zip(&requests) {
                assert_is_choice(&free, asked, devices);
                free = left(&free, devices, asked.milli);
            }
        }
    }

    #[test]
    fn more_requests_than_are_searched_exactly_never_share_more_than_is_free(
        free in prop::collection::vec(300_i64..=1000, 1..=3),
        asked in prop::collection::vec((1_usize..=2, 1_i64..=3), 301..=320),
    ) {
        let requests: Vec<DeviceRequest> = asked
            .into_iter()
            .map(|(count, milli)| DeviceRequest { count, milli })
            .collect();
        if let Some(found) = Devices::new(vec![free.clone()]).pack(&requests, 0) {
            prop_assert_eq!(found.len(), requests.len());
            let mut free = free;
            for (devices, &asked) in found.iter().zip(&requests) {
                assert_is_choice(&free, asked, devices);
                free = left(&free, devices, asked.milli);
            }
        }
    }
}
