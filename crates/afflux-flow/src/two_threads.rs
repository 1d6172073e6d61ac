//! Splits long scans between two threads.
//!
//! A scan over a million arcs does little work per arc and mostly waits for memory; two threads
//! take two thirds of the time of one.

use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

/// For shorter scans, starting a thread takes longer than it saves.
const MIN_PARALLEL_LENGTH: usize = 60_000;

/// Runs `work` on both halves of a range at the same time if the scan is long and a second
/// processor is available, otherwise on the whole range. Returns the results in order.
pub(crate) fn in_two_threads<R: Send>(
    length: usize,
    scan_length: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    if scan_length < MIN_PARALLEL_LENGTH || !has_second_processor() {
        return vec![work(0..length)];
    }
    let middle = length / 2;
    thread::scope(|scope| {
        let spawned = thread::Builder::new().spawn_scoped(scope, || work(middle..length));
        let first = work(0..middle);
        // If no thread can be started, this thread does the work.
        let second = spawned.map_or_else(
            |_| work(middle..length),
            |thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
        );
        vec![first, second]
    })
}

/// Whether this process may use more than one processor. Asking the system takes longer than a
/// short scan, so the answer is cached.
fn has_second_processor() -> bool {
    static HAS_SECOND: OnceLock<bool> = OnceLock::new();
    *HAS_SECOND.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get) > 1)
}

#[cfg(test)]
mod tests {
    use super::{MIN_PARALLEL_LENGTH, in_two_threads};

    #[test]
    fn each_index_is_visited_once_and_in_order() {
        for length in [
            0,
            1,
            MIN_PARALLEL_LENGTH - 1,
            MIN_PARALLEL_LENGTH,
            3 * MIN_PARALLEL_LENGTH + 1,
        ] {
            let seen = in_two_threads(length, length, |range| range.collect::<Vec<_>>()).concat();
            assert_eq!(seen, (0..length).collect::<Vec<_>>());
        }
    }
}
