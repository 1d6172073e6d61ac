//! Gates that cannot be, and what gains are gates for: errors, and Figure 10 of the affinity design.

use afflux_flow::{ArcId, Effort, GainArc, Gate, GatedAnswer, Limits, Network, NodeId, Terms};

fn terms(lower: i64, capacity: i64, cost: i64) -> Terms {
    Terms {
        lower,
        capacity,
        cost,
    }
}

/// Figure 10: two tasks T that are placed together on machine M, or both wait at U.
struct Figure10 {
    network: Network,
    e: NodeId,
    /// From G to A, from M to the sink, from U to the sink.
    arcs: [ArcId; 3],
    answer: GatedAnswer,
}

/// The figure with a machine that has so many slots.
fn figure_10(slots: i64) -> Figure10 {
    let mut network = Network::new();
    let mut node = |supply| network.add_node(supply).unwrap();
    let (sink, m, u) = (node(-2), node(0), node(0));
    let (tasks, g, e, a) = ([node(1), node(1)], node(0), node(0), node(0));
    let mut arc = |tail, head, capacity, cost| {
        let terms = terms(0, capacity, cost);
        network.add_arc(tail, head, terms).unwrap()
    };
    for task in tasks {
        arc(task, g, 1, 0);
        arc(task, u, 1, 0);
    }
    arc(a, m, 2, 3);
    let (placed, waiting) = (arc(m, sink, slots, 0), arc(u, sink, 2, 0));
    let forced = GainArc {
        tail: g,
        head: e,
        lower: 1,
        capacity: 1,
        gain: 1,
    };
    let gain = GainArc {
        tail: g,
        head: a,
        lower: 0,
        capacity: 1,
        gain: 2,
    };
    let gate = network.add_gain(&[forced, gain], u, 50).unwrap();
    let arcs = [gate.members[0].0, placed, waiting];
    let effort = Effort::default();
    let answer = network.solve_gated(&[gate], effort, &Limits::default());
    Figure10 {
        answer: answer.unwrap(),
        network,
        e,
        arcs,
    }
}

/// Where the gain would have made three units of two, two set out and two arrive.
#[test]
fn figure_10_places_both_tasks_where_there_is_room() {
    let mut figure = figure_10(2);
    let answer = figure.answer;
    assert_eq!((answer.open, answer.cost, answer.bound), (vec![true], 6, 6));
    let flows = figure.arcs.map(|arc| figure.network.flow(arc).unwrap());
    assert_eq!(flows, [2, 2, 0]);
    // Nothing goes to E: there is not even an arc.
    assert_eq!(figure.network.remove_node(figure.e), Ok(()));
}

#[test]
fn figure_10_leaves_both_tasks_unscheduled_where_there_is_not() {
    for slots in [0, 1] {
        let figure = figure_10(slots);
        let answer = figure.answer;
        assert_eq!(
            (answer.open, answer.cost, answer.bound),
            (vec![false], 50, 50)
        );
        let flows = figure.arcs.map(|arc| figure.network.flow(arc).unwrap());
        assert_eq!(flows, [0, 0, 2]);
    }
}

/// Figure 10 with three tasks: two are forced to E, and one unit has a gain of three.
#[test]
fn larger_groups_have_larger_gains() {
    let mut network = Network::new();
    for supply in [3, 0, 0, -3] {
        network.add_node(supply).unwrap();
    }
    network.add_arc(1, 3, terms(0, 3, 1)).unwrap();
    let arc = |head, lower, capacity, gain| GainArc {
        tail: 0,
        head,
        lower,
        capacity,
        gain,
    };
    let gate = network
        .add_gain(&[arc(1, 0, 1, 3), arc(2, 2, 2, 1)], 3, 9)
        .unwrap();
    assert_eq!(gate.members[0].1, 3);
    let effort = Effort::default();
    let answer = network
        .solve_gated(&[gate], effort, &Limits::default())
        .unwrap();
    assert_eq!((answer.cost, answer.open), (3, vec![true]));
}

fn small() -> Network {
    let mut network = Network::new();
    for supply in [3, 0, -3] {
        network.add_node(supply).unwrap();
    }
    network.add_arc(0, 1, terms(0, 3, 0)).unwrap();
    network.add_arc(0, 2, terms(0, 3, 0)).unwrap();
    network.add_arc(1, 2, terms(1, 2, 4)).unwrap();
    network.add_arc(1, 1, terms(0, 2, 4)).unwrap();
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
fn gates_that_cannot_be() {
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
fn arcs_that_go_nowhere() {
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
fn gains_that_are_no_gates() {
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
