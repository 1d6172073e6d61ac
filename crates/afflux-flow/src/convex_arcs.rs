//! Convex arcs: each unit costs at least as much as the unit before.
//!
//! A convex arc is equivalent to parallel arcs of one unit each. Because the cheapest units are
//! carried first, optimality depends only on the last carried unit and the next one, so scans and
//! proofs need not read the other costs. The costs of an arc are stored as one row. Convex arcs
//! have ids of their own and are stored apart from all other arcs; the position of a convex arc is
//! called its slot.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::problem::Arc;

/// Ids of convex arcs begin here; all other arcs have smaller ids.
pub(crate) const FIRST_CONVEX_ID: u32 = 1 << 30;

/// The slot of a convex arc, by its id; none for other arcs.
#[inline]
pub(crate) fn convex_slot(id: u32) -> Option<usize> {
    id.checked_sub(FIRST_CONVEX_ID).map(|slot| slot as usize)
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConvexArc {
    pub tail: u32,
    /// Differs from the tail; a removed arc has node 0 at both ends.
    pub head: u32,
    pub lower: u32,
    pub capacity: u32,
    /// Where its costs begin.
    first: u32,
    length: u32,
}

impl ConvexArc {
    pub fn exists(&self) -> bool {
        self.tail != self.head
    }

    pub fn ends(&self) -> (usize, usize) {
        (self.tail as usize, self.head as usize)
    }

    /// A unit without lower bound, as an arc of its own.
    #[inline]
    pub fn unit(&self, cost: i64) -> Arc {
        Arc {
            tail: self.tail as usize,
            head: self.head as usize,
            lower: 0,
            capacity: 1,
            cost,
        }
    }

    /// The number of its costs.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// The flow, clamped to the bounds.
    pub fn clamp_flow(&self, flow: i64) -> i64 {
        flow.clamp(self.lower.into(), self.capacity.into())
    }
}

/// The costs that decide whether a flow along an arc, convex or not, is optimal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MarginalCosts {
    /// The cost of the last unit, if the flow can be reduced.
    pub last: Option<i64>,
    /// The cost of the next unit, if the flow can be increased.
    pub next: Option<i64>,
}

impl MarginalCosts {
    /// The cost of a unit whose addition or removal lowers the total cost, if there is one. `fall`
    /// is the price of the tail less the price of the head.
    #[inline]
    pub fn improving_cost(&self, fall: i64) -> Option<i64> {
        let next = self.next.filter(|cost| cost + fall < 0);
        next.or(self.last.filter(|cost| cost + fall > 0))
    }
}

/// All convex arcs of a network, by slot: their id less [`FIRST_CONVEX_ID`].
#[derive(Debug, Clone, Default)]
pub(crate) struct ConvexArcs {
    slots: Vec<ConvexArc>,
    costs: Vec<i64>,
    /// Slots of removed arcs, by number of costs; a new arc with as many costs reuses one.
    free_slots: BTreeMap<u32, Vec<u32>>,
    count: usize,
    /// Whether any cost so far did not fit 32 bits.
    is_wide: bool,
}

impl ConvexArcs {
    /// The number of slots, including those of removed arcs.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The number of arcs that exist.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of costs, including those of removed arcs.
    pub fn units(&self) -> usize {
        self.costs.len()
    }

    /// Whether all costs fit 32 bits; capacities always do.
    pub fn fit_32_bits(&self) -> bool {
        !self.is_wide
    }

    #[inline]
    pub fn get(&self, slot: usize) -> &ConvexArc {
        &self.slots[slot]
    }

    /// The arcs of a range of slots, with their slots.
    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = (usize, &ConvexArc)> {
        range.clone().zip(&self.slots[range])
    }

    /// The costs of the units up to the capacity.
    #[inline]
    pub fn usable_costs(&self, convex: &ConvexArc) -> &[i64] {
        &self.costs[convex.first as usize..][..convex.capacity as usize]
    }

    /// All costs of an arc, also those beyond its capacity.
    pub fn costs_of(&self, convex: &ConvexArc) -> &[i64] {
        &self.costs[convex.first as usize..][..convex.length as usize]
    }

    /// All costs of all arcs that exist.
    pub fn all_costs(&self) -> impl Iterator<Item = i64> {
        let existing = self.slots.iter().filter(|convex| convex.exists());
        existing.flat_map(|convex| self.costs_of(convex)).copied()
    }

    /// The marginal costs of an arc at a flow.
    #[inline]
    pub fn margin(&self, convex: &ConvexArc, flow: i64) -> MarginalCosts {
        let costs = self.usable_costs(convex);
        let at = |unit: i64| costs.get(unit as usize).copied();
        MarginalCosts {
            last: (flow > convex.lower.into()).then(|| at(flow - 1)).flatten(),
            next: at(flow),
        }
    }

    /// The total cost of a flow along an arc.
    #[inline]
    pub fn cost_of(&self, convex: &ConvexArc, flow: i64) -> i128 {
        let units = &self.usable_costs(convex)[..flow as usize];
        units.iter().map(|&cost| i128::from(cost)).sum()
    }

    /// One arc for each unit of all convex arcs, in order.
    pub fn unit_arcs(&self) -> impl Iterator<Item = Arc> {
        self.slots.iter().flat_map(|convex| {
            let costs = self.usable_costs(convex).iter();
            costs.enumerate().map(|(unit, &cost)| Arc {
                lower: i64::from(unit < convex.lower as usize),
                ..convex.unit(cost)
            })
        })
    }

    /// A slot for a new arc with `length` costs; its bounds and costs are not set yet.
    pub fn place(&mut self, ends: (u32, u32), length: u32) -> usize {
        self.count += 1;
        let free_slot = self.free_slots.get_mut(&length).and_then(Vec::pop);
        let slot = free_slot.map_or(self.slots.len(), |slot| slot as usize);
        if slot == self.slots.len() {
            let first = self.costs.len() as u32;
            self.costs.resize(self.costs.len() + length as usize, 0);
            self.slots.push(ConvexArc {
                first,
                length,
                ..ConvexArc::default()
            });
        }
        (self.slots[slot].tail, self.slots[slot].head) = ends;
        slot
    }

    pub fn remove(&mut self, slot: usize) {
        let removed = &mut self.slots[slot];
        *removed = ConvexArc {
            first: removed.first,
            length: removed.length,
            ..ConvexArc::default()
        };
        self.free_slots
            .entry(removed.length)
            .or_default()
            .push(slot as u32);
        self.count -= 1;
    }

    pub fn set_bounds(&mut self, slot: usize, (lower, capacity): (i64, i64)) {
        let convex = &mut self.slots[slot];
        (convex.lower, convex.capacity) = (lower as u32, capacity as u32);
    }

    /// Sets the costs of an arc; their number must not change.
    pub fn set_costs(&mut self, slot: usize, costs: &[i64]) {
        let ConvexArc { first, length, .. } = self.slots[slot];
        self.costs[first as usize..][..length as usize].copy_from_slice(costs);
        let is_wide = |&cost: &i64| i32::try_from(cost).is_err();
        // The costs rise, so the first and the last are the extremes.
        self.is_wide |= costs.first().is_some_and(is_wide) || costs.last().is_some_and(is_wide);
    }

    /// Reserves memory for `more` arcs with `units` costs in total.
    pub fn reserve(&mut self, more: usize, units: usize) {
        self.slots.reserve(more);
        self.costs.reserve(units);
    }
}
