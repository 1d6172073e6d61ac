//! The cost of moving a given number of units out of a pool, which is a set of nodes.

/// A convex, piecewise linear function over integers whose minimum is zero.
///
/// At the minimum, each arc that leaves or enters the set has the flow that is cheapest by itself.
/// One more unit out of the set comes from the cheapest arc: more flow on an arc out of the set, or
/// less flow on an arc into it; and likewise for one unit less.
#[derive(Default)]
pub(super) struct PoolCost {
    /// The number of leaving units at which the value is zero.
    minimum_at: i128,
    /// Breakpoints on both sides of the minimum: the distance from it, and the value there.
    above: Vec<(i128, i128)>,
    below: Vec<(i128, i128)>,
}

impl PoolCost {
    /// Adds an arc out of the set that carries `units` when it is cheapest and may carry `more` or
    /// `less`, at the reduced cost `reduced` per unit. An arc into the set is added with a negative
    /// number of units.
    pub fn add_arc(&mut self, units: i64, reduced: i64, more: i64, less: i64) {
        self.minimum_at += i128::from(units);
        let slope = i128::from(reduced.unsigned_abs());
        for (side, width) in [(&mut self.above, more), (&mut self.below, less)] {
            if width > 0 {
                side.push((i128::from(width), slope));
            }
        }
    }

    /// Converts slopes to breakpoints, after the last arc has been added.
    pub fn finish(&mut self) {
        for side in [&mut self.above, &mut self.below] {
            side.sort_unstable_by_key(|&(_, slope)| slope);
            let mut breakpoint = (0, 0);
            for piece in side.iter_mut() {
                breakpoint = (breakpoint.0 + piece.0, breakpoint.1 + piece.0 * piece.1);
                *piece = breakpoint;
            }
        }
    }

    /// The value for a number of leaving units; none if that number is impossible.
    pub fn value_at(&self, units: i128) -> Option<i128> {
        let (side, distance) = match units >= self.minimum_at {
            true => (&self.above, units - self.minimum_at),
            false => (&self.below, self.minimum_at - units),
        };
        if distance == 0 {
            return Some(0);
        }
        let next = side.partition_point(|breakpoint| breakpoint.0 < distance);
        let &(end, value) = side.get(next)?;
        let (start, before) = next.checked_sub(1).map_or((0, 0), |last| side[last]);
        let slope = (value - before) / (end - start);
        Some(before + slope * (distance - start))
    }

    /// The smallest cost of one unit more or less than at the minimum; none if neither is possible.
    pub fn min_slope(&self) -> Option<i128> {
        let sides = [&self.above, &self.below].into_iter();
        sides
            .filter_map(|side| side.first())
            .map(|breakpoint| breakpoint.1 / breakpoint.0)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::PoolCost;

    #[test]
    fn cheapest_arcs_are_used_first() {
        let mut function = PoolCost::default();
        function.add_arc(2, -7, 0, 2); // out, full
        function.add_arc(0, 4, 3, 0); // out, empty
        function.add_arc(-1, 5, 1, 0); // in, full: less of it counts as more
        function.finish();
        let values: Vec<Option<i128>> = (-2..7).map(|units| function.value_at(units)).collect();
        let expected = [
            None,
            Some(14),
            Some(7),
            Some(0),
            Some(4),
            Some(8),
            Some(12),
            Some(17),
        ];
        assert_eq!(values[..8], expected);
        assert_eq!(values[8], None);
        assert_eq!(function.min_slope(), Some(4));
    }
}
