//! Errors of the flow crate as Python exceptions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use afflux_flow::FlowError as CoreError;
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

/// The outcome of a call into the crate: an answer, an error, or a panic.
pub type Outcome<T> = std::thread::Result<Result<T, CoreError>>;

/// Calls into the crate and catches panics. After a panic, the data that `call` has changed must
/// not be used any more.
pub fn catch_panic<T>(call: impl FnOnce() -> Result<T, CoreError>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(call))
}

/// Converts an outcome for Python; a panic becomes a RuntimeError.
pub fn to_py_result<T>(outcome: Outcome<T>) -> PyResult<T> {
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

fn to_python(error: CoreError) -> PyErr {
    let message = error.to_string();
    match error {
        CoreError::Infeasible { .. } => InfeasibleError::new_err(message),
        CoreError::Expired => ExpiredError::new_err(message),
        CoreError::Internal { .. } => PyRuntimeError::new_err(message),
        _ => FlowError::new_err(message),
    }
}
