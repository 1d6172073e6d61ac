//! Topology keys, and counters of tasks in their domains.
//!
//! Only domains with counted tasks take memory. A histogram of the counts has the fewest tasks of a
//! domain.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// A topology key: the domain of every machine, and the machines on which tasks count.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// By machine; none for a machine without the key.
    pub domain_of: Vec<Option<u32>>,
    /// By machine; empty if tasks count on every machine. Kubernetes counts for a spread constraint
    /// only tasks on nodes that match the pod's node affinity, whose taints it tolerates, and that
    /// have the keys of its other constraints.
    pub counted_on: Vec<bool>,
    /// The number of domains with a machine on which tasks count. An account that leaves machines
    /// out has to add those of their domains that it does not have.
    pub domains: usize,
}

impl Topology {
    /// The topology of the machines of an account; `counted_on` may be empty.
    #[must_use]
    pub fn new(domain_of: Vec<Option<u32>>, counted_on: Vec<bool>) -> Self {
        let mut topology = Self {
            domain_of,
            counted_on,
            domains: 0,
        };
        let machines = 0..topology.domain_of.len();
        let mut counted: Vec<u32> = machines.filter_map(|m| topology.counted(m)).collect();
        counted.sort_unstable();
        counted.dedup();
        topology.domains = counted.len();
        topology
    }

    /// The domain in which a task on this machine counts.
    pub(crate) fn counted(&self, machine: usize) -> Option<u32> {
        let counts = self.counted_on.is_empty() || self.counted_on[machine];
        self.domain_of[machine].filter(|_| counts)
    }
}

/// The counted tasks of every domain that has one.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub(crate) topology: usize,
    counts: HashMap<u32, i64, BuildHasherDefault<DomainHasher>>,
    pub(crate) total: i64,
    /// How many domains have which count; only for counters of spread rules.
    histogram: Option<BTreeMap<i64, usize>>,
}

impl Counter {
    /// `start` has the tasks counted so far, as different domains and numbers.
    pub(crate) fn new(topology: usize, start: &[(u32, i64)]) -> Self {
        let counts = start.iter().copied().filter(|&(_, tasks)| tasks != 0);
        Self {
            topology,
            counts: counts.collect(),
            total: start.iter().map(|&(_, tasks)| tasks).sum(),
            histogram: None,
        }
    }

    /// From now on the fewest tasks of a domain are known; `domains` is the number of domains.
    pub(crate) fn prepare(&mut self, domains: usize) {
        if self.histogram.is_some() {
            return;
        }
        let mut histogram = BTreeMap::new();
        for &count in self.counts.values() {
            *histogram.entry(count).or_default() += 1;
        }
        if domains > self.counts.len() {
            histogram.insert(0, domains - self.counts.len());
        }
        self.histogram = Some(histogram);
    }

    pub(crate) fn count(&self, domain: u32) -> i64 {
        self.counts.get(&domain).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, domain: u32, tasks: i64) {
        let before = self.count(domain);
        let after = before + tasks;
        match after {
            0 => self.counts.remove(&domain),
            _ => self.counts.insert(domain, after),
        };
        self.total += tasks;
        if let Some(histogram) = &mut self.histogram {
            if let Some(domains) = histogram.get_mut(&before) {
                *domains -= 1;
                if *domains == 0 {
                    histogram.remove(&before);
                }
            }
            *histogram.entry(after).or_default() += 1;
        }
    }

    /// The fewest tasks in a domain.
    pub(crate) fn fewest(&self) -> Option<i64> {
        self.histogram.as_ref()?.keys().next().copied()
    }

    /// The fewest tasks in a domain other than one that has `count`; none if there is no other.
    pub(crate) fn fewest_elsewhere(&self, count: i64) -> Option<i64> {
        let mut counts = self.histogram.as_ref()?.iter();
        match counts.next() {
            Some((&fewest, &1)) if fewest == count => counts.next().map(|(&next, _)| next),
            first => first.map(|(&fewest, _)| fewest),
        }
    }
}

/// Domains are numbers without gaps, chosen by the scheduler: a multiplication spreads them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DomainHasher(u64);

impl Hasher for DomainHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
