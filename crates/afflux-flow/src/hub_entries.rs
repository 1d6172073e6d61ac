//! The entries of hubs (nodes with many entries), sorted by reduced cost.
//!
//! While shortest paths are searched, prices of heads only fall, so reduced costs without the price
//! of the tail only grow. Keys computed once therefore remain lower bounds.

use crate::arc_columns::IntWidth;
use crate::residual::Residual;

/// Nodes with more entries than this are hubs in a search.
pub(crate) const HUB_ENTRIES: usize = 24;

/// A list is rebuilt after this many useless visits per entry.
const MAX_MISSES_PER_ENTRY: usize = 4;

/// The lists of all hubs that a search has visited.
pub(crate) struct HubEntries {
    /// By node, the index of its list in `lists` plus one; zero if it has none.
    place: Vec<u32>,
    lists: Vec<SortedEntries>,
}

/// The entries of one node with residual capacity, sorted by key. Some may have lost their capacity
/// since.
#[derive(Default)]
struct SortedEntries {
    sorted: Vec<SortedEntry>,
    /// Useless visits since the entries were sorted.
    misses: usize,
}

/// An entry of a hub with its key.
#[derive(Clone, Copy)]
pub(crate) struct SortedEntry {
    /// Its reduced cost without the price of its tail, at the time of sorting.
    pub key: i64,
    pub index: u32,
}

impl SortedEntry {
    fn new<W: IntWidth>(net: &Residual<W>, index: usize) -> Self {
        let entry = &net.entries[index];
        Self {
            key: net.cost(entry) - net.price[entry.head as usize],
            index: index as u32,
        }
    }
}

impl HubEntries {
    pub fn new(nodes: usize) -> Self {
        Self {
            place: vec![0; nodes],
            lists: Vec::new(),
        }
    }

    /// Builds the list of a node, or rebuilds it after many useless visits if `may_change` is set.
    pub fn sort<W: IntWidth>(&mut self, net: &Residual<W>, node: usize, may_change: bool) {
        let is_new = self.place[node] == 0;
        if is_new {
            self.lists.push(SortedEntries::default());
            self.place[node] = self.lists.len() as u32;
        }
        let list = &mut self.lists[self.place[node] as usize - 1];
        if is_new || (may_change && list.misses > MAX_MISSES_PER_ENTRY * list.sorted.len()) {
            list.misses = 0;
            list.sorted.clear();
            list.sorted
                .extend(net.open(node).map(|index| SortedEntry::new(net, index)));
            list.sorted.sort_unstable_by_key(|entry| entry.key);
        }
    }

    pub fn list(&self, node: usize) -> &[SortedEntry] {
        &self.lists[self.place[node] as usize - 1].sorted
    }

    /// Counts a useless visit of an entry of a node.
    pub fn record_miss(&mut self, node: usize) {
        self.lists[self.place[node] as usize - 1].misses += 1;
    }

    /// Inserts an entry that has become residual.
    pub fn insert<W: IntWidth>(&mut self, net: &Residual<W>, node: usize, index: usize) {
        if let Some(place) = self.place[node].checked_sub(1) {
            let entry = SortedEntry::new(net, index);
            let list = &mut self.lists[place as usize].sorted;
            let position = list.partition_point(|other| other.key < entry.key);
            list.insert(position, entry);
        }
    }
}
