//! Cost scaling: from a rough answer to the exact one, epsilon by epsilon.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::arcs::Width;
use crate::limits::Clock;
use crate::prices;
use crate::residual::Residual;
use crate::state::HUB;
use crate::stop::{PRICE_LIMIT, Stop};
use crate::update::Update;

/// By what epsilon is divided from one refinement to the next.
const ALPHA: i64 = 6;

/// Entries that are looked at in relabellings, per entry of the network, before prices are updated
/// globally.
const UPDATE_AFTER: usize = 2;

/// Pushes between two global updates, per entry and node of the network, after which units must be
/// going round a cycle of arcs that were left admissible.
const MANY_PUSHES: usize = 16;

/// When a warm start takes more global updates than this, its epsilon is too small, and is
/// multiplied; when it takes no more than a few, the next may begin with a smaller one.
const MANY_UPDATES: usize = 8;
const FEW_UPDATES: usize = 2;
const RAISE: i64 = 25;

/// The steps of a warm start to begin with.
const MOST_STEPS: i64 = 32;

/// What a warm start may begin with, at most, in epsilons of a cold one: where many units compete for
/// few places, prices have far to go, and small steps take long.
const HASTE: i64 = 16;

/// Sweeps of price refinement before each refinement but the first. Much of what is not optimal up to
/// the new epsilon only has the wrong prices, and need not be moved there and back.
const SWEEPS: usize = 2;

/// Arcs whose reduced cost is so many epsilons or more will hardly change any more. When all but one in
/// `FEW` are, a rough answer is enough to go on without them (Goldberg's speculative arc fixing).
/// Where nodes have fewer entries than `DENSE`, the later refinements take little time anyway.
const FAR: i64 = 8;
const FEW: usize = 4;
const DENSE: usize = 32;

/// How many entries, about, tell what arcs cost.
const SAMPLE: usize = 4096;

/// The first epsilon of a warm start, as a part of the distance that prices may have to go: so many of
/// them make it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps(i64);

impl Default for Steps {
    fn default() -> Self {
        Self(MOST_STEPS)
    }
}

impl Steps {
    fn more(&mut self) {
        self.0 = (2 * self.0).min(MOST_STEPS);
    }
}

/// How far scaling has come.
#[derive(Debug)]
pub(crate) enum Scaled {
    /// To an optimal flow, and prices that prove it, multiples of the scale.
    Exactly(Vec<i64>),
    /// To a flow that is nearly optimal. Arcs with a reduced cost beyond this, not scaled, will hardly
    /// change, and they are most.
    Roughly(i64),
}

/// Turns the pseudoflow of `net` into an optimal flow, or a rough one if that is allowed. A warm start
/// knows how far prices may have to go, about, and in how many steps.
pub(crate) fn optimise<W: Width>(
    net: &mut Residual<W>,
    mut warm: Option<(i64, &mut Steps)>,
    may_be_rough: bool,
    clock: &mut Clock<'_>,
) -> Result<Scaled, Stop> {
    let scale = net.scale;
    let mut largest = first_epsilon(net);
    let mut epsilon = largest;
    if let Some((distance, steps)) = &warm {
        largest = largest.saturating_mul(HASTE);
        let step = distance.saturating_mul(scale) / steps.0;
        epsilon = step.clamp(1, largest);
    }
    let mut scaling = Scaling::new(net);
    let mut is_raised = false;
    loop {
        // Prices that have far to go would take many small steps at first.
        let updates = match warm.is_none() || epsilon == largest {
            true => usize::MAX,
            false => MANY_UPDATES,
        };
        let taken = scaling.refine(epsilon, updates, Some(clock))?;
        if let Some((_, steps)) = &mut warm {
            match taken {
                None => {
                    is_raised = true;
                    **steps = Steps(1);
                    epsilon = epsilon.saturating_mul(RAISE).min(largest);
                    continue;
                }
                Some(taken) if taken <= FEW_UPDATES && !is_raised => steps.more(),
                Some(_) => {}
            }
        }
        warm = None;
        if may_be_rough && epsilon >= scale {
            if let Some(reach) = reach(scaling.net, epsilon) {
                return Ok(Scaled::Roughly(reach / scale));
            }
        }
        if epsilon < scale {
            // Exact prices take memory, and mostly nothing of this is needed any more.
            let net = scaling.into_net();
            if let Some(price) = prices::exact(net, scale, epsilon) {
                return Ok(Scaled::Exactly(price));
            }
            scaling = Scaling::new(net);
            scaling.epsilon = epsilon;
        }
        epsilon = next_epsilon(epsilon, scale);
    }
}

