//! `Network`: the network that persists between solves, for Python, with bulk operations.
//!
//! A call never waits for the lock of a network: the holder is solving, which may take long, and
//! the order of the two calls would be undefined.

use std::sync::{Mutex, MutexGuard, TryLockError};

use afflux_flow::{ConvexTerms, Effort, FlowError as CoreError, GainArc, Limits};
use afflux_flow::{NewArc, NewConvexArc, Terms};
use numpy::PyArray1;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::answers::{self, Answer, Columns, Gate, GatedAnswer, LevelsAnswer};
use crate::cancellation::{Cancel, SolveMonitor};
use crate::columns::{Column, Table, id_array};
use crate::errors::{Outcome, catch_panic, to_py_result};

type Ids<'py> = Bound<'py, PyArray1<i32>>;
type Values<'py> = Bound<'py, PyArray1<i64>>;

/// A minimum-cost flow problem that changes; see `src/afflux/_core.pyi`.
#[pyclass(frozen, module = "afflux._core")]
#[derive(Default)]
pub struct Network(Mutex<SharedNetwork>);

/// The network, and whether a panic has left it in an undefined state.
#[derive(Default)]
struct SharedNetwork {
    network: afflux_flow::Network,
    is_broken: bool,
}

#[pymethods]
impl Network {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    #[getter]
    fn nodes(&self) -> PyResult<usize> {
        self.with(|network| Ok(network.nodes()))
    }

    #[getter]
    fn arcs(&self) -> PyResult<usize> {
        self.with(|network| Ok(network.arcs()))
    }

    fn add_nodes<'py>(&self, py: Python<'py>, supply: &Bound<'py, PyAny>) -> PyResult<Ids<'py>> {
        let supply = Column::<i64>::new("supply", supply)?;
        let supply = supply.values()?;
        let ids = self.with(|network| network.add_nodes(supply))?;
        Ok(id_array(py, ids))
    }

    fn remove_nodes(&self, nodes: &Bound<'_, PyAny>) -> PyResult<()> {
        let nodes: Vec<u32> = Column::<i32>::new("nodes", nodes)?.ids()?.collect();
        self.with(|network| network.remove_nodes(&nodes))
    }

    fn set_supply(&self, nodes: &Bound<'_, PyAny>, supply: &Bound<'_, PyAny>) -> PyResult<()> {
        let nodes = Column::<i32>::new("nodes", nodes)?;
        let supply = Column::<i64>::new("supply", supply)?;
        let nodes = nodes.ids()?;
        let supply = supply.values_of_length("nodes", nodes.len())?;
        self.with(|network| network.set_supplies(nodes.zip(supply.iter().copied())))
    }

