//! A priority queue for keys that never decrease: a radix heap.
//!
//! Ahuja, Mehlhorn, Orlin, Tarjan: Faster Algorithms for the Shortest Path Problem (1990). Buckets
//! double in width, so that any range of distances needs 65 of them, unlike Dial's, which needs
//! one per distance.

/// A larger bucket frees its memory when it is emptied. Otherwise the same items would leave memory
/// behind in every bucket that they pass through.
const MAX_KEPT_CAPACITY: usize = 1024;

/// Items with keys. No key may be smaller than the last one removed.
#[derive(Debug)]
pub(crate) struct RadixHeap<T> {
    /// Bucket b holds keys whose highest bit that differs from `last` is bit b - 1.
    buckets: [Vec<T>; 65],
    last: u64,
}

impl<T: Copy> RadixHeap<T> {
    pub fn new() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Vec::new()),
            last: 0,
        }
    }

    pub fn clear(&mut self) {
        self.buckets.iter_mut().for_each(Vec::clear);
        self.last = 0;
    }

    /// The last key removed: no key that is pushed may be smaller.
    pub fn last(&self) -> u64 {
        self.last
    }

    pub fn push(&mut self, key: u64, item: T) {
        let bucket = 64 - (key ^ self.last).leading_zeros();
        self.buckets[bucket as usize].push(item);
    }

    /// Removes an item with the smallest key. `key` returns the key of an item: the one with which
    /// it was pushed, or a smaller one with which it was pushed again. Once that copy has been
    /// removed, `key` must return `None` for the other copies; they are dropped mostly without
    /// being returned.
    pub fn pop(&mut self, key: impl Fn(T) -> Option<u64>) -> Option<T> {
        while self.buckets[0].is_empty() {
            let nearest = self.buckets.iter().position(|b| !b.is_empty())?;
            let mut moving = std::mem::take(&mut self.buckets[nearest]);
            let keys = moving.iter().filter_map(|&item| key(item));
            self.last = keys.min().unwrap_or(self.last);
            for &item in &moving {
                if let Some(key) = key(item) {
                    self.push(key, item);
                }
            }
            if moving.capacity() <= MAX_KEPT_CAPACITY {
                // Reuse the memory of the emptied bucket.
                moving.clear();
                self.buckets[nearest] = moving;
            }
        }
        self.buckets[0].pop()
    }
}

#[cfg(test)]
mod tests {
    use super::RadixHeap;
    use proptest::prelude::*;

    proptest! {
        /// As in Dijkstra's algorithm: keys decrease while nodes wait, and a removed node is done.
        #[test]
        fn keys_may_decrease_while_items_wait(
            steps in prop::collection::vec((0_usize..20, 0_u64..1 << 20, any::<bool>()), 1..200),
        ) {
            let mut heap = RadixHeap::new();
            let mut keys = [u64::MAX; 20];
            let mut done = [false; 20];
            let mut last = 0;
            for (node, gap, pops) in steps {
                if !done[node] && last + gap < keys[node] {
                    keys[node] = last + gap;
                    heap.push(keys[node], node);
                }
                let found = (0..if pops { 200 } else { 0 })
                    .filter_map(|_| heap.pop(|node| (!done[node]).then_some(keys[node])))
                    .find(|&node| !done[node]);
                if let Some(found) = found {
                    let waiting = (0..20).filter(|&node| !done[node]).map(|node| keys[node]);
                    prop_assert_eq!(Some(keys[found]), waiting.min());
                    done[found] = true;
                    last = keys[found];
                }
            }
        }

        #[test]
        fn items_come_out_in_key_order(steps in prop::collection::vec((0_u64..1 << 40, 0_u32..4), 1..200)) {
            let mut heap = RadixHeap::new();
            let mut rest = Vec::new();
            let mut last = 0;
            for (gap, pops) in steps {
                heap.push(last + gap, (last + gap, 7));
                rest.push(last + gap);
                for _ in 0..pops {
                    rest.sort_unstable();
                    let expected = if rest.is_empty() { None } else { Some(rest.remove(0)) };
                    prop_assert_eq!(heap.pop(|(key, _)| Some(key)).map(|(key, _)| key), expected);
                    last = expected.unwrap_or(last);
                }
            }
        }
    }
}
