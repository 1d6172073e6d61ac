//! Integer prices in the units of the costs, from scaled prices.

use std::collections::VecDeque;

use crate::arc_columns::IntWidth;
use crate::residual::Residual;
use crate::stop_reason::PRICE_LIMIT;

/// Visits of entries, per entry of the network, after which the flow counts as not optimal.
const MAX_VISITS_PER_ENTRY: usize = 1;

/// Prices, multiples of `scale`, that prove the flow of a network optimal; none if they are not
/// found quickly. The flow is `epsilon`-optimal, and `epsilon` is less than `scale`.
///
/// Prices are rounded down to multiples of `scale`, with an offset that separates as few prices as
/// possible. Rounding then makes few arcs violate optimality, each by one step. These are repaired
/// by lowering heads of violating arcs until no arc violates it (label correcting, Bellman-Ford). A
/// negative cycle would make this endless; but once epsilon is below `scale` there is mostly no
/// negative cycle left, and the refinements that would prove it are saved.
pub(crate) fn round_to_exact<W: IntWidth>(
    net: &Residual<W>,
    scale: i64,
    epsilon: i64,
) -> Option<Vec<i64>> {
    let cut = sparsest_run(&net.price, scale, epsilon);
    let above = |price: i64| price + scale - cut;
    let rounded = |&price: &i64| above(price).div_euclid(scale) * scale;
    let mut answer: Vec<i64> = net.price.iter().map(rounded).collect();
    // An arc can only violate optimality if rounding lowered its tail by almost a whole step and
    // its head by almost nothing.
    let is_suspect = |&node: &usize| above(net.price[node]).rem_euclid(scale) >= scale - epsilon;
    let suspects = (0..net.nodes()).filter(is_suspect);
    correct_labels(net, &mut answer, suspects).then_some(answer)
}

/// The end of a run of `length` consecutive remainders modulo `scale` that contains as few prices
/// as possible. With length 1 and more remainders than nodes, some run contains none.
fn sparsest_run(prices: &[i64], scale: i64, length: i64) -> i64 {
    let mut counts = vec![0_u32; scale as usize];
    for price in prices {
        counts[price.rem_euclid(scale) as usize] += 1;
    }
    let length = length as usize;
    let mut count: u32 = counts[..length].iter().sum();
    let (mut least, mut end) = (count, length);
    for next in length..counts.len() {
        if least == 0 {
            break;
        }
        count = count + counts[next] - counts[next - length];
        if count < least {
            (least, end) = (count, next + 1);
        }
    }
    end as i64
}

/// Lowers heads of residual arcs until no residual arc has a negative reduced cost. Returns false
/// if that takes too many visits. At first, only arcs that leave `tails` may have a negative one.
fn correct_labels<W: IntWidth>(
    net: &Residual<W>,
    price: &mut [i64],
    tails: impl Iterator<Item = usize>,
) -> bool {
    let mut waiting: VecDeque<u32> = tails.map(|node| node as u32).collect();
    let mut is_waiting = vec![false; price.len()];
    for &node in &waiting {
        is_waiting[node as usize] = true;
    }
    let mut visits_left = MAX_VISITS_PER_ENTRY * net.entries.len();
    while let Some(node) = waiting.pop_front() {
        let tail = node as usize;
        is_waiting[tail] = false;
        for index in net.open(tail) {
            let Some(left) = visits_left.checked_sub(1) else {
                return false;
            };
            visits_left = left;
            let entry = &net.entries[index];
            let head = entry.head as usize;
            let level = net.cost(entry) + price[tail];
            if level < price[head] {
                if level < -PRICE_LIMIT {
                    return false;
                }
                price[head] = level;
                if !is_waiting[head] {
                    is_waiting[head] = true;
                    waiting.push_back(entry.head);
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{round_to_exact, sparsest_run};
    use crate::residual::{Residual, ResidualArc};

    /// A network of arcs (tail, head, cost) without reverse capacity.
    fn network(price: &[i64], arcs: &[(usize, usize, i64)]) -> Residual<i32> {
        let mut ends = vec![0; price.len()];
        for &(tail, head, _) in arcs {
            ends[tail] += 1;
            ends[head] += 1;
        }
        let residual_arc = |&(tail, head, cost): &(usize, usize, i64)| ResidualArc {
            tail: tail as u32,
            head: head as u32,
            cost,
            residual_capacity: 1,
            backward_capacity: 0,
        };
        let residual_arcs = arcs.iter().map(residual_arc);
        Residual::new(
            residual_arcs,
            &ends,
            vec![0; price.len()],
            price.to_vec(),
            1,
        )
    }

    #[test]
    fn rounding_separates_as_few_prices_as_possible() {
        // Remainders 8, 9, 0, 1 of 10.
        let prices = [18, 29, 30, 41];
        assert_eq!(sparsest_run(&prices, 10, 6), 8);
        assert_eq!(sparsest_run(&prices, 10, 7), 8);
        assert_eq!(sparsest_run(&[5, 15, 7], 10, 9), 9);
    }

    #[test]
    fn violations_caused_by_rounding_are_repaired() {
        // Every remainder occurs, so rounding makes some arc violate optimality.
        let price: Vec<i64> = (0..10).collect();
        let arcs: Vec<_> = (0..10).map(|v| (v, (v + 1) % 10, 0)).collect();
        let net = network(&price, &arcs);
        assert_eq!(round_to_exact(&net, 10, 9), Some(vec![0; 10]));
    }

    #[test]
    fn a_flow_that_is_not_optimal_has_no_exact_prices() {
        let net = network(&[0, 4], &[(0, 1, 0), (1, 0, -10)]);
        assert_eq!(round_to_exact(&net, 10, 9), None);
    }

    proptest! {
        #[test]
        fn exact_prices_prove_optimality(
            price in prop::collection::vec(-1000_i64..1000, 2..12),
            ends in prop::collection::vec((0_usize..12, 0_usize..12, 0_i64..3), 0..40),
            slack in 0_i64..20,
            epsilon in 1_i64..12,
        ) {
            let scale = price.len() as i64 + 1 + slack;
            prop_assume!(epsilon < scale);
            let arcs: Vec<_> = ends.iter().map(|&(tail, head, more)| {
                let (tail, head) = (tail % price.len(), head % price.len());
                // The smallest cost that is `epsilon`-optimal, or a little more.
                let steps = (price[head] - price[tail] - epsilon + scale - 1).div_euclid(scale);
                (tail, head, scale * (steps + more))
            }).collect();
            let net = network(&price, &arcs);
            let answer = round_to_exact(&net, scale, epsilon);
            prop_assert!(answer.is_some() || epsilon > 1);
            for answer in answer.iter() {
                for &(tail, head, cost) in &arcs {
                    prop_assert!(cost + answer[tail] - answer[head] >= 0);
                    prop_assert_eq!(answer[tail] % scale, 0);
                }
            }
        }
    }
}
