//! Long scans by two threads.
//!
//! A scan over a million arcs is little work per arc, and waits for memory most of the time; two
//! threads take two thirds of the time of one.

use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

/// Below this a thread is not worth starting.
const LONG: usize = 60_000;

/// Does both halves of a range at the same time, if there is much to look at in it and a second
/// processor to do so. Answers in order.
pub(crate) fn in_halves<R: Send>(
    length: usize,
    looks: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    if looks < LONG || !has_second() {
        return vec![work(0..length)];
    }
    let middle = length / 2;
    thread::scope(|scope| {
        let spawned = thread::Builder::new().spawn_scoped(scope, || work(middle..length));
        let first = work(0..middle);
        // Where no thread may be started, the work is done here.
        let second = spawned.map_or_else(
            |_| work(middle..length),
            |thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
        );
        vec![first, second]
    })
}

/// Whether this process may use more than one processor. Asking takes longer than a short scan.
fn has_second() -> bool {
    static HAS_SECOND: OnceLock<bool> = OnceLock::new();
    *HAS_SECOND.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get) > 1)
}

#[cfg(test)]
mod tests {
    use super::{LONG, in_halves};

    #[test]
    fn every_number_is_seen_once_and_in_order() {
        for length in [0, 1, LONG - 1, LONG, 3 * LONG + 1] {
            let seen = in_halves(length, length, |range| range.collect::<Vec<_>>()).concat();
            assert_eq!(seen, (0..length).collect::<Vec<_>>());
        }
    }
}
