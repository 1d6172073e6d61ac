//! Shortest paths: the quickest way while there is little to route.
//!
//! A search goes from an excess to the nearest deficits (Dijkstra over reduced costs) and touches
//! only what lies nearer; of a hub, only the entries that lead no farther. Prices fall so that the
//! paths cost nothing. Others may have a path that costs nothing then, which is looked for first,
//! depth first and with a memory of dead ends.
//!
//! A single task on thousands of machines is placed by one search. Where thousands compete for the
//! same machines, each search crosses the same plateau of prices again; so there is a budget, and
//! cost scaling takes over.
//!
//! Ahuja, Magnanti, Orlin: Network Flows (1993), section 9.7.

use crate::arcs::Width;
use crate::heap::RadixHeap;
use crate::hubs::{Hubs, MANY};
use crate::limits::Clock;
use crate::residual::Residual;
use crate::stop::{PRICE_LIMIT, Stop};

/// Beyond every distance by which a price could fall.
const UNREACHED: u64 = i64::MAX as u64;

/// How many entries of a hub a search looks at in one go.
const STRIDE: usize = 4;

/// A node that is reached counts as so many looks: it goes through the heap.
const REACHED: usize = 24;

/// When less than this part of all units is left, the budget grows so many times, once.
const ALMOST: i128 = 8;
const MORE: usize = 3;

/// Routes all excess if it takes about as many looks at entries as `budget`; answers whether it did.
///
/// No residual arc may have a negative reduced cost, and none has afterwards, so that what was
/// routed is optimal for what was routed.
pub(crate) fn route<W: Width>(
    net: &mut Residual<W>,
    budget: usize,
    clock: &mut Clock<'_>,
) -> Result<bool, Stop> {
    let mut paths = Paths::new(net.nodes());
    let (mut budget, mut is_more) = (budget, false);
    let units = net.units();
    let has_excess = |&node: &usize| net.excess[node] > 0;
    let mut sources: Vec<usize> = (0..net.nodes()).filter(has_excess).collect();
    // Hubs come last: they find other ways if what is near is taken, and nodes with few entries do not.
    sources.sort_by_key(|&source| net.range(source).len());
    for source in sources {
        while net.excess[source] > 0 {
            let before = paths.looked_at;
            if paths.find_free(net, source) {
                paths.augment(net);
            } else {
                paths.route_nearest(net, source)?;
            }
            if paths.looked_at > budget {
                // With little left, going on is cheaper than scaling, which begins anew.
                if is_more || ALMOST * net.units() > units {
                    return Ok(false);
                }
                (budget, is_more) = (budget.saturating_mul(MORE), true);
            }
            if clock.expired(1 + paths.looked_at - before) {
                return Err(Stop::Expired);
            }
        }
    }
    Ok(true)
}

/// Searches and their memory.
struct Paths {
    /// How many entries have been looked at, in all.
    looked_at: usize,
    hubs: Hubs,
    /// How far the entries of a node have been looked at.
    cursor: Vec<u32>,
    /// The entries of the path that was found.
    path: Vec<u32>,

    // The search for a free path.
    mark: Vec<Mark>,
    /// The nodes that it has seen.
    seen: Vec<u32>,

    // The search for the nearest deficits.
    distance: Vec<u64>,
    /// The entry by which a node was reached.
    by: Vec<u32>,
    done: Vec<bool>,
    /// Nodes whose distance is set, to be reset.
    reached: Vec<u32>,
    heap: RadixHeap<(u64, Step)>,
}

/// Where a search goes next.
#[derive(Clone, Copy)]
enum Step {
    /// On from a node.
    Node(u32),
    /// Along an entry to a deficit.
    Deficit(u32),
}

/// What the search for a free path knows of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    /// It is on the path, or was.
    Seen,
    /// No deficit could be reached from it for nothing when that was tried.
    Dead,
}

/// What a search looks for.
struct Search {
    /// A place for so many units: what is left of the excess of its source.
    units: i64,
    /// What is not nearer than this cannot matter.
    limit: u64,
    /// A node whose distance does not fit, if nothing was sent: what was opens entries against the
    /// order of distances.
    too_far: Option<usize>,
}

