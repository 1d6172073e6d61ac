//! Answers of solves, columns and gates as Python objects.

use afflux_flow::ArcId;
use numpy::PyArray1;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::columns::{Column, id_array};

/// An answer as a Python class: the getters that all answers have, and those given.
macro_rules! answer_class {
    ($(#[$doc:meta])* $name:ident { $($methods:tt)* }) => {
        $(#[$doc])*
        #[pyclass(frozen, module = "afflux._core")]
        pub struct $name(pub afflux_flow::$name);

        #[pymethods]
        impl $name {
            #[getter]
            fn cost(&self) -> i128 {
                self.0.cost
            }

            #[getter]
            fn bound(&self) -> i128 {
                self.0.bound
            }

            #[getter]
            fn gap(&self) -> i128 {
                self.0.gap()
            }

            #[getter]
            fn is_optimal(&self) -> bool {
                self.0.is_optimal()
            }

            $($methods)*
        }
    };
}

answer_class! {
    /// The answer of a solve; see `src/afflux/_core.pyi`.
    Answer {
        fn __repr__(&self) -> String {
            format!("Answer(cost={}, bound={})", self.0.cost, self.0.bound)
        }
    }
}

answer_class! {
    /// The answer of a solve by priority levels; see `src/afflux/_core.pyi`.
    LevelsAnswer {
        #[getter]
        fn units(&self) -> Vec<i128> {
            self.0.units.clone()
        }

        #[getter]
        fn guaranteed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
            let guaranteed = self.0.guaranteed.iter();
            PyList::new(py, guaranteed.map(|units| PyArray1::from_slice(py, units)))
        }

        fn __repr__(&self) -> String {
            format!(
                "LevelsAnswer(cost={}, bound={}, units={:?}, {} of {} levels finished)",
                self.0.cost,
                self.0.bound,
                self.0.units,
                self.0.guaranteed.len(),
                self.0.units.len()
            )
        }
    }
}

answer_class! {
    /// The answer of a solve with gates; see `src/afflux/_core.pyi`.
    GatedAnswer {
        #[getter]
        fn open<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
            PyArray1::from_slice(py, &self.0.open)
        }

        #[getter]
        fn flows(&self) -> usize {
            self.0.flows
        }

        fn __repr__(&self) -> String {
            let open = self.0.open.iter().filter(|&&open| open).count();
            format!(
                "GatedAnswer(cost={}, bound={}, {open} of {} gates open, {} flows)",
                self.0.cost,
                self.0.bound,
                self.0.open.len(),
                self.0.flows
            )
        }
    }
}

/// All nodes and arcs of a network; see `src/afflux/_core.pyi`.
#[pyclass(frozen, module = "afflux._core")]
pub struct Columns(pub afflux_flow::Columns);

#[pymethods]
impl Columns {
    #[getter]
    fn nodes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        id_array(py, self.0.nodes.clone())
    }

    #[getter]
    fn supply<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_slice(py, &self.0.supply)
    }

    #[getter]
    fn arcs<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        id_array(py, self.0.arcs.clone())
    }

    #[getter]
    fn tail<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        id_array(py, self.0.tail.clone())
    }

    #[getter]
    fn head<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        id_array(py, self.0.head.clone())
    }

    #[getter]
    fn lower<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_slice(py, &self.0.lower)
    }

    #[getter]
    fn capacity<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_slice(py, &self.0.capacity)
    }

    #[getter]
    fn cost<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_slice(py, &self.0.cost)
    }

    #[getter]
    fn flow<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_slice(py, &self.0.flow)
    }

    fn __repr__(&self) -> String {
        format!(
            "Columns({} nodes, {} arcs)",
            self.0.nodes.len(),
            self.0.arcs.len()
        )
    }
}

/// A binary decision for a group of arcs; see `src/afflux/_core.pyi`.
#[pyclass(frozen, module = "afflux._core")]
pub struct Gate(pub afflux_flow::Gate);

#[pymethods]
impl Gate {
    #[new]
    fn new(
        members: &Bound<'_, PyAny>,
        counts: &Bound<'_, PyAny>,
        waiting_cost: i64,
    ) -> PyResult<Self> {
        let members = Column::<i32>::new("members", members)?;
        let counts = Column::<i64>::new("counts", counts)?;
        let members = members.ids()?;
        let counts = counts.values_of_length("members", members.len())?;
        Ok(Self(afflux_flow::Gate {
            members: members.zip(counts.iter().copied()).collect(),
            waiting_cost,
        }))
    }

    #[getter]
    fn members<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        id_array(py, self.0.members.iter().map(|member| member.0).collect())
    }

    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.0.members.iter().map(|member| member.1))
    }

    #[getter]
    fn waiting_cost(&self) -> i64 {
        self.0.waiting_cost
    }

    fn __repr__(&self) -> String {
        format!(
            "Gate({} members, waiting_cost={})",
            self.0.members.len(),
            self.0.waiting_cost
        )
    }
}

/// Converts an argument to gates.
pub fn gates(value: &Bound<'_, PyAny>) -> PyResult<Vec<afflux_flow::Gate>> {
    let gate = |(position, gate): (usize, PyResult<Bound<'_, PyAny>>)| {
        let gate = gate?;
        match gate.cast::<Gate>() {
            Ok(gate) => Ok(gate.get().0.clone()),
            Err(_) => Err(PyTypeError::new_err(format!(
                "gates[{position}] is a {}, expected a Gate",
                gate.get_type().name()?
            ))),
        }
    };
    value.try_iter()?.enumerate().map(gate).collect()
}

/// Converts an argument to priority levels.
pub fn levels(value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<ArcId>>> {
    let level = |(position, arcs): (usize, PyResult<Bound<'_, PyAny>>)| {
        let arcs = Column::<i32>::new(format!("levels[{position}]"), &arcs?)?;
        Ok(arcs.ids()?.collect())
    };
    value.try_iter()?.enumerate().map(level).collect()
}
