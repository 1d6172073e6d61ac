//! The residual network: two entries per arc, one for each direction.
//!
//! Every arc (v, w) has an entry in the list of v and a reverse entry in the list of w. The lists
//! lie one after the other in one array. Two bits per entry say whether the entry has residual
//! capacity and whether its reverse entry has.
//!
//! Most of the solve time goes into reading entries from memory. So the fields that a search reads
//! are stored apart from the fields that only a push reads, and each of the two records exists in a
//! narrow version of 8 bytes and a wide version of 16 bytes for costs or capacities beyond 32 bits.

use crate::arc_columns::IntWidth;
use crate::bitset::{BitIter, BitSet};
use crate::stop_reason::PRICE_LIMIT;

/// One direction of an arc.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry<W> {
    /// The node that the entry leads to.
    pub head: u32,
    /// The cost, not scaled; the reverse entry has the negated cost.
    cost: W,
}

/// The fields of an entry that only a push reads.
#[derive(Debug, Clone, Copy, Default)]
struct PushData<W> {
    /// The index of the reverse entry.
    reverse: u32,
    /// The residual capacity u_f(v, w).
    residual_capacity: W,
}

/// An arc as input of a residual network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResidualArc {
    pub tail: u32,
    pub head: u32,
    pub cost: i64,
    /// By how much its flow can be increased.
    pub residual_capacity: i64,
    /// By how much its flow can be reduced.
    pub backward_capacity: i64,
}

/// The residual network with its pseudoflow and prices.
#[derive(Debug)]
pub(crate) struct Residual<W> {
    /// `entries[first[v]..first[v + 1]]` leave node v.
    pub first: Vec<u32>,
    pub entries: Vec<Entry<W>>,
    push_data: Vec<PushData<W>>,
    /// Entries with residual capacity.
    open: BitSet,
    /// Entries whose reverse entries have residual capacity, so that a backward search need not
    /// read these.
    incoming: BitSet,
    /// The excess e_f(v): the flow received less the flow sent, plus the supply.
    pub excess: Vec<i64>,
    /// p(v), in scaled costs.
    pub price: Vec<i64>,
    /// The factor by which costs are multiplied.
    pub scale: i64,
}

impl<W: IntWidth> Residual<W> {
    /// Builds the network of the arcs; `ends` has the degree of each node.
    pub fn new(
        arcs: impl Iterator<Item = ResidualArc>,
        ends: &[u32],
        excess: Vec<i64>,
        price: Vec<i64>,
        scale: i64,
    ) -> Self {
        // While the lists are filled, `first[v + 1]` is the position for the next entry of v.
        let mut first = Vec::with_capacity(ends.len() + 1);
        first.push(0);
        let mut sum = 0;
        for count in ends {
            first.push(sum);
            sum += count;
        }
        let mut entries = vec![Entry::default(); sum as usize];
        let mut push_data = vec![PushData::default(); sum as usize];
        let mut open = BitSet::empty(entries.len());
        let mut incoming = BitSet::empty(entries.len());
        for arc in arcs {
            let ResidualArc {
                tail,
                head,
                cost,
                residual_capacity,
                backward_capacity,
            } = arc;
            let there = first[tail as usize + 1];
            first[tail as usize + 1] += 1;
            let reverse = first[head as usize + 1];
            first[head as usize + 1] += 1;
            let [cost, negated] = [cost, -cost].map(W::cast);
            entries[there as usize] = Entry { head, cost };
            entries[reverse as usize] = Entry {
                head: tail,
                cost: negated,
            };
            for (here, other, units) in [
                (there, reverse, residual_capacity),
                (reverse, there, backward_capacity),
            ] {
                push_data[here as usize] = PushData {
                    reverse: other,
                    residual_capacity: W::cast(units),
                };
                if units > 0 {
                    open.set(here as usize, true);
                    incoming.set(other as usize, true);
                }
            }
        }
        Self {
            first,
            entries,
            push_data,
            open,
            incoming,
            excess,
            price,
            scale,
        }
    }

    #[inline]
    pub fn cost(&self, entry: &Entry<W>) -> i64 {
        entry.cost.into() * self.scale
    }

