//! `Packing`: the account of a round and the searches on it, for Python.

use afflux_account::{Account, Class, DeviceRequest, Devices, Part, Resources, Rule, Unit};

use crate::disk_columns::{DiskArgument, DiskTable, disks_of};
use crate::domain_rules::{DomainColumns, domains_of};
use afflux_pack::{
    Gang, Items, PairColumns, ScratchStart, SearchLimits, improve, place_gang, place_together,
};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

/// The devices that one task asks for: their number, and the thousandths of each.
pub(crate) type DeviceArgument = Option<(usize, i64)>;

/// A gang in Python: its units of each class, its worth, whether it is placed.
type GangArgument = (Vec<(usize, i64)>, i64, bool);

/// The pairs of one class: machines and costs.
type PairsOfClass<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

/// The units of a packing: classes and machines.
type UnitColumns<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

/// The pairs with room: where those of each class begin, machines, room, costs; slots by machine.
type OpenPairs<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i32>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
);

/// See `src/afflux/_core.pyi`.
#[pyclass(module = "afflux._core")]
pub struct Packing {
    inner: afflux_pack::Packing,
}

pub(crate) fn class_of(request: &[i64], devices: DeviceArgument) -> Class {
    let asked = request
        .iter()
        .enumerate()
        .filter(|&(_, &amount)| amount != 0);
    Class {
        request: asked
            .map(|(column, &amount)| (column as u32, amount))
            .collect(),
        devices: devices.map(|(count, milli)| DeviceRequest { count, milli }),
        ..Class::default()
    }
}

pub(crate) fn is_request(devices: &DeviceArgument) -> bool {
    devices.is_none_or(|(count, milli)| count > 0 && milli > 0)
}

pub(crate) fn inconsistent() -> PyErr {
    PyValueError::new_err(
        "the tables differ in the number of classes, machines, pairs or resources",
    )
}

fn no_counter(counter: usize) -> PyErr {
    PyIndexError::new_err(format!("there is no counter {counter}"))
}

