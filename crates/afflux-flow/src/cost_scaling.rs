//! Cost scaling by push-relabel (Goldberg and Tarjan): refinements with decreasing epsilon.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::arc_columns::IntWidth;
use crate::deadline::Deadline;
use crate::exact_prices;
use crate::global_update::GlobalUpdate;
use crate::residual::Residual;
use crate::solver_state::HUB_DEGREE;
use crate::stop_reason::{PRICE_LIMIT, StopReason};

/// The factor by which epsilon falls from one refinement to the next.
const ALPHA: i64 = 6;

/// Entries scanned by relabellings, per entry and node of the network, before the next global price
/// update.
const GLOBAL_UPDATE_INTERVAL: usize = 2;

/// Pushes between two global updates, per entry and node of the network, after which units must be
/// circulating on a cycle of arcs that were left unsaturated.
const MAX_PUSHES: usize = 16;

/// A warm start that takes more global updates than the maximum has too small an epsilon, which is
/// then multiplied; after one that takes only a few, the next may begin with a smaller epsilon.
const MAX_GLOBAL_UPDATES: usize = 8;
const FEW_GLOBAL_UPDATES: usize = 2;
const EPSILON_RAISE: i64 = 25;

/// The initial number of steps of a warm start.
const MAX_STEPS: i64 = 32;

/// The largest first epsilon of a warm start, in multiples of that of a cold start. Where many
/// units compete for few places, prices have far to go, and small steps take long.
const MAX_WARM_EPSILON: i64 = 16;

/// Sweeps of price refinement before each refinement except the first. Many arcs violate the new
/// epsilon only because of their prices; refining prices avoids moving their flow there and back.
const PRICE_REFINEMENT_SWEEPS: usize = 2;

/// Arcs whose reduced cost is at least `FIXING_DISTANCE` epsilons will hardly change any more. When
/// all but one in `FIXING_PART` are that far, an approximate answer is enough to go on without them
/// (speculative arc fixing, Goldberg 1997). Where nodes have fewer entries than
/// `DENSE_ENTRIES_PER_NODE`, the later refinements take little time anyway.
const FIXING_DISTANCE: i64 = 8;
const FIXING_PART: usize = 4;
const DENSE_ENTRIES_PER_NODE: usize = 32;

/// The approximate number of entries sampled to estimate a quantile of costs.
const SAMPLE_SIZE: usize = 4096;

/// The number of steps of the first epsilon that cover the distance that prices may have to go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WarmSteps(i64);

impl Default for WarmSteps {
    fn default() -> Self {
        Self(MAX_STEPS)
    }
}

impl WarmSteps {
    fn increase(&mut self) {
        self.0 = (2 * self.0).min(MAX_STEPS);
    }
}

/// The result of cost scaling.
#[derive(Debug)]
pub(crate) enum ScalingResult {
    /// An optimal flow, and prices that prove it, multiples of the scale.
    Exact(Vec<i64>),
    /// A nearly optimal flow. Most arcs have a larger reduced cost (not scaled) than this and will
    /// hardly change.
    Approximate(i64),
}

