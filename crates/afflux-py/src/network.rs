//! `Network`: the network that lives between solves, for Python. Everything in bulk.

use std::time::Duration;

use afflux_flow::{FlowError as Fault, Limits, Terms};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{Column, FlowError, to_python};

/// What a solve found.
#[pyclass(frozen, module = "afflux._core")]
pub struct Answer {
    /// What the flow costs in all.
    #[pyo3(get)]
    cost: i128,
    /// No flow costs less.
    #[pyo3(get)]
    bound: i128,
}

#[pymethods]
impl Answer {
    #[getter]
    fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }

    fn __repr__(&self) -> String {
        format!("Answer(cost={}, bound={})", self.cost, self.bound)
    }
}

/// A minimum-cost flow problem that changes; see `src/afflux/_core.pyi`.
#[pyclass(module = "afflux._core")]
#[derive(Default)]
pub struct Network(afflux_flow::Network);

#[pymethods]
impl Network {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    #[getter]
    fn nodes(&self) -> usize {
        self.0.nodes()
    }

    #[getter]
    fn arcs(&self) -> usize {
        self.0.arcs()
    }

    fn add_nodes<'py>(
        &mut self,
        py: Python<'py>,
        supply: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let supply = Column::<i64>::new("supply", supply)?;
        let supply = supply.values()?;
        self.0.reserve(supply.len(), 0);
        let ids = supply.iter().map(|&units| self.0.add_node(units));
        let ids = ids
            .map(|id| id.map(|id| id as i32))
            .collect::<Result<Vec<i32>, Fault>>();
        Ok(PyArray1::from_vec(py, ids.map_err(to_python)?))
    }

    fn remove_nodes(&mut self, nodes: &Bound<'_, PyAny>) -> PyResult<()> {
        let nodes = ids("nodes", nodes)?;
        self.0.remove_nodes(&nodes).map_err(to_python)
    }

    fn add_arcs<'py>(
        &mut self,
        py: Python<'py>,
        tail: &Bound<'py, PyAny>,
        head: &Bound<'py, PyAny>,
        lower: &Bound<'py, PyAny>,
        capacity: &Bound<'py, PyAny>,
        cost: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let tail = Column::<i32>::new("tail", tail)?;
        let head = Column::<i32>::new("head", head)?;
        let (tail, head) = (tail.values()?, head.values()?);
        let terms = AllTerms::new(lower, capacity, cost)?;
        same_length("head", head.len(), "tail", tail.len())?;
        let arcs = terms.iter(tail.len())?;
        let arcs = tail.iter().zip(head).zip(arcs);
        for (position, ((&tail, &head), terms)) in arcs.clone().enumerate() {
            self.0
                .check_arc(tail as u32, head as u32, terms)
                .map_err(|fault| at("arc", position, &fault))?;
        }
        self.0.reserve(0, tail.len());
        let ids = arcs.map(|((&tail, &head), terms)| {
            self.0
                .add_arc(tail as u32, head as u32, terms)
                .map(|id| id as i32)
        });
        let ids = ids.collect::<Result<Vec<i32>, Fault>>();
        Ok(PyArray1::from_vec(py, ids.map_err(to_python)?))
    }

    fn remove_arcs(&mut self, arcs: &Bound<'_, PyAny>) -> PyResult<()> {
        let arcs = ids("arcs", arcs)?;
        self.0.remove_arcs(&arcs).map_err(to_python)
    }

    fn set_supply(&mut self, nodes: &Bound<'_, PyAny>, supply: &Bound<'_, PyAny>) -> PyResult<()> {
        let nodes = ids("nodes", nodes)?;
        let supply = Column::<i64>::new("supply", supply)?;
        let supply = supply.values()?;
        same_length("supply", supply.len(), "nodes", nodes.len())?;
        for (position, &node) in nodes.iter().enumerate() {
            self.0
                .price(node)
                .map_err(|fault| at("node", position, &fault))?;
        }
        for (&node, &units) in nodes.iter().zip(supply) {
            self.0.set_supply(node, units).map_err(to_python)?;
        }
        Ok(())
    }

    fn set_bounds(
        &mut self,
        arcs: &Bound<'_, PyAny>,
        lower: &Bound<'_, PyAny>,
        capacity: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let arcs = ids("arcs", arcs)?;
        let lower = Column::<i64>::new("lower", lower)?;
        let capacity = Column::<i64>::new("capacity", capacity)?;
        let (lower, capacity) = (lower.values()?, capacity.values()?);
        same_length("lower", lower.len(), "arcs", arcs.len())?;
        same_length("capacity", capacity.len(), "arcs", arcs.len())?;
        self.change(&arcs, |position, terms| Terms {
            lower: lower[position],
            capacity: capacity[position],
            ..terms
        })
    }

    fn set_cost(&mut self, arcs: &Bound<'_, PyAny>, cost: &Bound<'_, PyAny>) -> PyResult<()> {
        let arcs = ids("arcs", arcs)?;
        let cost = Column::<i64>::new("cost", cost)?;
        let cost = cost.values()?;
        same_length("cost", cost.len(), "arcs", arcs.len())?;
        self.change(&arcs, |position, terms| Terms {
            cost: cost[position],
            ..terms
        })
    }

    #[pyo3(signature = (*, budget_seconds=None))]
    fn solve(&mut self, py: Python<'_>, budget_seconds: Option<f64>) -> PyResult<Answer> {
        let budget = match budget_seconds {
            None => None,
            Some(seconds) => Some(Duration::try_from_secs_f64(seconds).map_err(|_| {
                PyValueError::new_err(format!("budget_seconds is {seconds}, expected 0 or more"))
            })?),
        };
        let limits = Limits {
            budget,
            interrupted: None,
        };
        let found = py.detach(|| self.0.solve(&limits)).map_err(to_python)?;
        Ok(Answer {
            cost: found.cost,
            bound: found.bound,
        })
    }

    fn flow<'py>(
        &self,
        py: Python<'py>,
        arcs: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let arcs = ids("arcs", arcs)?;
        let flow = arcs.iter().map(|&arc| self.0.flow(arc));
        let flow = flow.collect::<Result<Vec<i64>, Fault>>();
        Ok(PyArray1::from_vec(py, flow.map_err(to_python)?))
    }

    fn price<'py>(
        &self,
        py: Python<'py>,
        nodes: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let nodes = ids("nodes", nodes)?;
        let price = nodes.iter().map(|&node| self.0.price(node));
        let price = price.collect::<Result<Vec<i64>, Fault>>();
        Ok(PyArray1::from_vec(py, price.map_err(to_python)?))
    }
}

