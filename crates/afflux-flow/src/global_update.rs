//! The global price update: prices that lead every excess towards its nearest deficit.
//!
//! A search backwards from all deficits over residual arcs, in steps of epsilon. It replaces many
//! relabellings by one pass, and it notices when an excess has no way out: then the problem is
//! infeasible, and the nodes that the excess can reach are the proof.

use crate::arcs::Width;
use crate::heap::RadixHeap;
use crate::residual::Residual;
use crate::stop::{PRICE_LIMIT, Stop};

const UNREACHED: i64 = i64::MAX;

/// The memory of the search, kept between updates.
#[derive(Debug)]
pub(crate) struct Update {
    /// Distance to the nearest deficit in steps of epsilon.
    distance: Vec<i64>,
    done: Vec<bool>,
    /// Nodes by their distances. One that has come nearer is in it twice, until it is done.
    heap: RadixHeap<u32>,
    /// A node whose distance does not fit.
    too_far: Option<usize>,
}

impl Update {
    pub fn new(nodes: usize) -> Self {
        Self {
            distance: vec![UNREACHED; nodes],
            done: vec![false; nodes],
            heap: RadixHeap::new(),
            too_far: None,
        }
    }

    /// Lowers the price of each node by epsilon times its distance.
    ///
    /// The length of a residual arc is how many steps its tail must fall until its reduced cost
    /// lies in [-epsilon, 0): none if it is admissible already. The search ends with the last
    /// excess it reaches; all nodes that are farther away fall as deep as that one, which keeps the
    /// arcs between them as they are. Epsilon-optimality is kept throughout.
    pub fn run<W: Width>(&mut self, net: &mut Residual<W>, epsilon: i64) -> Result<(), Stop> {
        self.distance.fill(UNREACHED);
        self.done.fill(false);
        self.heap.clear();
        self.too_far = None;
        let mut waiting = 0_usize;
        for (node, &excess) in net.excess.iter().enumerate() {
            if excess < 0 {
                self.distance[node] = 0;
                self.heap.push(0, node as u32);
            } else if excess > 0 {
                waiting += 1;
            }
        }
        let mut farthest = 0;
        while waiting > 0 {
            let key = |node: u32| {
                let is_open = !self.done[node as usize];
                is_open.then_some(self.distance[node as usize] as u64)
            };
            let Some(node) = self.heap.pop(key) else {
                return Err(match self.too_far {
                    Some(node) => Stop::Overflow(node),
                    None => {
                        let stuck = |node: &usize| net.excess[*node] > 0 && !self.done[*node];
                        Stop::Cut(net.reachable((0..net.nodes()).filter(stuck)))
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
                waiting -= 1;
            }
            self.scan(net, head, epsilon);
        }
        for (node, price) in net.price.iter_mut().enumerate() {
            let steps = self.distance[node].min(farthest);
            let lowered = steps
                .checked_mul(epsilon)
                .and_then(|fall| price.checked_sub(fall))
                .filter(|&lowered| lowered >= -PRICE_LIMIT);
            *price = lowered.ok_or(Stop::Overflow(node))?;
        }
        Ok(())
    }

    /// Looks at the residual arcs that end at a node whose distance is known.
    fn scan<W: Width>(&mut self, net: &Residual<W>, head: usize, epsilon: i64) {
        let distance = self.distance[head];
        let head_price = net.price[head];
        for index in net.returning(head) {
            let entry = &net.entries[index];
            let tail = entry.head as usize;
            // The entry is (head, tail), so its cost has the other sign.
            let reduced = net.price[tail] - head_price - net.cost(entry);
            // The division is slow, so it waits until it is known to matter.
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
                self.too_far = Some(tail);
            }
        }
    }
}