impl Paths {
    fn new(nodes: usize) -> Self {
        Self {
            looked_at: 0,
            hubs: Hubs::new(nodes),
            cursor: vec![0; nodes],
            path: Vec::new(),
            mark: vec![Mark::New; nodes],
            seen: Vec::new(),
            distance: vec![UNREACHED; nodes],
            by: vec![0; nodes],
            done: vec![false; nodes],
            reached: Vec::new(),
            heap: RadixHeap::new(),
        }
    }

    /// Finds a path of arcs that cost nothing from a node to a deficit, depth first.
    fn find_free<W: Width>(&mut self, net: &Residual<W>, source: usize) -> bool {
        if self.mark[source] == Mark::Dead {
            return false;
        }
        self.path.clear();
        self.seen.clear();
        self.see(source);
        let mut node = source;
        loop {
            if net.excess[node] < 0 {
                // What was seen off the path may lead to it: it is new again.
                for &other in &self.seen {
                    self.mark[other as usize] = Mark::New;
                }
                return true;
            }
            if let Some(index) = self.next_free(net, node) {
                self.path.push(index);
                node = net.entries[index as usize].head as usize;
                self.see(node);
                continue;
            }
            let Some(index) = self.path.pop() else {
                // Nothing that was seen leads anywhere.
                for &other in &self.seen {
                    self.mark[other as usize] = Mark::Dead;
                    self.cursor[other as usize] = 0;
                }
                return false;
            };
            node = net.tail(index as usize);
        }
    }

    fn see(&mut self, node: usize) {
        self.mark[node] = Mark::Seen;
        self.seen.push(node as u32);
    }

    /// The next entry of a node that costs nothing and leads to a new node.
    fn next_free<W: Width>(&mut self, net: &Residual<W>, tail: usize) -> Option<u32> {
        let start = self.cursor[tail] as usize;
        let price = net.price[tail];
        let mark = &self.mark;
        let is_free = |index: usize| {
            let entry = &net.entries[index];
            let head = entry.head as usize;
            net.is_open(index)
                && net.cost(entry) + price == net.price[head]
                && mark[head] == Mark::New
        };
        let range = net.range(tail);
        let (position, found) = if range.len() <= MANY {
            let mut rest = net.open_from(tail, start);
            let found = rest.find(|&index| is_free(index));
            (found.unwrap_or(range.end) - range.start, found)
        } else {
            self.hubs.put_in_order(net, tail, start == 0);
            let list = self.hubs.list(tail);
            let cheap = list[start.min(list.len())..]
                .iter()
                .take_while(|ranked| ranked.key + price <= 0);
            let mut position = start;
            let mut found = None;
            for ranked in cheap {
                if is_free(ranked.index as usize) {
                    found = Some(ranked.index as usize);
                    break;
                }
                position += 1;
            }
            (position, found)
        };
        self.looked_at += 1 + position - start;
        self.cursor[tail] = position as u32;
        found.map(|index| index as u32)
    }

    /// Sends along the path what its ends and arcs allow; answers how much that is.
    fn augment<W: Width>(&mut self, net: &mut Residual<W>) -> i64 {
        let Some((&first, &last)) = self.path.first().zip(self.path.last()) else {
            return 0;
        };
        let source = net.tail(first as usize);
        let sink = net.entries[last as usize].head as usize;
        let ends = net.excess[source].min(-net.excess[sink]);
        let rooms = self.path.iter().map(|&index| net.room(index as usize));
        let units = rooms.fold(ends, i64::min);
        if units == 0 {
            return 0;
        }
        for &index in &self.path {
            let head = net.entries[index as usize].head as usize;
            let mate = net.mate(index as usize);
            let was_open = net.is_open(mate);
            net.push(net.tail(index as usize), index as usize, units);
            if !was_open {
                self.hubs.insert(net, head, mate);
            }
        }
        units
    }

