"""A model of kube-scheduler 1.36 with its default configuration, for comparison.

Pods are taken in queue order. For each pod the nodes are filtered, then scored with the formulas of
NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation over CPU and memory,
TaintToleration and NodeAffinity, each with its default weight. The best score wins; ties are broken
at random (seeded). There is no look-ahead, and members of a group are ordinary pods.

Deliberate differences from kube-scheduler:

- in its favour, there is no backoff after a failed attempt, and every node is scored, not only a
  sample of a large cluster;
- there is no preemption, as everywhere in this simulator;
- a task is scored like a pod with one container;
- tasks have no images, neighbours or owners: ImageLocality, InterPodAffinity and PodTopologySpread
  would add the same score to every node;
- shares of devices and bandwidth of disks, which kube-scheduler does not know, are filtered
  exactly, are not scored, and are taken from the fullest devices and disks that fit.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.machines import Column
from afflux.cluster.state import State
from afflux.cluster.task_room import FreeCapacity, choose_devices, choose_disks, room_of
from afflux.model.devices import take_devices
from afflux.model.placement import Placement
from afflux.model.reservation import NO_RESERVATIONS, StandingReservations
from afflux.model.resources import CPU, MEMORY, amount_of
from afflux.model.taints import Taint, untolerated
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.round import Round
from afflux.policies.policy import Policy, admitted_by
from afflux.policies.registry import constraints

MAX_SCORE = 100
# What a container without requests counts as when nodes are scored.
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 2**20
TAINT_WEIGHT = 3
AFFINITY_WEIGHT = 2


class PodByPod:
    """Places every task on its own, in queue order."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._constraints = constraints()
        self._filter_results: dict[Shape, tuple[int, NDArray[np.bool_]]] = {}
        # By task id: the default amounts of placed tasks that request no CPU or no memory.
        self._defaults_of_tasks: dict[str, NDArray[np.int64]] = {}

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """The policies that filter machines: the same for every shape."""
        del shape
        return self._constraints

    def decide(
        self,
        state: State,
        queue: Sequence[WaitingGroup],
        now_seconds: float = 0.0,
        earlier: StandingReservations = NO_RESERVATIONS,
    ) -> Round:
        """Places one pod after the other; every group has one task."""
        del now_seconds, earlier
        # A new resource widens the tables of the state: register it before they are copied.
        for shape in dict.fromkeys(group.tasks[0].shape for group in queue):
            state.requests(shape)
        usage = _AssumedUsage(state, self._default_amounts(state))
        placements: list[Placement] = []
        placed: list[WaitingGroup] = []
        unschedulable: set[Shape] = set()
        for group in queue:
            (task,) = group.tasks
            if task.shape in unschedulable:
                continue
            row = self._choose(state, usage, task.shape)
            if row is None:
                # Free capacity only shrinks in this cycle: the same shape cannot fit later.
                unschedulable.add(task.shape)
                continue
            devices = usage.take(task.shape, state.requests(task.shape), row)
            wanted = _requested_of(task.shape)
            if not wanted.all():
                self._defaults_of_tasks[task.id] = with_defaults(wanted) - wanted
            placements.append(Placement(task, state.name_of(row), devices))
            placed.append(group)
        return Round(tuple(placements), tuple(placed))

    def _default_amounts(self, state: State) -> NDArray[np.int64]:
        """The default amounts of running tasks without requests, by resource and machine."""
        table = np.zeros((2, len(state)), np.int64)
        for task_id, extra in list(self._defaults_of_tasks.items()):
            machine = state.machine_of(task_id)
            if machine is None:
                del self._defaults_of_tasks[task_id]
            else:
                table[:, state.rows[machine]] += extra
        return table

    def _choose(self, state: State, usage: "_AssumedUsage", shape: Shape) -> int | None:
        requests = state.requests(shape)
        asked = np.flatnonzero(requests)
        free = FreeCapacity(usage.free[:, asked], usage.free_devices, usage.free_disks)
        room = room_of(requests[asked], shape, free)
        rows = np.flatnonzero(self._passes_filters(state, shape) & (room > 0))
        if not len(rows):
            return None
        score = usage.score(shape, rows) + self._preference_score(state, shape, rows)
        best = rows[score == score.max()]
        return int(best[self._random.integers(len(best))])

    def _passes_filters(self, state: State, shape: Shape) -> NDArray[np.bool_]:
        known = self._filter_results.get(shape)
        described = state.machines_version
        if known is None or known[0] != described:
            column = admitted_by(self._constraints, shape, state.view())
            known = self._filter_results[shape] = (described, column)
        return known[1]

    def _preference_score(self, state: State, shape: Shape, rows: NDArray[np.intp]) -> Column:
        """TaintToleration and NodeAffinity over the feasible nodes."""
        machines = state.view(rows)
        soft_taints = machines.by_taints(lambda taints: _soft_taints(taints, shape))
        score = TAINT_WEIGHT * (MAX_SCORE - normalised(soft_taints))
        met = np.zeros(len(rows), np.int64)
        for weight, term in shape.affinity.preferred:
            met += weight * machines.matching(term)
        return score + AFFINITY_WEIGHT * normalised(met)


