//! Errors of the crate as exceptions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use afflux_flow::FlowError as Fault;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
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
pyo3::create_exception!(
    afflux._core,
    ExpiredError,
    FlowError,
    "The budget was used up, or the solve cancelled, before there was any flow to show."
);

/// What came of a call into the crate: an answer, an error, or a panic.
pub type Outcome<T> = std::thread::Result<Result<T, Fault>>;

/// Calls into the crate. After a panic, what `call` has changed must not be used any more.
pub fn caught<T>(call: impl FnOnce() -> Result<T, Fault>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(call))
}

/// What Python sees of an outcome: no panic, in any case.
pub fn settle<T>(outcome: Outcome<T>) -> PyResult<T> {
    match outcome {
        Ok(found) => found.map_err(to_python),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
            let message = message.unwrap_or("it panicked");
            Err(PyRuntimeError::new_err(format!(
                "internal error of the solver: {message}"
            )))
        }
    }
}

fn to_python(fault: Fault) -> PyErr {
    let message = fault.to_string();
    match fault {
        Fault::Infeasible { .. } => InfeasibleError::new_err(message),
        Fault::Expired => ExpiredError::new_err(message),
        Fault::Internal { .. } => PyRuntimeError::new_err(message),
        _ => FlowError::new_err(message),
    }
}