impl Network {
    /// Changes the terms of arcs: of all or, if one is wrong, of none.
    fn change(&mut self, arcs: &[u32], new: impl Fn(usize, Terms) -> Terms) -> PyResult<()> {
        let terms = |network: &Self, position: usize, arc: u32| {
            network.0.terms(arc).map(|terms| new(position, terms))
        };
        for (position, &arc) in arcs.iter().enumerate() {
            terms(self, position, arc)
                .and_then(|terms| self.0.check_terms(arc, terms))
                .map_err(|fault| at("arc", position, &fault))?;
        }
        for (position, &arc) in arcs.iter().enumerate() {
            let terms = terms(self, position, arc).map_err(to_python)?;
            self.0.set_terms(arc, terms).map_err(to_python)?;
        }
        Ok(())
    }
}

/// Columns of terms.
struct AllTerms<'py> {
    lower: Column<'py, i64>,
    capacity: Column<'py, i64>,
    cost: Column<'py, i64>,
}

impl<'py> AllTerms<'py> {
    fn new(
        lower: &Bound<'py, PyAny>,
        capacity: &Bound<'py, PyAny>,
        cost: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        Ok(Self {
            lower: Column::new("lower", lower)?,
            capacity: Column::new("capacity", capacity)?,
            cost: Column::new("cost", cost)?,
        })
    }

    fn iter(&self, arcs: usize) -> PyResult<impl Iterator<Item = Terms> + Clone> {
        let (lower, capacity, cost) = (
            self.lower.values()?,
            self.capacity.values()?,
            self.cost.values()?,
        );
        same_length("lower", lower.len(), "tail", arcs)?;
        same_length("capacity", capacity.len(), "tail", arcs)?;
        same_length("cost", cost.len(), "tail", arcs)?;
        Ok(lower
            .iter()
            .zip(capacity)
            .zip(cost)
            .map(|((&lower, &capacity), &cost)| Terms {
                lower,
                capacity,
                cost,
            }))
    }
}

/// Ids as the crate wants them; a negative one becomes one that does not exist.
fn ids(name: &'static str, value: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let column = Column::<i32>::new(name, value)?;
    Ok(column.values()?.iter().map(|&id| id as u32).collect())
}

fn same_length(name: &str, length: usize, other: &str, expected: usize) -> PyResult<()> {
    match length == expected {
        true => Ok(()),
        false => Err(FlowError::new_err(format!(
            "{name} has {length} values, but {other} has {expected}: as many are expected"
        ))),
    }
}

fn at(what: &str, position: usize, fault: &Fault) -> PyErr {
    FlowError::new_err(format!("{what} number {position} of this call: {fault}"))
}
