//! Cost scaling: from a rough answer to the exact one, epsilon by epsilon.

use std::collections::VecDeque;

use crate::residual::Residual;
use crate::update::{PRICE_LIMIT, Stop, Update};

/// By what epsilon is divided from one refinement to the next.
const ALPHA: i64 = 5;

/// How many entries are looked at in relabellings, per entry of the network, before prices are
/// updated globally.
const UPDATE_AFTER: usize = 2;

/// Turns the pseudoflow of `net` into a flow that is optimal up to 1 in scaled costs, and its
/// prices into those that show it.
pub(crate) fn optimise(net: &mut Residual) -> Result<(), Stop> {
    let mut epsilon = net
        .entries
        .iter()
        .map(|entry| entry.cost.abs())
        .max()
        .unwrap_or(0);
    let mut scaling = Scaling::new(net);
    loop {
        epsilon = (epsilon / ALPHA).max(1);
        scaling.refine(epsilon)?;
        if epsilon == 1 {
            return Ok(());
        }
    }
}

struct Scaling<'a> {
    net: &'a mut Residual,
    epsilon: i64,
    /// Entries before the current one of a node are not admissible.
    current: Vec<u32>,
    /// Nodes with excess.
    active: VecDeque<u32>,
    update: Update,
    /// Entries looked at in relabellings since the last global update.
    looked_at: usize,
    /// How many of them call for one.
    patience: usize,
}

impl<'a> Scaling<'a> {
    fn new(net: &'a mut Residual) -> Self {
        let nodes = net.nodes();
        Self {
            epsilon: 0,
            current: vec![0; nodes],
            active: VecDeque::new(),
            update: Update::new(nodes),
            looked_at: 0,
            patience: UPDATE_AFTER * (net.entries.len() + nodes),
            net,
        }
    }

    /// From a flow that is optimal up to the last epsilon to one that is up to this one.
    fn refine(&mut self, epsilon: i64) -> Result<(), Stop> {
        self.epsilon = epsilon;
        self.saturate();
        self.active.clear();
        for node in 0..self.net.nodes() {
            if self.net.excess[node] > 0 {
                self.active.push_back(node as u32);
            }
        }
        self.update_prices()?;
        while let Some(node) = self.active.pop_front() {
            self.discharge(node as usize)?;
            if self.looked_at > self.patience {
                self.update_prices()?;
            }
        }
        Ok(())
    }

    fn update_prices(&mut self) -> Result<(), Stop> {
        self.looked_at = 0;
        let nodes = self.net.nodes();
        self.current.copy_from_slice(&self.net.first[..nodes]);
        self.update.run(self.net, self.epsilon)
    }

    /// Fills every residual arc of negative reduced cost: the pseudoflow is then optimal exactly,
    /// at the price of excesses and deficits.
    fn saturate(&mut self) {
        for tail in 0..self.net.nodes() {
            let tail_price = self.net.price[tail];
            for index in self.net.range(tail) {
                let entry = self.net.entries[index];
                if entry.room > 0
                    && entry.cost + tail_price - self.net.price[entry.head as usize] < 0
                {
                    self.net.push(tail, index, entry.room);
                }
            }
        }
    }

    /// Pushes the excess of a node along admissible arcs, relabelling it as often as needed.
    fn discharge(&mut self, tail: usize) -> Result<(), Stop> {
        loop {
            let end = self.net.first[tail + 1];
            let mut index = self.current[tail];
            let tail_price = self.net.price[tail];
            while index < end {
                let entry = self.net.entries[index as usize];
                let head = entry.head as usize;
                let level = entry.cost + tail_price;
                if entry.room > 0
                    && level < self.net.price[head]
                    && (self.net.excess[head] < 0 || self.leads_on(head, level)?)
                {
                    let excess = self.net.excess[tail];
                    let units = excess.min(entry.room);
                    let before = self.net.excess[head];
                    self.net.push(tail, index as usize, units);
                    if before <= 0 && before + units > 0 {
                        self.active.push_back(head as u32);
                    }
                    if units == excess {
                        self.current[tail] = index;
                        return Ok(());
                    }
                }
                index += 1;
            }
            self.relabel(tail)?;
            if self.looked_at > self.patience {
                // Whatever is left of the excess goes where the new prices lead.
                self.active.push_back(tail as u32);
                return Ok(());
            }
        }
    }

    /// Makes sure that an admissible arc leaves the node, by relabelling it if need be; answers
    /// whether its price is above `level` still.
    ///
    /// Looking ahead (Goldberg 1997) keeps units from being pushed to a node that would have to
    /// send them straight back.
    fn leads_on(&mut self, node: usize, level: i64) -> Result<bool, Stop> {
        let price = self.net.price[node];
        let start = self.current[node];
        let rest = &self.net.entries[start as usize..self.net.first[node + 1] as usize];
        let found = rest.iter().position(|entry| {
            entry.room > 0 && entry.cost + price < self.net.price[entry.head as usize]
        });
        if let Some(offset) = found {
            self.current[node] = start + offset as u32;
            return Ok(true);
        }
        if !self.relabel(node)? {
            // A dead end without excess: any lower price will do. One that is far below keeps it
            // from being tried again and again.
            let far = self.epsilon.saturating_mul(self.net.nodes() as i64);
            self.net.price[node] = level.saturating_sub(far).max(-PRICE_LIMIT);
        }
        Ok(level < self.net.price[node])
    }

    /// Lowers the price of a node that no admissible arc leaves, as far as epsilon-optimality
    /// allows. Answers false if nothing at all can leave the node, which then has no excess.
    fn relabel(&mut self, node: usize) -> Result<bool, Stop> {
        let mut best = i64::MIN;
        let mut best_index = 0;
        let start = self.net.first[node];
        let leaving = self.net.leaving(node);
        self.looked_at += leaving.len();
        for (index, entry) in leaving.iter().enumerate() {
            if entry.room > 0 {
                let price = self.net.price[entry.head as usize] - entry.cost;
                if price > best {
                    best = price;
                    best_index = index as u32;
                }
            }
        }
        if best == i64::MIN {
            if self.net.excess[node] == 0 {
                return Ok(false);
            }
            let mut alone = vec![false; self.net.nodes()];
            alone[node] = true;
            return Err(Stop::Cut(alone));
        }
        if best - self.epsilon < -PRICE_LIMIT {
            return Err(Stop::Overflow(node));
        }
        self.net.price[node] = best - self.epsilon;
        self.current[node] = start + best_index;
        Ok(true)
    }
}
