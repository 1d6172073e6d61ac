"""What a round's network is made of: what waits, where it may go, and the slots of machines."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TaskSource:
    """Waiting units of one class, with the cost of leaving each waiting, longest wait first."""

    class_index: int
    waiting_costs: Column


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of a class and a machine that has room for it, sorted by class, then machine.

    The pairs of class `c` are those from `first[c]` to `first[c + 1]`. A pair has the row of its
    machine, how many tasks fit, and what the first one costs without its slot.
    """

    first: Column
    machine: NDArray[np.int32] | NDArray[np.intp]
    room: Column
    cost: Column

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.first) - 1


@dataclass(frozen=True, slots=True)
class Slots:
    """By machine: the cost of its next slot, how much more each further one costs, how many."""

    cost: Column
    slope: Column
    count: Column


@dataclass(frozen=True, slots=True)
class DomainCaps:
    """Machines grouped in domains, each with a cap on the units of one class.

    `domain` has the number of the domain of each pair of the class, or -1 for no cap.
    """

    class_index: int
    domain: NDArray[np.int32]
    cap: Column


@dataclass(frozen=True, slots=True)
class WaitingUnits:
    """The waiting units by class, and in runs of units of one class with equal waiting costs."""

    units: Column
    run_class: Column
    run_units: Column
    run_cost: Column


def waiting_units(sources: Sequence[TaskSource], classes: int) -> WaitingUnits:
    """The waiting units of all sources; the sources of one class count as one."""
    if not sources:
        none = np.zeros(0, np.int64)
        return WaitingUnits(np.zeros(classes, np.int64), none, none, none)
    lengths = [len(source.waiting_costs) for source in sources]
    numbers = np.repeat([source.class_index for source in sources], lengths)
    costs = np.concatenate([source.waiting_costs for source in sources])
    order = np.lexsort((costs, numbers))
    numbers, costs = numbers[order], costs[order]
    begins = np.ones(len(costs), np.bool_)
    begins[1:] = (numbers[1:] != numbers[:-1]) | (costs[1:] != costs[:-1])
    begin = np.flatnonzero(begins)
    counts = np.diff(begin, append=len(costs))
    units = np.bincount(numbers, minlength=classes).astype(np.int64)
    return WaitingUnits(units, numbers[begin].astype(np.int64), counts, costs[begin])