#[pymethods]
impl Packing {
    #[new]
    #[expect(
        clippy::too_many_arguments,
        reason = "columns of a few tables, named by the caller"
    )]
    #[pyo3(signature = (*, requests, devices, first, machine, cost, room, free, free_devices, scale, domains=None, disks=None))]
    fn new(
        requests: PyReadonlyArray2<'_, i64>,
        devices: Vec<DeviceArgument>,
        first: PyReadonlyArray1<'_, i64>,
        machine: PyReadonlyArray1<'_, i32>,
        cost: PyReadonlyArray1<'_, i64>,
        room: Option<PyReadonlyArray1<'_, i64>>,
        free: PyReadonlyArray2<'_, i64>,
        free_devices: Vec<Vec<i64>>,
        scale: Vec<f64>,
        domains: Option<DomainColumns<'_>>,
        disks: Option<(DiskTable<'_>, Vec<Option<DiskArgument>>)>,
    ) -> PyResult<Self> {
        let (requests, free) = (requests.as_array(), free.as_array());
        let (first, machine, cost) = (first.as_slice()?, machine.as_slice()?, cost.as_slice()?);
        let room = room.as_ref().map(|room| room.as_slice()).transpose()?;
        let (machines, width) = free.dim();
        let pairs = machine.len() as i64;
        let is_machine = |&row: &i32| usize::try_from(row).is_ok_and(|row| row < machines);
        let are_ascending = first.windows(2).all(|two| {
            let pairs = machine.get(two[0] as usize..two[1] as usize);
            pairs.is_some_and(|own| own.windows(2).all(|next| next[0] < next[1]))
        });
        let is_consistent = requests.dim() == (devices.len(), width)
            && first.len() == devices.len() + 1
            && first.windows(2).all(|two| two[0] <= two[1])
            && (first.first(), first.last()) == (Some(&0), Some(&pairs))
            && cost.len() == machine.len()
            && room.is_none_or(|room| room.len() == machine.len())
            && scale.len() == width
            && (free_devices.is_empty() || free_devices.len() == machines)
            && machine.iter().all(is_machine)
            && are_ascending
            && requests.iter().all(|&amount| amount >= 0)
            && devices.iter().all(is_request);
        if !is_consistent {
            return Err(inconsistent());
        }
        let rows = requests.outer_iter().zip(devices);
        let mut classes: Vec<Class> = rows
            .map(|(row, devices)| class_of(&row.to_vec(), devices))
            .collect();
        let domains = domains
            .map(|columns| domains_of(columns, &mut classes, machines))
            .transpose()?;
        let disks = disks
            .map(|(table, requests)| disks_of(&table, requests, &mut classes, machines))
            .transpose()?;
        let resources = Resources::new(width, free.iter().copied().collect());
        let mut account = Account::new(classes, resources, Devices::new(free_devices), machines);
        if let Some(disks) = disks {
            account = account.with_disks(disks);
        }
        if let Some(domains) = domains {
            account = account.with_domains(domains).with_placed_rules();
        }
        let pairs = PairColumns {
            first,
            machine,
            cost,
            room,
        };
        Ok(Self {
            inner: afflux_pack::Packing::new(account, pairs, scale),
        })
    }

    fn set_slope(&mut self, slope: PyReadonlyArray1<'_, i64>) -> PyResult<()> {
        let slope = slope.as_slice()?;
        if slope.len() != self.inner.machines() {
            return Err(inconsistent());
        }
        self.inner.set_slope(slope.to_vec());
        Ok(())
    }

    fn pairs<'py>(&self, py: Python<'py>, class: usize) -> PyResult<PairsOfClass<'py>> {
        self.check_class(class)?;
        let machines = self.inner.machines_of(class).iter();
        let machines: Vec<i64> = machines.map(|&machine| i64::from(machine)).collect();
        let costs = self.inner.costs_of(class).to_vec();
        Ok((machines.into_pyarray(py), costs.into_pyarray(py)))
    }

    fn set_costs(&mut self, class: usize, costs: PyReadonlyArray1<'_, i64>) -> PyResult<()> {
        self.check_class(class)?;
        let costs = costs.as_slice()?;
        if costs.len() != self.inner.machines_of(class).len() {
            return Err(inconsistent());
        }
        self.inner.set_costs(class, costs);
        Ok(())
    }

    fn rooms<'py>(&self, py: Python<'py>, class: usize) -> PyResult<Bound<'py, PyArray1<i64>>> {
        self.check_class(class)?;
        Ok(self.inner.rooms(class).into_pyarray(py))
    }

    fn room(&self, class: usize, machine: usize) -> PyResult<i64> {
        self.check(class, machine)?;
        Ok(self.inner.room(class, machine))
    }

    fn has_room(&self, class: usize, count: i64) -> PyResult<bool> {
        self.check_class(class)?;
        Ok(self.inner.has_room(class, count))
    }

    fn had_room(&self, class: usize, count: i64) -> PyResult<bool> {
        self.check_class(class)?;
        let rooms = self.inner.room_at_start(class).iter();
        Ok(rooms.map(|&room| i64::from(room).min(count)).sum::<i64>() >= count)
    }

    fn usable_machines<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let usable = self.inner.usable_machines();
        usable
            .into_iter()
            .map(|machine| machine as i64)
            .collect::<Vec<_>>()
            .into_pyarray(py)
    }

    fn usable_classes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let usable = (0..self.inner.classes()).map(|class| self.inner.has_room(class, 1));
        usable.collect::<Vec<_>>().into_pyarray(py)
    }

    fn open_pairs<'py>(
        &self,
        py: Python<'py>,
        chosen: PyReadonlyArray1<'py, bool>,
    ) -> PyResult<OpenPairs<'py>> {
        let chosen = chosen.as_slice()?;
        if chosen.len() != self.inner.classes() {
            return Err(inconsistent());
        }
        let open = py.detach(|| self.inner.open_pairs(chosen));
        Ok((
            open.first.into_pyarray(py),
            open.machine.into_pyarray(py),
            open.room.into_pyarray(py),
            open.cost.into_pyarray(py),
            open.slots.into_pyarray(py),
        ))
    }

    #[pyo3(signature = (class, machine, count=1, devices=None))]
    fn place(
        &mut self,
        class: usize,
        machine: usize,
        count: i64,
        devices: Option<Vec<u32>>,
    ) -> PyResult<i64> {
        self.check(class, machine)?;
        let Some(devices) = devices.filter(|devices| !devices.is_empty()) else {
            return Ok(self.inner.place(class, machine, count));
        };
        if count != 1 || !self.are_there(class, machine, &devices) {
            return Err(PyValueError::new_err(
                "devices are for one unit, of the machine",
            ));
        }
        let unit = Unit { class, devices };
        let placed = self.inner.fits(class, machine) && self.inner.place_unit(unit, machine);
        Ok(i64::from(placed))
    }

    fn remove(&mut self, class: usize, machine: usize, count: i64) -> PyResult<()> {
        self.check(class, machine)?;
        let removed = (0..count).all(|_| self.inner.account_mut().release(class, machine));
        match removed {
            true => Ok(()),
            false => Err(PyValueError::new_err(
                "there are fewer units of the class to remove",
            )),
        }
    }

    fn place_flow<'py>(
        &mut self,
        py: Python<'py>,
        classes: PyReadonlyArray1<'py, i64>,
        machines: PyReadonlyArray1<'py, i64>,
        units: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let (classes, machines) = (classes.as_slice()?, machines.as_slice()?);
        let units = units.as_slice()?;
        if classes.len() != machines.len() || units.len() != machines.len() {
            return Err(inconsistent());
        }
        let mut placed = Vec::with_capacity(units.len());
        for ((&class, &machine), &count) in classes.iter().zip(machines).zip(units) {
            let (class, machine) = (class as usize, machine as usize);
            self.check(class, machine)?;
            placed.push(self.inner.place(class, machine, count));
        }
        Ok(placed.into_pyarray(py))
    }

    fn place_tightest(&mut self, py: Python<'_>, class: usize, count: i64) -> PyResult<i64> {
        self.check_class(class)?;
        Ok(py.detach(|| self.inner.place_tightest(class, count)))
    }

    fn place_gang(&mut self, py: Python<'_>, need: Vec<(usize, i64)>) -> PyResult<bool> {
        need.iter()
            .try_for_each(|&(class, _)| self.check_class(class))?;
        Ok(py.detach(|| place_gang(&mut self.inner, &need)))
    }

    fn place_together(
        &mut self,
        py: Python<'_>,
        units: Vec<(usize, usize, Vec<u32>)>,
    ) -> PyResult<bool> {
        let mut given = Vec::with_capacity(units.len());
        for (class, machine, devices) in units {
            self.check(class, machine)?;
            if !self.are_there(class, machine, &devices) {
                return Err(PyValueError::new_err("devices of the machine are expected"));
            }
            given.push((Unit { class, devices }, machine));
        }
        Ok(py.detach(|| place_together(&mut self.inner, given)))
    }

    fn refusing_parts<'py>(
        &self,
        py: Python<'py>,
        classes: PyReadonlyArray1<'py, i64>,
        machines: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let (classes, machines) = (classes.as_slice()?, machines.as_slice()?);
        if classes.len() != machines.len() {
            return Err(inconsistent());
        }
        let account = self.inner.account();
        let mut parts = Vec::with_capacity(classes.len());
        for (&class, &machine) in classes.iter().zip(machines) {
            let (class, machine) = (class as usize, machine as usize);
            self.check(class, machine)?;
            parts.push(match account.refusals(class, machine).next() {
                None => -3,
                Some(Part::Resource(_)) => -2,
                Some(Part::Devices) => -1,
                Some(Part::Disks) => -6,
                Some(Part::Rule(rule)) => rule as i64,
                Some(Part::PlacedRule) => match account.broken_placed_rule(class, machine) {
                    Some(Rule::Near { .. }) => -5,
                    _ => -4,
                },
            });
        }
        Ok(parts.into_pyarray(py))
    }

    fn cut_searches(&self) -> u64 {
        self.inner.cut_searches()
    }

    fn domain_counts<'py>(
        &self,
        py: Python<'py>,
        counter: usize,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let domains = self.inner.account().domains();
        if counter >= domains.counters() {
            return Err(no_counter(counter));
        }
        let count = |machine| match domains.domain(counter, machine) {
            Some(domain) => domains.count(counter, domain),
            None => -1,
        };
        let counts: Vec<i64> = (0..self.inner.machines()).map(count).collect();
        Ok(counts.into_pyarray(py))
    }

    fn counted_tasks(&self, counter: usize) -> PyResult<i64> {
        let domains = self.inner.account().domains();
        match counter < domains.counters() {
            true => Ok(domains.total(counter)),
            false => Err(no_counter(counter)),
        }
    }

    fn rule_refusals<'py>(
        &self,
        py: Python<'py>,
        class: usize,
    ) -> PyResult<Bound<'py, PyArray2<bool>>> {
        self.check_class(class)?;
        let account = self.inner.account();
        let rules = &account.classes()[class].rules;
        let shape = (self.inner.machines(), rules.len());
        let refused =
            |(machine, rule): (usize, usize)| !account.domains().fits(&rules[rule], machine);
        Ok(Array2::from_shape_fn(shape, refused).into_pyarray(py))
    }

    fn rule_refusals_in_place<'py>(
        &self,
        py: Python<'py>,
        class: usize,
        machines: Vec<usize>,
    ) -> PyResult<Bound<'py, PyArray2<bool>>> {
        self.check_class(class)?;
        for &machine in &machines {
            self.check(class, machine)?;
        }
        let account = self.inner.account();
        let class = &account.classes()[class];
        let refused = |(position, rule): (usize, usize)| {
            let (rule, machine) = (&class.rules[rule], machines[position]);
            let domains = account.domains();
            !domains.fits_in_place(rule, &class.counted_by, machine)
        };
        let shape = (machines.len(), class.rules.len());
        Ok(Array2::from_shape_fn(shape, refused).into_pyarray(py))
    }

    fn meets_rules(&mut self, class: usize, machine: usize) -> PyResult<bool> {
        self.check(class, machine)?;
        Ok(self.inner.account_mut().meets_rules(class, machine))
    }

    fn violations(&mut self, py: Python<'_>) -> Vec<(usize, usize)> {
        let found = py.detach(|| self.inner.account_mut().violations());
        let mut units: Vec<(usize, usize)> = found
            .into_iter()
            .map(|(class, machine, _)| (class, machine))
            .collect();
        units.dedup();
        units
    }

    fn units(&self) -> Vec<(usize, usize, i64, Vec<u32>)> {
        let on = |machine: usize| {
            let units = self.inner.account().units(machine).iter();
            units.map(move |unit| {
                let cost = self.inner.cost_on(unit.class, machine).unwrap_or(0);
                (unit.class, machine, cost, unit.devices.clone())
            })
        };
        (0..self.inner.machines()).flat_map(on).collect()
    }

    fn unit_columns<'py>(&self, py: Python<'py>) -> UnitColumns<'py> {
        let (mut classes, mut machines) = (Vec::new(), Vec::new());
        for machine in 0..self.inner.machines() {
            for unit in self.inner.account().units(machine) {
                classes.push(unit.class as i64);
                machines.push(machine as i64);
            }
        }
        (classes.into_pyarray(py), machines.into_pyarray(py))
    }

    fn counts<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let counts = (0..self.inner.machines()).map(|machine| self.inner.count(machine));
        counts.collect::<Vec<_>>().into_pyarray(py)
    }

    fn placed<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        self.inner.placed().into_pyarray(py)
    }

    fn free<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i64>>> {
        let resources = self.inner.account().resources();
        let shape = (self.inner.machines(), resources.width());
        let table = Array2::from_shape_vec(shape, resources.all().to_vec());
        table
            .map(|table| table.into_pyarray(py))
            .map_err(|_| inconsistent())
    }

    fn slope<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        self.inner.slope().to_vec().into_pyarray(py)
    }

    fn cost(&self) -> i64 {
        self.inner.cost()
    }

    fn mark(&self) -> usize {
        self.inner.account().mark()
    }

    fn rollback(&mut self, mark: usize) {
        self.inner.account_mut().rollback(mark);
    }

    fn taken_since(&self, mark: usize) -> Vec<(usize, usize, Vec<u32>)> {
        self.inner.account().taken_since(mark)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "columns of a few tables, named by the caller"
    )]
    #[pyo3(signature = (*, fixed, singles, gangs, first, rounds, effort, seed))]
    fn repack(
        &mut self,
        py: Python<'_>,
        fixed: Vec<i64>,
        singles: Vec<Vec<i64>>,
        gangs: Vec<GangArgument>,
        first: Option<(Vec<i64>, Vec<bool>)>,
        rounds: u64,
        effort: u64,
        seed: u64,
    ) -> PyResult<Vec<bool>> {
        let count = self.inner.classes();
        let gang_classes = gangs.iter().flat_map(|(need, _, _)| need);
        let is_consistent = [fixed.len(), singles.len()] == [count; 2]
            && gang_classes.into_iter().all(|&(class, _)| class < count)
            && first.as_ref().is_none_or(|(singles, chosen)| {
                singles.len() == count && chosen.len() == gangs.len()
            });
        if !is_consistent {
            return Err(inconsistent());
        }
        let gangs = gangs.into_iter().map(|(need, worth, placed)| Gang {
            need,
            worth,
            placed,
        });
        let mut items = Items {
            fixed,
            singles,
            gangs: gangs.collect(),
        };
        let limits = SearchLimits {
            rounds,
            effort,
            seed,
        };
        let first = first.map(|(singles, gangs)| ScratchStart { singles, gangs });
        py.detach(|| improve(&mut self.inner, &mut items, first.as_ref(), limits));
        Ok(items.gangs.iter().map(|gang| gang.placed).collect())
    }
}

