//! Arcs with a gain: the one construct that a gate can express.
//!
//! An arc with a gain multiplies the flow through it: for each unit that enters, `gain` units
//! arrive. Networks with gains in general need another kind of solver, and their optimal flows are
//! fractional: half a unit into a gain of two would place one task of two. Only one construct is
//! recognised here, for tasks that are placed together or not at all. A group of k tasks sends its
//! units to a node G. One arc from G must carry exactly k - 1 units to a node E, and another arc
//! may carry one unit, with the gain k, to a node A in front of the machines. Either all k units
//! reach G and k units leave A, or one unit goes where tasks wait and none reaches A.
//!
//! # Excess in the construct
//!
//! In that construct, the supply is k units. If the group waits, one unit arrives where tasks wait
//! and k - 1 units at E, k in total. If the group is placed, k units arrive at the machines and k -
//! 1 at E, 2k - 1 in total: the gain creates k - 1 units. So no sink has the right demand in both
//! cases. E needs a demand of its own for its k - 1 units, the created units need a sink that takes
//! any number, and a waiting group is represented by one unit out of k, which must bear the waiting
//! cost of all.
//!
//! A gate avoids this. It opens by a decision and not by a flow, so it needs no node E and creates
//! no units: k units leave the sources and k arrive, at the machines or where tasks wait.

use crate::error::FlowError;
use crate::gates::Gate;
use crate::network::{Network, NodeId};
use crate::problem::Terms;

/// An arc that delivers `gain` units for each unit that enters; see [`Network::add_gain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GainArc {
    /// The node where it starts.
    pub tail: NodeId,
    /// The node where it ends.
    pub head: NodeId,
    /// The lower bound of the flow that enters.
    pub lower: i64,
    /// The capacity for the flow that enters.
    pub capacity: i64,
    /// The units that arrive for each unit that enters. 1 is an ordinary arc.
    pub gain: i64,
}

impl Network {
    /// Adds the gate that arcs with a gain represent. `arcs` are all arcs out of one node G: one
    /// with a gain of k, for at most one unit, and one without a gain, for exactly k - 1 units.
    ///
    /// The only member of the gate goes from G to the head of the gain arc. Units that do not pass
    /// the gate go from G to the node `waiting`, at no cost; the gate has the waiting cost. Any
    /// other use of a gain is an error.
    ///
    /// With gains, a placed group would have k units arrive at the machines and k - 1 at the end of
    /// the other arc, from a supply of k. The gate does not create such an excess: it sends nothing
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

/// Returns the gain arc if the arcs form the construct.
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
        [other] if arcs.len() == 2 && other.tail == gain.tail && other.gain == 1 => {
            match (other.lower, other.capacity) {
                (lower, capacity) if lower == gain.gain - 1 && capacity == lower => Ok(gain),
                _ => refuse("that the other arc must carry exactly one unit less than the gain"),
            }
        }
        _ => refuse("one other arc out of the same node, without a gain"),
    }
}