    fn add_arcs<'py>(
        &self,
        py: Python<'py>,
        tail: &Bound<'py, PyAny>,
        head: &Bound<'py, PyAny>,
        lower: &Bound<'py, PyAny>,
        capacity: &Bound<'py, PyAny>,
        cost: &Bound<'py, PyAny>,
    ) -> PyResult<Ids<'py>> {
        let tail = Column::<i32>::new("tail", tail)?;
        let head = Column::<i32>::new("head", head)?;
        let lower = Column::<i64>::new("lower", lower)?;
        let capacity = Column::<i64>::new("capacity", capacity)?;
        let cost = Column::<i64>::new("cost", cost)?;
        let tail = tail.ids()?;
        let count = tail.len();
        head.values_of_length("tail", count)?;
        let lower = lower.values_of_length("tail", count)?.iter().copied();
        let capacity = capacity.values_of_length("tail", count)?.iter().copied();
        let cost = cost.values_of_length("tail", count)?.iter().copied();
        let ends = tail.zip(head.ids()?);
        let arcs = ends.zip(lower).zip(capacity).zip(cost);
        let arcs = arcs.map(|((((tail, head), lower), capacity), cost)| NewArc {
            tail,
            head,
            terms: Terms {
                lower,
                capacity,
                cost,
            },
        });
        let ids = self.with(|network| network.add_arcs(arcs))?;
        Ok(id_array(py, ids))
    }

    fn add_convex_arcs<'py>(
        &self,
        py: Python<'py>,
        tail: &Bound<'py, PyAny>,
        head: &Bound<'py, PyAny>,
        lower: &Bound<'py, PyAny>,
        capacity: &Bound<'py, PyAny>,
        costs: &Bound<'py, PyAny>,
    ) -> PyResult<Ids<'py>> {
        let tail = Column::<i32>::new("tail", tail)?;
        let head = Column::<i32>::new("head", head)?;
        let terms = Convex::new(lower, capacity, costs)?;
        let tail = tail.ids()?;
        let count = tail.len();
        head.values_of_length("tail", count)?;
        let terms = terms.rows("tail", count)?;
        let arcs = tail.zip(head.ids()?).zip(terms);
        let arcs = arcs.map(|((tail, head), terms)| NewConvexArc { tail, head, terms });
        let ids = self.with(|network| network.add_convex_arcs(arcs))?;
        Ok(id_array(py, ids))
    }

    fn set_convex(
        &self,
        arcs: &Bound<'_, PyAny>,
        lower: &Bound<'_, PyAny>,
        capacity: &Bound<'_, PyAny>,
        costs: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let arcs = Column::<i32>::new("arcs", arcs)?;
        let terms = Convex::new(lower, capacity, costs)?;
        let arcs = arcs.ids()?;
        let terms = terms.rows("arcs", arcs.len())?;
        self.with(|network| network.set_convex(arcs.zip(terms)))
    }

    fn remove_arcs(&self, arcs: &Bound<'_, PyAny>) -> PyResult<()> {
        let arcs: Vec<u32> = Column::<i32>::new("arcs", arcs)?.ids()?.collect();
        self.with(|network| network.remove_arcs(&arcs))
    }

    fn set_bounds(
        &self,
        arcs: &Bound<'_, PyAny>,
        lower: &Bound<'_, PyAny>,
        capacity: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let arcs = Column::<i32>::new("arcs", arcs)?;
        let lower = Column::<i64>::new("lower", lower)?;
        let capacity = Column::<i64>::new("capacity", capacity)?;
        let arcs = arcs.ids()?;
        let count = arcs.len();
        let lower = lower.values_of_length("arcs", count)?.iter().copied();
        let capacity = capacity.values_of_length("arcs", count)?.iter().copied();
        let changes = arcs.zip(lower).zip(capacity);
        let changes = changes.map(|((arc, lower), capacity)| (arc, lower, capacity));
        self.with(|network| network.set_all_bounds(changes))
    }

    fn set_cost(&self, arcs: &Bound<'_, PyAny>, cost: &Bound<'_, PyAny>) -> PyResult<()> {
        let arcs = Column::<i32>::new("arcs", arcs)?;
        let cost = Column::<i64>::new("cost", cost)?;
        let arcs = arcs.ids()?;
        let cost = cost.values_of_length("arcs", arcs.len())?;
        self.with(|network| network.set_costs(arcs.zip(cost.iter().copied())))
    }

    fn terms<'py>(
        &self,
        py: Python<'py>,
        arcs: &Bound<'py, PyAny>,
    ) -> PyResult<(Values<'py>, Values<'py>, Values<'py>)> {
        let arcs = Column::<i32>::new("arcs", arcs)?;
        let mut arcs = arcs.ids()?;
        let terms: Vec<Terms> =
            self.with(|network| arcs.by_ref().map(|arc| network.terms(arc)).collect())?;
        let column = |of: fn(&Terms) -> i64| PyArray1::from_iter(py, terms.iter().map(of));
        Ok((
            column(|terms| terms.lower),
            column(|terms| terms.capacity),
            column(|terms| terms.cost),
        ))
    }

    fn columns(&self) -> PyResult<Columns> {
        Ok(Columns(self.with(|network| Ok(network.columns()))?))
    }

    #[expect(clippy::too_many_arguments, reason = "columns of one table")]
    fn add_gain(
        &self,
        tail: &Bound<'_, PyAny>,
        head: &Bound<'_, PyAny>,
        lower: &Bound<'_, PyAny>,
        capacity: &Bound<'_, PyAny>,
        gain: &Bound<'_, PyAny>,
        waiting: u32,
        waiting_cost: i64,
    ) -> PyResult<Gate> {
        let tail = Column::<i32>::new("tail", tail)?;
        let head = Column::<i32>::new("head", head)?;
        let [lower, capacity, gain] = [("lower", lower), ("capacity", capacity), ("gain", gain)]
            .map(|(name, value)| Column::<i64>::new(name, value));
        let (lower, capacity, gain) = (lower?, capacity?, gain?);
        let tail = tail.ids()?;
        let count = tail.len();
        head.values_of_length("tail", count)?;
        let head = head.ids()?;
        let lower = lower.values_of_length("tail", count)?.iter();
        let capacity = capacity.values_of_length("tail", count)?.iter();
        let gain = gain.values_of_length("tail", count)?.iter();
        let arcs = tail.zip(head).zip(lower).zip(capacity).zip(gain);
        let arcs = arcs.map(|((((tail, head), &lower), &capacity), &gain)| GainArc {
            tail,
            head,
            lower,
            capacity,
            gain,
        });
        let arcs: Vec<GainArc> = arcs.collect();
        let gate = self.with(|network| network.add_gain(&arcs, waiting, waiting_cost))?;
        Ok(Gate(gate))
    }

    #[pyo3(signature = (*, budget_seconds=None, cancel=None))]
    fn solve(
        &self,
        py: Python<'_>,
        budget_seconds: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<Answer> {
        let monitor = SolveMonitor::new(py, budget_seconds, cancel)?;
        let answer = self.solve_by(py, monitor, |network, limits| network.solve(limits))?;
        Ok(Answer(answer))
    }

    #[pyo3(signature = (levels, *, budget_seconds=None, cancel=None))]
    fn solve_levels(
        &self,
        py: Python<'_>,
        levels: &Bound<'_, PyAny>,
        budget_seconds: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<LevelsAnswer> {
        let levels = answers::levels(levels)?;
        let monitor = SolveMonitor::new(py, budget_seconds, cancel)?;
        let solve = |network: &mut afflux_flow::Network, limits: &Limits<'_>| {
            network.solve_levels(&levels, limits)
        };
        Ok(LevelsAnswer(self.solve_by(py, monitor, solve)?))
    }

    #[pyo3(signature = (gates, *, flows=1000, gap_ppm=0, budget_seconds=None, cancel=None))]
    fn solve_gated(
        &self,
        py: Python<'_>,
        gates: &Bound<'_, PyAny>,
        flows: i64,
        gap_ppm: i64,
        budget_seconds: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<GatedAnswer> {
        let gates = answers::gates(gates)?;
        let effort = Effort {
            flows: count("flows", flows)?,
            gap_ppm: count("gap_ppm", gap_ppm)?,
        };
        let monitor = SolveMonitor::new(py, budget_seconds, cancel)?;
        let solve = |network: &mut afflux_flow::Network, limits: &Limits<'_>| {
            network.solve_gated(&gates, effort, limits)
        };
        Ok(GatedAnswer(self.solve_by(py, monitor, solve)?))
    }

    fn flow<'py>(&self, py: Python<'py>, arcs: &Bound<'py, PyAny>) -> PyResult<Values<'py>> {
        let arcs = Column::<i32>::new("arcs", arcs)?;
        let arcs = arcs.ids()?;
        let flow = self.with(|network| network.flows(arcs))?;
        Ok(PyArray1::from_vec(py, flow))
    }

    fn price<'py>(&self, py: Python<'py>, nodes: &Bound<'py, PyAny>) -> PyResult<Values<'py>> {
        let nodes = Column::<i32>::new("nodes", nodes)?;
        let mut nodes = nodes.ids()?;
        let price: Vec<i64> =
            self.with(|network| nodes.by_ref().map(|node| network.price(node)).collect())?;
        Ok(PyArray1::from_vec(py, price))
    }

    fn __repr__(&self) -> String {
        match self.with(|network| Ok((network.nodes(), network.arcs()))) {
            Ok((nodes, arcs)) => format!("Network({nodes} nodes, {arcs} arcs)"),
            Err(_) => "Network(busy)".into(),
        }
    }
}

