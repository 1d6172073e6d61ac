//! Shortest paths: the quickest way while there is little to route.
//!
//! A search goes from an excess to the nearest deficit (Dijkstra over reduced costs) and touches
//! only what lies nearer. Prices fall so that the path costs nothing. Others may have a path that
//! costs nothing then, which is looked for first (depth first, with a memory of dead ends).
//!
//! Hubs, which lead to thousands of nodes, are looked at in the order of their reduced costs and no
//! further than the search gets: prices only fall, so an order that was right once gives lower
//! bounds for ever.
//!
//! From a hub to a leaf the way is easily lost, the way back is not: searches go backwards from
//! deficits too. Both directions take turns, easy searches first.
//!
//! Ahuja, Magnanti, Orlin: Network Flows (1993), section 9.7.

use crate::heap::RadixHeap;
use crate::limits::Clock;
use crate::residual::{Entry, Residual};
use crate::stop::{PRICE_LIMIT, Stop};

/// Beyond every distance by which a price could fall.
const UNREACHED: u64 = i64::MAX as u64;

/// Nodes with more entries than this are looked at in order.
const MANY: usize = 24;

/// How many entries of such a node a search looks at in one go.
const STRIDE: usize = 4;

/// How many entries a search of its own may look at, turn by turn.
const REACH: [usize; 2] = [512, 4096];

/// Routes all excess if it takes no more looks at entries than `budget`; answers whether it did.
///
/// No residual arc may have a negative reduced cost, and none has afterwards, so that what was
/// routed is optimal for what was routed.
pub(crate) fn route(
    net: &mut Residual,
    budget: usize,
    clock: &mut Clock<'_>,
) -> Result<bool, Stop> {
    let trace = std::env::var("AFFLUX_TRACE").is_ok();
    let mut left = budget;
    for reach in REACH {
        if Paths::<false>::new(net).route_each(net, reach, &mut left, clock)?
            || Paths::<true>::new(net).route_each(net, reach, &mut left, clock)?
        {
            return Ok(true);
        }
        if trace {
            let units: i64 = net.excess.iter().map(|e| (*e).max(0)).sum();
            eprintln!(
                "      reach {reach} looked {} left {units} units at {} short {}",
                budget - left,
                net.excess.iter().filter(|e| **e > 0).count(),
                net.excess.iter().filter(|e| **e < 0).count()
            );
        }
    }
    Paths::<true>::new(net).route_together(net, &mut left, clock)
}

/// Searches in one direction, forwards from excesses or backwards from deficits, and their memory.
struct Paths<const BACKWARDS: bool> {
    /// How many entries have been looked at.
    looked_at: usize,
    hubs: Hubs<BACKWARDS>,

    distance: Vec<u64>,
    /// The entry by which a node was reached.
    by: Vec<u32>,
    done: Vec<bool>,
    /// Nodes whose distance is set, to be reset.
    reached: Vec<u32>,
    heap: RadixHeap,

    /// Nodes from which nothing wanted can be reached for nothing, at present prices.
    mark: Vec<Mark>,
    /// The nodes that the present search for a free path has seen.
    seen: Vec<u32>,
    /// How far the entries of a node have been looked at.
    cursor: Vec<u32>,
    /// The entries of the path that is being tried.
    path: Vec<u32>,
}

/// What can be sent along an entry, in the direction of the search.
fn room<const BACKWARDS: bool>(entry: &Entry) -> i64 {
    if BACKWARDS { entry.back } else { entry.room }
}

/// The reduced cost of an entry in the direction of the search, less the price of its tail.
fn key<const BACKWARDS: bool>(net: &Residual, entry: &Entry) -> i64 {
    signed::<BACKWARDS>(entry.cost - net.price[entry.head as usize])
}

/// A price, excess or cost as a search sees it: backwards, all signs are changed.
fn signed<const BACKWARDS: bool>(value: i64) -> i64 {
    if BACKWARDS { -value } else { value }
}