/// Up to which reduced cost arcs may still change after a refinement, if they are few.
fn reach<W: Width>(net: &Residual<W>, epsilon: i64) -> Option<i64> {
    if net.entries.len() < DENSE * net.nodes() {
        return None;
    }
    let reach = FAR.saturating_mul(epsilon);
    let is_hub = |node: usize| net.range(node).len() > HUB as usize;
    let is_near = |&index: &usize| {
        let (tail, head) = (net.tail(index), net.entries[index].head as usize);
        let reduced = net.cost(&net.entries[index]) + net.price[tail] - net.price[head];
        // What is between hubs is never left out.
        reduced.abs() <= reach || (is_hub(tail) && is_hub(head))
    };
    let step = net.entries.len() / SAMPLE + 1;
    let sample = (0..net.entries.len()).step_by(step);
    let all = sample.len();
    (FEW * sample.filter(is_near).count() < all).then_some(reach)
}

/// Turns the pseudoflow of `net` into a flow, whatever it costs. Prices change, and prove nothing.
pub(crate) fn route<W: Width>(net: &mut Residual<W>) -> Result<(), Stop> {
    let before = net.price.clone();
    net.price.fill(0);
    let costs = net.entries.iter().map(|entry| net.cost(entry).abs());
    let epsilon = costs.max().unwrap_or(0) + 1;
    Scaling::new(net).refine(epsilon, usize::MAX, None)?;
    net.price = before;
    Ok(())
}

/// Divided by about [`ALPHA`], such that one of the refinements is for half of the scale: the first
/// from which exact prices can be tried.
fn next_epsilon(epsilon: i64, scale: i64) -> i64 {
    let ratio = 2.0 * epsilon as f64 / scale as f64;
    let steps = (ratio.ln() / (ALPHA as f64).ln()).round();
    let factor = match steps >= 1.0 {
        true => ratio.powf(1.0 / steps),
        false => ALPHA as f64,
    };
    ((epsilon as f64 / factor) as i64).max(1)
}

/// A fraction of the median cost, so that a few arcs that cost far more than all others (waiting)
/// do not cause refinements in which all others look alike. Any start is correct: the global update
/// carries prices over any distance.
fn first_epsilon<W: Width>(net: &Residual<W>) -> i64 {
    let step = net.entries.len() / SAMPLE + 1;
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
    /// Entries before the current one of a node are not worth looking at until it is relabelled.
    current: Vec<u32>,
    /// Nodes with excess, first in, first out.
    active: VecDeque<u32>,
    update: Update,
    /// Entries looked at in relabellings since the last global update.
    looked_at: usize,
    /// How many of them call for one.
    patience: usize,
    /// Pushes since the last global update, and how many are too many.
    pushes: usize,
    most_pushes: usize,
}

/// An entry and the highest price at which its tail cannot send anything along it.
#[derive(Clone, Copy)]
struct Exit {
    price: i64,
    index: u32,
}

impl Exit {
    const NONE: Self = Self {
        price: i64::MIN,
        index: 0,
    };

    fn new<W: Width>(net: &Residual<W>, index: usize) -> Self {
        let entry = &net.entries[index];
        Self {
            price: net.price[entry.head as usize] - net.cost(entry),
            index: index as u32,
        }
    }

    /// The one with the higher price, this one if they are equal.
    fn or(self, other: Self) -> Self {
        if other.price > self.price {
            other
        } else {
            self
        }
    }
}

impl<'a, W: Width> Scaling<'a, W> {
    fn new(net: &'a mut Residual<W>) -> Self {
        let nodes = net.nodes();
        Self {
            epsilon: 0,
            current: vec![0; nodes],
            active: VecDeque::new(),
            update: Update::new(nodes),
            looked_at: 0,
            patience: UPDATE_AFTER * (net.entries.len() + nodes),
            pushes: 0,
            most_pushes: MANY_PUSHES * (net.entries.len() + nodes),
            net,
        }
    }

