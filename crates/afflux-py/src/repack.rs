//! `repack`: the packing search of `afflux-pack` for Python.

use afflux_pack::{
    Classes, DeviceRequest, Gang, Items, Machine, ScratchStart, SearchLimits, Unit, improve,
};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A unit in Python: class, machine, devices.
type PlacedUnit = (usize, usize, Vec<usize>);

/// A gang in Python: its units of each class, its worth, whether it is placed.
type GangArgument = (Vec<(usize, i64)>, i64, bool);

/// Improves a packing; see `src/afflux/_core.pyi`.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "columns of one table, named by the caller"
)]
#[pyo3(signature = (*, requests, devices, admitted, cost, slope, free, free_devices, units,
                    fixed, singles, gangs, first, rounds, effort, seed))]
pub fn repack(
    py: Python<'_>,
    requests: PyReadonlyArray2<'_, i64>,
    devices: Vec<Option<(usize, i64)>>,
    admitted: PyReadonlyArray2<'_, bool>,
    cost: PyReadonlyArray2<'_, i64>,
    slope: PyReadonlyArray1<'_, i64>,
    free: PyReadonlyArray2<'_, i64>,
    free_devices: Vec<Vec<i64>>,
    units: Vec<PlacedUnit>,
    fixed: Vec<i64>,
    singles: Vec<Vec<i64>>,
    gangs: Vec<GangArgument>,
    first: Option<(Vec<i64>, Vec<bool>)>,
    rounds: u64,
    effort: u64,
    seed: u64,
) -> PyResult<(Vec<PlacedUnit>, Vec<bool>)> {
    let (requests, admitted, cost) = (requests.as_array(), admitted.as_array(), cost.as_array());
    let (free, slope) = (free.as_array(), slope.as_array());
    let (count, resources) = requests.dim();
    let machines = slope.len();
    let is_consistent = admitted.dim() == (count, machines)
        && cost.dim() == (count, machines)
        && free.dim() == (machines, resources)
        && free_devices.len() == machines
        && [devices.len(), fixed.len(), singles.len()] == [count; 3];
    if !is_consistent {
        return Err(PyValueError::new_err(
            "the tables differ in the number of classes, machines or resources",
        ));
    }
    let classes = Classes {
        resources,
        machines,
        requests: requests.iter().copied().collect(),
        devices: devices
            .into_iter()
            .map(|d| d.map(|(count, milli)| DeviceRequest { count, milli }))
            .collect(),
        admitted: admitted.iter().copied().collect(),
        cost: cost.iter().copied().collect(),
    };
    let mut packed: Vec<Machine> = free
        .outer_iter()
        .zip(free_devices)
        .zip(slope)
        .map(|((free, free_devices), &slope)| Machine {
            free: free.to_vec(),
            free_devices,
            slope,
            units: Vec::new(),
        })
        .collect();
    for (class, machine, devices) in units {
        let is_in_range = machine < machines
            && class < count
            && devices
                .iter()
                .all(|&d| d < packed[machine].free_devices.len());
        if !is_in_range {
            return Err(PyValueError::new_err(format!(
                "a unit of class {class} on machine {machine} with devices {devices:?} is out of range"
            )));
        }
        packed[machine].units.push(Unit { class, devices });
    }
    let mut items = Items {
        fixed,
        singles,
        gangs: gangs
            .into_iter()
            .map(|(need, worth, placed)| Gang {
                need,
                worth,
                placed,
            })
            .collect(),
    };
    if items
        .gangs
        .iter()
        .flat_map(|g| &g.need)
        .any(|&(class, _)| class >= count)
    {
        return Err(PyValueError::new_err(
            "a gang needs a class that is out of range",
        ));
    }
    let limits = SearchLimits {
        rounds,
        effort,
        seed,
    };
    let first = first.map(|(singles, gangs)| ScratchStart { singles, gangs });
    if let Some(first) = &first {
        if first.singles.len() != count || first.gangs.len() != items.gangs.len() {
            return Err(PyValueError::new_err(
                "`first` differs in the number of classes or gangs",
            ));
        }
    }
    py.detach(|| improve(&classes, &mut packed, &mut items, first.as_ref(), limits));
    let units = packed
        .into_iter()
        .enumerate()
        .flat_map(|(index, machine)| {
            let units = machine.units.into_iter();
            units.map(move |unit| (unit.class, index, unit.devices))
        })
        .collect();
    Ok((units, items.gangs.iter().map(|gang| gang.placed).collect()))
}