/// Why a search found nothing.
enum Lost {
    /// It was put off.
    Far,
    /// There is nothing to be found.
    Nowhere,
    /// The distance of this node does not fit.
    Overflow(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    /// On the path, or left with a way back to it.
    Seen,
    Dead,
}

impl<const BACKWARDS: bool> Paths<BACKWARDS> {
    fn new(net: &Residual) -> Self {
        let nodes = net.nodes();
        Self {
            looked_at: 0,
            by: vec![0; nodes],
            hubs: Hubs::new(nodes),
            distance: vec![UNREACHED; nodes],
            done: vec![false; nodes],
            reached: Vec::new(),
            heap: RadixHeap::new(),
            mark: vec![Mark::New; nodes],
            seen: Vec::new(),
            cursor: vec![0; nodes],
            path: Vec::new(),
        }
    }

    /// Routes what can be routed by searches of this reach; answers whether that is all.
    fn route_each(
        mut self,
        net: &mut Residual,
        reach: usize,
        budget: &mut usize,
        clock: &mut Clock<'_>,
    ) -> Result<bool, Stop> {
        let mut is_all = true;
        for source in 0..net.nodes() {
            while signed::<BACKWARDS>(net.excess[source]) > 0 {
                self.looked_at = 0;
                let found = match self.find_free(net, source, reach) {
                    true => Ok(()),
                    false => self.find_nearest(net, source, reach),
                };
                self.pay(budget, clock)?;
                match found {
                    Ok(()) => self.augment(net),
                    Err(Lost::Overflow(node)) => return Err(Stop::Overflow(node)),
                    Err(_) if *budget == 0 => return Ok(false),
                    Err(_) => {
                        is_all = false;
                        break;
                    }
                }
            }
        }
        Ok(is_all)
    }

    /// Routes everything by searches that start everywhere at once, and go on until they have found
    /// half of what they can find.
    fn route_together(
        mut self,
        net: &mut Residual,
        budget: &mut usize,
        clock: &mut Clock<'_>,
    ) -> Result<bool, Stop> {
        let wants = |net: &Residual, node: usize| signed::<BACKWARDS>(net.excess[node]) > 0;
        let mut sources: Vec<usize> = (0..net.nodes()).filter(|&node| wants(net, node)).collect();
        let mut phases = 0;
        loop {
            self.looked_at = 0;
            self.mark.fill(Mark::New);
            self.cursor.fill(0);
            for &source in &sources {
                while wants(net, source) && self.find_free(net, source, usize::MAX) {
                    self.augment(net);
                }
            }
            sources.retain(|&node| wants(net, node));
            if std::env::var("AFFLUX_TRACE").is_ok() && sources.is_empty() {
                eprintln!("      {phases} phases together");
            }
            if sources.is_empty() {
                return Ok(true);
            }
            phases += 1;
            let limit = self.nearest_half(net, &sources)?;
            self.lower_prices(net, limit).map_err(|lost| match lost {
                Lost::Overflow(node) => Stop::Overflow(node),
                _ => Stop::Expired,
            })?;
            self.forget();
            self.pay(budget, clock)?;
            if *budget == 0 {
                return Ok(false);
            }
        }
    }

    /// How far one has to go from the sources to find half of what there is.
    fn nearest_half(&mut self, net: &Residual, sources: &[usize]) -> Result<u64, Stop> {
        let mut wanted = net
            .excess
            .iter()
            .filter(|&&e| signed::<BACKWARDS>(e) < 0)
            .count();
        wanted = wanted.div_ceil(2);
        self.cursor.fill(0);
        self.heap.clear();
        for &source in sources {
            self.reach(source, 0, 0);
        }
        let mut found = Found {
            limit: UNREACHED,
            too_far: None,
        };
        let mut farthest = None;
        while let Some((_, node)) = self.heap.pop() {
            let tail = node as usize;
            let is_first = !self.done[tail];
            self.done[tail] = true;
            if is_first && signed::<BACKWARDS>(net.excess[tail]) < 0 {
                farthest = Some(self.distance[tail]);
                wanted -= 1;
                if wanted == 0 {
                    break;
                }
            }
            self.expand(net, tail, is_first, &mut found);
            found.limit = UNREACHED;
        }
        match (farthest, found.too_far) {
            (Some(farthest), _) => Ok(farthest),
            (None, Some(node)) => Err(Stop::Overflow(node)),
            (None, None) => {
                let stuck = (0..net.nodes()).filter(|&node| net.excess[node] > 0);
                Err(Stop::Cut(net.reachable(stuck)))
            }
        }
    }

