//! `Timeline`: room over time, for Python.

use afflux_horizon::Start;
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
