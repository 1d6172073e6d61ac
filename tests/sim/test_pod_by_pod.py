"""The peer: one pod at a time, filtered and scored as kube-scheduler 1.36 does it.

`Kube` below is a second implementation, node by node in plain integers, written from the
description of each plugin; the peer must choose a node to which it gives the highest score.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afflux.cluster.state import State
from afflux.model.devices import DeviceRequest
from afflux.model.machine import Machine
from afflux.model.resources import CPU, MEMORY, PODS, resources
from afflux.model.selectors import NodeAffinity, Requirement, Term
from afflux.model.taints import Taint, Toleration
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.pod_by_pod import PodByPod, balanced_allocation, least_allocated, normalised
from oracles.disks import disk, report, stated

MIB = 2**20
GIB = 2**30


# --- Formulas, by hand


def one_node(cpu: int, memory: int) -> np.ndarray:
    return np.array([[cpu], [memory]], np.int64)


@pytest.mark.parametrize(
    ("requested", "capacity", "score"),
    [
        ((0, 0), (4000, 10_000), 100),
        ((3000, 5000), (4000, 10_000), 37),  # 25 and 50; 37.5 rounded down
        ((3000, 5000), (6000, 10_000), 50),
        ((1, 0), (3, 10), 83),  # 66.7 is rounded down before the mean is taken
        ((4000, 10_000), (4000, 10_000), 0),
        ((4001, 5000), (4000, 10_000), 25),  # more than there is counts as all of it
        ((3000, 0), (4000, 0), 25),  # a node without memory is judged by its CPU alone
        ((100, 100), (0, 0), 0),
        ((2**52, 2**52), (2**53, 2**53), 50),
    ],
)
def test_least_allocated_prefers_free_nodes(
    requested: tuple[int, int], capacity: tuple[int, int], score: int
) -> None:
    assert least_allocated(one_node(*requested), one_node(*capacity)).tolist() == [score]


@pytest.mark.parametrize(
    ("before", "after", "capacity", "score"),
    [
        ((0, 0), (2000, 5000), (4000, 10_000), 75),  # as even as before
        ((0, 0), (3000, 5000), (4000, 10_000), 68),  # 87.5 -> 87; 50 + (50 + 87 - 100) / 2
        ((2000, 0), (2000, 5000), (4000, 10_000), 87),  # 75 before, 100 after
        ((4000, 0), (4000, 10_000), (4000, 10_000), 100),
        ((0, 0), (4000, 0), (4000, 10_000), 50),
        ((6000, 0), (8000, 0), (4000, 10_000), 75),  # fractions end at 1
        ((0, 0), (4000, 0), (4000, 0), 75),  # one resource is always even
    ],
)
def test_balanced_allocation_prefers_even_use(
    before: tuple[int, int], after: tuple[int, int], capacity: tuple[int, int], score: int
) -> None:
    found = balanced_allocation(one_node(*after), one_node(*before), one_node(*capacity))
    assert found.tolist() == [score]


def test_scores_are_normalised_to_shares_of_the_largest() -> None:
    assert normalised(np.array([0, 1, 2, 3])).tolist() == [0, 33, 66, 100]
    assert normalised(np.array([0, 0])).tolist() == [0, 0]
    assert normalised(np.array([], np.int64)).tolist() == []


# --- Choices, by hand


def machine(name: str, cpu: int = 4000, memory: int = 8 * GIB, **more: object) -> Machine:
    pods = more.pop("pods", 110)
    return Machine(name, resources({CPU: cpu, MEMORY: memory, PODS: pods}), **more)


def shape(cpu: int = 0, memory: int = 0, **more: object) -> Shape:
    return Shape(resources({CPU: cpu, MEMORY: memory, PODS: 1}), **more)


def single(name: str, of: Shape) -> WaitingGroup:
    return WaitingGroup(name, (Task(name, name, of),))


def choices(state: State, *shapes: Shape, seed: int = 0) -> list[str | None]:
    """The machines of these pods after one decision."""
    queue = [single(f"p{number}", each) for number, each in enumerate(shapes)]
    decided = PodByPod(seed).decide(state, queue).plan
    where = {placement.task.name: placement.machine for placement in decided.placements}
    assert [group.name for group in decided.placed] == list(where)
    return [where.get(group.name) for group in queue]


def test_the_emptier_node_wins() -> None:
    state = State([machine("n1"), machine("n2")])
    state.place(Task("r", "r", shape(1000, GIB)), "n1")
    assert choices(state, shape(1000, GIB)) == ["n2"]


def test_each_pod_sees_the_placements_before_it() -> None:
    state = State([machine("n1"), machine("n2")])
    found = choices(state, *[shape(1000, 2 * GIB)] * 8)
    assert sorted(found) == ["n1"] * 4 + ["n2"] * 4
    assert all(set(found[i : i + 2]) == {"n1", "n2"} for i in range(0, 8, 2))


def test_there_is_no_look_ahead() -> None:
    # Two small pods are spread, so that the large one has no room.
    state = State([machine("n1"), machine("n2")])
    found = choices(state, *[shape(1000, 2 * GIB)] * 2, shape(4000, 8 * GIB))
    assert found[2] is None


def test_a_pod_that_fits_nowhere_does_not_block_others() -> None:
    state = State([machine("n1")])
    assert choices(state, shape(5000), shape(1000), shape(5000)) == [None, "n1", None]


def test_an_exact_fit_fits_and_slots_count() -> None:
    state = State([machine("n1", pods=2)])
    assert choices(state, *[shape(2000, 4 * GIB)] * 3) == ["n1", "n1", None]
    state = State([machine("n1", pods=2)])
    assert choices(state, *[shape(100)] * 3) == ["n1", "n1", None]


def test_balance_decides_between_nodes_that_are_equally_free() -> None:
    # Both 50 % free on average; n1 lacks what the pod brings.
    state = State([machine("n1", 1000, 1000), machine("n2", 1000, 1000)])
    state.place(Task("r1", "r1", shape(500, 0)), "n1")
    state.place(Task("r2", "r2", shape(0, 500)), "n2")
    assert choices(state, shape(0, 300)) == ["n1"]
    assert choices(state, shape(300, 0)) == ["n2"]


def test_pods_without_requests_are_spread_too() -> None:
    state = State([machine(f"n{i}") for i in range(4)])
    assert sorted(choices(state, *[shape()] * 8)) == sorted(["n0", "n1", "n2", "n3"] * 2)


def test_pods_without_requests_count_in_later_cycles_until_they_end() -> None:
    names = [f"n{i}" for i in range(5)]
    state, peer = State(machine(name) for name in names), PodByPod()

    def place(pod: str) -> str:
        (placement,) = peer.decide(state, [single(pod, shape())]).plan.placements
        state.place(placement.task, placement.machine)
        return placement.machine

    where = {f"p{number}": place(f"p{number}") for number in range(15)}
    assert sorted(where.values()) == sorted(names * 3)
    for pod, name in where.items():
        if name == "n3":
            state.remove(pod)
    assert [place(f"q{number}") for number in range(3)] == ["n3"] * 3


def test_ties_are_broken_at_random_but_repeatably() -> None:
    state = State([machine(f"n{i}") for i in range(3)])
    by_seed = [choices(state, shape(1000), seed=seed) for seed in range(30)]
    assert {where for (where,) in by_seed} == {"n0", "n1", "n2"}
    assert by_seed == [choices(state, shape(1000), seed=seed) for seed in range(30)]


def test_soft_taints_are_avoided_in_proportion() -> None:
    soft = [Taint(f"k{i}", "PreferNoSchedule") for i in range(20)]
    state = State([machine("n0", taints=tuple(soft[:20])), machine("n1", taints=tuple(soft[:11]))])
    # n1 has 11 of 20: 100 - 55 = 45 points, times 3, more than an empty node is worth.
    state.place(Task("r", "r", shape(3000, 6 * GIB)), "n1")
    assert choices(state, shape(100, GIB // 10)) == ["n1"]
    tolerant = shape(100, GIB // 10, tolerations=(Toleration(operator="Exists"),))
    assert choices(state, tolerant) == ["n0"]


def term(value: str) -> Term:
    return Term(labels=(Requirement("zone", "In", (value,)),))


def test_preferred_affinity_is_a_share_of_the_best_node_that_is_left() -> None:
    labels = {"zone": "a", "disk": "ssd"}
    disk = Term(labels=(Requirement("disk", "Exists"),))
    affinity = NodeAffinity(preferred=((60, term("a")), (40, disk)))
    state = State([machine("full", labels=labels), machine("empty", labels={"zone": "a"})])
    # full: 200 points for affinity; empty: 2 * 60. The other plugins give empty about 90 more.
    state.place(Task("r", "r", shape(3800, int(7.6 * GIB))), "full")
    assert choices(state, shape(100, GIB // 5, affinity=affinity)) == ["empty"]
    state.remove("r")
    state.place(Task("r", "r", shape(2000, 4 * GIB)), "full")
    assert choices(state, shape(100, GIB // 5, affinity=affinity)) == ["full"]


def test_devices_are_filtered_one_by_one() -> None:
    state = State([machine("n1", devices=2)])
    share = shape(100, devices=DeviceRequest(1, 600))
    assert choices(state, share, share, share) == ["n1", "n1", None]


def test_disks_are_filtered_one_by_one() -> None:
    state = State([machine("n1"), machine("n2")])
    state.set_disks(report("n1", disk("a", 5, 5), disk("b", 9, 9)))
    reads, both = (
        replace(shape(100), disks=stated((4, 0))),
        replace(shape(100), disks=stated((6, 0))),
    )
    assert choices(state, reads, both, reads, reads) == ["n1", "n1", None, None]
    two = replace(shape(100), disks=stated((5, 5), (9, 9)))
    assert choices(state, two, two) == ["n1", None]


def test_a_pod_with_an_unknown_resource_waits() -> None:
    odd = Shape(resources({"example.com/odd": 1, PODS: 1}))
    state = State([machine("n1")])
    assert choices(state, shape(1000), odd, shape(1000)) == ["n1", None, "n1"]


def test_without_nodes_all_pods_wait() -> None:
    assert choices(State(), shape(1000)) == [None]


# --- Against a second implementation


@dataclass
class Node:
    """A node as the scalar implementation keeps it."""

    machine: Machine
    cpu: int
    memory: int
    slots: int
    requested: list[int] = field(default_factory=lambda: [0, 0])
    with_defaults: list[int] = field(default_factory=lambda: [0, 0])
    pods: int = 0

    def add(self, cpu: int, memory: int) -> None:
        self.requested = [self.requested[0] + cpu, self.requested[1] + memory]
        self.with_defaults[0] += cpu if cpu > 0 else 100
        self.with_defaults[1] += memory if memory > 0 else 200 * MIB
        self.pods += 1


@dataclass(frozen=True)
class Pod:
    cpu: int
    memory: int
    zone: str | None
    preferred: tuple[tuple[int, str], ...]
    tolerates: tuple[str, ...]

    def shape(self) -> Shape:
        return shape(
            self.cpu,
            self.memory,
            affinity=NodeAffinity(
                selector=(("zone", self.zone),) if self.zone else (),
                preferred=tuple((weight, term(value)) for weight, value in self.preferred),
            ),
            tolerations=tuple(Toleration(key, "Exists") for key in self.tolerates),
        )


class Kube:
    """Filter and score, node by node."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes

    def best(self, pod: Pod) -> set[str]:
        """The names of the nodes with the highest score; none if the pod fits nowhere."""
        left = [node for node in self.nodes if self._fits(node, pod)]
        if not left:
            return set()
        taints = self._shares([self._soft(node, pod) for node in left])
        zones = self._shares([self._preferred(node, pod) for node in left])
        scores = [
            self._least_allocated(node, pod) + self._balance(node, pod) + 3 * (100 - t) + 2 * z
            for node, t, z in zip(left, taints, zones, strict=True)
        ]
        return {n.machine.name for n, s in zip(left, scores, strict=True) if s == max(scores)}

    def _fits(self, node: Node, pod: Pod) -> bool:
        hard = [t for t in node.machine.taints if t.effect != "PreferNoSchedule"]
        return (
            not node.machine.unschedulable
            and all(t.key in pod.tolerates for t in hard)
            and (pod.zone is None or node.machine.labels.get("zone") == pod.zone)
            and node.pods + 1 <= node.slots
            and (pod.cpu == 0 or pod.cpu <= node.cpu - node.requested[0])
            and (pod.memory == 0 or pod.memory <= node.memory - node.requested[1])
        )

    def _soft(self, node: Node, pod: Pod) -> int:
        soft = [t for t in node.machine.taints if t.effect == "PreferNoSchedule"]
        return sum(t.key not in pod.tolerates for t in soft)

    def _preferred(self, node: Node, pod: Pod) -> int:
        return sum(w for w, zone in pod.preferred if node.machine.labels.get("zone") == zone)

    def _shares(self, scores: list[int]) -> list[int]:
        return [100 * score // max(scores) if max(scores) else 0 for score in scores]

    def _least_allocated(self, node: Node, pod: Pod) -> int:
        after = [
            node.with_defaults[0] + (pod.cpu or 100),
            node.with_defaults[1] + (pod.memory or 200 * MIB),
        ]
        parts = [
            0 if used > whole else (whole - used) * 100 // whole
            for used, whole in zip(after, (node.cpu, node.memory), strict=True)
            if whole > 0
        ]
        return sum(parts) // len(parts) if parts else 0

    def _balance(self, node: Node, pod: Pod) -> int:
        if pod.cpu == 0 and pod.memory == 0:
            return 0
        with_pod = [node.requested[0] + pod.cpu, node.requested[1] + pod.memory]
        return (
            50 + (50 + self._evenness(node, with_pod) - self._evenness(node, node.requested)) // 2
        )

    def _evenness(self, node: Node, used: Sequence[int]) -> int:
        wholes = (node.cpu, node.memory)
        fractions = [
            min(1.0, part / whole) for part, whole in zip(used, wholes, strict=True) if whole > 0
        ]
        deviation = abs(fractions[0] - fractions[1]) / 2 if len(fractions) == 2 else 0.0
        return int((1 - deviation) * 100)


zones = st.sampled_from(["a", "b"])
amounts = st.sampled_from([0, 0, 1, 100, 250, 999, 1000, 2500])
taints = st.lists(
    st.builds(Taint, st.sampled_from("xyz"), st.sampled_from(["PreferNoSchedule", "NoSchedule"])),
    max_size=3,
    unique_by=lambda taint: taint.key,
)
nodes = st.lists(
    st.tuples(
        st.sampled_from([0, 1000, 3000, 3001, 8000]),
        st.sampled_from([0, 1000, 3000, 7919, 16_000]),
        st.sampled_from([1, 3, 110]),
        zones,
        st.one_of(st.just([]), st.just([]), taints),
        st.sampled_from([False] * 5 + [True]),
        st.lists(st.tuples(amounts, amounts), max_size=4),
    ),
    min_size=1,
    max_size=6,
)
pods = st.lists(
    st.builds(
        Pod,
        amounts,
        amounts.map(lambda mib: mib * MIB),
        st.one_of(st.none(), st.none(), zones),
        st.lists(st.tuples(st.integers(1, 100), zones), max_size=3).map(tuple),
        st.lists(st.sampled_from("xyz"), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=10,
)


def cluster(drawn: list[tuple]) -> tuple[State, list[Node]]:
    """The same cluster twice, with the same pods running on it, overcommitted ones included."""
    state, scalar = State(), []
    for number, (cpu, mib, slots, zone, tainted, cordoned, running) in enumerate(drawn):
        name = f"n{number}"
        each = machine(
            name,
            cpu,
            mib * MIB,
            pods=slots,
            labels={"zone": zone},
            taints=tuple(tainted),
            unschedulable=cordoned,
        )
        state.set_machine(each)
        scalar.append(Node(each, cpu, mib * MIB, slots))
        for place, (used_cpu, used_mib) in enumerate(running):
            # The peer knows what it counted for pods without requests only if it placed them.
            cpu_milli, memory_bytes = max(1, used_cpu), max(1, used_mib) * MIB
            task = Task(f"{name}-{place}", f"{name}-{place}", shape(cpu_milli, memory_bytes))
            state.place(task, name)
            scalar[-1].add(cpu_milli, memory_bytes)
    return state, scalar


@pytest.mark.slow
@settings(max_examples=500)
@given(nodes, pods, st.booleans())
def test_pods_are_placed_as_kube_scheduler_places_them(
    drawn: list[tuple], waiting: list[Pod], one_round: bool
) -> None:
    state, scalar = cluster(drawn)
    peer, kube = PodByPod(), Kube(scalar)
    queue = [single(f"p{number}", pod.shape()) for number, pod in enumerate(waiting)]
    for batch in [queue] if one_round else [[group] for group in queue]:
        decided = {p.task.name: p for p in peer.decide(state, batch).plan.placements}
        for group in batch:
            pod = waiting[int(group.name[1:])]
            best = kube.best(pod)
            if group.name not in decided:
                assert best == set()
                continue
            chosen = decided[group.name].machine
            assert chosen in best
            scalar[int(chosen[1:])].add(pod.cpu, pod.memory)
        for placement in decided.values():
            state.place(placement.task, placement.machine, placement.devices)
