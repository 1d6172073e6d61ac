//! The timeline compared with a table that has an entry for every second.

#[path = "../../proptest_cases.rs"]
mod proptest_cases;

use afflux_horizon::{Start, Timeline};
use proptest::prelude::*;
use proptest_cases::cases;

const SECONDS: usize = 300;

/// The room at once, and in every second.
struct Table {
    at_once: i64,
    room: Vec<i64>,
}

impl Table {
    fn fits(&self, count: i64, run: usize, at: usize, at_once: bool) -> bool {
        (!at_once || self.at_once >= count)
            && (at..SECONDS.min(at + run.max(1))).all(|second| self.room[second] >= count)
    }

    fn earliest(&self, count: i64, run: usize) -> Option<(usize, bool)> {
        if self.fits(count, run, 0, true) {
            return Some((0, true));
        }
        (0..SECONDS)
            .find(|&at| self.fits(count, run, at, false))
            .map(|at| (at, false))
    }

    fn take(&mut self, count: i64, run: usize, at: usize, at_once: bool) {
        if at_once {
            self.at_once -= count;
        }
        for second in at..SECONDS.min(at + run) {
            self.room[second] -= count;
        }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn earliest_starts_match_the_table_and_fit(
        rows in prop::collection::vec(
            (0i64..4, prop::collection::vec((0usize..20, 1i64..3), 0..4)), 1..6),
        replaced in prop::collection::vec(
            (0usize..6, 0i64..4, prop::collection::vec((0usize..20, 1i64..3), 0..4)), 0..4),
        asked in prop::collection::vec((1i64..8, 1usize..15), 1..12),
    ) {
        let mut rows = rows;
        let mut timeline = Timeline::default();
        let growth = |steps: &[(usize, i64)]| steps.iter().map(|&(t, n)| (t as f64, n)).collect();
        for (row, (room, steps)) in rows.iter().enumerate() {
            timeline.set_row(row, *room, growth(steps));
        }
        for (row, room, steps) in replaced {
            if row < rows.len() {
                timeline.set_row(row, room, growth(&steps));
                rows[row] = (room, steps);
            }
        }
        timeline.begin(0.0);
        let mut table = Table {
            at_once: rows.iter().map(|(room, _)| room).sum(),
            room: (0..SECONDS)
                .map(|second| {
                    let grown = |(room, steps): &(i64, Vec<(usize, i64)>)| {
                        let more = steps.iter().filter(|(at, _)| *at <= second);
                        room + more.map(|(_, n)| n).sum::<i64>()
                    };
                    rows.iter().map(grown).sum()
                })
                .collect(),
        };
        for (count, run) in asked {
            let found = timeline.earliest(count, run as f64, 0.0);
            let expected = table.earliest(count, run);
            prop_assert_eq!(
                found.map(|start| (start.at as usize, start.at_once)),
                expected
            );
            if let Some(start) = found {
                prop_assert!(timeline.fits(count, run as f64, start));
                timeline.take(count, run as f64, start);
                table.take(count, run, start.at as usize, start.at_once);
            }
        }
        let again = timeline.clone();
        let start = Start { at: 3.0, at_once: false };
        timeline.take(2, 5.0, start);
        timeline.take(-2, 5.0, start);
        for second in 0..SECONDS {
            let room = |timeline: &Timeline| {
                let steps = timeline.steps();
                steps.iter().rfind(|step| step.at <= second as f64).map(|step| step.room)
            };
            prop_assert_eq!(room(&timeline), room(&again));
        }
    }
}
