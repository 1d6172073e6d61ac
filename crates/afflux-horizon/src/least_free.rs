//! The amounts that every machine has free throughout a span of time.

/// Amounts of every resource on every machine: a row per machine.
#[derive(Clone, Copy, Debug)]
pub struct Amounts<'a> {
    /// Row after row.
    pub values: &'a [i64],
    /// Resources, the length of a row.
    pub resources: usize,
}

impl<'a> Amounts<'a> {
    fn row(&self, index: usize) -> &'a [i64] {
        &self.values[index * self.resources..(index + 1) * self.resources]
    }
}

/// The expected end of a running task: the time and the machine. The amounts that it returns are in
/// a row of their own.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// Seconds on the caller's clock.
    pub at: f64,
    /// The machine.
    pub row: usize,
}

/// A planned task: it occupies what its class asks for on a machine for a time.
#[derive(Clone, Copy, Debug)]
pub struct Occupancy {
    /// When it begins; minus infinity for at once, before any running task ends.
    pub from: f64,
    /// When it ends.
    pub until: f64,
    /// The machine.
    pub row: usize,
    /// The row of requests.
    pub class: usize,
}

/// The minimum free amounts of each machine from `start` to `end`.
///
/// `free` are the amounts free now, before any task ends; `endings` are ordered by time. A start of
/// minus infinity is at once. Amounts returned at a time are available to tasks that begin at that
/// time.
#[must_use]
pub fn least_free(
    free: Amounts<'_>,
    endings: &[Ending],
    returned: Amounts<'_>,
    occupancies: &[Occupancy],
    requests: Amounts<'_>,
    start: f64,
    end: f64,
) -> Vec<i64> {
    let width = free.resources;
    let mut now = free.values.to_vec();
    let change = |now: &mut [i64], row: usize, amounts: &[i64], sign: i64| {
        for (left, amount) in now[row * width..(row + 1) * width].iter_mut().zip(amounts) {
            *left += sign * amount;
        }
    };
    let endings_before_start = endings.partition_point(|ending| ending.at <= start);
    for (index, ending) in endings[..endings_before_start].iter().enumerate() {
        change(&mut now, ending.row, returned.row(index), 1);
    }
    for occupancy in occupancies {
        if occupancy.from <= start && start < occupancy.until {
            change(&mut now, occupancy.row, requests.row(occupancy.class), -1);
        }
    }
    // Free amounts can only fall on machines where a planned task begins later.
    let machines = now.len().checked_div(width).unwrap_or(0);
    let mut begins_later = vec![false; machines];
    for occupancy in occupancies {
        if start < occupancy.from && occupancy.from < end {
            begins_later[occupancy.row] = true;
        }
    }
    // Time, whether it is a beginning (sorted after ends), machine, amounts, sign.
    let mut events: Vec<(f64, bool, usize, &[i64], i64)> = Vec::new();
    for (index, ending) in endings.iter().enumerate().skip(endings_before_start) {
        if ending.at >= end {
            break;
        }
        if begins_later[ending.row] {
            events.push((ending.at, false, ending.row, returned.row(index), 1));
        }
    }
    for occupancy in occupancies
        .iter()
        .filter(|occupancy| begins_later[occupancy.row])
    {
        let request = requests.row(occupancy.class);
        if start < occupancy.from && occupancy.from < end {
            events.push((occupancy.from, true, occupancy.row, request, -1));
        }
        if start < occupancy.until && occupancy.until < end && occupancy.from < end {
            events.push((occupancy.until, false, occupancy.row, request, 1));
        }
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut least = now.clone();
    for (_, begins, row, amounts, sign) in events {
        change(&mut now, row, amounts, sign);
        if begins {
            let span = row * width..(row + 1) * width;
            for (low, left) in least[span.clone()].iter_mut().zip(&now[span]) {
                *low = (*low).min(*left);
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least(
        endings: &[(f64, usize, i64)],
        occupancies: &[Occupancy],
        start: f64,
        end: f64,
    ) -> Vec<i64> {
        let returned: Vec<i64> = endings.iter().map(|e| e.2).collect();
        let endings: Vec<Ending> = endings
            .iter()
            .map(|&(at, row, _)| Ending { at, row })
            .collect();
        let amounts = |values| Amounts {
            values,
            resources: 1,
        };
        least_free(
            amounts(&[4, 0]),
            &endings,
            amounts(&returned),
            occupancies,
            amounts(&[3]),
            start,
            end,
        )
    }

    fn occupancy(from: f64, until: f64, row: usize) -> Occupancy {
        Occupancy {
            from,
            until,
            row,
            class: 0,
        }
    }

    const AT_ONCE: f64 = f64::NEG_INFINITY;

    #[test]
    fn ended_tasks_are_free_and_later_ends_do_not_count() {
        let endings = [(5.0, 1, 2), (9.0, 1, 2)];
        assert_eq!(least(&endings, &[], AT_ONCE, 100.0), [4, 0]);
        assert_eq!(least(&endings, &[], 5.0, 100.0), [4, 2]);
        assert_eq!(least(&endings, &[], 9.0, 100.0), [4, 4]);
    }

    #[test]
    fn tasks_that_begin_within_the_span_reduce_the_free_amounts() {
        assert_eq!(
            least(&[], &[occupancy(10.0, 20.0, 0)], AT_ONCE, 10.0),
            [4, 0]
        );
        assert_eq!(
            least(&[], &[occupancy(10.0, 20.0, 0)], AT_ONCE, 11.0),
            [1, 0]
        );
        assert_eq!(least(&[], &[occupancy(10.0, 20.0, 0)], 20.0, 99.0), [4, 0]);
    }

    #[test]
    fn a_task_that_ends_makes_room_for_one_that_begins_at_the_same_time() {
        let occupancies = [occupancy(AT_ONCE, 10.0, 0), occupancy(10.0, 20.0, 0)];
        assert_eq!(least(&[], &occupancies, AT_ONCE, 99.0), [1, 0]);
        let endings = [(10.0, 1, 3)];
        assert_eq!(
            least(&endings, &[occupancy(10.0, 20.0, 1)], AT_ONCE, 99.0),
            [4, 0]
        );
    }

    #[test]
    fn a_later_task_uses_amounts_returned_before_the_span() {
        let endings = [(10.0, 1, 5)];
        assert_eq!(
            least(&endings, &[occupancy(12.0, 20.0, 1)], 10.0, 99.0),
            [4, 2]
        );
    }
}