/// Turns the pseudoflow of `net` into an optimal flow, or an approximate one if that is allowed. A
/// warm start is given the distance that prices may have to go, and the number of steps.
pub(crate) fn optimise<W: IntWidth>(
    net: &mut Residual<W>,
    mut warm: Option<(i64, &mut WarmSteps)>,
    allow_approximate: bool,
    deadline: &mut Deadline<'_>,
) -> Result<ScalingResult, StopReason> {
    let scale = net.scale;
    let mut largest = initial_epsilon(net);
    let mut epsilon = largest;
    if let Some((distance, steps)) = &warm {
        largest = largest.saturating_mul(MAX_WARM_EPSILON);
        let step = distance.saturating_mul(scale) / steps.0;
        epsilon = step.clamp(1, largest);
    }
    let mut scaling = Scaling::new(net);
    let mut is_raised = false;
    loop {
        // If prices have far to go, the first epsilon may be too small and take too many updates.
        let updates = match warm.is_none() || epsilon == largest {
            true => usize::MAX,
            false => MAX_GLOBAL_UPDATES,
        };
        let taken = scaling.refine(epsilon, updates, Some(deadline))?;
        if let Some((_, steps)) = &mut warm {
            match taken {
                None => {
                    is_raised = true;
                    **steps = WarmSteps(1);
                    epsilon = epsilon.saturating_mul(EPSILON_RAISE).min(largest);
                    continue;
                }
                Some(taken) if taken <= FEW_GLOBAL_UPDATES && !is_raised => steps.increase(),
                Some(_) => {}
            }
        }
        warm = None;
        if allow_approximate && epsilon >= scale {
            if let Some(radius) = fixing_radius(scaling.net, epsilon) {
                return Ok(ScalingResult::Approximate(radius / scale));
            }
        }
        if epsilon < scale {
            // Exact prices need memory, so free that of the refinements, which is mostly not needed
            // again.
            let net = scaling.into_net();
            if let Some(price) = exact_prices::round_to_exact(net, scale, epsilon) {
                return Ok(ScalingResult::Exact(price));
            }
            scaling = Scaling::new(net);
            scaling.epsilon = epsilon;
        }
        epsilon = next_epsilon(epsilon, scale);
    }
}

/// The reduced cost up to which arcs may still change after a refinement, if these arcs are few.
fn fixing_radius<W: IntWidth>(net: &Residual<W>, epsilon: i64) -> Option<i64> {
    if net.entries.len() < DENSE_ENTRIES_PER_NODE * net.nodes() {
        return None;
    }
    let radius = FIXING_DISTANCE.saturating_mul(epsilon);
    let is_hub = |node: usize| net.range(node).len() > HUB_DEGREE as usize;
    let is_near = |&index: &usize| {
        let (tail, head) = (net.tail(index), net.entries[index].head as usize);
        let reduced = net.cost(&net.entries[index]) + net.price[tail] - net.price[head];
        // Arcs between hubs are never left out.
        reduced.abs() <= radius || (is_hub(tail) && is_hub(head))
    };
    let step = net.entries.len() / SAMPLE_SIZE + 1;
    let sample = (0..net.entries.len()).step_by(step);
    let all = sample.len();
    (FIXING_PART * sample.filter(is_near).count() < all).then_some(radius)
}

/// Turns the pseudoflow of `net` into a feasible flow of any cost. Prices stay the same and prove
/// nothing.
pub(crate) fn route<W: IntWidth>(net: &mut Residual<W>) -> Result<(), StopReason> {
    let before = net.price.clone();
    net.price.fill(0);
    let costs = net.entries.iter().map(|entry| net.cost(entry).abs());
    let epsilon = costs.max().unwrap_or(0) + 1;
    Scaling::new(net).refine(epsilon, usize::MAX, None)?;
    net.price = before;
    Ok(())
}

/// The next epsilon: divided by about [`ALPHA`], such that one of the refinements uses half of the
/// scale, the first epsilon for which exact prices can be tried.
fn next_epsilon(epsilon: i64, scale: i64) -> i64 {
    let ratio = 2.0 * epsilon as f64 / scale as f64;
    let steps = (ratio.ln() / (ALPHA as f64).ln()).round();
    let factor = match steps >= 1.0 {
        true => ratio.powf(1.0 / steps),
        false => ALPHA as f64,
    };
    ((epsilon as f64 / factor) as i64).max(1)
}

/// A fraction of the median cost, so that a few arcs with very large costs (waiting) do not cause
/// refinements that treat all other costs as equal. Any first epsilon is correct: the global update
/// carries prices over any distance.
fn initial_epsilon<W: IntWidth>(net: &Residual<W>) -> i64 {
    let step = net.entries.len() / SAMPLE_SIZE + 1;
    let sample = net.entries.iter().step_by(step);
    let mut costs: Vec<i64> = sample.map(|entry| net.cost(entry).abs()).collect();
    costs.retain(|&cost| cost > 0);
    if costs.is_empty() {
        return 1;
    }
    let middle = costs.len() / 2;
    let (_, median, _) = costs.select_nth_unstable(middle);
    (*median / ALPHA).max(1)
}

