//! The part that counts tasks in domains, for the constraints between tasks.
//!
//! A topology key, such as the zone, divides the machines into domains. A counter counts tasks in
//! each of them: those that a selector selects, or those that have a certain anti-affinity term.
//! The account need not know which. A class names the counters that grow when one of its units is
//! placed, and the rules about counters that a machine has to meet.
//!
//! Only domains with counted tasks take memory: a selector that selects no task costs nothing per
//! machine. A rule costs one lookup; a spread rule keeps its minimum in a histogram of the counts.

use crate::account::Class;
use crate::domain_counters::{Counter, Topology};
use crate::resources::UNLIMITED;

/// A rule of a class about the domain of the machine on which a unit is placed. The unit itself
/// does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Required affinity: every one of the counters counts a task in the machine's domain. A
    /// machine without one of the keys is refused.
    ///
    /// All affinity terms of a task are one rule, because Kubernetes judges them together: each
    /// counter counts the tasks that match all terms, and the exception needs all counters.
    Near {
        /// One for each term.
        counters: Vec<usize>,
        /// The task matches its own terms: it is also admitted while no counter counts a task in
        /// any domain, so that the first task of a group that attracts itself can start.
        or_first: bool,
    },
    /// Required anti-affinity, of the task or of others against it: the counter counts no task in
    /// the machine's domain. A machine without the key is admitted.
    Apart {
        /// The repelled, or the repelling tasks.
        counter: usize,
    },
    /// Topology spread: with the unit, the domain has at most `max_skew` tasks more than the domain
    /// with the fewest. A machine without the key is refused.
    ///
    /// Which domains count is decided by [`Topology::counted_on`].
    Spread {
        /// The selected tasks.
        counter: usize,
        /// The maximum difference.
        max_skew: i64,
        /// With fewer domains than this, the fewest tasks in a domain are taken as zero.
        min_domains: usize,
        /// Whether the unit is itself one of the selected tasks.
        counts_itself: bool,
    },
}

impl Rule {
    /// The counters that it looks at.
    #[must_use]
    pub fn counters(&self) -> &[usize] {
        match self {
            Self::Near { counters, .. } => counters,
            Self::Apart { counter } | Self::Spread { counter, .. } => std::slice::from_ref(counter),
        }
    }
}

/// The topology keys of the machines, and the counters.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    topologies: Vec<Topology>,
    counters: Vec<Counter>,
}

impl Domains {
    /// No counters yet.
    #[must_use]
    pub fn new(topologies: Vec<Topology>) -> Self {
        Self {
            topologies,
            counters: Vec::new(),
        }
    }

    /// Adds a counter for this topology with the tasks counted so far, as different domains and
    /// numbers; returns its number. Only tasks on machines that count are to be given.
    pub fn add_counter(&mut self, topology: usize, start: &[(u32, i64)]) -> usize {
        self.counters.push(Counter::new(topology, start));
        self.counters.len() - 1
    }

    /// The number of counters.
    #[must_use]
    pub fn counters(&self) -> usize {
        self.counters.len()
    }

    /// The domain of a machine for a counter; none if the machine does not have the key.
    #[must_use]
    pub fn domain(&self, counter: usize, machine: usize) -> Option<u32> {
        self.topologies[self.counters[counter].topology].domain_of[machine]
    }

    /// The domain in which a task on this machine counts for a counter.
    pub(crate) fn counted_domain(&self, counter: usize, machine: usize) -> Option<u32> {
        self.topologies[self.counters[counter].topology].counted(machine)
    }

    /// The number of counted tasks in all domains.
    #[must_use]
    pub fn total(&self, counter: usize) -> i64 {
        self.counters[counter].total
    }

    /// The domains of a machine that matter to a class: those of the counters that its rules name
    /// and of those that count it.
    #[must_use]
    pub fn of_class(&self, class: &Class, machine: usize) -> Vec<Option<u32>> {
        let named = class.rules.iter().flat_map(Rule::counters);
        let counters = named.chain(&class.counted_by);
        counters
            .map(|&counter| self.domain(counter, machine))
            .collect()
    }

