//! Early stops of a solve: a time budget, another thread, Ctrl-C.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use afflux_flow::Limits;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Milliseconds between two checks for signals. Each check takes the GIL, for which it may have to
/// wait.
const SIGNAL_CHECK_INTERVAL_MS: u64 = 50;

/// Stops solves from another thread; see `src/afflux/_core.pyi`.
#[pyclass(frozen, module = "afflux._core")]
#[derive(Default)]
pub struct Cancel(Arc<AtomicBool>);

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    #[getter]
    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn __repr__(&self) -> String {
        format!("Cancel(is_cancelled={})", self.is_cancelled())
    }
}

/// The conditions that stop a solve, checked periodically without the GIL.
pub struct SolveMonitor {
    budget: Option<Duration>,
    cancel: Option<Arc<AtomicBool>>,
    /// Whether this is the main thread; only it handles signals.
    is_main: bool,
    started: Instant,
    /// The time of the next check for signals, in milliseconds from the start.
    next_signal_check_ms: AtomicU64,
    /// The exception raised by a signal handler.
    signal_error: OnceLock<PyErr>,
}

impl SolveMonitor {
    pub fn new(
        py: Python<'_>,
        budget_seconds: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<Self> {
        let budget = match budget_seconds {
            None => None,
            // Longer than the clock can represent.
            Some(seconds) if seconds == f64::INFINITY => None,
            Some(seconds) => Some(Duration::try_from_secs_f64(seconds).map_err(|_| {
                PyValueError::new_err(format!("budget_seconds is {seconds}, expected 0 or more"))
            })?),
        };
        Ok(Self {
            budget,
            cancel: cancel.map(|cancel| Arc::clone(&cancel.get().0)),
            is_main: is_main_thread(py)?,
            started: Instant::now(),
            next_signal_check_ms: AtomicU64::new(SIGNAL_CHECK_INTERVAL_MS),
            signal_error: OnceLock::new(),
        })
    }

    /// Solves within the limits, without the GIL. If a signal handler raised an exception, the
    /// caller must raise it instead of using the answer.
    pub fn run<T: Send>(
        self,
        py: Python<'_>,
        solve: impl FnOnce(&Limits<'_>) -> T + Send,
    ) -> (T, Option<PyErr>) {
        let is_interrupted = || self.is_interrupted();
        let answer = py.detach(|| {
            solve(&Limits {
                budget: self.budget,
                interrupted: (self.is_main || self.cancel.is_some()).then_some(&is_interrupted),
            })
        });
        (answer, self.signal_error.into_inner())
    }

    fn is_interrupted(&self) -> bool {
        let cancel = self.cancel.as_ref();
        let is_cancelled = cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed));
        if is_cancelled || self.signal_error.get().is_some() {
            return true;
        }
        let now = self.started.elapsed().as_millis() as u64;
        if !self.is_main || now < self.next_signal_check_ms.load(Ordering::Relaxed) {
            return false;
        }
        let signal_error = Python::attach(|py| py.check_signals()).err();
        let now = self.started.elapsed().as_millis() as u64;
        self.next_signal_check_ms
            .store(now + SIGNAL_CHECK_INTERVAL_MS, Ordering::Relaxed);
        match signal_error {
            Some(error) => self.signal_error.set(error).is_ok(),
            None => false,
        }
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}