    /// A reader of the flow by which each arc can be reduced, in the order in which the arcs were
    /// given.
    pub fn backward_capacities(&self) -> BackwardCapacities<'_, W> {
        BackwardCapacities {
            net: self,
            next: self.first.clone(),
        }
    }

    /// The units that still have to be routed.
    pub fn units(&self) -> i128 {
        self.excess.iter().map(|&e| i128::from(e.max(0))).sum()
    }

    pub fn nodes(&self) -> usize {
        self.price.len()
    }

    /// The entries that leave a node, as indices.
    pub fn range(&self, node: usize) -> std::ops::Range<usize> {
        self.first[node] as usize..self.first[node + 1] as usize
    }

    /// The entries of a node with residual capacity.
    pub fn open(&self, node: usize) -> BitIter<'_> {
        self.open.in_range(self.range(node))
    }

    /// The same from a position within the entries of the node on.
    pub fn open_from(&self, node: usize, start: usize) -> BitIter<'_> {
        let range = self.range(node);
        self.open.in_range(range.start + start..range.end)
    }

    /// The first entry of a range with residual capacity.
    pub fn first_open(&self, range: std::ops::Range<usize>) -> Option<usize> {
        self.open.first_in(range)
    }

    /// The entries of a node whose reverse entries have residual capacity.
    pub fn incoming(&self, node: usize) -> BitIter<'_> {
        self.incoming.in_range(self.range(node))
    }

    /// The residual capacity of the reverse entry.
    pub fn backward_capacity(&self, index: usize) -> i64 {
        match self.incoming.first_in(index..index + 1) {
            Some(_) => self.residual_capacity(self.reverse(index)),
            None => 0,
        }
    }

    #[inline]
    pub fn reverse(&self, index: usize) -> usize {
        self.push_data[index].reverse as usize
    }

    #[inline]
    pub fn residual_capacity(&self, index: usize) -> i64 {
        self.push_data[index].residual_capacity.into()
    }

    /// Whether an entry has residual capacity.
    #[inline]
    pub fn is_open(&self, index: usize) -> bool {
        self.open.contains(index)
    }

    /// Sets the residual capacity of an entry, without changing that of its reverse entry.
    pub fn set_residual_capacity(&mut self, index: usize, units: i64) {
        self.push_data[index].residual_capacity = W::cast(units);
        let reverse = self.reverse(index);
        self.open.set(index, units > 0);
        self.incoming.set(reverse, units > 0);
    }

    pub fn tail(&self, index: usize) -> usize {
        self.entries[self.reverse(index)].head as usize
    }

    /// The nodes reachable from the given nodes: no residual arc leaves this set.
    pub fn reachable(&self, from: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let mut inside = vec![false; self.nodes()];
        let mut open: Vec<usize> = from.into_iter().collect();
        for &node in &open {
            inside[node] = true;
        }
        while let Some(node) = open.pop() {
            for index in self.open(node) {
                let head = self.entries[index].head as usize;
                if !inside[head] {
                    inside[head] = true;
                    open.push(head);
                }
            }
        }
        inside
    }

    /// Pushes units along an entry from its tail.
    pub fn push(&mut self, tail: usize, index: usize, units: i64) {
        let (left, reverse) = (self.residual_capacity(index) - units, self.reverse(index));
        self.push_data[index].residual_capacity = W::cast(left);
        let had = self.residual_capacity(reverse);
        self.push_data[reverse].residual_capacity = W::cast(had + units);
        let head = self.entries[index].head as usize;
        if left == 0 {
            self.open.set(index, false);
            self.incoming.set(reverse, false);
        }
        if had == 0 {
            self.open.set(reverse, units > 0);
            self.incoming.set(index, units > 0);
        }
        self.excess[tail] -= units;
        self.excess[head] += units;
    }

    /// One sweep of price refinement: lowers the heads of residual arcs with a reduced cost below
    /// `level` until it is not below. A head that is scanned before its tail may leave other arcs
    /// below the level.
    pub fn refine_prices(&mut self, level: i64) {
        for tail in 0..self.nodes() {
            let highest = self.price[tail] - level;
            for index in self.open.in_range(self.range(tail)) {
                let entry = &self.entries[index];
                // The same as `cost`, which cannot be called while prices are borrowed mutably.
                let lowered = highest + entry.cost.into() * self.scale;
                let price = &mut self.price[entry.head as usize];
                if lowered < *price && lowered >= -PRICE_LIMIT {
                    *price = lowered;
                }
            }
        }
    }

    /// Saturates every residual arc with a reduced cost below `level`, which creates excesses and
    /// deficits.
    pub fn saturate(&mut self, level: i64) {
        for tail in 0..self.nodes() {
            let tail_price = self.price[tail];
            let range = self.range(tail);
            let mut next = self.first_open(range.clone());
            while let Some(index) = next {
                let entry = &self.entries[index];
                let reduced = self.cost(entry) + tail_price - self.price[entry.head as usize];
                if reduced < level {
                    self.push(tail, index, self.residual_capacity(index));
                }
                next = self.first_open(index + 1..range.end);
            }
        }
    }
}

/// Reads the flow of arcs in the order in which they were given.
pub(crate) struct BackwardCapacities<'a, W> {
    net: &'a Residual<W>,
    next: Vec<u32>,
}

impl<W: IntWidth> BackwardCapacities<'_, W> {
    /// By how much the flow of the next arc, which has these ends, can be reduced.
    pub fn next(&mut self, tail: u32, head: u32) -> i64 {
        let place = self.next[tail as usize];
        self.next[tail as usize] += 1;
        self.next[head as usize] += 1;
        self.net.backward_capacity(place as usize)
    }
}
