//! Reasons why a search for a flow stops without a flow.

/// The largest magnitude of a price. A reduced cost is the difference of two prices plus a cost of
/// at most an eighth of this limit, so it cannot overflow.
pub(crate) const PRICE_LIMIT: i64 = i64::MAX / 4;

/// Why a search stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// No residual arc leaves this set of nodes, and the set has excess: the problem is infeasible.
    Cut(Vec<bool>),
    /// The price of this node would not fit.
    Overflow(usize),
    /// The limits were reached.
    Expired,
}
