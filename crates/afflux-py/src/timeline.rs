//! `Timeline` and `least_free`: free capacity over time, for Python.

use afflux_horizon::{Amounts, Ending, Occupancy, Start};
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use numpy::{PyUntypedArrayMethods, ndarray::Array2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// See `src/afflux/_core.pyi`.
#[pyclass(module = "afflux._core")]
#[derive(Default)]
pub struct Timeline {
    inner: afflux_horizon::Timeline,
}

#[pymethods]
impl Timeline {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn set_row(&mut self, row: usize, room: i64, growth: Vec<(f64, i64)>) -> PyResult<()> {
        if growth.iter().any(|(at, _)| !at.is_finite()) {
            return Err(PyValueError::new_err(
                "growth has a time that is not finite: leave out tasks that never end",
            ));
        }
        self.inner.set_row(row, room, growth);
        Ok(())
    }

    fn begin(&mut self, now: f64) -> PyResult<()> {
        check_finite("now", now)?;
        self.inner.begin(now);
        Ok(())
    }

    fn earliest(&self, count: i64, run: f64, not_before: f64) -> PyResult<Option<(f64, bool)>> {
        check_not_negative("run", run)?;
        check_finite("not_before", not_before)?;
        let found = self.inner.earliest(count, run, not_before);
        Ok(found.map(|start| (start.at, start.at_once)))
    }

    fn fits(&self, count: i64, run: f64, start: (f64, bool)) -> PyResult<bool> {
        check_not_negative("run", run)?;
        Ok(self.inner.fits(count, run, start_at(start)?))
    }

    fn take(&mut self, count: i64, run: f64, start: (f64, bool)) -> PyResult<()> {
        check_not_negative("run", run)?;
        self.inner.take(count, run, start_at(start)?);
        Ok(())
    }

    fn steps(&self) -> Vec<(f64, i64)> {
        let steps = self.inner.steps().iter();
        steps.map(|step| (step.at, step.room)).collect()
    }
}

/// The amounts that every machine has free throughout a span of time; see `src/afflux/_core.pyi`.
#[pyfunction]
#[pyo3(signature = (free, *, ends, end_rows, returned, occupancies, requests, start, end))]
#[expect(
    clippy::too_many_arguments,
    reason = "columns of a few tables, named by the caller"
)]
pub fn least_free<'py>(
    py: Python<'py>,
    free: PyReadonlyArray2<'py, i64>,
    ends: PyReadonlyArray1<'py, f64>,
    end_rows: PyReadonlyArray1<'py, i64>,
    returned: PyReadonlyArray2<'py, i64>,
    occupancies: Vec<(f64, f64, usize, usize)>,
    requests: PyReadonlyArray2<'py, i64>,
    start: f64,
    end: f64,
) -> PyResult<Bound<'py, PyArray2<i64>>> {
    let (machines, resources) = (free.shape()[0], free.shape()[1]);
    let classes = requests.shape()[0];
    let rows = end_rows.as_slice()?;
    let is_machine = |row: i64| usize::try_from(row).is_ok_and(|row| row < machines);
    let is_consistent = requests.shape()[1] == resources
        && returned.shape() == [rows.len(), resources]
        && ends.len() == rows.len()
        && rows.iter().all(|&row| is_machine(row))
        && occupancies
            .iter()
            .all(|occupancy| occupancy.2 < machines && occupancy.3 < classes);
    if !is_consistent {
        return Err(PyValueError::new_err(
            "the tables differ in machines, classes or resources",
        ));
    }
    let endings: Vec<Ending> = ends
        .as_slice()?
        .iter()
        .zip(rows)
        .map(|(&at, &row)| Ending {
            at,
            row: usize::try_from(row).unwrap_or_default(),
        })
        .collect();
    let occupancies: Vec<Occupancy> = occupancies
        .into_iter()
        .map(|(from, until, row, class)| Occupancy {
            from,
            until,
            row,
            class,
        })
        .collect();
    let amounts = |values| Amounts { values, resources };
    let least = afflux_horizon::least_free(
        amounts(free.as_slice()?),
        &endings,
        amounts(returned.as_slice()?),
        &occupancies,
        amounts(requests.as_slice()?),
        start,
        end,
    );
    Array2::from_shape_vec((machines, resources), least)
        .map(|table| table.into_pyarray(py))
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

fn start_at((at, at_once): (f64, bool)) -> PyResult<Start> {
    check_finite("start", at)?;
    Ok(Start { at, at_once })
}

fn check_finite(name: &str, value: f64) -> PyResult<()> {
    match value.is_finite() {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!(
            "{name} is {value}, expected a finite number of seconds"
        ))),
    }
}

fn check_not_negative(name: &str, value: f64) -> PyResult<()> {
    match value >= 0.0 {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!(
            "{name} is {value}, expected seconds of at least 0"
        ))),
    }
}