    /// The number of counted tasks in a domain.
    #[must_use]
    pub fn count(&self, counter: usize, domain: u32) -> i64 {
        self.counters[counter].count(domain)
    }

    /// Prepares the counters of spread rules. Rules may be asked only after that.
    pub(crate) fn prepare(&mut self, rules: &[Rule]) {
        for rule in rules {
            let &Rule::Spread { counter, .. } = rule else {
                continue;
            };
            let counter = &mut self.counters[counter];
            counter.prepare(self.topologies[counter.topology].domains);
        }
    }

    /// Whether the machine meets a rule.
    #[must_use]
    pub fn fits(&self, rule: &Rule, machine: usize) -> bool {
        self.fits_with(rule, machine, |_| 0)
    }

    /// Whether the machine meets a rule of a unit that is on it already: the unit is taken out, and
    /// judged with everything else in place. `counted_by` are the counters that count it.
    #[must_use]
    pub fn fits_in_place(&self, rule: &Rule, counted_by: &[usize], machine: usize) -> bool {
        self.fits_with(rule, machine, |counter| {
            -self.growth(counter, counted_by, machine)
        })
    }

    /// Whether the machine meets all of these rules.
    ///
    /// Not inlined, like [`Self::take`]: most classes have no rules, and pay less for that.
    #[inline(never)]
    pub(crate) fn fits_all(&self, rules: &[Rule], machine: usize) -> bool {
        rules.iter().all(|rule| self.fits(rule, machine))
    }

    /// Whether the machine meets a rule if each counter counted `more` tasks on it.
    ///
    /// On a machine where a counter does not count, `more` has to be zero.
    pub(crate) fn fits_with(
        &self,
        rule: &Rule,
        machine: usize,
        more: impl Fn(usize) -> i64,
    ) -> bool {
        match *rule {
            Rule::Near {
                ref counters,
                or_first,
            } => {
                let (mut is_near, mut is_first) = (true, or_first);
                for &counter in counters {
                    let Some(domain) = self.domain(counter, machine) else {
                        return false;
                    };
                    let more = more(counter);
                    is_near &= self.count(counter, domain) + more > 0;
                    is_first &= self.counters[counter].total + more == 0;
                }
                is_near || is_first
            }
            Rule::Apart { counter } => self
                .domain(counter, machine)
                .is_none_or(|domain| self.count(counter, domain) + more(counter) == 0),
            Rule::Spread { counter, .. } => {
                let Some(domain) = self.domain(counter, machine) else {
                    return false;
                };
                self.skew_fits(rule, domain, more(counter))
            }
        }
    }

    /// Whether one more unit in the domain would meet a spread rule, if `more` tasks were counted
    /// there; other rules are met.
    pub(crate) fn skew_fits(&self, rule: &Rule, domain: u32, more: i64) -> bool {
        let &Rule::Spread {
            counter,
            max_skew,
            min_domains,
            counts_itself,
        } = rule
        else {
            return true;
        };
        let count = self.count(counter, domain);
        let there = count + more;
        let counter = &self.counters[counter];
        let fewest = if self.topologies[counter.topology].domains < min_domains {
            0
        } else if more == 0 {
            counter.fewest().unwrap_or(0)
        } else {
            let elsewhere = counter.fewest_elsewhere(count);
            elsewhere.map_or(there, |fewest| fewest.min(there))
        };
        there + i64::from(counts_itself) - fewest <= max_skew
    }

    /// How many more tasks may be counted in the domain such that one more unit meets a spread
    /// rule; negative if there are too many.
    pub(crate) fn units_within_skew(&self, rule: &Rule, domain: u32) -> i64 {
        let &Rule::Spread {
            counter,
            max_skew,
            min_domains,
            counts_itself,
        } = rule
        else {
            return UNLIMITED;
        };
        let counter = &self.counters[counter];
        let count = counter.count(domain);
        let fewest = match self.topologies[counter.topology].domains < min_domains {
            true => Some(0),
            false => counter.fewest_elsewhere(count),
        };
        // While the domain itself has the fewest tasks, another unit does not change the skew.
        fewest.map_or(UNLIMITED, |fewest| {
            max_skew - i64::from(counts_itself) + fewest - count
        })
    }

