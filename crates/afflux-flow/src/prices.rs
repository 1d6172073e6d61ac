//! From scaled prices back to integer prices in the units of the costs.

/// Rounds prices so that they prove optimality exactly.
///
/// Given: for every residual arc (v, w), scale * cost + price\[v\] - price\[w\] >= -1, and fewer
/// nodes than `scale`. Answer: integers with cost + answer\[v\] - answer\[w\] >= 0.
///
/// Rounding a/scale down would do if no price had the remainder scale - 1, since then
/// floor((a + 1) / scale) = floor(a / scale). There are `scale` remainders and fewer prices, so
/// some remainder k is free; adding scale - 1 - k to all prices changes no difference and makes
/// the free remainder that one.
pub(crate) fn rounded(scaled: &[i64], scale: i64) -> Vec<i64> {
    debug_assert!((scaled.len() as i64) < scale);
    let mut taken = vec![false; scale as usize];
    for price in scaled {
        taken[price.rem_euclid(scale) as usize] = true;
    }
    let free = taken.iter().position(|&is_taken| !is_taken).unwrap_or(0);
    let shift = scale - 1 - free as i64;
    scaled
        .iter()
        .map(|price| (price + shift).div_euclid(scale))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::rounded;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_rounds_a_tolerated_arc_below_zero(
            scaled in prop::collection::vec(-1000_i64..1000, 1..12),
            ends in prop::collection::vec((0_usize..12, 0_usize..12), 1..60),
        ) {
            let scale = scaled.len() as i64 + 1;
            let answer = rounded(&scaled, scale);
            for (v, w) in ends {
                let (v, w) = (v % scaled.len(), w % scaled.len());
                // The cheapest integer cost that the scaled prices tolerate.
                let cost = (scaled[w] - scaled[v] - 1 + scale - 1).div_euclid(scale);
                prop_assert!(scale * cost + scaled[v] - scaled[w] >= -1);
                prop_assert!(cost + answer[v] - answer[w] >= 0);
            }
        }
    }
}