impl Packing {
    fn check_class(&self, class: usize) -> PyResult<()> {
        match class < self.inner.classes() {
            true => Ok(()),
            false => Err(PyIndexError::new_err(format!("there is no class {class}"))),
        }
    }

    /// Whether these are devices, or devices and disks, of the machine, as units of the class have.
    fn are_there(&self, class: usize, machine: usize, devices: &[u32]) -> bool {
        let account = self.inner.account();
        let class = &account.classes()[class];
        let shares = class.devices.map_or(0, |asked| asked.count);
        let volumes = class
            .disks
            .as_ref()
            .map_or(0, |asked| asked.volumes().len());
        let (shares, disks) = devices.split_at(shares.min(devices.len()));
        let known_devices = account.devices().of(machine).len();
        let known_disks = account.disks().of(machine).len();
        shares.iter().all(|&index| (index as usize) < known_devices)
            && disks.iter().all(|&index| (index as usize) < known_disks)
            && (disks.is_empty() || disks.len() == volumes)
    }

    fn check(&self, class: usize, machine: usize) -> PyResult<()> {
        self.check_class(class)?;
        match machine < self.inner.machines() {
            true => Ok(()),
            false => Err(PyIndexError::new_err(format!(
                "there is no machine {machine}"
            ))),
        }
    }
}