impl Network {
    /// The network, if no other call is using it.
    fn lock(&self) -> PyResult<MutexGuard<'_, SharedNetwork>> {
        match self.0.try_lock() {
            Ok(shared) if !shared.is_broken => Ok(shared),
            Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err(
                "the network is being solved: use it after that call has returned, or use another \
                 network",
            )),
            Ok(_) | Err(TryLockError::Poisoned(_)) => Err(PyRuntimeError::new_err(
                "an internal error of the solver has broken this network: build a new one",
            )),
        }
    }

    /// Runs a short operation.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut afflux_flow::Network) -> Result<T, CoreError>,
    ) -> PyResult<T> {
        let mut shared = self.lock()?;
        let outcome = catch_panic(|| work(&mut shared.network));
        shared.finish(outcome)
    }

    /// Runs a solve without the GIL and within limits.
    fn solve_by<T: Send>(
        &self,
        py: Python<'_>,
        monitor: SolveMonitor,
        solve: impl FnOnce(&mut afflux_flow::Network, &Limits<'_>) -> Result<T, CoreError> + Send,
    ) -> PyResult<T> {
        let mut shared = self.lock()?;
        let network = &mut shared.network;
        let (outcome, signal_error) =
            monitor.run(py, |limits| catch_panic(|| solve(network, limits)));
        let answer = shared.finish(outcome);
        signal_error.map_or(answer, Err)
    }
}

