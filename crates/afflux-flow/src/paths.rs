//! Successive shortest paths: the quickest way while there is little to route.
//!
//! Each search goes forwards from one excess to the nearest deficit (Dijkstra over reduced costs)
//! and touches only what lies nearer than that. A single task on thousands of machines is placed
//! by one search; ten thousand tasks are better left to cost scaling, so there is a budget.
//!
//! Ahuja, Magnanti, Orlin: Network Flows (1993), section 9.7.

use crate::heap::RadixHeap;
use crate::limits::Clock;
use crate::residual::Residual;
use crate::stop::{PRICE_LIMIT, Stop};

/// Beyond every distance by which a price could fall.
const UNREACHED: u64 = i64::MAX as u64;

/// Routes all excess if it takes no more looks at entries than `budget`; answers whether it did.
///
/// No residual arc may have a negative reduced cost, and none has afterwards, so that what was
/// routed is optimal for what was routed.
pub(crate) fn route(
    net: &mut Residual,
    mut budget: usize,
    clock: &mut Clock<'_>,
) -> Result<bool, Stop> {
    let mut search = Search::new(net.nodes());
    for source in 0..net.nodes() {
        while net.excess[source] > 0 {
            let Some(rest) = budget.checked_sub(1 + search.looked_at) else {
                return Ok(false);
            };
            budget = rest;
            if clock.expired(1 + search.looked_at) {
                return Err(Stop::Expired);
            }
            let (sink, distance) = search.nearest_deficit(net, source)?;
            search.lower_prices(net, distance)?;
            search.augment(net, source, sink);
        }
    }
    Ok(true)
}

/// The tree of one search, and its memory between searches.
struct Search {
    distance: Vec<u64>,
    /// The entry by which a node was reached.
    entry: Vec<u32>,
    done: Vec<bool>,
    /// Nodes whose distance is set, to be reset.
    reached: Vec<u32>,
    heap: RadixHeap,
    looked_at: usize,
}

impl Search {
    fn new(nodes: usize) -> Self {
        Self {
            distance: vec![UNREACHED; nodes],
            entry: vec![0; nodes],
            done: vec![false; nodes],
            reached: Vec::new(),
            heap: RadixHeap::new(),
            looked_at: 0,
        }
    }

    /// The deficit that is nearest to the source, and how far away it is.
    fn nearest_deficit(&mut self, net: &Residual, source: usize) -> Result<(usize, u64), Stop> {
        for node in self.reached.drain(..) {
            self.distance[node as usize] = UNREACHED;
            self.done[node as usize] = false;
        }
        self.heap.clear();
        self.looked_at = 0;
        self.reach(source, 0, 0);
        // The distance of the nearest deficit seen so far: what is not nearer cannot matter.
        let mut limit = UNREACHED;
        let mut too_far = None;
        while let Some((distance, node)) = self.heap.pop() {
            let tail = node as usize;
            if self.done[tail] {
                continue;
            }
            self.done[tail] = true;
            if net.excess[tail] < 0 {
                return Ok((tail, distance));
            }
            let tail_price = net.price[tail];
            let range = net.range(tail);
            self.looked_at += range.len();
            for index in range {
                let entry = &net.entries[index];
                let head = entry.head as usize;
                if entry.room > 0 {
                    let reduced = entry.cost + tail_price - net.price[head];
                    let longer = distance.saturating_add(reduced as u64);
                    if longer < limit && longer < self.distance[head] {
                        self.reach(head, longer, index as u32);
                        if net.excess[head] < 0 {
                            limit = longer;
                        }
                    } else if longer >= UNREACHED {
                        too_far = Some(head);
                    }
                }
            }
        }
        if let Some(node) = too_far {
            return Err(Stop::Overflow(node));
        }
        // Everything that can be reached has been: no residual arc leaves it.
        Err(Stop::Cut(std::mem::take(&mut self.done)))
    }

    fn reach(&mut self, node: usize, distance: u64, entry: u32) {
        if self.distance[node] == UNREACHED {
            self.reached.push(node as u32);
        }
        self.distance[node] = distance;
        self.entry[node] = entry;
        self.heap.push(distance, node as u32);
    }

    /// Makes the reduced costs on the shortest path zero, and none negative: all nodes that are
    /// nearer than the sink fall by as much as they are nearer.
    fn lower_prices(&self, net: &mut Residual, sink_distance: u64) -> Result<(), Stop> {
        for node in self.reached.iter().map(|&node| node as usize) {
            if self.done[node] {
                let lowered = i64::try_from(sink_distance - self.distance[node])
                    .ok()
                    .and_then(|fall| net.price[node].checked_sub(fall))
                    .filter(|&lowered| lowered >= -PRICE_LIMIT);
                net.price[node] = lowered.ok_or(Stop::Overflow(node))?;
            }
        }
        Ok(())
    }

    /// Sends along the shortest path what its ends and arcs allow.
    fn augment(&self, net: &mut Residual, source: usize, sink: usize) {
        let mut units = net.excess[source].min(-net.excess[sink]);
        let mut node = sink;
        while node != source {
            let entry = &net.entries[self.entry[node] as usize];
            units = units.min(entry.room);
            node = net.entries[entry.mate as usize].head as usize;
        }
        node = sink;
        while node != source {
            let index = self.entry[node] as usize;
            let mate = net.entries[index].mate as usize;
            let tail = net.entries[mate].head as usize;
            net.push(tail, index, units);
            node = tail;
        }
    }
}