    /// The network, and nothing else any more.
    fn into_net(self) -> &'a mut Residual<W> {
        self.net
    }

    /// From a flow that is optimal up to the last epsilon to one that is up to this one. Answers how
    /// many global updates that took, or nothing if it would have taken as many as `updates`.
    fn refine(
        &mut self,
        epsilon: i64,
        updates: usize,
        mut clock: Option<&mut Clock<'_>>,
    ) -> Result<Option<usize>, Stop> {
        let is_first = self.epsilon == 0;
        self.epsilon = epsilon;
        for _ in 0..if is_first { 0 } else { SWEEPS } {
            self.net.lower_heads(-epsilon);
        }
        self.fill(-epsilon)?;
        let mut taken = 0;
        while let Some(node) = self.active.pop_front() {
            self.discharge(node as usize)?;
            if self.pushes > self.most_pushes {
                // A few units would go round until the cycle is full, which may take as many rounds as
                // its arcs have room. Where no arc is admissible, no cycle of such can come up (Goldberg).
                self.fill(0)?;
            }
            if self.looked_at > self.patience {
                taken += 1;
                if taken == updates {
                    self.active.clear();
                    return Ok(None);
                }
                self.update_prices()?;
            }
            if let Some(clock) = &mut clock {
                if clock.expired(self.net.range(node as usize).len()) {
                    return Err(Stop::Expired);
                }
            }
        }
        Ok(Some(taken))
    }

    /// Fills every arc whose reduced cost is below `level`, and begins with what is active then.
    fn fill(&mut self, level: i64) -> Result<(), Stop> {
        self.net.saturate(level);
        self.active.clear();
        let excess = self.net.excess.iter().enumerate();
        let with_excess = excess.filter(|&(_, &excess)| excess > 0);
        self.active.extend(with_excess.map(|(node, _)| node as u32));
        self.update_prices()
    }

    fn update_prices(&mut self) -> Result<(), Stop> {
        self.looked_at = 0;
        self.pushes = 0;
        let nodes = self.net.nodes();
        self.current.copy_from_slice(&self.net.first[..nodes]);
        self.update.run(self.net, self.epsilon)
    }

    /// Pushes the excess of a node along admissible arcs, relabelling it as often as needed.
    fn discharge(&mut self, tail: usize) -> Result<(), Stop> {
        let end = self.net.first[tail + 1] as usize;
        loop {
            let start = self.current[tail];
            let price = self.net.price[tail];
            // Kept while looking for admissible entries, so that relabelling need not look again.
            let mut best = Exit::NONE;
            let mut next = start as usize;
            while let Some(index) = self.net.first_open(next..end) {
                next = index + 1;
                let entry = self.net.entries[index];
                let head = entry.head as usize;
                let cost = self.net.cost(&entry);
                let mut exit = self.net.price[head] - cost;
                if exit > price {
                    if self.net.excess[head] >= 0 {
                        self.look_ahead(head, price + cost)?;
                        exit = self.net.price[head] - cost;
                    }
                    if exit > price {
                        if self.push(tail, index) {
                            self.current[tail] = index as u32;
                            return Ok(());
                        }
                        continue;
                    }
                }
                if exit > best.price {
                    best = Exit {
                        price: exit,
                        index: index as u32,
                    };
                }
            }
            self.relabel(tail, start, best)?;
            if self.looked_at > self.patience {
                // What is left of the excess goes where a global update leads it.
                self.active.push_back(tail as u32);
                return Ok(());
            }
        }
    }

    /// Pushes as much as possible along an entry; answers whether this was all excess.
    fn push(&mut self, tail: usize, index: usize) -> bool {
        let head = self.net.entries[index].head as usize;
        let excess = self.net.excess[tail];
        let units = excess.min(self.net.room(index));
        let was_active = self.net.excess[head] > 0;
        self.pushes += 1;
        self.net.push(tail, index, units);
        if !was_active && self.net.excess[head] > 0 {
            self.active.push_back(head as u32);
        }
        units == excess
    }

    /// Makes sure that an admissible arc leaves the node, by relabelling it if none does.
    ///
    /// This keeps units from being pushed to a node, whose price is above `level` now, only to be
    /// sent straight back (Goldberg 1997).
    fn look_ahead(&mut self, node: usize, level: i64) -> Result<(), Stop> {
        let start = self.current[node];
        let price = self.net.price[node];
        let mut best = Exit::NONE;
        let range = self.net.range(node);
        for index in self.net.open_from(node, start as usize - range.start) {
            let exit = Exit::new(self.net, index);
            if exit.price > price {
                self.current[node] = exit.index;
                return Ok(());
            }
            best = best.or(exit);
        }
        let has_exit = self.relabel(node, start, best)?;
        if !has_exit {
            // A dead end without excess. Any lower price will do; one that is far below keeps it
            // from being tried again and again.
            let far = self.epsilon.saturating_mul(self.net.nodes() as i64);
            self.net.price[node] = level.saturating_sub(far).max(-PRICE_LIMIT);
        }
        Ok(())
    }

    /// Lowers the price of a node as far as epsilon-optimality allows, so that an admissible arc
    /// leaves it. `best` is the best exit among the entries from `start` on.
    ///
    /// Answers false if nothing at all can leave the node, which then has no excess.
    fn relabel(&mut self, node: usize, start: u32, mut best: Exit) -> Result<bool, Stop> {
        let range = self.net.range(node);
        self.looked_at += range.len();
        for index in self
            .net
            .open(node)
            .take_while(|&index| index < start as usize)
        {
            best = best.or(Exit::new(self.net, index));
        }
        if best.price == i64::MIN {
            if self.net.excess[node] == 0 {
                return Ok(false);
            }
            let mut alone = vec![false; self.net.nodes()];
            alone[node] = true;
            return Err(Stop::Cut(alone));
        }
        if best.price < self.epsilon - PRICE_LIMIT {
            return Err(Stop::Overflow(node));
        }
        self.net.price[node] = best.price - self.epsilon;
        self.current[node] = best.index;
        Ok(true)
    }
}
