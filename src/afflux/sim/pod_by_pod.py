"""The peer to compare with: one pod at a time, as kube-scheduler 1.36 does it by default.

Pods are taken in queue order. Each is filtered, then scored on every node that is left, with the
formulas of NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation over CPU and
memory, TaintToleration and NodeAffinity, each with its default weight; the best score wins, ties
are broken at random (seeded). What is placed stays placed: nobody looks ahead, and members of a
group are pods like any other.

Deliberately different:

- in the peer's favour, there is no back-off after a failed attempt, and every node is scored, not
  only a sample of a large cluster;
- as in this simulator everywhere, there is no preemption;
- a task is scored like a pod with one container, which asks for nothing of what it does not name;
- tasks have no images, neighbours or owners: what ImageLocality, InterPodAffinity and
  PodTopologySpread would add is the same for every node;
- shares of devices, which kube-scheduler does not know, are filtered exactly and not scored, and
  are taken from the tightest devices that fit.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.machines import Column
from afflux.cluster.state import State
from afflux.model.devices import choose_devices, take_devices
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.promise import NOTHING_PROMISED, Standing
from afflux.model.resources import CPU, MEMORY, amount_of
from afflux.model.taints import Taint, untolerated
from afflux.model.task import Shape
from afflux.plan.rounds import Round
from afflux.policies import fit
from afflux.policies.policy import Policy, admitted_by
from afflux.policies.registry import constraints

MAX_SCORE = 100
# What a container that asks for nothing counts as when nodes are scored.
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 2**20
TAINT_WEIGHT = 3
AFFINITY_WEIGHT = 2


class PodByPod:
    """Places every task on its own, in queue order."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._constraints = constraints()
        self._admitted: dict[Shape, tuple[int, NDArray[np.bool_]]] = {}
        # Tasks placed here that ask for no CPU or no memory, and what they count as instead.
        self._defaulted: dict[str, NDArray[np.int64]] = {}

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """What may refuse a machine: the same for every class."""
        del shape
        return self._constraints

    def decide(
        self,
        state: State,
        queue: Sequence[Group],
        now_seconds: float = 0.0,
        standing: Standing = NOTHING_PROMISED,
    ) -> Round:
        """One pod after the other, as of now; a group must be of one."""
        del now_seconds, standing
        # A resource that was never heard of widens the tables: ask before they are copied.
        for shape in dict.fromkeys(group.tasks[0].shape for group in queue):
            state.requests(shape)
        trial = _Trial(state, self._counted_by_default(state))
        placements: list[Placement] = []
        placed: list[Group] = []
        hopeless: set[Shape] = set()
        for group in queue:
            (task,) = group.tasks
            if task.shape in hopeless:
                continue
            row = self._choose(state, trial, task.shape)
            if row is None:
                # Room only shrinks while pods are placed: the same shape cannot fit later on.
                hopeless.add(task.shape)
                continue
            devices = trial.take(task.shape, state.requests(task.shape), row)
            asked = _asked(task.shape)
            if not asked.all():
                self._defaulted[task.id] = counted(asked) - asked
            placements.append(Placement(task, state.name_of(row), devices))
            placed.append(group)
        return Round(tuple(placements), tuple(placed))

    def _counted_by_default(self, state: State) -> NDArray[np.int64]:
        """What running tasks that ask for nothing count as, by resource and machine."""
        table = np.zeros((2, len(state)), np.int64)
        for task_id, extra in list(self._defaulted.items()):
            machine = state.where(task_id)
            if machine is None:
                del self._defaulted[task_id]
            else:
                table[:, state.rows[machine]] += extra
        return table

    def _choose(self, state: State, trial: "_Trial", shape: Shape) -> int | None:
        requests = state.requests(shape)
        feasible = self._admits(state, shape) & ~fit.lacking(trial.free, requests).any(axis=1)
        if shape.devices is not None:
            feasible &= fit.device_room(trial.free_devices, shape.devices) > 0
        rows = np.flatnonzero(feasible)
        if not len(rows):
            return None
        score = trial.score(shape, rows) + self._preferences(state, shape, rows)
        best = rows[score == score.max()]
        return int(best[self._random.integers(len(best))])

    def _admits(self, state: State, shape: Shape) -> NDArray[np.bool_]:
        known = self._admitted.get(shape)
        described = state.described
        if known is None or known[0] != described:
            column = admitted_by(self._constraints, shape, state.view())
            known = self._admitted[shape] = (described, column)
        return known[1]

    def _preferences(self, state: State, shape: Shape, rows: NDArray[np.intp]) -> Column:
        """TaintToleration and NodeAffinity over the nodes that are left."""
        machines = state.view(rows)
        soft_taints = machines.by_taints(lambda taints: _soft_taints(taints, shape))
        score = TAINT_WEIGHT * (MAX_SCORE - normalised(soft_taints))
        met = np.zeros(len(rows), np.int64)
        for weight, term in shape.affinity.preferred:
            met += weight * machines.matching(term)
        return score + AFFINITY_WEIGHT * normalised(met)


