//! From scaled prices back to integer prices in the units of the costs.

/// Integer prices that prove optimality exactly, if the scaled ones already tell them.
///
/// Given: for every residual arc (v, w), scale * cost + scaled\[v\] - scaled\[w\] >= -epsilon.
/// Answer: integers with cost + answer\[v\] - answer\[w\] >= 0 for the same arcs, or nothing.
///
/// Dividing by `scale` and rounding down would do if no scaled price had one of the `epsilon`
/// highest remainders, since then floor((a + epsilon) / scale) = floor(a / scale). Only differences
/// of prices matter, so any run of `epsilon` free remainders (around the corner too) can be shifted
/// to the top. With epsilon 1 and more remainders than nodes one is always free, so the last
/// refinement always succeeds; in practice an earlier one does.
pub(crate) fn rounded(scaled: &[i64], scale: i64, epsilon: i64) -> Option<Vec<i64>> {
    if epsilon >= scale {
        return None;
    }
    let mut taken = vec![false; scale as usize];
    for price in scaled {
        taken[price.rem_euclid(scale) as usize] = true;
    }
    let after = end_of_free_run(&taken, epsilon as usize)?;
    let shift = scale - after as i64;
    let round = |price: &i64| (price + shift).div_euclid(scale);
    Some(scaled.iter().map(round).collect())
}

/// The position after a run of `length` free places, in a circle.
fn end_of_free_run(taken: &[bool], length: usize) -> Option<usize> {
    let mut run = 0;
    for (place, &is_taken) in taken.iter().chain(taken).enumerate() {
        if run >= length {
            return Some(place % taken.len());
        }
        run = if is_taken { 0 } else { run + 1 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::rounded;
    use proptest::prelude::*;

    #[test]
    fn rounds_at_the_widest_gap() {
        // Remainders 8, 9, 0, 1 of 10: only the run 2..=7 is free.
        assert_eq!(rounded(&[18, 29, 30, 41], 10, 6), Some(vec![2, 3, 3, 4]));
        assert_eq!(rounded(&[18, 29, 30, 41], 10, 7), None);
        assert_eq!(rounded(&[0, 5], 10, 10), None);
    }

    proptest! {
        #[test]
        fn never_rounds_a_tolerated_arc_below_zero(
            scaled in prop::collection::vec(-1000_i64..1000, 1..12),
            slack in 0_i64..20,
            epsilon in 0_i64..12,
        ) {
            let scale = scaled.len() as i64 + 1 + slack;
            let answer = rounded(&scaled, scale, epsilon);
            prop_assert!(answer.is_some() || epsilon > 1);
            for (v, w) in (0..scaled.len()).flat_map(|v| (0..scaled.len()).map(move |w| (v, w))) {
                // The cheapest integer cost that the scaled prices tolerate.
                let cost = (scaled[w] - scaled[v] - epsilon + scale - 1).div_euclid(scale);
                prop_assert!(scale * cost + scaled[v] - scaled[w] >= -epsilon);
                if let Some(answer) = &answer {
                    prop_assert!(cost + answer[v] - answer[w] >= 0);
                }
            }
        }
    }
}
