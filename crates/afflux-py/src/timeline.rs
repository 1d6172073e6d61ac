//! `Timeline`: room over time, for Python.

use afflux_horizon::{Amounts, Ending, Seat, Start};
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
                "growth: a time that is not finite; expected what never ends to be left out",
            ));
        }
        self.inner.set_row(row, room, growth);
        Ok(())
    }

    fn begin(&mut self, now: f64) -> PyResult<()> {
        finite("now", now)?;
        self.inner.begin(now);
        Ok(())
    }

    fn earliest(&self, count: i64, run: f64, not_before: f64) -> PyResult<Option<(f64, bool)>> {
        known("run", run)?;
        finite("not_before", not_before)?;
        let found = self.inner.earliest(count, run, not_before);
        Ok(found.map(|start| (start.at, start.at_once)))
    }

    fn fits(&self, count: i64, run: f64, start: (f64, bool)) -> PyResult<bool> {
        known("run", run)?;
        Ok(self.inner.fits(count, run, begun(start)?))
    }

    fn take(&mut self, count: i64, run: f64, start: (f64, bool)) -> PyResult<()> {
        known("run", run)?;
        self.inner.take(count, run, begun(start)?);
        Ok(())
    }

    fn steps(&self) -> Vec<(f64, i64)> {
        let steps = self.inner.steps().iter();
        steps.map(|step| (step.at, step.room)).collect()
    }
}

/// What every machine has free throughout a span of time; see `src/afflux/_core.pyi`.
#[pyfunction]
#[pyo3(signature = (free, *, ends, end_rows, returned, seats, requests, start, end))]
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
    seats: Vec<(f64, f64, usize, usize)>,
    requests: PyReadonlyArray2<'py, i64>,
    start: f64,
    end: f64,
) -> PyResult<Bound<'py, PyArray2<i64>>> {
    let (machines, resources) = (free.shape()[0], free.shape()[1]);
    let classes = requests.shape()[0];
    let rows = end_rows.as_slice()?;
    let known = |row: i64| usize::try_from(row).is_ok_and(|row| row < machines);
    let agree = requests.shape()[1] == resources
        && returned.shape() == [rows.len(), resources]
        && ends.len() == rows.len()
        && rows.iter().all(|&row| known(row))
        && seats
            .iter()
            .all(|seat| seat.2 < machines && seat.3 < classes);
    if !agree {
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
    let seats: Vec<Seat> = seats
        .into_iter()
        .map(|(from, until, row, class)| Seat {
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
        &seats,
        amounts(requests.as_slice()?),
        start,
        end,
    );
    Array2::from_shape_vec((machines, resources), least)
        .map(|table| table.into_pyarray(py))
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

fn begun((at, at_once): (f64, bool)) -> PyResult<Start> {
    finite("start", at)?;
    Ok(Start { at, at_once })
}

fn finite(name: &str, value: f64) -> PyResult<()> {
    match value.is_finite() {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!(
            "{name} is {value}, expected a finite number of seconds"
        ))),
    }
}

fn known(name: &str, value: f64) -> PyResult<()> {
    match value >= 0.0 {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!(
            "{name} is {value}, expected seconds of at least 0"
        ))),
    }
}
