//! `afflux._core`: solver and search for Python. NumPy arrays in and out, the GIL released meanwhile.
//!
//! The contract is `src/afflux/_core.pyi`. What belongs here is the translation of values and
//! errors, and nothing else. Arrays are read in place: no other thread may write to them meanwhile.

mod network;
mod pack;

use afflux_flow::{FlowError as Fault, Problem};
use numpy::{Element, PyArray1, PyArrayDescrMethods, PyReadonlyArray1, PyUntypedArray};
use numpy::{PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(
    afflux._core,
    FlowError,
    PyValueError,
    "The problem is not well formed; the message names the node or arc."
);
pyo3::create_exception!(
    afflux._core,
    InfeasibleError,
    FlowError,
    "No flow satisfies the supplies and bounds; the message names what cannot be routed."
);

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
    let answer = py
        .detach(|| {
            let problem = Problem::new(supply, tail, head, lower, capacity, cost)?;
            afflux_flow::solve(&problem)
        })
        .map_err(to_python)?;
    Ok(Solution {
        cost: answer.cost,
        flow: PyArray1::from_vec(py, answer.flow).unbind(),
        price: PyArray1::from_vec(py, answer.price).unbind(),
    })
}

fn to_python(fault: Fault) -> PyErr {
    match fault {
        Fault::Infeasible { .. } => InfeasibleError::new_err(fault.to_string()),
        Fault::Internal { .. } => PyRuntimeError::new_err(fault.to_string()),
        _ => FlowError::new_err(fault.to_string()),
    }
}

/// One argument: an array of one dimension, of the right type, without gaps.
struct Column<'py, T: Element> {
    name: &'static str,
    array: PyReadonlyArray1<'py, T>,
}

impl<'py, T: Element> Column<'py, T> {
    fn new(name: &'static str, value: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        let expected = numpy::dtype::<T>(py);
        let Ok(untyped) = value.cast::<PyUntypedArray>() else {
            return Err(PyTypeError::new_err(format!(
                "{name} is a {}, expected a NumPy array of {expected}",
                value.get_type().name()?
            )));
        };
        if untyped.ndim() != 1 || !untyped.dtype().is_equiv_to(&expected) {
            return Err(PyTypeError::new_err(format!(
                "{name} is an array of {} with {} dimensions, expected {expected} with 1",
                untyped.dtype(),
                untyped.ndim()
            )));
        }
        let array = value.cast::<PyArray1<T>>()?.try_readonly()?;
        Ok(Self { name, array })
    }

    fn values(&self) -> PyResult<&[T]> {
        self.array.as_slice().map_err(|_| {
            PyTypeError::new_err(format!(
                "{} is not contiguous, expected an array without gaps (numpy.ascontiguousarray)",
                self.name
            ))
        })
    }
}

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::network::{Answer, Network};
    #[pymodule_export]
    use super::pack::repack;
    #[pymodule_export]
    use super::{FlowError, InfeasibleError, Solution, solve};
}
