//! What it costs to get a given number of units out of a set of nodes.

/// A convex function over integers, linear between its corners, whose least value is zero.
///
/// Each arc that leaves the set or enters it first has the flow that is cheapest by itself. One
/// unit more out of the set is had where it costs least: more on an arc out, or less on an arc in;
/// and likewise one unit less.
#[derive(Default)]
pub(super) struct Valley {
    /// How many units leave where the value is zero.
    bottom: i128,
    /// Corners on both sides of the bottom: how far away, and the value there.
    above: Vec<(i128, i128)>,
    below: Vec<(i128, i128)>,
}

impl Valley {
    /// An arc out of the set carries `units` at its cheapest and may carry so many more or less, at
    /// `reduced` per unit. An arc into the set is one out of it that carries less than nothing.
    pub fn add(&mut self, units: i64, reduced: i64, more: i64, less: i64) {
        self.bottom += i128::from(units);
        let slope = i128::from(reduced.unsigned_abs());
        for (side, width) in [(&mut self.above, more), (&mut self.below, less)] {
            if width > 0 {
                side.push((i128::from(width), slope));
            }
        }
    }

    /// After the last arc: from slopes to corners.
    pub fn finish(&mut self) {
        for side in [&mut self.above, &mut self.below] {
            side.sort_unstable_by_key(|&(_, slope)| slope);
            let mut corner = (0, 0);
            for piece in side.iter_mut() {
                corner = (corner.0 + piece.0, corner.1 + piece.0 * piece.1);
                *piece = corner;
            }
        }
    }

    /// The value where so many units leave; none if they cannot.
    pub fn at(&self, units: i128) -> Option<i128> {
        let (side, distance) = match units >= self.bottom {
            true => (&self.above, units - self.bottom),
            false => (&self.below, self.bottom - units),
        };
        if distance == 0 {
            return Some(0);
        }
        let next = side.partition_point(|corner| corner.0 < distance);
        let &(end, value) = side.get(next)?;
        let (start, before) = next.checked_sub(1).map_or((0, 0), |last| side[last]);
        let slope = (value - before) / (end - start);
        Some(before + slope * (distance - start))
    }

    /// What one unit more or less than at the bottom costs, at least; none if neither can be had.
    pub fn steepness(&self) -> Option<i128> {
        let sides = [&self.above, &self.below].into_iter();
        sides
            .filter_map(|side| side.first())
            .map(|corner| corner.1 / corner.0)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::Valley;

    #[test]
    fn more_and_less_are_had_where_they_cost_least() {
        let mut valley = Valley::default();
        valley.add(2, -7, 0, 2); // out, full
        valley.add(0, 4, 3, 0); // out, empty
        valley.add(-1, 5, 1, 0); // in, full: less of it counts as more
        valley.finish();
        let values: Vec<Option<i128>> = (-2..7).map(|units| valley.at(units)).collect();
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
        assert_eq!(valley.steepness(), Some(4));
    }
}
