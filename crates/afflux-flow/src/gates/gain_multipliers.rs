//! Gains, as far as gates express them.
//!
//! An arc with a gain multiplies what flows through it: for each unit that enters, `gain` arrive. In
//! general this needs another kind of solver, whose best flows are fractions: half a unit into a gain
//! of two would place one task of two. Here, one construct with gains is understood, the one for
//! tasks that are placed together or not at all. A group of k tasks sends its units to a node G. From
//! there one arc must carry exactly k - 1 of them to a node E, and another may carry one unit, with
//! the gain k, to a node A in front of the machines. Either all k units reach G, and k leave A. Or
//! one of them goes where tasks wait, and none reaches A.
//!
//! # What becomes of the excess
//!
//! In that construct, k units set out. If the group waits, one is counted where tasks wait and
//! k - 1 arrive at E, k in all. If the group is placed, k arrive at the machines and k - 1 at E,
//! 2k - 1 in all: k - 1 more than set out, made by the gain. So no sink can demand the right number
//! of units beforehand. What is at E is the same in both cases and means nothing; E has to absorb it
//! by a demand of its own. What the gain made has to be absorbed by a sink that takes any number.
//! And a group that waits is counted by one unit out of k, so that this unit has to bear the waiting
//! cost of all.
//!
//! A gate has none of this. It opens by a choice and not by a flow, so nothing has to be sent to E,
//! and nothing is made or lost: k units set out and k arrive, at the machines or where tasks wait.

use crate::error::FlowError;
use crate::gates::Gate;
use crate::network::{Network, NodeId};
use crate::problem::Terms;

/// An arc that delivers `gain` units for each that enters it; see [`Network::add_gain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GainArc {
    /// Where it starts.
    pub tail: NodeId,
    /// Where it ends.
    pub head: NodeId,
    /// How much must enter it.
    pub lower: i64,
    /// How much can enter it.
    pub capacity: i64,
    /// How many units arrive for each that enters. 1 is an arc like all others.
    pub gain: i64,
}

impl Network {
    /// Adds what arcs with a gain stand for, as a gate. `arcs` are all arcs out of one node G: one
    /// with a gain of k, for one unit at most, and one without, for exactly k - 1 units.
    ///
    /// The gate's only member goes from G to where the gain arc ends. Units that do not go through
    /// the gate leave G for the node `waiting`, at no cost; the gate has the waiting cost. Any other
    /// use of a gain is refused.
    ///
    /// With gains, a group that is placed would have k units arrive at the machines and k - 1 where
    /// the other arc ends, after k had set out. The gate makes no such excess: it sends nothing
    /// along the other arc, and k units arrive either at the machines or where tasks wait.
    pub fn add_gain(
        &mut self,
        arcs: &[GainArc],
        waiting: NodeId,
        waiting_cost: i64,
    ) -> Result<Gate, FlowError> {
        let gain = recognise(arcs)?;
        let free = Terms {
            lower: 0,
            capacity: gain.gain,
            cost: 0,
        };
        self.check_arc(gain.tail, waiting, free)?;
        let member = self.add_arc(gain.tail, gain.head, free)?;
        self.add_arc(gain.tail, waiting, free)?;
        Ok(Gate {
            members: vec![(member, gain.gain)],
            waiting_cost,
        })
    }
}

/// The gain arc of the construct.
fn recognise(arcs: &[GainArc]) -> Result<GainArc, FlowError> {
    let Some(&gain) = arcs.iter().find(|arc| arc.gain != 1) else {
        return Err(FlowError::NoGain { arcs: arcs.len() });
    };
    let refuse = |expected| {
        Err(FlowError::Gain {
            tail: gain.tail,
            head: gain.head,
            gain: gain.gain,
            expected,
        })
    };
    if gain.gain < 2 {
        return refuse("a gain of at least 2, the number of tasks");
    }
    if (gain.lower, gain.capacity) != (0, 1) {
        return refuse("that it carries no unit or one");
    }
    match arcs.iter().filter(|&&arc| arc != gain).collect::<Vec<_>>()[..] {
        [forced] if arcs.len() == 2 && forced.tail == gain.tail && forced.gain == 1 => {
            match (forced.lower, forced.capacity) {
                (lower, capacity) if lower == gain.gain - 1 && capacity == lower => Ok(gain),
                _ => refuse("that the other arc must carry exactly one unit less than the gain"),
            }
        }
        _ => refuse("one other arc out of the same node, without a gain"),
    }
}