    /// How many units of a class with these rules and counters fit one after the other.
    #[must_use]
    pub fn room(&self, rules: &[Rule], counted_by: &[usize], machine: usize) -> i64 {
        // Each rule depends on nothing but the number of units placed so far.
        let rooms = rules
            .iter()
            .map(|rule| self.room_of_rule(rule, counted_by, machine));
        rooms.min().unwrap_or(UNLIMITED)
    }

    fn room_of_rule(&self, rule: &Rule, counted_by: &[usize], machine: usize) -> i64 {
        let growth = |counter| self.growth(counter, counted_by, machine);
        if !self.fits(rule, machine) {
            return 0;
        }
        match *rule {
            // More than one unit changes nothing more.
            Rule::Near { .. } if self.fits_with(rule, machine, growth) => UNLIMITED,
            Rule::Near { .. } => 1,
            Rule::Apart { counter } if growth(counter) == 0 => UNLIMITED,
            Rule::Apart { .. } => 1,
            Rule::Spread { counter, .. } => {
                let each = growth(counter);
                let Some(domain) = self.domain(counter, machine).filter(|_| each > 0) else {
                    return UNLIMITED;
                };
                let left = self.units_within_skew(rule, domain);
                (left / each + 1).min(UNLIMITED)
            }
        }
    }

    /// Counts `units` more units of a class on a machine, or fewer if the number is negative.
    #[inline(never)]
    pub(crate) fn take(&mut self, counted_by: &[usize], machine: usize, units: i64) {
        for &counter in counted_by {
            let counter = &mut self.counters[counter];
            if let Some(domain) = self.topologies[counter.topology].counted(machine) {
                counter.add(domain, units);
            }
        }
    }

