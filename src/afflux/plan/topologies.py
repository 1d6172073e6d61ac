"""The domains of topology keys in one round, and the machines on which tasks count in them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.machines import BoolColumn
from afflux.cluster.state import State
from afflux.model.relations import SpreadConstraint
from afflux.model.selectors import NodeAffinity
from afflux.model.taints import Toleration
from afflux.model.task import Shape
from afflux.policies.taints import Taints

Domains = NDArray[np.int32]

# What decides on which machines tasks count for a spread constraint.
Eligibility = tuple[NodeAffinity | None, tuple[Toleration, ...] | None, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Topology:
    """By machine, the domain (-1 for none); and on which machines tasks count (None for all)."""

    domain: Domains
    counted: BoolColumn | None


class Topologies:
    """Topologies by number; those of equal keys and eligibility are one."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._numbers: dict[tuple[str, Eligibility | None], int] = {}
        self._eligible: dict[Eligibility, BoolColumn] = {}
        self.found: list[Topology] = []

    def number(self, key: str, eligibility: Eligibility | None) -> int:
        """The number of the topology of a key; without eligibility tasks count everywhere."""
        found = self._numbers.get((key, eligibility))
        if found is not None:
            return found
        number = self._numbers[key, eligibility] = len(self.found)
        counted = None if eligibility is None else self._eligible_machines(eligibility)
        self.found.append(Topology(self._state.labels.domains(key), counted))
        return number

    def _eligible_machines(self, eligibility: Eligibility) -> BoolColumn:
        found = self._eligible.get(eligibility)
        if found is None:
            found = self._eligible[eligibility] = eligible_machines(self._state, eligibility)
        return found


def eligibility_of(
    shape: Shape, constraint: SpreadConstraint, keys: tuple[str, ...]
) -> Eligibility:
    """What decides on which machines tasks count for a spread constraint of this shape, whose
    constraints of the same strength have these topology keys."""
    affinity = None
    if constraint.honors_affinity and (shape.affinity.selector or shape.affinity.required):
        affinity = NodeAffinity(shape.affinity.selector, shape.affinity.required)
    return affinity, shape.tolerations if constraint.honors_taints else None, keys


def eligible_machines(state: State, eligibility: Eligibility) -> BoolColumn:
    """The machines with all of the keys that match the affinity and whose taints are tolerated."""
    affinity, tolerations, keys = eligibility
    machines = state.view()
    chosen = machines.present.copy()
    for key in keys:
        chosen &= state.labels.domains(key) >= 0
    if affinity is not None:
        chosen &= machines.admitted(affinity)
    if tolerations is not None:
        chosen &= Taints().admits(Shape((), tolerations=tolerations), machines)
    return chosen


def count_by_domain(
    topology: Topology, on_rows: Mapping[int, int]
) -> tuple[Domains, NDArray[np.int64]]:
    """The domains with tasks, and how many each has, from the tasks on each row."""
    rows = np.fromiter(on_rows.keys(), np.intp, len(on_rows))
    tasks = np.fromiter(on_rows.values(), np.int64, len(on_rows))
    domains = topology.domain[rows]
    counts = domains >= 0
    if topology.counted is not None:
        counts &= topology.counted[rows]
    found, position = np.unique(domains[counts], return_inverse=True)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, position, tasks[counts])
    return found, total
