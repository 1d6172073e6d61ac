//! The global price update: prices that lead every excess towards its nearest deficit.
//!
//! One search backwards from all deficits over residual arcs, in steps of epsilon. It replaces many
//! relabellings. It also detects an excess that cannot reach a deficit: then the problem is
//! infeasible, and the nodes reachable from that excess are the proof.

use crate::arc_columns::IntWidth;
use crate::radix_heap::RadixHeap;
use crate::residual::Residual;
use crate::stop_reason::{PRICE_LIMIT, StopReason};

const UNREACHED: i64 = i64::MAX;

/// The memory of the search, reused between updates.
#[derive(Debug)]
pub(crate) struct GlobalUpdate {
    /// Distance to the nearest deficit in steps of epsilon.
    distance: Vec<i64>,
    done: Vec<bool>,
    /// Nodes by distance. A node whose distance decreased is in it twice until it is done.
    heap: RadixHeap<u32>,
    /// A node whose distance does not fit.
    overflow_node: Option<usize>,
}

impl GlobalUpdate {
    pub fn new(nodes: usize) -> Self {
        Self {
            distance: vec![UNREACHED; nodes],
            done: vec![false; nodes],
            heap: RadixHeap::new(),
            overflow_node: None,
        }
    }

    /// Lowers the price of each node by epsilon times its distance.
    ///
    /// The length of a residual arc is the number of steps that its tail must fall until its
    /// reduced cost lies in [-epsilon, 0); it is zero if the arc is admissible already. The search
    /// ends with the last excess that it reaches. All nodes farther away fall by the distance of
    /// that excess, so the reduced costs of arcs between them do not change. Epsilon-optimality is
    /// preserved.
    pub fn run<W: IntWidth>(
        &mut self,
        net: &mut Residual<W>,
        epsilon: i64,
    ) -> Result<(), StopReason> {
        self.distance.fill(UNREACHED);
        self.done.fill(false);
        self.heap.clear();
        self.overflow_node = None;
        let mut unreached_excesses = 0_usize;
        for (node, &excess) in net.excess.iter().enumerate() {
            if excess < 0 {
                self.distance[node] = 0;
                self.heap.push(0, node as u32);
            } else if excess > 0 {
                unreached_excesses += 1;
            }
        }
        let mut farthest = 0;
        while unreached_excesses > 0 {
            let key = |node: u32| {
                let is_open = !self.done[node as usize];
                is_open.then_some(self.distance[node as usize] as u64)
            };
            let Some(node) = self.heap.pop(key) else {
                return Err(match self.overflow_node {
                    Some(node) => StopReason::Overflow(node),
                    None => {
                        let is_unreached =
                            |node: &usize| net.excess[*node] > 0 && !self.done[*node];
                        StopReason::Cut(net.reachable((0..net.nodes()).filter(is_unreached)))
                    }
                });
            };
            let head = node as usize;
            if self.done[head] {
                continue;
            }
            self.done[head] = true;
            farthest = self.distance[head];
            if net.excess[head] > 0 {
                unreached_excesses -= 1;
            }
            self.scan(net, head, epsilon);
        }
        for (node, price) in net.price.iter_mut().enumerate() {
            let steps = self.distance[node].min(farthest);
            let lowered = steps
                .checked_mul(epsilon)
                .and_then(|fall| price.checked_sub(fall))
                .filter(|&lowered| lowered >= -PRICE_LIMIT);
            *price = lowered.ok_or(StopReason::Overflow(node))?;
        }
        Ok(())
    }

    /// Scans the residual arcs that end at a node whose distance is final.
    fn scan<W: IntWidth>(&mut self, net: &Residual<W>, head: usize, epsilon: i64) {
        let distance = self.distance[head];
        let head_price = net.price[head];
        for index in net.incoming(head) {
            let entry = &net.entries[index];
            let tail = entry.head as usize;
            // The entry is (head, tail), so its cost has the opposite sign.
            let reduced = net.price[tail] - head_price - net.cost(entry);
            // The division is slow, so it is done only if it can matter.
            let nearer_by = self.distance[tail] - distance;
            if nearer_by > 0 && reduced < (nearer_by - 1).saturating_mul(epsilon) {
                let length = if reduced < 0 {
                    0
                } else {
                    reduced / epsilon + 1
                };
                self.distance[tail] = distance + length;
                self.heap.push(self.distance[tail] as u64, entry.head);
            } else if self.distance[tail] == UNREACHED {
                self.overflow_node = Some(tail);
            }
        }
    }
}
