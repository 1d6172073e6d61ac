//! Successive shortest paths: the fastest method while there is little excess to route.
//!
//! A search (Dijkstra over reduced costs) goes from a node with excess to the nearest deficits and
//! visits only nodes that are nearer; of a hub it scans only the entries that lead no farther. Then
//! prices fall so that arcs on the paths have reduced cost zero. Other sources may have a path of
//! zero reduced cost then, which is searched first, depth first and with a memory of dead ends.
//!
//! One search places a single task on thousands of machines. Where thousands of tasks compete for
//! the same machines, each search crosses the same plateau of equal prices again; so there is a
//! budget, after which cost scaling takes over.
//!
//! Ahuja, Magnanti, Orlin: Network Flows (1993), section 9.7.

use crate::arc_columns::IntWidth;
use crate::deadline::Deadline;
use crate::hub_entries::{HUB_ENTRIES, HubEntries};
use crate::radix_heap::RadixHeap;
use crate::residual::Residual;
use crate::stop_reason::{PRICE_LIMIT, StopReason};

/// Larger than any distance by which a price can fall.
const UNREACHED: u64 = i64::MAX as u64;

/// The number of entries of a hub that a search scans at a time.
const HUB_BATCH: usize = 4;

/// Reaching a node costs as much as scanning this many entries, because it goes through the heap.
const REACH_COST: usize = 24;

/// When less than one part in `ALMOST_DONE_PART` of the units is left, the budget is multiplied by
/// `BUDGET_EXTENSION`, once.
const ALMOST_DONE_PART: i128 = 8;
const BUDGET_EXTENSION: usize = 3;

/// Routes all excess if that takes about `budget` scanned entries at most; returns whether it did.
///
/// No residual arc may have a negative reduced cost, before or afterwards, so the flow routed so
/// far is always optimal.
pub(crate) fn route<W: IntWidth>(
    net: &mut Residual<W>,
    budget: usize,
    deadline: &mut Deadline<'_>,
) -> Result<bool, StopReason> {
    let mut paths = PathSearch::new(net.nodes());
    let (mut budget, mut was_extended) = (budget, false);
    let units = net.units();
    let has_excess = |&node: &usize| net.excess[node] > 0;
    let mut sources: Vec<usize> = (0..net.nodes()).filter(has_excess).collect();
    // Hubs come last: they have alternatives when near deficits are taken, and nodes with few
    // entries do not.
    sources.sort_by_key(|&source| net.range(source).len());
    for source in sources {
        while net.excess[source] > 0 {
            let before = paths.scanned;
            if paths.find_zero_cost_path(net, source) {
                paths.augment(net);
            } else {
                paths.route_nearest(net, source)?;
            }
            if paths.scanned > budget {
                // With little left, continuing is cheaper than cost scaling, which starts anew.
                if was_extended || ALMOST_DONE_PART * net.units() > units {
                    return Ok(false);
                }
                (budget, was_extended) = (budget.saturating_mul(BUDGET_EXTENSION), true);
            }
            if deadline.is_expired(1 + paths.scanned - before) {
                return Err(StopReason::Expired);
            }
        }
    }
    Ok(true)
}

/// The searches and the memory that they share.
struct PathSearch {
    /// The number of entries scanned so far.
    scanned: usize,
    hubs: HubEntries,
    /// By node, the position up to which its entries have been scanned.
    cursor: Vec<u32>,
    /// The entries of the path found last.
    path: Vec<u32>,

    // For the search for a path of zero reduced cost.
    mark: Vec<NodeMark>,
    /// The nodes that it has visited.
    seen: Vec<u32>,

    // For the search for the nearest deficits.
    distance: Vec<u64>,
    /// By node, the entry by which it was reached.
    by: Vec<u32>,
    done: Vec<bool>,
    /// Nodes whose distance must be reset after the search.
    reached: Vec<u32>,
    heap: RadixHeap<(u64, QueueItem)>,
}

