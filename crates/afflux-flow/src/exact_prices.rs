//! From scaled prices back to integer prices in the units of the costs.

use std::collections::VecDeque;

use crate::arcs::Width;
use crate::residual::Residual;
use crate::stop::PRICE_LIMIT;

/// Looks at entries, per entry of the network, before the flow is taken for one that is not optimal.
const PATIENCE: usize = 1;

/// Prices, multiples of `scale`, that prove the flow of a network optimal exactly; or nothing, if
/// they are not found soon. The flow is optimal up to `epsilon`, less than `scale`.
///
/// Rounding keeps all differences but those around the place where it jumps, so it jumps where
/// fewest prices are. What is wrong then is wrong by one step, and is put right by lowering heads of
/// arcs, and heads of their arcs, as long as there are any. Around a cycle that makes the flow
/// cheaper that would go on for ever; but once epsilon is below the scale there are mostly none left,
/// and the refinements that would prove it are saved.
pub(crate) fn exact<W: Width>(net: &Residual<W>, scale: i64, epsilon: i64) -> Option<Vec<i64>> {
    let cut = emptiest(&net.price, scale, epsilon);
    let above = |price: i64| price + scale - cut;
    let rounded = |&price: &i64| above(price).div_euclid(scale) * scale;
    let mut answer: Vec<i64> = net.price.iter().map(rounded).collect();
    // An arc is only wrong if rounding took almost a step from its tail, and almost none from its
    // head.
    let is_doubtful = |&node: &usize| above(net.price[node]).rem_euclid(scale) >= scale - epsilon;
    let doubtful = (0..net.nodes()).filter(is_doubtful);
    lower_heads(net, &mut answer, doubtful).then_some(answer)
}

/// The end of a run of `length` remainders, in a circle of `scale`, which as few prices as possible
/// have. With a length of 1 and more remainders than nodes there is one that none has.
fn emptiest(prices: &[i64], scale: i64, length: i64) -> i64 {
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

/// Lowers the heads of residual arcs until none has a negative reduced cost; answers whether that
/// was soon enough. Only arcs that leave some of the nodes may have one to begin with.
fn lower_heads<W: Width>(
    net: &Residual<W>,
    price: &mut [i64],
    tails: impl Iterator<Item = usize>,
) -> bool {
    let mut waiting: VecDeque<u32> = tails.map(|node| node as u32).collect();
    let mut is_waiting = vec![false; price.len()];
    for &node in &waiting {
        is_waiting[node as usize] = true;
    }
    let mut looks = PATIENCE * net.entries.len();
    while let Some(node) = waiting.pop_front() {
        let tail = node as usize;
        is_waiting[tail] = false;
        for index in net.open(tail) {
            let Some(left) = looks.checked_sub(1) else {
                return false;
            };
            looks = left;
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

    use super::{emptiest, exact};
    use crate::residual::{Piece, Residual};

    /// Arcs (tail, head, cost) that cannot be used backwards.
    fn network(price: &[i64], arcs: &[(usize, usize, i64)]) -> Residual<i32> {
        let mut ends = vec![0; price.len()];
        for &(tail, head, _) in arcs {
            ends[tail] += 1;
            ends[head] += 1;
        }
        let piece = |&(tail, head, cost): &(usize, usize, i64)| Piece {
            tail: tail as u32,
            head: head as u32,
            cost,
            room: 1,
            back: 0,
        };
        let pieces = arcs.iter().map(piece);
        Residual::new(pieces, &ends, vec![0; price.len()], price.to_vec(), 1)
    }

    #[test]
    fn rounding_jumps_where_fewest_prices_are() {
        // Remainders 8, 9, 0, 1 of 10.
        let prices = [18, 29, 30, 41];
        assert_eq!(emptiest(&prices, 10, 6), 8);
        assert_eq!(emptiest(&prices, 10, 7), 8);
        assert_eq!(emptiest(&[5, 15, 7], 10, 9), 9);
    }

    #[test]
    fn what_rounding_took_too_much_from_is_put_right() {
        // All remainders are taken, so that rounding goes wrong somewhere.
        let price: Vec<i64> = (0..10).collect();
        let arcs: Vec<_> = (0..10).map(|v| (v, (v + 1) % 10, 0)).collect();
        let net = network(&price, &arcs);
        assert_eq!(exact(&net, 10, 9), Some(vec![0; 10]));
    }

    #[test]
    fn a_flow_that_is_not_optimal_has_no_prices() {
        let net = network(&[0, 4], &[(0, 1, 0), (1, 0, -10)]);
        assert_eq!(exact(&net, 10, 9), None);
    }

    proptest! {
        #[test]
        fn exact_prices_prove(
            price in prop::collection::vec(-1000_i64..1000, 2..12),
            ends in prop::collection::vec((0_usize..12, 0_usize..12, 0_i64..3), 0..40),
            slack in 0_i64..20,
            epsilon in 1_i64..12,
        ) {
            let scale = price.len() as i64 + 1 + slack;
            prop_assume!(epsilon < scale);
            let arcs: Vec<_> = ends.iter().map(|&(tail, head, more)| {
                let (tail, head) = (tail % price.len(), head % price.len());
                // The cheapest cost that is tolerated, or a little more.
                let steps = (price[head] - price[tail] - epsilon + scale - 1).div_euclid(scale);
                (tail, head, scale * (steps + more))
            }).collect();
            let net = network(&price, &arcs);
            let answer = exact(&net, scale, epsilon);
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