class _Trial:
    """What is free, and what counts as requested, while pods are placed one after the other."""

    def __init__(self, state: State, by_default: NDArray[np.int64]) -> None:
        machines = state.view()
        self.free = machines.free
        self.free_devices = list(machines.free_devices)
        self._capacity = np.stack([machines.capacity(CPU), machines.capacity(MEMORY)])
        self._requested = np.stack([machines.used(CPU), machines.used(MEMORY)])
        self._counted = self._requested + by_default

    def take(self, shape: Shape, requests: NDArray[np.int64], row: int) -> tuple[int, ...]:
        """Account for one more pod; returns the devices it takes."""
        self.free[row] -= requests
        asked = _asked(shape)
        self._requested[:, row] += asked
        self._counted[:, row] += counted(asked)
        if shape.devices is None:
            return ()
        devices = choose_devices(self.free_devices[row], shape.devices) or ()
        self.free_devices[row] = take_devices(self.free_devices[row], devices, shape.devices.milli)
        return devices

    def score(self, shape: Shape, rows: NDArray[np.intp]) -> Column:
        """LeastAllocated plus BalancedAllocation, each 0 to 100."""
        asked = _asked(shape)
        capacity = self._capacity[:, rows]
        score = least_allocated(self._counted[:, rows] + counted(asked)[:, None], capacity)
        if asked.any():
            before = self._requested[:, rows]
            score += balanced_allocation(before + asked[:, None], before, capacity)
        return score


def _soft_taints(taints: tuple[Taint, ...], shape: Shape) -> int:
    return sum(t.effect == "PreferNoSchedule" for t in untolerated(taints, shape.tolerations))


def normalised(scores: Column) -> Column:
    """Scores of at least 0 as shares of the largest, 0 to 100; zeros stay zeros."""
    return MAX_SCORE * scores // max(1, int(scores.max(initial=0)))


def _asked(shape: Shape) -> NDArray[np.int64]:
    return np.array([amount_of(shape.requests, CPU), amount_of(shape.requests, MEMORY)])


def counted(asked: NDArray[np.int64]) -> NDArray[np.int64]:
    """What LeastAllocated counts for a pod: a small default where it asks for nothing."""
    return np.where(asked == 0, [DEFAULT_CPU_MILLI, DEFAULT_MEMORY_BYTES], asked)


def least_allocated(requested: NDArray[np.int64], capacity: NDArray[np.int64]) -> Column:
    """The mean share that stays free, per resource rounded down; rows are resources."""
    share = np.where(
        requested > capacity, 0, (capacity - requested) * MAX_SCORE // np.maximum(capacity, 1)
    )
    there = capacity > 0
    return (share * there).sum(axis=0) // np.maximum(there.sum(axis=0), 1)


def balanced_allocation(
    requested: NDArray[np.int64], before: NDArray[np.int64], capacity: NDArray[np.int64]
) -> Column:
    """By how much the pod evens out the use of CPU and memory: 75 if not at all, 50 to 100."""
    half = MAX_SCORE // 2
    change = half + _balance(requested, capacity) - _balance(before, capacity)
    return half + change // 2


def _balance(used: NDArray[np.int64], capacity: NDArray[np.int64]) -> Column:
    fraction = np.minimum(used / np.maximum(capacity, 1), 1.0)
    deviation = np.where((capacity > 0).all(axis=0), np.abs(fraction[0] - fraction[1]) / 2, 0.0)
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)