    /// Sends units from a source to the deficits that are nearest, one after the other, and lowers
    /// prices so that what they went along costs nothing.
    fn route_nearest<W: Width>(
        &mut self,
        net: &mut Residual<W>,
        source: usize,
    ) -> Result<(), Stop> {
        self.heap.clear();
        self.reach(source, 0, 0);
        let mut search = Search {
            units: net.excess[source],
            limit: UNREACHED,
            too_far: None,
        };
        // Where the last units have come to.
        let mut end = None;
        while let Some((distance, step)) = self.heap.pop(|(key, _)| Some(key)) {
            match step {
                Step::Node(node) => self.look_around(net, node as usize, &mut search),
                Step::Deficit(index) => {
                    let goes_on = self.arrive(net, source, index, distance);
                    if net.excess[source] < search.units {
                        (search.units, end) = (net.excess[source], Some(distance));
                    }
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        let end = end.ok_or_else(|| match search.too_far {
            Some(node) => Stop::Overflow(node),
            None => Stop::Cut(net.reachable([source])),
        })?;
        self.lower_prices(net, end)?;
        for node in self.reached.drain(..) {
            self.distance[node as usize] = UNREACHED;
            self.done[node as usize] = false;
            self.cursor[node as usize] = 0;
        }
        Ok(())
    }

    /// Sends units along the path to a deficit that ends with this entry; answers whether the search
    /// goes on, to other deficits.
    ///
    /// Prices will fall by as much as nodes are nearer than the last deficit. Whatever leads to another
    /// one that is nearer has to be full by then. So it goes on if this entry is full, or its deficit
    /// is; and if the path is full elsewhere, before or now, this is the last.
    fn arrive<W: Width>(
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
        // It needs no more: from now on it is a node like others.
        if net.is_open(last) && distance < self.distance[head] {
            self.reach(head, distance, index);
        }
        true
    }

    /// Follows the entries of a node; if it is a hub, the next few of them.
    fn look_around<W: Width>(&mut self, net: &Residual<W>, tail: usize, search: &mut Search) {
        let is_first = !self.done[tail];
        self.done[tail] = true;
        if net.range(tail).len() > MANY {
            self.look_further(net, tail, search);
        } else if is_first {
            for index in net.open(tail) {
                self.looked_at += 1;
                self.look(net, tail, index, search);
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
        self.looked_at += REACHED;
        self.heap
            .push(distance, (distance, Step::Node(node as u32)));
    }

    /// Follows one entry; answers whether that leads anywhere new.
    fn look<W: Width>(
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
            self.looked_at += REACHED;
            self.heap
                .push(longer, (longer, Step::Deficit(index as u32)));
            if search.units <= net.room(index).min(-net.excess[head]) {
                // The search ends there, whether all of them find their way or not. It still would
                // if some found another: those that go there take as much of its need.
                search.limit = longer;
            }
            return true;
        }
        if longer < search.limit && longer < self.distance[head] {
            self.reach(head, longer, index as u32);
            return true;
        }
        if longer >= UNREACHED {
            search.too_far = Some(head);
        }
        false
    }

    /// Follows the next few entries of a hub, and comes back to it when the search is as far as the
    /// entry after them.
    fn look_further<W: Width>(&mut self, net: &Residual<W>, tail: usize, search: &mut Search) {
        let start = self.cursor[tail] as usize;
        self.hubs.put_in_order(net, tail, start == 0);
        let end = (start + STRIDE).min(self.hubs.list(tail).len());
        for position in start..end {
            let index = self.hubs.list(tail)[position].index as usize;
            if !self.look(net, tail, index, search) {
                self.hubs.waste(tail);
            }
        }
        self.looked_at += end - start;
        self.cursor[tail] = end as u32;
        if let Some(next) = self.hubs.list(tail).get(end) {
            let reduced = (next.key + net.price[tail]).max(0) as u64;
            let distance = self.distance[tail].saturating_add(reduced);
            if distance < search.limit {
                let key = distance.max(self.heap.last());
                self.heap.push(key, (key, Step::Node(tail as u32)));
            } else if distance >= UNREACHED {
                search.too_far = Some(tail);
            }
        }
    }

    /// Makes the reduced costs on shortest paths zero, and none negative: all nodes that are nearer
    /// than where units have come to fall by as much as they are nearer.
    ///
    /// Nodes that fell may have new ways out. For all others nothing has changed: what leads to a
    /// node that fell costs something now.
    fn lower_prices<W: Width>(&mut self, net: &mut Residual<W>, limit: u64) -> Result<(), Stop> {
        for node in self.reached.iter().map(|&node| node as usize) {
            if self.done[node] && self.distance[node] < limit {
                let lowered = i64::try_from(limit - self.distance[node])
                    .ok()
                    .and_then(|fall| net.price[node].checked_sub(fall))
                    .filter(|&lowered| lowered >= -PRICE_LIMIT);
                net.price[node] = lowered.ok_or(Stop::Overflow(node))?;
                self.mark[node] = Mark::New;
            }
        }
        Ok(())
    }
}
