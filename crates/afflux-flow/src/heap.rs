//! A queue of nodes by distance, for searches that never go back: a radix heap.
//!
//! Ahuja, Mehlhorn, Orlin, Tarjan: Faster Algorithms for the Shortest Path Problem (1990). Buckets
//! double in width, so that any range of distances needs 65 of them, unlike Dial's, which needs
//! one per distance.

/// A bucket with more nodes than this gives its memory away when it is emptied: the same nodes would
/// leave memory behind in every bucket that they come through.
const SMALL: usize = 1024;

/// Nodes keyed by distance; no key may be smaller than the last one taken out.
#[derive(Debug)]
pub(crate) struct RadixHeap {
    /// Bucket b holds keys whose highest bit that differs from `last` is bit b - 1.
    buckets: [Vec<(u64, u32)>; 65],
    last: u64,
}

impl RadixHeap {
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

    /// The last key taken out: no key that is put in may be smaller.
    pub fn last(&self) -> u64 {
        self.last
    }

    pub fn push(&mut self, key: u64, node: u32) {
        let bucket = 64 - (key ^ self.last).leading_zeros();
        self.buckets[bucket as usize].push((key, node));
    }

    pub fn pop(&mut self) -> Option<(u64, u32)> {
        if self.buckets[0].is_empty() {
            let nearest = self.buckets.iter().position(|b| !b.is_empty())?;
            let mut moving = std::mem::take(&mut self.buckets[nearest]);
            self.last = moving.iter().map(|&(key, _)| key).min()?;
            for &(key, node) in &moving {
                self.push(key, node);
            }
            if moving.len() <= SMALL {
                // Give the emptied bucket its memory back.
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
        #[test]
        fn takes_out_in_order_while_growing(steps in prop::collection::vec((0_u64..1 << 40, 0_u32..4), 1..200)) {
            let mut heap = RadixHeap::new();
            let mut rest = Vec::new();
            let mut last = 0;
            for (gap, pops) in steps {
                heap.push(last + gap, 7);
                rest.push(last + gap);
                for _ in 0..pops {
                    rest.sort_unstable();
                    let expected = if rest.is_empty() { None } else { Some(rest.remove(0)) };
                    prop_assert_eq!(heap.pop().map(|(key, _)| key), expected);
                    last = expected.unwrap_or(last);
                }
            }
        }
    }
}
