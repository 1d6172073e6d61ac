//! The entries of hubs, nodes that lead to many others, in the order of their reduced costs.
//!
//! Prices of heads only fall while shortest paths are searched, so reduced costs without the price
//! of the tail only grow: an order that was right once gives lower bounds for ever.

use crate::arcs::Width;
use crate::residual::Residual;

/// Nodes with more entries than this are hubs.
pub(crate) const MANY: usize = 24;

/// A list is made anew when so many looks per entry have led nowhere.
const WASTE: usize = 4;

/// The lists of all hubs that have been looked at.
pub(crate) struct Hubs {
    /// The list of a node in `lists`, plus one; zero if it has none yet.
    place: Vec<u32>,
    lists: Vec<Ordered>,
}

/// Entries with room of one node, by key. Some may have lost their room meanwhile.
#[derive(Default)]
struct Ordered {
    ranked: Vec<Ranked>,
    /// Looks that led nowhere since the entries were put in order.
    wasted: usize,
}

/// An entry of a hub.
#[derive(Clone, Copy)]
pub(crate) struct Ranked {
    /// Its reduced cost less the price of its tail, when it was put in order.
    pub key: i64,
    pub index: u32,
}

impl Ranked {
    fn new<W: Width>(net: &Residual<W>, index: usize) -> Self {
        let entry = &net.entries[index];
        Self {
            key: net.cost(entry) - net.price[entry.head as usize],
            index: index as u32,
        }
    }
}

impl Hubs {
    pub fn new(nodes: usize) -> Self {
        Self {
            place: vec![0; nodes],
            lists: Vec::new(),
        }
    }

    /// Makes the list of a node, or makes it anew where that is worth it and `may_change` allows.
    pub fn put_in_order<W: Width>(&mut self, net: &Residual<W>, node: usize, may_change: bool) {
        let is_new = self.place[node] == 0;
        if is_new {
            self.lists.push(Ordered::default());
            self.place[node] = self.lists.len() as u32;
        }
        let list = &mut self.lists[self.place[node] as usize - 1];
        if is_new || (may_change && list.wasted > WASTE * list.ranked.len()) {
            list.wasted = 0;
            list.ranked.clear();
            list.ranked
                .extend(net.open(node).map(|index| Ranked::new(net, index)));
            list.ranked.sort_unstable_by_key(|ranked| ranked.key);
        }
    }

    /// The list of a node, which has been put in order.
    pub fn list(&self, node: usize) -> &[Ranked] {
        &self.lists[self.place[node] as usize - 1].ranked
    }

    /// A look at an entry of a node led nowhere.
    pub fn waste(&mut self, node: usize) {
        self.lists[self.place[node] as usize - 1].wasted += 1;
    }

    /// An entry has room now, and had none before.
    pub fn insert<W: Width>(&mut self, net: &Residual<W>, node: usize, index: usize) {
        if let Some(place) = self.place[node].checked_sub(1) {
            let ranked = Ranked::new(net, index);
            let list = &mut self.lists[place as usize].ranked;
            let position = list.partition_point(|other| other.key < ranked.key);
            list.insert(position, ranked);
        }
    }
}
