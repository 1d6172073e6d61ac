//! The gain construct becomes a gate: a group of tasks is placed as a whole or waits as a whole.

use afflux_flow::{ArcId, Effort, GainArc, GatedAnswer, Limits, Network, NodeId, Terms};

fn gain_arc(tail: NodeId, head: NodeId, (lower, capacity): (i64, i64), gain: i64) -> GainArc {
    GainArc {
        tail,
        head,
        lower,
        capacity,
        gain,
    }
}

/// The gain construct: two tasks T that are placed together on machine M, or both wait at U.
struct GainConstruct {
    network: Network,
    e: NodeId,
    /// From G to A, from M to the sink, from U to the sink.
    arcs: [ArcId; 3],
    answer: GatedAnswer,
}

/// Solves the construct with a machine that has this number of slots.
fn solve_gain_construct(slots: i64) -> GainConstruct {
    let mut network = Network::new();
    let mut node = |supply| network.add_node(supply).unwrap();
    let (sink, m, u) = (node(-2), node(0), node(0));
    let (tasks, g, e, a) = ([node(1), node(1)], node(0), node(0), node(0));
    let mut arc = |tail, head, capacity, cost| {
        let lower = 0;
        let terms = Terms {
            lower,
            capacity,
            cost,
        };
        network.add_arc(tail, head, terms).unwrap()
    };
    for task in tasks {
        arc(task, g, 1, 0);
        arc(task, u, 1, 0);
    }
    arc(a, m, 2, 3);
    let (placed, waiting) = (arc(m, sink, slots, 0), arc(u, sink, 2, 0));
    let arcs = [gain_arc(g, e, (1, 1), 1), gain_arc(g, a, (0, 1), 2)];
    let gate = network.add_gain(&arcs, u, 50).unwrap();
    let arcs = [gate.members[0].0, placed, waiting];
    let effort = Effort::default();
    let answer = network.solve_gated(&[gate], effort, &Limits::default());
    GainConstruct {
        answer: answer.unwrap(),
        network,
        e,
        arcs,
    }
}

/// With a gain, three units would arrive from a supply of two; with the gate, two arrive.
#[test]
fn a_gain_construct_places_both_tasks_if_there_is_room() {
    let mut construct = solve_gain_construct(2);
    let answer = construct.answer;
    assert_eq!((answer.open, answer.cost, answer.bound), (vec![true], 6, 6));
    let flows = construct
        .arcs
        .map(|arc| construct.network.flow(arc).unwrap());
    assert_eq!(flows, [2, 2, 0]);
    // E has no arc, so it can be removed.
    assert_eq!(construct.network.remove_node(construct.e), Ok(()));
}

#[test]
fn a_gain_construct_leaves_both_tasks_waiting_if_there_is_no_room() {
    for slots in [0, 1] {
        let construct = solve_gain_construct(slots);
        let answer = construct.answer;
        assert_eq!(
            (answer.open, answer.cost, answer.bound),
            (vec![false], 50, 50)
        );
        let flows = construct
            .arcs
            .map(|arc| construct.network.flow(arc).unwrap());
        assert_eq!(flows, [0, 0, 2]);
    }
}

/// The construct with three tasks: two units must go to E, and one unit has a gain of three.
#[test]
fn a_group_of_three_has_a_gain_of_three() {
    let mut network = Network::new();
    for supply in [3, 0, 0, -3] {
        network.add_node(supply).unwrap();
    }
    let placing = Terms {
        lower: 0,
        capacity: 3,
        cost: 1,
    };
    network.add_arc(1, 3, placing).unwrap();
    let arcs = [gain_arc(0, 1, (0, 1), 3), gain_arc(0, 2, (2, 2), 1)];
    let gate = network.add_gain(&arcs, 3, 9).unwrap();
    assert_eq!(gate.members[0].1, 3);
    let effort = Effort::default();
    let answer = network
        .solve_gated(&[gate], effort, &Limits::default())
        .unwrap();
    assert_eq!((answer.cost, answer.open), (3, vec![true]));
}