/// An item in the queue of a search.
#[derive(Clone, Copy)]
enum QueueItem {
    /// Scan the entries of a node.
    Node(u32),
    /// Follow an entry to a deficit.
    Deficit(u32),
}

/// The state of a node in the search for a path of zero reduced cost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeMark {
    New,
    /// It is or was on the path.
    Seen,
    /// No deficit could be reached from it at zero reduced cost when that was tried.
    Dead,
}

/// The state of a search for the nearest deficits.
struct Search {
    /// The remaining excess of the source.
    units: i64,
    /// Nodes at this distance or farther need not be visited.
    limit: u64,
    /// A node whose distance does not fit 64 bits. Only valid if nothing was sent: sending opens
    /// entries against the order of distances.
    overflow_node: Option<usize>,
}

impl PathSearch {
    fn new(nodes: usize) -> Self {
        Self {
            scanned: 0,
            hubs: HubEntries::new(nodes),
            cursor: vec![0; nodes],
            path: Vec::new(),
            mark: vec![NodeMark::New; nodes],
            seen: Vec::new(),
            distance: vec![UNREACHED; nodes],
            by: vec![0; nodes],
            done: vec![false; nodes],
            reached: Vec::new(),
            heap: RadixHeap::new(),
        }
    }

    /// Finds a path of arcs with zero reduced cost from a node to a deficit, depth first.
    fn find_zero_cost_path<W: IntWidth>(&mut self, net: &Residual<W>, source: usize) -> bool {
        if self.mark[source] == NodeMark::Dead {
            return false;
        }
        self.path.clear();
        self.seen.clear();
        self.mark_seen(source);
        let mut node = source;
        loop {
            if net.excess[node] < 0 {
                // Visited nodes off the path may lead to this deficit later, so they are new again.
                for &other in &self.seen {
                    self.mark[other as usize] = NodeMark::New;
                }
                return true;
            }
            if let Some(index) = self.next_zero_cost_entry(net, node) {
                self.path.push(index);
                node = net.entries[index as usize].head as usize;
                self.mark_seen(node);
                continue;
            }
            let Some(index) = self.path.pop() else {
                // No visited node leads to a deficit.
                for &other in &self.seen {
                    self.mark[other as usize] = NodeMark::Dead;
                    self.cursor[other as usize] = 0;
                }
                return false;
            };
            node = net.tail(index as usize);
        }
    }

    fn mark_seen(&mut self, node: usize) {
        self.mark[node] = NodeMark::Seen;
        self.seen.push(node as u32);
    }

    /// The next entry of a node that has zero reduced cost and leads to a new node.
    fn next_zero_cost_entry<W: IntWidth>(&mut self, net: &Residual<W>, tail: usize) -> Option<u32> {
        let start = self.cursor[tail] as usize;
        let price = net.price[tail];
        let mark = &self.mark;
        let is_usable = |index: usize| {
            let entry = &net.entries[index];
            let head = entry.head as usize;
            net.is_open(index)
                && net.cost(entry) + price == net.price[head]
                && mark[head] == NodeMark::New
        };
        let range = net.range(tail);
        let (position, found) = if range.len() <= HUB_ENTRIES {
            let mut rest = net.open_from(tail, start);
            let found = rest.find(|&index| is_usable(index));
            (found.unwrap_or(range.end) - range.start, found)
        } else {
            self.hubs.sort(net, tail, start == 0);
            let list = self.hubs.list(tail);
            let cheap = list[start.min(list.len())..]
                .iter()
                .take_while(|sorted| sorted.key + price <= 0);
            let mut position = start;
            let mut found = None;
            for sorted in cheap {
                if is_usable(sorted.index as usize) {
                    found = Some(sorted.index as usize);
                    break;
                }
                position += 1;
            }
            (position, found)
        };
        self.scanned += 1 + position - start;
        self.cursor[tail] = position as u32;
        found.map(|index| index as u32)
    }

