//! The residual network: what can still be pushed, along arcs and back.
//!
//! Every arc (v, w) has two entries, one in the list of v and its mate in the list of w. The lists
//! lie one after the other in one array, with two bits beside each entry that say whether anything
//! can be pushed along it, and back.
//!
//! Most of the time goes into reading entries from memory. So what a search asks of an entry is kept
//! apart from what only a push asks; and there are two kinds of both: narrow ones, which take 8 bytes
//! each, and wide ones for costs or capacities beyond 32 bits, which take 16.

use crate::arcs::Width;
use crate::bits::{Bits, Within};
use crate::stop::PRICE_LIMIT;

/// One direction of an arc.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry<W> {
    /// The node this direction leads to.
    pub head: u32,
    /// Cost, not scaled; the mate has the negated one.
    cost: W,
}

/// What a push along it asks for.
#[derive(Debug, Clone, Copy, Default)]
struct Passage<W> {
    /// Index of the other direction.
    mate: u32,
    /// How much can still be pushed this way: r_f(v, w).
    room: W,
}

/// An arc as the residual network is told about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub tail: u32,
    pub head: u32,
    pub cost: i64,
    /// By how much its flow can grow.
    pub room: i64,
    /// By how much its flow can shrink.
    pub back: i64,
}

/// The network with its pseudoflow and prices.
#[derive(Debug)]
pub(crate) struct Residual<W> {
    /// `entries[first[v]..first[v + 1]]` leave node v.
    pub first: Vec<u32>,
    pub entries: Vec<Entry<W>>,
    passages: Vec<Passage<W>>,
    /// Entries with room.
    open: Bits,
    /// Entries whose mates have room: a search backwards does not jump to the mates.
    returning: Bits,
    /// e_f(v): what v has received more than it has sent.
    pub excess: Vec<i64>,
    /// p(v), in scaled costs.
    pub price: Vec<i64>,
    /// By what costs are multiplied.
    pub scale: i64,
}

impl<W: Width> Residual<W> {
    /// The network of some arcs, of which each node is so many `ends`.
    pub fn new(
        pieces: impl Iterator<Item = Piece>,
        ends: &[u32],
        excess: Vec<i64>,
        price: Vec<i64>,
        scale: i64,
    ) -> Self {
        // While lists are filled, the next entry of a node goes where it says one further on.
        let mut first = Vec::with_capacity(ends.len() + 1);
        first.push(0);
        let mut sum = 0;
        for count in ends {
            first.push(sum);
            sum += count;
        }
        let mut entries = vec![Entry::default(); sum as usize];
        let mut passages = vec![Passage::default(); sum as usize];
        let mut open = Bits::none(entries.len());
        let mut returning = Bits::none(entries.len());
        for piece in pieces {
            let Piece {
                tail,
                head,
                cost,
                room,
                back,
            } = piece;
            let there = first[tail as usize + 1];
            first[tail as usize + 1] += 1;
            let mate = first[head as usize + 1];
            first[head as usize + 1] += 1;
            let [cost, dear] = [cost, -cost].map(W::of);
            entries[there as usize] = Entry { head, cost };
            entries[mate as usize] = Entry {
                head: tail,
                cost: dear,
            };
            for (here, other, units) in [(there, mate, room), (mate, there, back)] {
                passages[here as usize] = Passage {
                    mate: other,
                    room: W::of(units),
                };
                if units > 0 {
                    open.put(here as usize, true);
                    returning.put(other as usize, true);
                }
            }
        }
        Self {
            first,
            entries,
            passages,
            open,
            returning,
            excess,
            price,
            scale,
        }
    }

    /// The scaled cost of an entry.
    #[inline]
    pub fn cost(&self, entry: &Entry<W>) -> i64 {
        entry.cost.into() * self.scale
    }

