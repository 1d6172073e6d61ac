//! What stops a solve early: a budget, another thread, Ctrl-C.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use afflux_flow::Limits;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Milliseconds between two looks for signals. Each takes the GIL, for which it may have to wait.
const BETWEEN_LOOKS: u64 = 50;

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

/// What a solve looks at now and then, without the GIL.
pub struct Watch {
    budget: Option<Duration>,
    cancel: Option<Arc<AtomicBool>>,
    /// Only the main thread gets signals.
    is_main: bool,
    started: Instant,
    /// When to look for signals next, in milliseconds from the start.
    next_look: AtomicU64,
    /// What a signal raised.
    raised: OnceLock<PyErr>,
}

impl Watch {
    pub fn new(
        py: Python<'_>,
        budget_seconds: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<Self> {
        let budget = match budget_seconds {
            None => None,
            // More than the clock can count.
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
            next_look: AtomicU64::new(BETWEEN_LOOKS),
            raised: OnceLock::new(),
        })
    }

    /// Solves within the limits, without the GIL. What a signal raised, if any, is to be raised
    /// instead of any answer.
    pub fn run<T: Send>(
        self,
        py: Python<'_>,
        solve: impl FnOnce(&Limits<'_>) -> T + Send,
    ) -> (T, Option<PyErr>) {
        let asked = || self.is_interrupted();
        let answer = py.detach(|| {
            solve(&Limits {
                budget: self.budget,
                interrupted: (self.is_main || self.cancel.is_some()).then_some(&asked),
            })
        });
        (answer, self.raised.into_inner())
    }

    fn is_interrupted(&self) -> bool {
        let cancel = self.cancel.as_ref();
        let is_cancelled = cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed));
        if is_cancelled || self.raised.get().is_some() {
            return true;
        }
        let now = self.started.elapsed().as_millis() as u64;
        if !self.is_main || now < self.next_look.load(Ordering::Relaxed) {
            return false;
        }
        let raised = Python::attach(|py| py.check_signals()).err();
        let now = self.started.elapsed().as_millis() as u64;
        self.next_look.store(now + BETWEEN_LOOKS, Ordering::Relaxed);
        match raised {
            Some(error) => self.raised.set(error).is_ok(),
            None => false,
        }
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}
