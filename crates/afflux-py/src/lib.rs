//! `afflux._core`: solver and search for Python. NumPy arrays in and out, the GIL released meanwhile.
//!
//! The contract is `src/afflux/_core.pyi`. What belongs here is the translation of values and
//! errors, and nothing else. Arrays are read in place: no other thread may write to them meanwhile.

mod answers;
mod columns;
mod errors;
mod horizon;
mod network;
mod pack;
mod stopping;

use afflux_flow::Problem;
use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;

use columns::Column;
use errors::{caught, settle};
use stopping::Watch;

/// A flow of minimum cost, with the prices that prove it.
#[pyclass(frozen, module = "afflux._core")]
struct Solution {
    /// What the flow costs in all.
    #[pyo3(get)]
    cost: i128,
    /// One value per arc.
    #[pyo3(get)]
    flow: Py<PyArray1<i64>>,
    /// One value per node.
    #[pyo3(get)]
    price: Py<PyArray1<i64>>,
}

#[pymethods]
impl Solution {
    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "Solution(cost={}, {} arcs, {} nodes)",
            self.cost,
            self.flow.bind(py).len(),
            self.price.bind(py).len()
        )
    }
}

/// Finds a flow of minimum cost.
#[pyfunction]
fn solve<'py>(
    py: Python<'py>,
    supply: &Bound<'py, PyAny>,
    tail: &Bound<'py, PyAny>,
    head: &Bound<'py, PyAny>,
    lower: &Bound<'py, PyAny>,
    capacity: &Bound<'py, PyAny>,
    cost: &Bound<'py, PyAny>,
) -> PyResult<Solution> {
    let supply = Column::<i64>::new("supply", supply)?;
    let tail = Column::<i32>::new("tail", tail)?;
    let head = Column::<i32>::new("head", head)?;
    let lower = Column::<i64>::new("lower", lower)?;
    let capacity = Column::<i64>::new("capacity", capacity)?;
    let cost = Column::<i64>::new("cost", cost)?;
    let (supply, tail, head) = (supply.values()?, tail.values()?, head.values()?);
    let (lower, capacity, cost) = (lower.values()?, capacity.values()?, cost.values()?);
    let watch = Watch::new(py, None, None)?;
    let (outcome, raised) = watch.run(py, |limits| {
        caught(|| {
            let problem = Problem::new(supply, tail, head, lower, capacity, cost)?;
            afflux_flow::solve_within(&problem, limits)
        })
    });
    let answer = raised.map_or_else(|| settle(outcome), Err)?;
    Ok(Solution {
        cost: answer.cost,
        flow: PyArray1::from_vec(py, answer.flow).unbind(),
        price: PyArray1::from_vec(py, answer.price).unbind(),
    })
}

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::answers::{Answer, Columns, Gate, GatedAnswer, LevelsAnswer};
    #[pymodule_export]
    use super::errors::{ExpiredError, FlowError, InfeasibleError};
    #[pymodule_export]
    use super::horizon::{Timeline, least_free};
    #[pymodule_export]
    use super::network::Network;
    #[pymodule_export]
    use super::pack::repack;
    #[pymodule_export]
    use super::stopping::Cancel;
    #[pymodule_export]
    use super::{Solution, solve};
}
