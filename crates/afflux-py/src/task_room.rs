//! The account of one class on many machines, for Python: room, refusals, a choice of devices.

use afflux_account::{Account, Devices, Part, Resources};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::packing::{DeviceArgument, class_of, inconsistent, is_request};

/// An account of these machines with a single class, number 0.
fn account_of(
    free: &PyReadonlyArray2<'_, i64>,
    request: &PyReadonlyArray1<'_, i64>,
    free_devices: Option<Vec<Vec<i64>>>,
    devices: DeviceArgument,
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
    let class = class_of(&request.to_vec(), devices);
    let resources = Resources::new(width, free.iter().copied().collect());
    Ok(Account::new(
        vec![class],
        resources,
        Devices::new(free_devices),
        machines,
    ))
}

/// See `src/afflux/_core.pyi`.
#[pyfunction]
#[pyo3(signature = (free, request, free_devices=None, devices=None))]
pub fn room<'py>(
    py: Python<'py>,
    free: PyReadonlyArray2<'py, i64>,
    request: PyReadonlyArray1<'py, i64>,
    free_devices: Option<Vec<Vec<i64>>>,
    devices: DeviceArgument,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let account = account_of(&free, &request, free_devices, devices)?;
    let machines = 0..account.machines();
    let rooms: Vec<i64> = machines.map(|machine| account.room(0, machine)).collect();
    Ok(rooms.into_pyarray(py))
}

/// See `src/afflux/_core.pyi`.
#[pyfunction]
#[pyo3(signature = (free, request, free_devices=None, devices=None))]
pub fn refusals<'py>(
    py: Python<'py>,
    free: PyReadonlyArray2<'py, i64>,
    request: PyReadonlyArray1<'py, i64>,
    free_devices: Option<Vec<Vec<i64>>>,
    devices: DeviceArgument,
) -> PyResult<Bound<'py, PyArray2<bool>>> {
    let account = account_of(&free, &request, free_devices, devices)?;
    let width = account.resources().width();
    let mut refused = Array2::from_elem((account.machines(), width + 1), false);
    for machine in 0..account.machines() {
        for part in account.refusals(0, machine) {
            let column = match part {
                Part::Resource(column) => column as usize,
                Part::Devices => width,
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
