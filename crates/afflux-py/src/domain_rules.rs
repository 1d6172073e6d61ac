//! Topologies, counters and rules of an account, from columns of Python.

use std::collections::HashMap;

use afflux_account::{Class, Domains, Rule, Topology};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::packing::inconsistent;

/// By machine the number of its domain, -1 for none; and whether tasks count on the machine.
type TopologyColumns<'py> = (
    PyReadonlyArray1<'py, i32>,
    Option<PyReadonlyArray1<'py, bool>>,
);

/// A topology, domains of it, and the tasks counted in each so far.
type CounterColumns<'py> = (
    usize,
    PyReadonlyArray1<'py, i32>,
    PyReadonlyArray1<'py, i64>,
);

/// A rule: its kind, its counters, the maximum skew, the minimum of domains, and a flag (for
/// `near`, whether the first task may start; for `spread`, whether the task counts itself).
type RuleArgument = (String, Vec<usize>, i64, usize, bool);

/// The topologies, the counters, and by class its rules and the counters that count it.
pub(crate) type DomainColumns<'py> = (
    Vec<TopologyColumns<'py>>,
    Vec<CounterColumns<'py>>,
    Vec<(Vec<RuleArgument>, Vec<usize>)>,
);

/// The part of the account that counts tasks in domains; the classes get their rules.
pub(crate) fn domains_of(
    (topologies, counters, rules): DomainColumns<'_>,
    classes: &mut [Class],
    machines: usize,
) -> PyResult<Domains> {
    if rules.len() != classes.len() {
        return Err(inconsistent());
    }
    let topologies: Vec<Topology> = topologies
        .iter()
        .map(|columns| topology_of(columns, machines))
        .collect::<PyResult<_>>()?;
    let known = topologies.len();
    let mut domains = Domains::new(topologies);
    for (topology, of, counts) in &counters {
        let (of, counts) = (of.as_slice()?, counts.as_slice()?);
        if *topology >= known || of.len() != counts.len() || of.iter().any(|&domain| domain < 0) {
            return Err(inconsistent());
        }
        let start: HashMap<u32, i64> = of
            .iter()
            .map(|&domain| domain as u32)
            .zip(counts.iter().copied())
            .collect();
        let start: Vec<(u32, i64)> = start.into_iter().collect();
        domains.add_counter(*topology, &start);
    }
    for (class, (rules, counted_by)) in classes.iter_mut().zip(rules) {
        class.rules = rules.into_iter().map(rule_of).collect::<PyResult<_>>()?;
        class.counted_by = counted_by;
        let named = class.rules.iter().flat_map(Rule::counters);
        if named
            .chain(&class.counted_by)
            .any(|&counter| counter >= counters.len())
        {
            return Err(inconsistent());
        }
    }
    Ok(domains)
}

fn topology_of((domain, counted): &TopologyColumns<'_>, machines: usize) -> PyResult<Topology> {
    let domain = domain.as_slice()?;
    let counted = match counted {
        Some(column) => column.as_slice()?.to_vec(),
        None => Vec::new(),
    };
    if domain.len() != machines || !(counted.is_empty() || counted.len() == machines) {
        return Err(inconsistent());
    }
    let of = domain.iter().map(|&domain| u32::try_from(domain).ok());
    Ok(Topology::new(of.collect(), counted))
}

fn rule_of((kind, counters, max_skew, min_domains, flag): RuleArgument) -> PyResult<Rule> {
    match (kind.as_str(), counters.as_slice()) {
        ("near", [_, ..]) => Ok(Rule::Near {
            counters,
            or_first: flag,
        }),
        ("apart", &[counter]) => Ok(Rule::Apart { counter }),
        ("spread", &[counter]) => Ok(Rule::Spread {
            counter,
            max_skew,
            min_domains,
            counts_itself: flag,
        }),
        _ => Err(PyValueError::new_err(format!(
            "rule {kind:?} with {} counters; expected near, or apart or spread with one counter",
            counters.len()
        ))),
    }
}