    /// By how much a counter grows with each unit of a class on a machine. `counted_by` is
    /// ascending: a class may be counted by thousands.
    pub(crate) fn growth(&self, counter: usize, counted_by: &[usize], machine: usize) -> i64 {
        let topology = &self.topologies[self.counters[counter].topology];
        match topology.counted(machine) {
            Some(_) => {
                let first = counted_by.partition_point(|&grown| grown < counter);
                let same = counted_by[first..].iter();
                same.take_while(|&&grown| grown == counter).count() as i64
            }
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Machines 0 and 1 are in zone 0, machine 2 in zone 1, machine 3 in no zone.
    fn zones() -> Topology {
        Topology::new(vec![Some(0), Some(0), Some(1), None], Vec::new())
    }

    fn counted(topology: Topology, start: &[(u32, i64)], rule: &Rule) -> Domains {
        let mut domains = Domains::new(vec![topology]);
        assert_eq!(domains.add_counter(0, start), 0);
        domains.prepare(std::slice::from_ref(rule));
        domains
    }

    fn fits(domains: &Domains, rule: &Rule) -> Vec<bool> {
        (0..4).map(|machine| domains.fits(rule, machine)).collect()
    }

    fn near(or_first: bool) -> Rule {
        Rule::Near {
            counters: vec![0],
            or_first,
        }
    }

    fn spread(max_skew: i64, min_domains: usize) -> Rule {
        Rule::Spread {
            counter: 0,
            max_skew,
            min_domains,
            counts_itself: true,
        }
    }

    #[test]
    fn affinity_needs_a_task_in_the_domain() {
        let domains = counted(zones(), &[(1, 2)], &near(true));
        assert_eq!(fits(&domains, &near(true)), [false, false, true, false]);
        assert_eq!(domains.room(&[near(true)], &[0], 2), UNLIMITED);
    }

    #[test]
    fn the_first_task_of_a_group_that_attracts_itself_needs_only_the_key() {
        let mut domains = counted(zones(), &[], &near(true));
        assert_eq!(fits(&domains, &near(true)), [true, true, true, false]);
        assert_eq!(fits(&domains, &near(false)), [false; 4]);
        assert_eq!(domains.room(&[near(true)], &[0], 0), UNLIMITED);
        domains.take(&[0], 0, 1);
        assert_eq!(fits(&domains, &near(true)), [true, true, false, false]);
        domains.take(&[0], 0, -1);
        assert_eq!(fits(&domains, &near(true)), [true, true, true, false]);
    }

    #[test]
    fn no_task_is_the_first_where_one_of_several_terms_counts_a_task() {
        // The tasks that match all terms run on machine 3, which has a host name but no zone.
        let hosts = Topology::new((0..4).map(Some).collect(), Vec::new());
        let mut domains = Domains::new(vec![zones(), hosts]);
        let counters = vec![
            domains.add_counter(0, &[]),
            domains.add_counter(1, &[(3, 1)]),
        ];
        let rule = Rule::Near {
            counters,
            or_first: true,
        };
        assert_eq!(fits(&domains, &rule), [false; 4]);
    }

    #[test]
    fn anti_affinity_refuses_the_domains_of_counted_tasks_only() {
        let rule = Rule::Apart { counter: 0 };
        let domains = counted(zones(), &[(0, 1)], &rule);
        assert_eq!(fits(&domains, &rule), [false, false, true, true]);
        let rules = [rule];
        assert_eq!(domains.room(&rules, &[0], 2), 1);
        assert_eq!(domains.room(&rules, &[], 2), UNLIMITED);
        // A machine without the key is not counted, so that it never repels.
        assert_eq!(domains.room(&rules, &[0], 3), UNLIMITED);
    }

    #[test]
    fn the_skew_is_taken_to_the_emptiest_domain() {
        let mut domains = counted(zones(), &[(0, 3), (1, 2)], &spread(2, 1));
        assert_eq!(fits(&domains, &spread(2, 1)), [true, true, true, false]);
        assert_eq!(fits(&domains, &spread(1, 1)), [false, false, true, false]);
        assert_eq!(domains.room(&[spread(2, 1)], &[0], 0), 1);
        assert_eq!(domains.room(&[spread(2, 1)], &[0], 2), 3);
        domains.take(&[0], 0, 1);
        assert_eq!(fits(&domains, &spread(2, 1)), [false, false, true, false]);
        domains.take(&[0], 2, 1);
        assert_eq!(fits(&domains, &spread(2, 1)), [true, true, true, false]);
    }

    #[test]
    fn the_emptiest_domain_counts_as_empty_where_there_are_too_few_domains() {
        let domains = counted(zones(), &[(0, 3), (1, 2)], &spread(2, 3));
        assert_eq!(fits(&domains, &spread(2, 3)), [false; 4]);
        assert_eq!(domains.room(&[spread(5, 3)], &[0], 0), 2);
    }

    #[test]
    fn a_single_domain_has_no_skew() {
        let one = Topology::new(vec![Some(7); 4], Vec::new());
        let mut domains = counted(one, &[(7, 100)], &spread(1, 1));
        assert_eq!(domains.room(&[spread(1, 1)], &[0], 0), UNLIMITED);
        domains.take(&[0], 0, 1);
        assert_eq!(fits(&domains, &spread(1, 1)), [true; 4]);
    }

    #[test]
    fn tasks_do_not_count_on_machines_that_the_constraint_leaves_out() {
        let first_zone = Topology::new(
            vec![Some(0), Some(0), Some(1), None],
            vec![true, false, false, true],
        );
        let mut domains = counted(first_zone, &[], &spread(1, 1));
        domains.take(&[0], 1, 5);
        domains.take(&[0], 2, 5);
        assert_eq!((domains.count(0, 0), domains.count(0, 1)), (0, 0));
        // Zone 1 is not a domain of the constraint, so that zone 0 is the emptiest one.
        domains.take(&[0], 0, 5);
        assert_eq!(fits(&domains, &spread(1, 1)), [true, true, true, false]);
        assert_eq!(fits(&domains, &spread(1, 2)), [false, false, true, false]);
    }
}
