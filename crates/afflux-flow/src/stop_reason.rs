//! Why a search for a flow ends without one.

/// The largest magnitude of a price: reduced costs, which are the difference of two prices and a
/// cost of an eighth of this at most, cannot overflow.
pub(crate) const PRICE_LIMIT: i64 = i64::MAX / 4;

/// What stopped it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// No residual arc leaves this set of nodes, and it has excess: the problem is infeasible.
    Cut(Vec<bool>),
    /// The price of this node would not fit.
    Overflow(usize),
    /// The limits were reached.
    Expired,
}