struct Scaling<'a, W> {
    net: &'a mut Residual<W>,
    epsilon: i64,
    /// The current arc of each node: the entries before it need not be scanned until the node is
    /// relabelled.
    current: Vec<u32>,
    /// Active nodes (with excess), first in, first out.
    active: VecDeque<u32>,
    update: GlobalUpdate,
    /// Entries scanned by relabellings since the last global update.
    scanned: usize,
    /// The value of `scanned` that triggers the next global update.
    update_interval: usize,
    /// Pushes since the last global update, and their maximum.
    pushes: usize,
    max_pushes: usize,
}

/// An entry and the highest price of its tail at which the entry is not admissible.
#[derive(Clone, Copy)]
struct RelabelCandidate {
    price: i64,
    index: u32,
}

impl RelabelCandidate {
    const NONE: Self = Self {
        price: i64::MIN,
        index: 0,
    };

    fn new<W: IntWidth>(net: &Residual<W>, index: usize) -> Self {
        let entry = &net.entries[index];
        Self {
            price: net.price[entry.head as usize] - net.cost(entry),
            index: index as u32,
        }
    }

    /// The candidate with the higher price, this one if they are equal.
    fn or(self, other: Self) -> Self {
        if other.price > self.price {
            other
        } else {
            self
        }
    }
}

impl<'a, W: IntWidth> Scaling<'a, W> {
    fn new(net: &'a mut Residual<W>) -> Self {
        let nodes = net.nodes();
        Self {
            epsilon: 0,
            current: vec![0; nodes],
            active: VecDeque::new(),
            update: GlobalUpdate::new(nodes),
            scanned: 0,
            update_interval: GLOBAL_UPDATE_INTERVAL * (net.entries.len() + nodes),
            pushes: 0,
            max_pushes: MAX_PUSHES * (net.entries.len() + nodes),
            net,
        }
    }

