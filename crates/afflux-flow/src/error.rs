//! Errors of problems. Every message names the arc or node and the values.

use std::fmt;

/// Why there is no answer.
///
/// All except [`FlowError::Infeasible`], [`FlowError::Expired`] and [`FlowError::Internal`] mean
/// that the problem is not well formed or that its numbers do not fit the 64-bit arithmetic of the
/// solver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowError {
    /// A column of arcs has another length than `tail`.
    LengthMismatch {
        /// The name of the column.
        name: &'static str,
        /// Its length.
        length: usize,
        /// The length of `tail`.
        arcs: usize,
    },
    /// More nodes or arcs than 32-bit indices can address.
    TooLarge {
        /// "nodes", "arcs" and the like.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// The maximum.
        limit: usize,
    },
    /// An arc starts or ends at a node that does not exist.
    DanglingNode {
        /// The arc.
        arc: usize,
        /// "tail" or "head".
        end: &'static str,
        /// The node it names.
        node: i32,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A node was never added or has been removed.
    UnknownNode {
        /// Its number.
        node: u32,
    },
    /// An arc to be added starts or ends at a node that was never added or has been removed.
    UnknownEnd {
        /// The arc, by its position among those to be added.
        arc: usize,
        /// "tail" or "head".
        end: &'static str,
        /// The node it names.
        node: u32,
    },
    /// An arc was never added or has been removed.
    UnknownArc {
        /// Its number.
        arc: u32,
    },
    /// A node cannot be removed while arcs start or end there.
    NodeHasArcs {
        /// The node.
        node: u32,
        /// How many ends of arcs it has.
        ends: u32,
    },
    /// A lower bound or a capacity is negative.
    NegativeBound {
        /// The arc.
        arc: usize,
        /// "lower bound" or "capacity".
        bound: &'static str,
        /// Its value.
        value: i64,
    },
    /// A lower bound exceeds the capacity.
    LowerAboveCapacity {
        /// The arc.
        arc: usize,
        /// Its lower bound.
        lower: i64,
        /// Its capacity.
        capacity: i64,
    },
    /// The supplies do not add up to zero.
    Unbalanced {
        /// What they add up to.
        sum: i128,
    },
    /// A cost is too large to be scaled by the number of nodes.
    CostOverflow {
        /// The arc.
        arc: usize,
        /// Its cost.
        cost: i64,
        /// The largest magnitude allowed with this number of nodes.
        limit: i64,
    },
    /// A convex arc starts and ends at the same node.
    ConvexLoop {
        /// The arc.
        arc: usize,
        /// The node.
        node: u32,
    },
    /// A convex arc without costs.
    ConvexEmpty {
        /// The arc.
        arc: usize,
    },
    /// A unit of a convex arc costs less than the one before.
    ConvexFalls {
        /// The arc.
        arc: usize,
        /// The unit, from 0.
        unit: usize,
        /// What the one before it costs, and what it costs.
        costs: [i64; 2],
    },
    /// A convex arc can carry more units than it has costs for.
    ConvexCapacity {
        /// The arc.
        arc: usize,
        /// Its capacity.
        capacity: i64,
        /// How many costs it has.
        costs: usize,
    },
    /// A convex arc cannot have more costs, or fewer, than it was added with.
    ConvexLength {
        /// The arc.
        arc: u32,
        /// How many it should get.
        costs: usize,
        /// How many it has.
        expected: usize,
    },
    /// An arc is convex, where one with a single cost is needed.
    IsConvex {
        /// The arc.
        arc: u32,
    },
    /// An arc is not convex, where a convex one is needed.
    NotConvex {
        /// The arc.
        arc: u32,
    },
    /// Supplies, lower bounds and capacities around a node add up to too much.
    CapacityOverflow {
        /// The node.
        node: usize,
        /// The sum.
        sum: i128,
        /// The largest sum allowed.
        limit: i64,
    },
    /// A waiting cost is negative.
    NegativeWaitingCost {
        /// The gate.
        gate: usize,
        /// Its waiting cost.
        cost: i64,
    },
    /// An arc is named by two gates, or twice by one.
    ArcOfTwoGates {
        /// The arc.
        arc: u32,
        /// The gates.
        gates: [usize; 2],
    },
    /// The count of an arc of a gate is not between one and its capacity.
    GateCount {
        /// The gate.
        gate: usize,
        /// The arc.
        arc: u32,
        /// The count.
        count: i64,
        /// The capacity.
        capacity: i64,
    },
    /// An arc of a gate has a lower bound, although a closed gate carries nothing.
    GateLowerBound {
        /// The gate.
        gate: usize,
        /// The arc.
        arc: u32,
        /// Its lower bound.
        lower: i64,
    },
    /// An arc of a gate is a loop.
    GateLoop {
        /// The gate.
        gate: usize,
        /// The arc.
        arc: u32,
        /// Where it starts and ends.
        node: usize,
    },
    /// An arc is named by two levels, or twice by one.
    ArcOfTwoLevels {
        /// The arc.
        arc: u32,
        /// The levels, the one of higher priority first.
        levels: [usize; 2],
    },
    /// A gain is used outside the one construct that gates express.
    Gain {
        /// Where its arc starts.
        tail: u32,
        /// Where its arc ends.
        head: u32,
        /// The gain.
        gain: i64,
        /// What the construct needs.
        expected: &'static str,
    },
    /// A call that adds a gain has no arc with a gain.
    NoGain {
        /// How many arcs there are.
        arcs: usize,
    },
    /// A price left the range of 64-bit arithmetic while solving.
    PriceOverflow {
        /// The node.
        node: usize,
        /// The largest magnitude of a cost in the problem.
        largest_cost: i64,
        /// How many nodes there are.
        nodes: usize,
    },
    /// No flow satisfies the supplies and bounds.
    ///
    /// The proof is a cut: a set of nodes whose supplies and incoming lower bounds exceed the
    /// capacity of its outgoing arcs by `units`.
    Infeasible {
        /// The node of the set with the largest need to send.
        node: usize,
        /// How many further nodes the set has.
        others: usize,
        /// How many units cannot leave the set.
        units: i64,
    },
    /// The time limit was reached, or the solve was cancelled, before there was a feasible flow.
    Expired,
    /// The answer failed the solver's own check: a defect of the solver, not of the problem.
    Internal {
        /// What the check found.
        detail: String,
    },
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LengthMismatch { name, length, arcs } => write!(
                f,
                "{name} has {length} values, but tail has {arcs}: expected one per arc in both"
            ),
            Self::TooLarge { what, count, limit } => {
                write!(f, "{count} {what}: at most {limit} are supported")
            }
            Self::DanglingNode {
                arc,
                end,
                node,
                nodes: 0,
            } => write!(f, "arc {arc}: {end} is {node}, but there are no nodes"),
            Self::DanglingNode {
                arc,
                end,
                node,
                nodes,
            } => write!(
                f,
                "arc {arc}: {end} is {node}, expected a node from 0 to {}",
                nodes - 1
            ),
            Self::UnknownNode { node } => write!(
                f,
                "there is no node {node}: it was never added or has been removed"
            ),
            Self::UnknownEnd { arc, end, node } => write!(
                f,
                "arc {arc}: {end} is {node}, a node that was never added or has been removed"
            ),
            Self::UnknownArc { arc } => write!(
                f,
                "there is no arc {arc}: it was never added or has been removed"
            ),
            Self::NodeHasArcs { node, ends } => write!(
                f,
                "node {node} still has {ends} ends of arcs: remove the arcs first"
            ),
            Self::NegativeBound { arc, bound, value } => {
                write!(f, "arc {arc}: {bound} is {value}, expected 0 or more")
            }
            Self::LowerAboveCapacity {
                arc,
                lower,
                capacity,
            } => write!(
                f,
                "arc {arc}: lower bound {lower} is above its capacity {capacity}"
            ),
            Self::Unbalanced { sum } => {
                write!(f, "supplies add up to {sum}, expected 0")
            }
            Self::CostOverflow { arc, cost, limit } => write!(
                f,
                "arc {arc}: cost is {cost}, expected {limit} at most in magnitude \
                 for a network of this size"
            ),
            Self::ConvexLoop { arc, node } => write!(
                f,
                "arc {arc} is convex and starts and ends at node {node}, expected two nodes"
            ),
            Self::ConvexEmpty { arc } => write!(
                f,
                "arc {arc} is convex and has no costs, expected one for each unit"
            ),
            Self::ConvexFalls {
                arc,
                unit,
                costs: [before, cost],
            } => write!(
                f,
                "arc {arc}: unit {unit} costs {cost}, less than the one before it, {before}; \
                 costs of a convex arc may not fall"
            ),
            Self::ConvexCapacity {
                arc,
                capacity,
                costs,
            } => write!(
                f,
                "arc {arc}: capacity is {capacity}, expected no more than it has costs, {costs}"
            ),
            Self::ConvexLength {
                arc,
                costs,
                expected,
            } => write!(
                f,
                "arc {arc} has {expected} costs and cannot get {costs}: change its capacity, or \
                 remove it and add another"
            ),
            Self::IsConvex { arc } => write!(
                f,
                "arc {arc} is convex, expected one with the same cost for every unit"
            ),
            Self::NotConvex { arc } => {
                write!(f, "arc {arc} has a single cost, expected a convex one")
            }
            Self::CapacityOverflow { node, sum, limit } => write!(
                f,
                "node {node}: supply, lower bounds and capacities around it add up to {sum}, \
                 expected {limit} at most"
            ),
            Self::NegativeWaitingCost { gate, cost } => {
                write!(f, "gate {gate}: waiting cost is {cost}, expected 0 or more")
            }
            Self::ArcOfTwoGates {
                arc,
                gates: [first, second],
            } if first == second => {
                write!(f, "gate {first}: arc {arc} is named twice, expected once")
            }
            Self::ArcOfTwoGates {
                arc,
                gates: [first, second],
            } => write!(
                f,
                "arc {arc} is named by gates {first} and {second}, expected by one at most"
            ),
            Self::GateCount {
                gate,
                arc,
                count,
                capacity,
            } => write!(
                f,
                "gate {gate}: count of arc {arc} is {count}, expected 1 to its capacity {capacity}"
            ),
            Self::GateLowerBound { gate, arc, lower } => write!(
                f,
                "gate {gate}: lower bound of arc {arc} is {lower}, expected 0, since a closed \
                 gate lets nothing through"
            ),
            Self::GateLoop { gate, arc, node } => write!(
                f,
                "gate {gate}: arc {arc} starts and ends at node {node}, expected two nodes"
            ),
            Self::ArcOfTwoLevels {
                arc,
                levels: [first, second],
            } if first == second => {
                write!(f, "level {first}: arc {arc} is named twice, expected once")
            }
            Self::ArcOfTwoLevels {
                arc,
                levels: [first, second],
            } => write!(
                f,
                "arc {arc} is named by levels {first} and {second}, expected by one at most"
            ),
            Self::Gain {
                tail,
                head,
                gain,
                expected,
            } => write!(
                f,
                "arc from node {tail} to node {head}: a gain of {gain} is supported only for a \
                 group that is placed together or not at all, which needs {expected}; use gates \
                 for other groups"
            ),
            Self::NoGain { arcs } => write!(
                f,
                "none of {arcs} arcs has a gain other than 1: add them as arcs"
            ),
            Self::PriceOverflow {
                node,
                largest_cost,
                nodes,
            } => write!(
                f,
                "node {node}: its price does not fit 64 bits; costs of up to {largest_cost} \
                 are too large for {nodes} nodes"
            ),
            Self::Infeasible {
                node,
                others: 0,
                units,
            } => write!(
                f,
                "no feasible flow: {} cannot leave node {node}, whose outgoing arcs are too small",
                Units(*units)
            ),
            Self::Infeasible {
                node,
                others,
                units,
            } => write!(
                f,
                "no feasible flow: {} cannot leave the set of node {node} and {others} more, \
                 whose outgoing arcs are too small",
                Units(*units)
            ),
            Self::Expired => write!(
                f,
                "no feasible flow was found before the solve was stopped: increase or remove the limit"
            ),
            Self::Internal { detail } => write!(
                f,
                "internal error of the solver, its answer failed the certificate: {detail}"
            ),
        }
    }
}

impl std::error::Error for FlowError {}

/// "1 unit", "2 units".
struct Units(i64);

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}",
            self.0,
            if self.0 == 1 { "unit" } else { "units" }
        )
    }
}