class _AssumedUsage:
    """Free and requested amounts, updated while pods are placed one after the other."""

    def __init__(self, state: State, by_default: NDArray[np.int64]) -> None:
        machines = state.view()
        self.free = machines.free
        self.free_devices = list(machines.free_devices)
        self.free_disks = machines.disks.copied()
        self._capacity = np.stack([machines.capacity(CPU), machines.capacity(MEMORY)])
        self._requested = np.stack([machines.used(CPU), machines.used(MEMORY)])
        self._with_defaults = self._requested + by_default

    def take(self, shape: Shape, requests: NDArray[np.int64], row: int) -> tuple[int, ...]:
        """Account for one more pod; returns the devices and disks it takes."""
        self.free[row] -= requests
        wanted = _requested_of(shape)
        self._requested[:, row] += wanted
        self._with_defaults[:, row] += with_defaults(wanted)
        devices = disks = ()
        if shape.devices is not None:
            free = self.free_devices[row]
            devices = choose_devices(free, shape.devices) or ()
            self.free_devices[row] = take_devices(free, devices, shape.devices.milli)
        if shape.disks is not None:
            disks = choose_disks(self.free_disks.of_row(row), shape.disks) or ()
            self.free_disks.take(row, shape.disks, disks)
        return devices + disks

    def score(self, shape: Shape, rows: NDArray[np.intp]) -> Column:
        """LeastAllocated plus BalancedAllocation, each 0 to 100."""
        wanted = _requested_of(shape)
        capacity = self._capacity[:, rows]
        with_pod = self._with_defaults[:, rows] + with_defaults(wanted)[:, None]
        score = least_allocated(with_pod, capacity)
        if wanted.any():
            before = self._requested[:, rows]
            score += balanced_allocation(before + wanted[:, None], before, capacity)
        return score


def _soft_taints(taints: tuple[Taint, ...], shape: Shape) -> int:
    return sum(t.effect == "PreferNoSchedule" for t in untolerated(taints, shape.tolerations))


def normalised(scores: Column) -> Column:
    """Scores of at least 0 as shares of the largest, 0 to 100; zeros stay zeros."""
    return MAX_SCORE * scores // max(1, int(scores.max(initial=0)))


def _requested_of(shape: Shape) -> NDArray[np.int64]:
    return np.array([amount_of(shape.requests, CPU), amount_of(shape.requests, MEMORY)])


def with_defaults(wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """What LeastAllocated counts for a pod: its requests, or a small default where they are 0."""
    return np.where(wanted == 0, [DEFAULT_CPU_MILLI, DEFAULT_MEMORY_BYTES], wanted)


def least_allocated(requested: NDArray[np.int64], capacity: NDArray[np.int64]) -> Column:
    """The mean share that stays free, per resource rounded down; rows are resources."""
    free = (capacity - requested) * MAX_SCORE // np.maximum(capacity, 1)
    share = np.where(requested > capacity, 0, free)
    there = capacity > 0
    return (share * there).sum(axis=0) // np.maximum(there.sum(axis=0), 1)


def balanced_allocation(
    requested: NDArray[np.int64], before: NDArray[np.int64], capacity: NDArray[np.int64]
) -> Column:
    """How much the pod balances the use of CPU and memory: 50 to 100, 75 for no change."""
    half = MAX_SCORE // 2
    change = half + _balance(requested, capacity) - _balance(before, capacity)
    return half + change // 2


def _balance(used: NDArray[np.int64], capacity: NDArray[np.int64]) -> Column:
    fraction = np.minimum(used / np.maximum(capacity, 1), 1.0)
    deviation = np.where((capacity > 0).all(axis=0), np.abs(fraction[0] - fraction[1]) / 2, 0.0)
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)