    /// Frees everything but the network.
    fn into_net(self) -> &'a mut Residual<W> {
        self.net
    }

    /// Turns a flow that is optimal up to the last epsilon into one that is optimal up to this one.
    /// Returns the number of global updates, or none if it was stopped at `updates` of them.
    fn refine(
        &mut self,
        epsilon: i64,
        updates: usize,
        mut deadline: Option<&mut Deadline<'_>>,
    ) -> Result<Option<usize>, StopReason> {
        let is_first = self.epsilon == 0;
        self.epsilon = epsilon;
        for _ in 0..if is_first { 0 } else { PRICE_REFINEMENT_SWEEPS } {
            self.net.refine_prices(-epsilon);
        }
        self.saturate_and_activate(-epsilon)?;
        let mut taken = 0;
        while let Some(node) = self.active.pop_front() {
            self.discharge(node as usize)?;
            if self.pushes > self.max_pushes {
                // A few units may circulate until a cycle is saturated, as many rounds as its arcs
                // have capacity. If no arc is admissible at first, no such cycle can occur
                // (Goldberg).
                self.saturate_and_activate(0)?;
            }
            if self.scanned > self.update_interval {
                taken += 1;
                if taken == updates {
                    self.active.clear();
                    return Ok(None);
                }
                self.update_prices()?;
            }
            if let Some(deadline) = &mut deadline {
                if deadline.is_expired(self.net.range(node as usize).len()) {
                    return Err(StopReason::Expired);
                }
            }
        }
        Ok(Some(taken))
    }

    /// Saturates every arc with a reduced cost below `level` and activates the nodes with excess.
    fn saturate_and_activate(&mut self, level: i64) -> Result<(), StopReason> {
        self.net.saturate(level);
        self.active.clear();
        let excess = self.net.excess.iter().enumerate();
        let with_excess = excess.filter(|&(_, &excess)| excess > 0);
        self.active.extend(with_excess.map(|(node, _)| node as u32));
        self.update_prices()
    }

    fn update_prices(&mut self) -> Result<(), StopReason> {
        self.scanned = 0;
        self.pushes = 0;
        let nodes = self.net.nodes();
        self.current.copy_from_slice(&self.net.first[..nodes]);
        self.update.run(self.net, self.epsilon)
    }

    /// Pushes the excess of a node along admissible arcs, and relabels the node as often as needed.
    fn discharge(&mut self, tail: usize) -> Result<(), StopReason> {
        let end = self.net.first[tail + 1] as usize;
        loop {
            let start = self.current[tail];
            let price = self.net.price[tail];
            // The best candidate so far, so that relabelling need not scan these entries again.
            let mut best = RelabelCandidate::NONE;
            let mut next = start as usize;
            while let Some(index) = self.net.first_open(next..end) {
                next = index + 1;
                let entry = self.net.entries[index];
                let head = entry.head as usize;
                let cost = self.net.cost(&entry);
                let mut candidate = self.net.price[head] - cost;
                if candidate > price {
                    if self.net.excess[head] >= 0 {
                        self.look_ahead(head, price + cost)?;
                        candidate = self.net.price[head] - cost;
                    }
                    if candidate > price {
                        if self.push(tail, index) {
                            self.current[tail] = index as u32;
                            return Ok(());
                        }
                        continue;
                    }
                }
                if candidate > best.price {
                    best = RelabelCandidate {
                        price: candidate,
                        index: index as u32,
                    };
                }
            }
            self.relabel(tail, start, best)?;
            if self.scanned > self.update_interval {
                // The rest of the excess is pushed after the global update.
                self.active.push_back(tail as u32);
                return Ok(());
            }
        }
    }

    /// Pushes as much as possible along an entry; returns whether no excess is left.
    fn push(&mut self, tail: usize, index: usize) -> bool {
        let head = self.net.entries[index].head as usize;
        let excess = self.net.excess[tail];
        let units = excess.min(self.net.residual_capacity(index));
        let was_active = self.net.excess[head] > 0;
        self.pushes += 1;
        self.net.push(tail, index, units);
        if !was_active && self.net.excess[head] > 0 {
            self.active.push_back(head as u32);
        }
        units == excess
    }

    /// Look-ahead: makes sure that an admissible arc leaves the node, by relabelling it if none
    /// does.
    ///
    /// This avoids pushes to a node, whose price is above `level` now, that would be pushed
    /// straight back (Goldberg 1997).
    fn look_ahead(&mut self, node: usize, level: i64) -> Result<(), StopReason> {
        let start = self.current[node];
        let price = self.net.price[node];
        let mut best = RelabelCandidate::NONE;
        let range = self.net.range(node);
        for index in self.net.open_from(node, start as usize - range.start) {
            let candidate = RelabelCandidate::new(self.net, index);
            if candidate.price > price {
                self.current[node] = candidate.index;
                return Ok(());
            }
            best = best.or(candidate);
        }
        let has_exit = self.relabel(node, start, best)?;
        if !has_exit {
            // A dead end without excess. Any lower price is valid; one far below avoids further
            // attempts.
            let far = self.epsilon.saturating_mul(self.net.nodes() as i64);
            self.net.price[node] = level.saturating_sub(far).max(-PRICE_LIMIT);
        }
        Ok(())
    }

    /// Lowers the price of a node as far as epsilon-optimality allows, so that an admissible arc
    /// leaves it. `best` is the best candidate among the entries from `start` on.
    ///
    /// Returns false if the node has no outgoing residual arc; then it has no excess either.
    fn relabel(
        &mut self,
        node: usize,
        start: u32,
        mut best: RelabelCandidate,
    ) -> Result<bool, StopReason> {
        let range = self.net.range(node);
        self.scanned += range.len();
        for index in self
            .net
            .open(node)
            .take_while(|&index| index < start as usize)
        {
            best = best.or(RelabelCandidate::new(self.net, index));
        }
        if best.price == i64::MIN {
            if self.net.excess[node] == 0 {
                return Ok(false);
            }
            let mut alone = vec![false; self.net.nodes()];
            alone[node] = true;
            return Err(StopReason::Cut(alone));
        }
        if best.price < self.epsilon - PRICE_LIMIT {
            return Err(StopReason::Overflow(node));
        }
        self.net.price[node] = best.price - self.epsilon;
        self.current[node] = best.index;
        Ok(true)
    }
}
