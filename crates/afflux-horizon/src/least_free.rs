//! What is free on every machine throughout a span of time.

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

/// Something that ends by itself: when, on which machine; what it returns is in a row of its own.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// Seconds on the caller's clock.
    pub at: f64,
    /// The machine.
    pub row: usize,
}

/// Something that is planned: it holds what its class asks for on a machine for a time.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// When it begins; minus infinity if at once, before anything ends.
    pub from: f64,
    /// When it ends.
    pub until: f64,
    /// The machine.
    pub row: usize,
    /// The row of requests.
    pub class: usize,
}

/// The least that is free on each machine from `start` to `end`.
///
/// `free` is what is free now, before anything ends; `endings` come in the order of time. A start of
/// minus infinity is at once. At the same time what ends makes room for what begins.
#[must_use]
pub fn least_free(
    free: Amounts<'_>,
    endings: &[Ending],
    returned: Amounts<'_>,
    seats: &[Seat],
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
    let ended = endings.partition_point(|ending| ending.at <= start);
    for (index, ending) in endings[..ended].iter().enumerate() {
        change(&mut now, ending.row, returned.row(index), 1);
    }
    for seat in seats {
        if seat.from <= start && start < seat.until {
            change(&mut now, seat.row, requests.row(seat.class), -1);
        }
    }
    // Only where somebody begins later can there be less later.
    let machines = now.len().checked_div(width).unwrap_or(0);
    let mut watched = vec![false; machines];
    for seat in seats {
        if start < seat.from && seat.from < end {
            watched[seat.row] = true;
        }
    }
    // Time, beginnings after ends, machine, amounts, sign.
    let mut later: Vec<(f64, bool, usize, &[i64], i64)> = Vec::new();
    for (index, ending) in endings.iter().enumerate().skip(ended) {
        if ending.at >= end {
            break;
        }
        if watched[ending.row] {
            later.push((ending.at, false, ending.row, returned.row(index), 1));
        }
    }
    for seat in seats.iter().filter(|seat| watched[seat.row]) {
        let asked = requests.row(seat.class);
        if start < seat.from && seat.from < end {
            later.push((seat.from, true, seat.row, asked, -1));
        }
        if start < seat.until && seat.until < end && seat.from < end {
            later.push((seat.until, false, seat.row, asked, 1));
        }
    }
    later.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut least = now.clone();
    for (_, begins, row, amounts, sign) in later {
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

    fn least(endings: &[(f64, usize, i64)], seats: &[Seat], start: f64, end: f64) -> Vec<i64> {
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
            seats,
            amounts(&[3]),
            start,
            end,
        )
    }

    fn seat(from: f64, until: f64, row: usize) -> Seat {
        Seat {
            from,
            until,
            row,
            class: 0,
        }
    }

    const AT_ONCE: f64 = f64::NEG_INFINITY;

    #[test]
    fn what_has_ended_is_free_and_what_ends_later_does_not_matter() {
        let endings = [(5.0, 1, 2), (9.0, 1, 2)];
        assert_eq!(least(&endings, &[], AT_ONCE, 100.0), [4, 0]);
        assert_eq!(least(&endings, &[], 5.0, 100.0), [4, 2]);
        assert_eq!(least(&endings, &[], 9.0, 100.0), [4, 4]);
    }

    #[test]
    fn who_begins_in_between_is_left_room_for() {
        assert_eq!(least(&[], &[seat(10.0, 20.0, 0)], AT_ONCE, 10.0), [4, 0]);
        assert_eq!(least(&[], &[seat(10.0, 20.0, 0)], AT_ONCE, 11.0), [1, 0]);
        assert_eq!(least(&[], &[seat(10.0, 20.0, 0)], 20.0, 99.0), [4, 0]);
    }

    #[test]
    fn who_ends_makes_room_for_who_begins_at_the_same_time() {
        let seats = [seat(AT_ONCE, 10.0, 0), seat(10.0, 20.0, 0)];
        assert_eq!(least(&[], &seats, AT_ONCE, 99.0), [1, 0]);
        let endings = [(10.0, 1, 3)];
        assert_eq!(
            least(&endings, &[seat(10.0, 20.0, 1)], AT_ONCE, 99.0),
            [4, 0]
        );
    }

    #[test]
    fn room_that_somebody_needs_who_comes_when_it_is_there_is_not_lost() {
        let endings = [(10.0, 1, 5)];
        assert_eq!(least(&endings, &[seat(12.0, 20.0, 1)], 10.0, 99.0), [4, 2]);
    }
}