    /// By how much each arc's flow can shrink now, to be asked for in the order in which arcs were
    /// given.
    pub fn backs(&self) -> Backs<'_, W> {
        Backs {
            net: self,
            next: self.first.clone(),
        }
    }

    /// How many units have still to be routed.
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

    /// The entries of a node along which something can be pushed.
    pub fn open(&self, node: usize) -> Within<'_> {
        self.open.within(self.range(node))
    }

    /// The same without the first so many entries of the node.
    pub fn open_from(&self, node: usize, start: usize) -> Within<'_> {
        let range = self.range(node);
        self.open.within(range.start + start..range.end)
    }

    /// The first of some entries along which something can be pushed.
    pub fn first_open(&self, range: std::ops::Range<usize>) -> Option<usize> {
        self.open.first(range)
    }

    /// The entries of a node along whose mates something can be pushed: what could come to it.
    pub fn returning(&self, node: usize) -> Within<'_> {
        self.returning.within(self.range(node))
    }

    /// How much can be pushed along the mate of an entry.
    pub fn back(&self, index: usize) -> i64 {
        match self.returning.first(index..index + 1) {
            Some(_) => self.room(self.mate(index)),
            None => 0,
        }
    }

    /// The other direction of an entry.
    #[inline]
    pub fn mate(&self, index: usize) -> usize {
        self.passages[index].mate as usize
    }

    /// How much can be pushed along an entry.
    #[inline]
    pub fn room(&self, index: usize) -> i64 {
        self.passages[index].room.into()
    }

    /// Whether anything can.
    #[inline]
    pub fn is_open(&self, index: usize) -> bool {
        self.open.has(index)
    }

    /// Sets how much can be pushed along an entry, whatever is pushed along its mate.
    pub fn set_room(&mut self, index: usize, units: i64) {
        self.passages[index].room = W::of(units);
        let mate = self.mate(index);
        self.open.put(index, units > 0);
        self.returning.put(mate, units > 0);
    }

    /// The node that an entry leaves.
    pub fn tail(&self, index: usize) -> usize {
        self.entries[self.mate(index)].head as usize
    }

    /// What can be reached from some nodes: no residual arc leaves this set.
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

    /// Moves units along an entry from its tail.
    pub fn push(&mut self, tail: usize, index: usize, units: i64) {
        let (left, mate) = (self.room(index) - units, self.mate(index));
        self.passages[index].room = W::of(left);
        let had = self.room(mate);
        self.passages[mate].room = W::of(had + units);
        let head = self.entries[index].head as usize;
        if left == 0 {
            self.open.put(index, false);
            self.returning.put(mate, false);
        }
        if had == 0 {
            self.open.put(mate, units > 0);
            self.returning.put(index, units > 0);
        }
        self.excess[tail] -= units;
        self.excess[head] += units;
    }

    /// Lowers the heads of residual arcs whose reduced cost is below `level`, to where it is not. One
    /// sweep over all nodes: a head that comes before its tail may leave others below again.
    pub fn lower_heads(&mut self, level: i64) {
        for tail in 0..self.nodes() {
            let highest = self.price[tail] - level;
            for index in self.open.within(self.range(tail)) {
                let entry = &self.entries[index];
                // As `cost` has it, while prices are borrowed to be changed.
                let lowered = highest + entry.cost.into() * self.scale;
                let price = &mut self.price[entry.head as usize];
                if lowered < *price && lowered >= -PRICE_LIMIT {
                    *price = lowered;
                }
            }
        }
    }

    /// Fills every residual arc whose reduced cost is below `level`, at the price of excesses and
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
                    self.push(tail, index, self.room(index));
                }
                next = self.first_open(index + 1..range.end);
            }
        }
    }
}

/// Where arcs were put.
pub(crate) struct Backs<'a, W> {
    net: &'a Residual<W>,
    next: Vec<u32>,
}

impl<W: Width> Backs<'_, W> {
    /// By how much the flow of the next arc can shrink, which has these ends.
    pub fn next(&mut self, tail: u32, head: u32) -> i64 {
        let place = self.next[tail as usize];
        self.next[tail as usize] += 1;
        self.next[head as usize] += 1;
        self.net.back(place as usize)
    }
}
