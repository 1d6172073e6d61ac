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
    machine, how many tasks fit, and what the first one costs without its slot. A class may have
    several pairs with one machine, by ascending cost: its further units there cost more. Such a
    class needs `DomainSteps`, if only ones without domains.
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
class DomainSteps:
    """Machines grouped in domains, in each of which the units of one class cost more and more.

    `domain` has the number of the domain of each pair of the class, or -1 for none. Step k is for
    `units[k]` units in the domain `of_step[k]` at `cost[k]` each; the steps of a domain come by
    ascending cost. A domain gets no more units than its steps have together.
    """

    class_index: int
    domain: NDArray[np.int32]
    of_step: NDArray[np.intp]
    units: Column
    cost: Column


def domain_caps(class_index: int, domain: NDArray[np.int32], cap: Column) -> DomainSteps:
    """Domains that get no more than `cap` units of a class, at no cost."""
    return DomainSteps(class_index, domain, np.arange(len(cap)), cap, np.zeros(len(cap), np.int64))


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
    numbers = np.repeat(np.array([source.class_index for source in sources]), lengths)
    costs = np.concatenate([source.waiting_costs for source in sources])
    order = np.lexsort((costs, numbers))
    numbers, costs = numbers[order], costs[order]
    begins = np.ones(len(costs), np.bool_)
    begins[1:] = (numbers[1:] != numbers[:-1]) | (costs[1:] != costs[:-1])
    counts = np.bincount(np.cumsum(begins) - 1)
    units = np.bincount(numbers, minlength=classes).astype(np.int64)
    return WaitingUnits(units, numbers[begins].astype(np.int64), counts, costs[begins])
