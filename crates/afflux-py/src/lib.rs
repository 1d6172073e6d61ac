//! `afflux._core`: the solver and the packing search for Python. Arguments and results are NumPy
//! arrays, and the GIL is released during long calls.
//!
//! The contract is `src/afflux/_core.pyi`. This crate only converts values and errors. Arrays are
//! read in place: no other thread may write to them during a call.

mod answers;
mod cancellation;
mod columns;
mod disk_columns;
mod domain_rules;
mod errors;
mod network;
mod packing;
mod task_room;
mod timeline;

use afflux_flow::Problem;
use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;

use cancellation::SolveMonitor;
use columns::Column;
use errors::{catch_panic, to_py_result};

/// A flow of minimum cost, with the prices that prove it.
#[pyclass(frozen, module = "afflux._core")]
struct Solution {
    /// The total cost of the flow.
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
    let monitor = SolveMonitor::new(py, None, None)?;
    let (outcome, signal_error) = monitor.run(py, |limits| {
        catch_panic(|| {
            let problem = Problem::new(supply, tail, head, lower, capacity, cost)?;
            afflux_flow::solve_within(&problem, limits)
        })
    });
    let answer = signal_error.map_or_else(|| to_py_result(outcome), Err)?;
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
    use super::cancellation::Cancel;
    #[pymodule_export]
    use super::errors::{ExpiredError, FlowError, InfeasibleError};
    #[pymodule_export]
    use super::network::Network;
    #[pymodule_export]
    use super::packing::Packing;
    #[pymodule_export]
    use super::task_room::{choose_devices, choose_disks, refusals, room};
    #[pymodule_export]
    use super::timeline::{Timeline, least_free};
    #[pymodule_export]
    use super::{Solution, solve};
}