    /// Sends as much along the path as its ends and arcs allow; returns how much.
    fn augment<W: IntWidth>(&mut self, net: &mut Residual<W>) -> i64 {
        let Some((&first, &last)) = self.path.first().zip(self.path.last()) else {
            return 0;
        };
        let source = net.tail(first as usize);
        let sink = net.entries[last as usize].head as usize;
        let ends = net.excess[source].min(-net.excess[sink]);
        let residual_capacities = self
            .path
            .iter()
            .map(|&index| net.residual_capacity(index as usize));
        let units = residual_capacities.fold(ends, i64::min);
        if units == 0 {
            return 0;
        }
        for &index in &self.path {
            let head = net.entries[index as usize].head as usize;
            let reverse = net.reverse(index as usize);
            let was_open = net.is_open(reverse);
            net.push(net.tail(index as usize), index as usize, units);
            if !was_open {
                self.hubs.insert(net, head, reverse);
            }
        }
        units
    }

    /// Sends units from a source to the nearest deficits, one after the other, and lowers prices so
    /// that the arcs of the paths have zero reduced cost.
    fn route_nearest<W: IntWidth>(
        &mut self,
        net: &mut Residual<W>,
        source: usize,
    ) -> Result<(), StopReason> {
        self.heap.clear();
        self.reach(source, 0, 0);
        let mut search = Search {
            units: net.excess[source],
            limit: UNREACHED,
            overflow_node: None,
        };
        // The distance of the last deficit that received units.
        let mut end = None;
        while let Some((distance, step)) = self.heap.pop(|(key, _)| Some(key)) {
            match step {
                QueueItem::Node(node) => self.scan_node(net, node as usize, &mut search),
                QueueItem::Deficit(index) => {
                    let continues = self.reach_deficit(net, source, index, distance);
                    if net.excess[source] < search.units {
                        (search.units, end) = (net.excess[source], Some(distance));
                    }
                    if !continues {
                        break;
                    }
                }
            }
        }
        let end = end.ok_or_else(|| match search.overflow_node {
            Some(node) => StopReason::Overflow(node),
            None => StopReason::Cut(net.reachable([source])),
        })?;
        self.lower_prices(net, end)?;
        for node in self.reached.drain(..) {
            self.distance[node as usize] = UNREACHED;
            self.done[node as usize] = false;
            self.cursor[node as usize] = 0;
        }
        Ok(())
    }

    /// Sends units along the path to a deficit that ends with this entry; returns whether the
    /// search can continue to other deficits.
    ///
    /// Afterwards the price of each node falls by its distance from the last deficit. This is valid
    /// only if every shorter way into an earlier deficit is saturated. So the search continues if
    /// this entry is saturated or its deficit is filled; if another arc of the path is saturated,
    /// the search ends.
    fn reach_deficit<W: IntWidth>(
        &mut self,
        net: &mut Residual<W>,
        source: usize,
        index: u32,
        distance: u64,
    ) -> bool {
        let last = index as usize;
        let head = net.entries[last].head as usize;
        if !net.is_open(last) {
            return true;
        }
        if net.excess[head] < 0 {
            self.path.clear();
            self.path.push(index);
            let mut node = net.tail(last);
            while node != source {
                self.path.push(self.by[node]);
                node = net.tail(self.by[node] as usize);
            }
            self.path.reverse();
            if self.augment(net) == 0 || net.excess[source] == 0 {
                return false;
            }
            if net.excess[head] < 0 {
                return !net.is_open(last);
            }
        }
        // The deficit is filled: from now on the node is an ordinary node.
        if net.is_open(last) && distance < self.distance[head] {
            self.reach(head, distance, index);
        }
        true
    }