impl SharedNetwork {
    /// Converts an outcome for Python; after a panic, the network cannot be used any more.
    fn finish<T>(&mut self, outcome: Outcome<T>) -> PyResult<T> {
        self.is_broken = outcome.is_err();
        to_py_result(outcome)
    }
}

/// Bounds and costs of convex arcs.
struct Convex<'py> {
    lower: Column<'py, i64>,
    capacity: Column<'py, i64>,
    costs: Table<'py, i64>,
}

impl<'py> Convex<'py> {
    fn new(
        lower: &Bound<'py, PyAny>,
        capacity: &Bound<'py, PyAny>,
        costs: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        Ok(Self {
            lower: Column::new("lower", lower)?,
            capacity: Column::new("capacity", capacity)?,
            costs: Table::new("costs", costs)?,
        })
    }

    /// The terms of each arc; their number must be that of another column.
    fn rows(
        &self,
        other: &str,
        count: usize,
    ) -> PyResult<impl ExactSizeIterator<Item = ConvexTerms<'_>> + Clone> {
        let lower = self.lower.values_of_length(other, count)?.iter();
        let capacity = self.capacity.values_of_length(other, count)?.iter();
        let costs = self.costs.rows(other, count)?;
        let rows = lower.zip(capacity).zip(costs);
        Ok(rows.map(|((&lower, &capacity), costs)| ConvexTerms {
            lower,
            capacity,
            costs,
        }))
    }
}

/// Converts a number that must not be negative and must fit.
fn count<T: TryFrom<i64>>(name: &str, value: i64) -> PyResult<T> {
    T::try_from(value).map_err(|_| {
        let expected = if value < 0 { "0 or more" } else { "less" };
        PyValueError::new_err(format!("{name} is {value}, expected {expected}"))
    })
}
