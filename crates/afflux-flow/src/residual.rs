//! The residual network: what can still be pushed, along arcs and back.
//!
//! Lower bounds are gone (a flow x is stored as x - lower, supplies are adjusted), self-loops and
//! arcs whose flow is fixed are left out. Every other arc (v, w) has two entries, one in the list
//! of v and its mate in the list of w. The lists lie one after the other in one array.

use crate::error::FlowError;
use crate::problem::{Arc, Problem};

/// The largest sum of capacities around a node: no excess can overflow.
const EXCESS_LIMIT: i64 = i64::MAX / 4;

/// Marks an arc that has no entry.
const NO_ENTRY: u32 = u32::MAX;

/// One direction of an arc. Half a cache line, so that a scan never waits for two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// The node this direction leads to.
    pub head: u32,
    /// Index of the other direction.
    pub mate: u32,
    /// Scaled cost; the mate has the negated one.
    pub cost: i64,
    /// How much can still be pushed this way: r_f(v, w).
    pub room: i64,
    /// How much can be pushed the other way: r_f(w, v), kept here too so that a search backwards
    /// does not jump to the mates.
    pub back: i64,
}

/// The network with its pseudoflow and prices.
#[derive(Debug)]
pub(crate) struct Residual {
    /// `entries[first[v]..first[v + 1]]` leave node v.
    pub first: Vec<u32>,
    pub entries: Vec<Entry>,
    /// e_f(v): what v has received more than it has sent.
    pub excess: Vec<i64>,
    /// p(v), in scaled costs.
    pub price: Vec<i64>,
    /// The entry of each arc of the problem in its own direction, or [`NO_ENTRY`].
    place: Vec<u32>,
}

impl Residual {
    /// The residual network of the flow that equals the lower bounds, with all prices zero.
    pub fn new(problem: &Problem<'_>) -> Result<Self, FlowError> {
        let nodes = problem.nodes();
        let excess = adjusted_supply(problem)?;
        let most = clamp(problem, &excess);
        check_sums(problem, &excess, most)?;

        let mut first = vec![0_u32; nodes + 1];
        let mut count = 0_usize;
        for arc in problem.arcs().filter(is_free) {
            first[arc.tail] += 1;
            first[arc.head] += 1;
            count += 2;
        }
        // Each list is filled from its end to its beginning, arcs in reverse order.
        let mut sum = 0;
        for start in &mut first {
            sum += *start;
            *start = sum;
        }
        let blank = Entry {
            head: 0,
            mate: 0,
            cost: 0,
            room: 0,
            back: 0,
        };
        let mut entries = vec![blank; count];
        let mut place = vec![NO_ENTRY; problem.arcs().len()];
        let scale = problem.scale();
        for (index, arc) in problem.arcs().enumerate().rev() {
            if !is_free(&arc) {
                continue;
            }
            first[arc.tail] -= 1;
            let there = first[arc.tail];
            first[arc.head] -= 1;
            let back = first[arc.head];
            let room = (arc.capacity - arc.lower).min(most);
            place[index] = there;
            entries[there as usize] = Entry {
                head: arc.head as u32,
                mate: back,
                cost: arc.cost * scale,
                room,
                back: 0,
            };
            entries[back as usize] = Entry {
                head: arc.tail as u32,
                mate: there,
                cost: -arc.cost * scale,
                room: 0,
                back: room,
            };
        }
        Ok(Self {
            first,
            entries,
            excess,
            price: vec![0; nodes],
            place,
        })
    }

    pub fn nodes(&self) -> usize {
        self.price.len()
    }

    /// The entries that leave a node, as indices.
    pub fn range(&self, node: usize) -> std::ops::Range<usize> {
        self.first[node] as usize..self.first[node + 1] as usize
    }

    /// The entries that leave a node.
    pub fn leaving(&self, node: usize) -> &[Entry] {
        &self.entries[self.range(node)]
    }

    /// Moves units along an entry from its tail.
    pub fn push(&mut self, tail: usize, index: usize, units: i64) {
        let entry = &mut self.entries[index];
        entry.room -= units;
        entry.back += units;
        let (head, mate) = (entry.head as usize, entry.mate as usize);
        let entry = &mut self.entries[mate];
        entry.room += units;
        entry.back -= units;
        self.excess[tail] -= units;
        self.excess[head] += units;
    }