    /// Scans the entries of a node; of a hub, the next few.
    fn scan_node<W: IntWidth>(&mut self, net: &Residual<W>, tail: usize, search: &mut Search) {
        let is_first = !self.done[tail];
        self.done[tail] = true;
        if net.range(tail).len() > HUB_ENTRIES {
            self.scan_hub_batch(net, tail, search);
        } else if is_first {
            for index in net.open(tail) {
                self.scanned += 1;
                self.scan_entry(net, tail, index, search);
            }
        }
    }

    fn reach(&mut self, node: usize, distance: u64, by: u32) {
        if self.distance[node] == UNREACHED {
            self.reached.push(node as u32);
            self.cursor[node] = 0;
        }
        self.distance[node] = distance;
        self.by[node] = by;
        self.scanned += REACH_COST;
        self.heap
            .push(distance, (distance, QueueItem::Node(node as u32)));
    }

    /// Scans one entry; returns whether it led to a shorter path.
    fn scan_entry<W: IntWidth>(
        &mut self,
        net: &Residual<W>,
        tail: usize,
        index: usize,
        search: &mut Search,
    ) -> bool {
        let entry = &net.entries[index];
        if !net.is_open(index) {
            return false;
        }
        let head = entry.head as usize;
        let reduced = net.cost(entry) + net.price[tail] - net.price[head];
        let longer = self.distance[tail].saturating_add(reduced as u64);
        if longer < search.limit && net.excess[head] < 0 {
            self.scanned += REACH_COST;
            self.heap
                .push(longer, (longer, QueueItem::Deficit(index as u32)));
            if search.units <= net.residual_capacity(index).min(-net.excess[head]) {
                // The search ends at this distance at the latest: whatever other units go to this
                // deficit fill the same need.
                search.limit = longer;
            }
            return true;
        }
        if longer < search.limit && longer < self.distance[head] {
            self.reach(head, longer, index as u32);
            return true;
        }
        if longer >= UNREACHED {
            search.overflow_node = Some(head);
        }
        false
    }

    /// Scans the next few entries of a hub, and queues the hub again with the distance of the entry
    /// after them.
    fn scan_hub_batch<W: IntWidth>(&mut self, net: &Residual<W>, tail: usize, search: &mut Search) {
        let start = self.cursor[tail] as usize;
        self.hubs.sort(net, tail, start == 0);
        let end = (start + HUB_BATCH).min(self.hubs.list(tail).len());
        for position in start..end {
            let index = self.hubs.list(tail)[position].index as usize;
            if !self.scan_entry(net, tail, index, search) {
                self.hubs.record_miss(tail);
            }
        }
        self.scanned += end - start;
        self.cursor[tail] = end as u32;
        if let Some(next) = self.hubs.list(tail).get(end) {
            let reduced = (next.key + net.price[tail]).max(0) as u64;
            let distance = self.distance[tail].saturating_add(reduced);
            if distance < search.limit {
                let key = distance.max(self.heap.last());
                self.heap.push(key, (key, QueueItem::Node(tail as u32)));
            } else if distance >= UNREACHED {
                search.overflow_node = Some(tail);
            }
        }
    }

    /// Makes the reduced costs on shortest paths zero and none negative: every node nearer than
    /// `limit` falls by the difference.
    ///
    /// Nodes whose price fell may have new arcs of zero reduced cost. For all other nodes nothing
    /// has changed, because arcs to a node whose price fell have a positive reduced cost now.
    fn lower_prices<W: IntWidth>(
        &mut self,
        net: &mut Residual<W>,
        limit: u64,
    ) -> Result<(), StopReason> {
        for node in self.reached.iter().map(|&node| node as usize) {
            if self.done[node] && self.distance[node] < limit {
                let lowered = i64::try_from(limit - self.distance[node])
                    .ok()
                    .and_then(|fall| net.price[node].checked_sub(fall))
                    .filter(|&lowered| lowered >= -PRICE_LIMIT);
                net.price[node] = lowered.ok_or(StopReason::Overflow(node))?;
                self.mark[node] = NodeMark::New;
            }
        }
        Ok(())
    }
}
