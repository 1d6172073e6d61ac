//! Errors of gates, and of gains that do not become a gate.

use afflux_flow::{Effort, GainArc, Gate, Limits, Network, Terms};

fn small() -> Network {
    let mut network = Network::new();
    for supply in [3, 0, -3] {
        network.add_node(supply).unwrap();
    }
    for (tail, head, lower, capacity, cost) in [
        (0, 1, 0, 3, 0),
        (0, 2, 0, 3, 0),
        (1, 2, 1, 2, 4),
        (1, 1, 0, 2, 4),
    ] {
        let terms = Terms {
            lower,
            capacity,
            cost,
        };
        network.add_arc(tail, head, terms).unwrap();
    }
    network
}

fn message(gates: &[(&[(u32, i64)], i64)]) -> String {
    let gates: Vec<Gate> = gates
        .iter()
        .map(|&(members, waiting_cost)| Gate {
            members: members.to_vec(),
            waiting_cost,
        })
        .collect();
    match small().solve_gated(&gates, Effort::default(), &Limits::default()) {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn invalid_gates_are_errors() {
    assert_eq!(
        message(&[(&[(9, 1)], 1)]),
        "there is no arc 9: it was never added or has been removed"
    );
    assert_eq!(
        message(&[(&[(0, 1)], 1), (&[(1, 1), (0, 1)], 1)]),
        "arc 0 is named by gates 0 and 1, expected by one at most"
    );
    assert_eq!(
        message(&[(&[(0, 1), (0, 1)], 1)]),
        "gate 0: arc 0 is named twice, expected once"
    );
    assert_eq!(
        message(&[(&[(0, 0)], 1)]),
        "gate 0: count of arc 0 is 0, expected 1 to its capacity 3"
    );
    assert_eq!(
        message(&[(&[(0, 4)], 1)]),
        "gate 0: count of arc 0 is 4, expected 1 to its capacity 3"
    );
    assert_eq!(
        message(&[(&[(0, 1)], -1)]),
        "gate 0: waiting cost is -1, expected 0 or more"
    );
    assert_eq!(
        message(&[(&[(2, 1)], 1)]),
        "gate 0: lower bound of arc 2 is 1, expected 0, since a closed gate lets nothing \
         through"
    );
}

#[test]
fn a_loop_in_a_gate_is_an_error() {
    assert_eq!(
        message(&[(&[(0, 1)], 1), (&[(3, 1)], 1)]),
        "gate 1: arc 3 starts and ends at node 1, expected two nodes"
    );
}

fn gain_message(arcs: &[(u32, u32, i64, i64, i64)]) -> String {
    let arcs: Vec<GainArc> = arcs
        .iter()
        .map(|&(tail, head, lower, capacity, gain)| GainArc {
            tail,
            head,
            lower,
            capacity,
            gain,
        })
        .collect();
    let mut network = small();
    let message = match network.add_gain(&arcs, 2, 1) {
        Ok(gate) => format!("{gate:?}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(network.arcs(), 4);
    message
}

#[test]
fn other_uses_of_gains_are_errors() {
    let start = "arc from node 0 to node 1: a gain of";
    let middle = "is supported only for a group that is placed together or not at all, which \
                  needs";
    let end = "; use gates for other groups";
    for (arcs, gain, expected) in [
        (
            vec![(0, 1, 0, 1, 2)],
            2,
            "one other arc out of the same node, without a gain",
        ),
        (
            vec![(0, 1, 0, 1, 2), (1, 2, 1, 1, 1)],
            2,
            "one other arc out of the same node, without a gain",
        ),
        (
            vec![(0, 1, 0, 1, 2), (0, 2, 1, 1, 1), (0, 2, 1, 1, 1)],
            2,
            "one other arc out of the same node, without a gain",
        ),
        (
            vec![(0, 2, 1, 1, 1), (0, 1, 0, 1, 3)],
            3,
            "that the other arc must carry exactly one unit less than the gain",
        ),
        (
            vec![(0, 2, 1, 1, 1), (0, 1, 0, 2, 2)],
            2,
            "that it carries no unit or one",
        ),
        (
            vec![(0, 2, 1, 1, 1), (0, 1, 0, 1, 0)],
            0,
            "a gain of at least 2, the number of tasks",
        ),
    ] {
        let message = gain_message(&arcs);
        assert_eq!(message, format!("{start} {gain} {middle} {expected}{end}"));
    }
    assert_eq!(
        gain_message(&[(0, 1, 0, 1, 1)]),
        "none of 1 arcs has a gain other than 1: add them as arcs"
    );
    assert_eq!(
        gain_message(&[(0, 9, 0, 1, 2), (0, 2, 1, 1, 1)]),
        "there is no node 9: it was never added or has been removed"
    );
}