    /// Takes the work done since the last time from the budget.
    fn pay(&mut self, budget: &mut usize, clock: &mut Clock<'_>) -> Result<(), Stop> {
        *budget = budget.saturating_sub(self.looked_at);
        match clock.expired(1 + self.looked_at) {
            true => Err(Stop::Expired),
            false => Ok(()),
        }
    }

    /// Finds a path of arcs that cost nothing from a node to where it should lead, depth first.
    fn find_free(&mut self, net: &Residual, source: usize, reach: usize) -> bool {
        self.path.clear();
        if self.mark[source] == Mark::Dead {
            return false;
        }
        self.seen.clear();
        self.see(source);
        let mut node = source;
        loop {
            if signed::<BACKWARDS>(net.excess[node]) < 0 || self.looked_at > reach {
                // What was seen off the path may lead to it: it is new again.
                for &other in &self.seen {
                    self.mark[other as usize] = Mark::New;
                }
                return self.looked_at <= reach;
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
            let mate = net.entries[index as usize].mate;
            node = net.entries[mate as usize].head as usize;
        }
    }

    fn see(&mut self, node: usize) {
        self.mark[node] = Mark::Seen;
        self.seen.push(node as u32);
    }

    /// The next entry of a node that costs nothing and leads to a new node.
    fn next_free(&mut self, net: &Residual, tail: usize) -> Option<u32> {
        let start = self.cursor[tail] as usize;
        let price = signed::<BACKWARDS>(net.price[tail]);
        let is_free = |index: usize, mark: &[Mark]| {
            let entry = &net.entries[index];
            let head = entry.head as usize;
            key::<BACKWARDS>(net, entry) + price == 0
                && mark[head] == Mark::New
                && room::<BACKWARDS>(entry) > 0
        };
        let range = net.range(tail);
        if range.len() <= MANY {
            for position in start..range.len() {
                if is_free(range.start + position, &self.mark) {
                    self.cursor[tail] = position as u32;
                    self.looked_at += position - start + 1;
                    return Some((range.start + position) as u32);
                }
            }
            self.cursor[tail] = range.len() as u32;
            self.looked_at += range.len() - start;
            return None;
        }
        self.hubs.put_in_order(net, tail, start == 0);
        let list = self.hubs.list(tail);
        for (position, ranked) in list.ranked.iter().enumerate().skip(start) {
            if ranked.key + price > 0 {
                self.cursor[tail] = position as u32;
                return None;
            }
            self.looked_at += 1;
            if is_free(ranked.index as usize, &self.mark) {
                self.cursor[tail] = position as u32;
                return Some(ranked.index);
            }
        }
        self.cursor[tail] = list.ranked.len() as u32;
        None
    }

    /// Sends along the path what its ends and arcs allow.
    fn augment(&mut self, net: &mut Residual) {
        let Some((&first, &last)) = self.path.first().zip(self.path.last()) else {
            return;
        };
        let source = net.entries[net.entries[first as usize].mate as usize].head as usize;
        let sink = net.entries[last as usize].head as usize;
        let mut units = net.excess[source].abs().min(net.excess[sink].abs());
        for &index in &self.path {
            units = units.min(room::<BACKWARDS>(&net.entries[index as usize]));
        }
        for &index in &self.path {
            let entry = &net.entries[index as usize];
            let (head, mate) = (entry.head as usize, entry.mate as usize);
            let tail = net.entries[mate].head as usize;
            let had_room = room::<BACKWARDS>(&net.entries[mate]) > 0;
            if BACKWARDS {
                net.push(head, mate, units);
            } else {
                net.push(tail, index as usize, units);
            }
            if !had_room {
                self.hubs.insert(net, head, mate);
            }
        }
    }

    /// Finds the shortest path from a node to where it should lead, and changes prices so that it
    /// costs nothing.
    fn find_nearest(
        &mut self,
        net: &mut Residual,
        source: usize,
        reach: usize,
    ) -> Result<(), Lost> {
        let found = self.nearest(net, source, reach).and_then(|sink| {
            self.lower_prices(net, self.distance[sink])?;
            self.path.clear();
            let mut node = sink;
            while node != source {
                let index = self.by[node];
                self.path.push(index);
                node = net.entries[net.entries[index as usize].mate as usize].head as usize;
            }
            self.path.reverse();
            Ok(())
        });
        self.forget();
        found
    }

    /// Makes ready for the next search.
    fn forget(&mut self) {
        for node in self.reached.drain(..) {
            self.distance[node as usize] = UNREACHED;
            self.done[node as usize] = false;
            self.cursor[node as usize] = 0;
        }
    }

    /// The deficit that is nearest to the source; or the excess, backwards.
    fn nearest(&mut self, net: &Residual, source: usize, reach: usize) -> Result<usize, Lost> {
        self.looked_at = 0;
        self.heap.clear();
        self.reach(source, 0, 0);
        let mut found = Found {
            limit: UNREACHED,
            too_far: None,
        };
        while let Some((_, node)) = self.heap.pop() {
            let tail = node as usize;
            let is_first = !self.done[tail];
            self.done[tail] = true;
            if is_first && signed::<BACKWARDS>(net.excess[tail]) < 0 {
                return Ok(tail);
            }
            self.expand(net, tail, is_first, &mut found);
            if self.looked_at > reach {
                return Err(Lost::Far);
            }
        }
        Err(found.too_far.map_or(Lost::Nowhere, Lost::Overflow))
    }

    /// Follows the entries of a node; of a hub, only the next few.
    fn expand(&mut self, net: &Residual, tail: usize, is_first: bool, found: &mut Found) {
        let range = net.range(tail);
        if range.len() > MANY {
            self.look_further(net, tail, found);
        } else if is_first {
            self.looked_at += range.len();
            for index in range {
                self.look(net, tail, index, found);
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
        self.heap.push(distance, node as u32);
    }

    /// Follows one entry; answers whether that leads anywhere new.
    fn look(&mut self, net: &Residual, tail: usize, index: usize, found: &mut Found) -> bool {
        let entry = &net.entries[index];
        if room::<BACKWARDS>(entry) == 0 {
            return false;
        }
        let head = entry.head as usize;
        let reduced = key::<BACKWARDS>(net, entry) + signed::<BACKWARDS>(net.price[tail]);
        let longer = self.distance[tail].saturating_add(reduced as u64);
        if longer < found.limit && longer < self.distance[head] {
            self.reach(head, longer, index as u32);
            if signed::<BACKWARDS>(net.excess[head]) < 0 {
                found.limit = longer;
            }
            return true;
        }
        if longer >= UNREACHED {
            found.too_far = Some(head);
        }
        false
    }

    /// Follows the next few entries of a hub, and comes back to it when the search is as far as the
    /// entry after them.
    fn look_further(&mut self, net: &Residual, tail: usize, found: &mut Found) {
        let start = self.cursor[tail] as usize;
        self.hubs.put_in_order(net, tail, start == 0);
        for position in start..start + STRIDE {
            let Some(&ranked) = self.hubs.list(tail).ranked.get(position) else {
                self.cursor[tail] = position as u32;
                return;
            };
            self.looked_at += 1;
            if !self.look(net, tail, ranked.index as usize, found) {
                self.hubs.waste(tail);
            }
        }
        self.cursor[tail] = (start + STRIDE) as u32;
        if let Some(next) = self.hubs.list(tail).ranked.get(start + STRIDE) {
            let reduced = next.key + signed::<BACKWARDS>(net.price[tail]);
            let reduced = reduced.max(0) as u64;
            let distance = self.distance[tail].saturating_add(reduced);
            if distance < found.limit {
                self.heap.push(distance.max(self.heap.last()), tail as u32);
            }
        }
    }

    /// Makes the reduced costs on shortest paths zero, and none negative: all nodes that are nearer
    /// than the nearest deficit fall by as much as they are nearer.
    ///
    /// Nodes that fell may have new ways out. For all others nothing has changed: what leads to a
    /// node that fell costs something now.
    fn lower_prices(&mut self, net: &mut Residual, limit: u64) -> Result<(), Lost> {
        for node in self.reached.iter().map(|&node| node as usize) {
            if self.done[node] && self.distance[node] < limit {
                let changed = i64::try_from(limit - self.distance[node])
                    .ok()
                    .and_then(|fall| net.price[node].checked_sub(signed::<BACKWARDS>(fall)))
                    .filter(|changed| changed.abs() <= PRICE_LIMIT);
                net.price[node] = changed.ok_or(Lost::Overflow(node))?;
                self.mark[node] = Mark::New;
            }
        }
        Ok(())
    }
}

/// The best that a search has found so far.
struct Found {
    /// The distance of the nearest deficit: what is not nearer cannot matter.
    limit: u64,
    /// A node whose distance does not fit.
    too_far: Option<usize>,
}

/// The entries of hubs in the order of their reduced costs.
struct Hubs<const BACKWARDS: bool> {
    /// The list of a node in `lists`, plus one; zero if it has none yet.
    place: Vec<u32>,
    lists: Vec<Ordered>,
}

/// Entries with room of one node, by reduced cost. Some may have lost their room meanwhile.
#[derive(Default)]
struct Ordered {
    ranked: Vec<Ranked>,
    /// Looks that led nowhere since the entries were put in order.
    wasted: usize,
}

/// An entry and its reduced cost, less the price of its tail, when it was put in order.
#[derive(Clone, Copy)]
struct Ranked {
    key: i64,
    index: u32,
}

impl<const BACKWARDS: bool> Hubs<BACKWARDS> {
    fn new(nodes: usize) -> Self {
        Self {
            place: vec![0; nodes],
            lists: Vec::new(),
        }
    }

    fn list(&self, node: usize) -> &Ordered {
        &self.lists[self.place[node] as usize - 1]
    }

    /// A look at an entry of a hub led nowhere.
    fn waste(&mut self, node: usize) {
        self.lists[self.place[node] as usize - 1].wasted += 1;
    }

    /// Makes the list of a node, or makes it anew where that is worth it and `may_change` allows.
    fn put_in_order(&mut self, net: &Residual, node: usize, may_change: bool) {
        let is_new = self.place[node] == 0;
        if is_new {
            self.lists.push(Ordered::default());
            self.place[node] = self.lists.len() as u32;
        }
        let place = self.place[node] as usize - 1;
        let list = &self.lists[place];
        if !is_new && !(may_change && list.wasted > 4 * list.ranked.len()) {
            return;
        }
        let mut ranked = std::mem::take(&mut self.lists[place].ranked);
        ranked.clear();
        for index in net.range(node) {
            if room::<BACKWARDS>(&net.entries[index]) > 0 {
                ranked.push(rank::<BACKWARDS>(net, index));
            }
        }
        ranked.sort_unstable_by_key(|ranked| ranked.key);
        self.lists[place] = Ordered { ranked, wasted: 0 };
    }

    /// An entry has room now, and had none before.
    fn insert(&mut self, net: &Residual, node: usize, index: usize) {
        if let Some(place) = self.place[node].checked_sub(1) {
            let ranked = rank::<BACKWARDS>(net, index);
            let list = &mut self.lists[place as usize].ranked;
            let position = list.partition_point(|other| other.key < ranked.key);
            list.insert(position, ranked);
        }
    }
}

fn rank<const BACKWARDS: bool>(net: &Residual, index: usize) -> Ranked {
    Ranked {
        key: key::<BACKWARDS>(net, &net.entries[index]),
        index: index as u32,
    }
}
