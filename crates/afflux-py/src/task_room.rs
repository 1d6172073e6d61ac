//! The account of one class on many machines, for Python: room, refusals, a choice of devices.

use afflux_account::{Account, Class, Devices, Part, Resources};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::disk_columns::{DiskArgument, DiskTable, disks_of};
use crate::packing::{DeviceArgument, class_of, inconsistent, is_request};

/// The disks of the machines, and what the task does on them.
type DisksArgument<'py> = Option<(DiskTable<'py>, DiskArgument)>;

/// An account of these machines with a single class, number 0.
fn account_of(
    free: &PyReadonlyArray2<'_, i64>,
    request: &PyReadonlyArray1<'_, i64>,
    free_devices: Option<Vec<Vec<i64>>>,
    devices: DeviceArgument,
    disks: DisksArgument<'_>,
) -> PyResult<Account> {
    let (free, request) = (free.as_array(), request.as_array());
    let (machines, width) = free.dim();
    let free_devices = free_devices.unwrap_or_default();
    let is_consistent = request.len() == width
        && is_request(&devices)
        && request.iter().all(|&amount| amount >= 0)
        && (free_devices.is_empty() || free_devices.len() == machines);
    if !is_consistent {
        return Err(inconsistent());
    }
    let mut classes = vec![class_of(&request.to_vec(), devices)];
    let disks = disks
        .map(|(table, asked)| disks_of(&table, vec![Some(asked)], &mut classes, machines))
        .transpose()?;
    let resources = Resources::new(width, free.iter().copied().collect());
    let account = Account::new(classes, resources, Devices::new(free_devices), machines);
    Ok(account.with_disks(disks.unwrap_or_default()))
}

/// See `src/afflux/_core.pyi`.
#[pyfunction]
#[pyo3(signature = (free, request, free_devices=None, devices=None, disks=None))]
pub fn room<'py>(
    py: Python<'py>,
    free: PyReadonlyArray2<'py, i64>,
    request: PyReadonlyArray1<'py, i64>,
    free_devices: Option<Vec<Vec<i64>>>,
    devices: DeviceArgument,
    disks: DisksArgument<'py>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let account = account_of(&free, &request, free_devices, devices, disks)?;
    let machines = 0..account.machines();
    let rooms: Vec<i64> = machines.map(|machine| account.room(0, machine)).collect();
    Ok(rooms.into_pyarray(py))
}

/// See `src/afflux/_core.pyi`.
#[pyfunction]
#[pyo3(signature = (free, request, free_devices=None, devices=None, disks=None))]
pub fn refusals<'py>(
    py: Python<'py>,
    free: PyReadonlyArray2<'py, i64>,
    request: PyReadonlyArray1<'py, i64>,
    free_devices: Option<Vec<Vec<i64>>>,
    devices: DeviceArgument,
    disks: DisksArgument<'py>,
) -> PyResult<Bound<'py, PyArray2<bool>>> {
    let account = account_of(&free, &request, free_devices, devices, disks)?;
    let width = account.resources().width();
    let mut refused = Array2::from_elem((account.machines(), width + 2), false);
    for machine in 0..account.machines() {
        for part in account.refusals(0, machine) {
            let column = match part {
                Part::Resource(column) => column as usize,
                Part::Devices => width,
                Part::Disks => width + 1,
                // This class has no rules about other tasks.
                Part::Rule(_) | Part::PlacedRule => continue,
            };
            refused[[machine, column]] = true;
        }
    }
    Ok(refused.into_pyarray(py))
}

/// See `src/afflux/_core.pyi`.
#[pyfunction]
pub fn choose_devices(free: Vec<i64>, count: usize, milli: i64) -> PyResult<Option<Vec<u32>>> {
    let asked = Some((count, milli));
    if !is_request(&asked) {
        return Err(PyValueError::new_err(
            "expected at least one device and one thousandth of it",
        ));
    }
    let request = class_of(&[], asked).devices;
    Ok(request.and_then(|request| Devices::new(vec![free]).choose(request, 0, 0)))
}

/// See `src/afflux/_core.pyi`.
#[pyfunction]
pub fn choose_disks(table: DiskTable<'_>, request: DiskArgument) -> PyResult<Option<Vec<u32>>> {
    let mut classes = [Class::default()];
    let disks = disks_of(&table, vec![Some(request)], &mut classes, 1)?;
    let [class] = classes;
    Ok(class.disks.and_then(|asked| disks.choose(&asked, 0, 0)))
}