    /// Fills every residual arc whose reduced cost is below `level`, at the price of excesses and
    /// deficits.
    pub fn saturate(&mut self, level: i64) {
        for tail in 0..self.nodes() {
            let tail_price = self.price[tail];
            for index in self.range(tail) {
                let entry = &self.entries[index];
                let reduced = entry.cost + tail_price - self.price[entry.head as usize];
                if entry.room > 0 && reduced < level {
                    self.push(tail, index, entry.room);
                }
            }
        }
    }

    /// The flow on the arcs of the problem, lower bounds included.
    pub fn flow(&self, problem: &Problem<'_>) -> Vec<i64> {
        problem
            .arcs()
            .zip(&self.place)
            .map(|(arc, &place)| match place {
                // A self-loop changes no balance, so its cost alone decides.
                NO_ENTRY if arc.cost < 0 => arc.capacity,
                NO_ENTRY => arc.lower,
                _ => arc.lower + self.entries[place as usize].back,
            })
            .collect()
    }
}

/// Whether there is a choice that the rest of the network must know about.
fn is_free(arc: &Arc) -> bool {
    arc.tail != arc.head && arc.lower < arc.capacity
}

/// What each node has left to send once all arcs carry their lower bounds.
fn adjusted_supply(problem: &Problem<'_>) -> Result<Vec<i64>, FlowError> {
    let mut wide: Vec<i128> = problem.supply().iter().map(|&s| i128::from(s)).collect();
    for arc in problem.arcs().filter(|arc| arc.lower > 0) {
        wide[arc.tail] -= i128::from(arc.lower);
        wide[arc.head] += i128::from(arc.lower);
    }
    let narrow = |(node, &sum): (usize, &i128)| match i64::try_from(sum) {
        Ok(value) if value.unsigned_abs() <= EXCESS_LIMIT.unsigned_abs() => Ok(value),
        _ => Err(FlowError::CapacityOverflow {
            node,
            sum: sum.abs(),
            limit: EXCESS_LIMIT,
        }),
    };
    wide.iter().enumerate().map(narrow).collect()
}

/// A capacity that is as good as none: larger by one than all supply together with all flow that
/// negative arcs can attract.
///
/// A flow splits into paths from supply to demand and cycles. Paths and cycles with a negative arc
/// carry less than this together, so an optimal flow that fills an arc up to the clamp has a cycle
/// of arcs that cost nothing less than zero through it. Their reduced costs are at most zero and
/// add up to the cycle's cost, so all are zero: the prices prove the answer without the clamp too.
fn clamp(problem: &Problem<'_>, excess: &[i64]) -> i64 {
    let supply: i128 = excess.iter().map(|&e| i128::from(e.max(0))).sum();
    let attracted: i128 = problem
        .arcs()
        .filter(|arc| arc.cost < 0 && is_free(arc))
        .map(|arc| i128::from(arc.capacity - arc.lower))
        .sum();
    i64::try_from(supply + attracted + 1).unwrap_or(i64::MAX)
}

/// Makes sure that no excess can overflow, whatever is pushed.
fn check_sums(problem: &Problem<'_>, excess: &[i64], most: i64) -> Result<(), FlowError> {
    let largest = excess.iter().map(|e| e.abs()).max().unwrap_or(0);
    let at_most = i128::from(most) * problem.arcs().len() as i128 + i128::from(largest);
    if at_most <= i128::from(EXCESS_LIMIT) {
        return Ok(());
    }
    let mut sums: Vec<i128> = excess.iter().map(|&e| i128::from(e).abs()).collect();
    for arc in problem.arcs().filter(is_free) {
        let room = i128::from((arc.capacity - arc.lower).min(most));
        sums[arc.tail] += room;
        sums[arc.head] += room;
    }
    match sums.iter().position(|&sum| sum > i128::from(EXCESS_LIMIT)) {
        Some(node) => Err(FlowError::CapacityOverflow {
            node,
            sum: sums[node],
            limit: EXCESS_LIMIT,
        }),
        None => Ok(()),
    }
}
