"""How many tasks a soft term counts in each domain: running ones, and those placed in this round.

A counter counts the tasks that a selector selects, or those that carry preferred terms, each by the
weights of its terms. The account keeps
such counters only for requirements; the counts of soft terms change between passes of a round, not
with every unit.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.state import State
from afflux.cluster.task_class import Counted, TaskClass
from afflux.model.relations import CarriedTerm
from afflux.plan.topologies import Domains, Eligibility, Topologies, count_by_domain

Column = NDArray[np.int64]
Terms = tuple[CarriedTerm, ...]


class SoftCounters:
    """Counters have numbers, topologies too; equal ones are one."""

    def __init__(self, state: State, classes: Sequence[TaskClass]) -> None:
        self._rows_of = state.relations.rows_of
        self._topologies = Topologies(state)
        self._class_count = len(classes)
        # The classes whose tasks are selected, or carry the term.
        self._classes_of: dict[Counted, list[int]] = {}
        for number, each in enumerate(classes):
            for counted in dict.fromkeys(each.counted_as):
                self._classes_of.setdefault(counted, []).append(number)
        self._numbers: dict[tuple[int | Terms, int], int] = {}
        self._topology_of: list[int] = []
        self._domain_counts: dict[int, int] = {}
        # By counter, the tasks that run in each domain, and with those of the round. The last entry
        # is for machines without a domain, and is zero.
        self._running: list[Column] = []
        self._counts: list[Column] = []
        # By counter, the classes whose tasks it counts, and what one task counts for.
        self.counted_classes: list[Mapping[int, int]] = []

    def selected(self, selector: int, key: str, eligibility: Eligibility | None = None) -> int:
        """The counter of the tasks that the selector with this id selects."""
        return self._counter(selector, self._topologies.number(key, eligibility))

    def carried(self, terms: Terms, key: str) -> int:
        """The counter of the tasks that carry preferred terms of one topology key: each counts for
        the weights of its terms."""
        return self._counter(terms, self._topologies.number(key, None))

    def topology(self, counter: int) -> int:
        """The number of the topology of a counter."""
        return self._topology_of[counter]

    def domains(self, topology: int) -> Domains:
        """By machine, its domain; -1 for none."""
        return self._topologies.found[topology].domain

    def domain_count(self, topology: int) -> int:
        """How many domains there are."""
        found = self._domain_counts.get(topology)
        if found is None:
            domain = self.domains(topology)
            found = int(np.count_nonzero(np.bincount(domain[domain >= 0])))
            self._domain_counts[topology] = found
        return found

    def tasks(self, counter: int, machines: NDArray[np.intp]) -> Column:
        """The counted tasks in the domain of each of these machines."""
        return self._counts[counter][self.domains(self._topology_of[counter])[machines]]

    def count_units(self, numbers: Column, machines: Column) -> None:
        """These are the units of the round, each of a class on a machine."""
        by_class = machines[np.argsort(numbers, kind="stable")]
        first = np.cumsum([0, *np.bincount(numbers, minlength=self._class_count)])
        for counter, running in enumerate(self._running):
            counts = self._counts[counter] = running.copy()
            topology = self._topologies.found[self._topology_of[counter]]
            for number, weight in self.counted_classes[counter].items():
                on = by_class[first[number] : first[number + 1]]
                if topology.counted is not None:
                    on = on[topology.counted[on]]
                domains = topology.domain[on]
                counts += weight * np.bincount(domains[domains >= 0], minlength=len(counts))

    def _counter(self, counted: int | Terms, topology: int) -> int:
        found = self._numbers.get((counted, topology))
        if found is not None:
            return found
        number = self._numbers[counted, topology] = len(self._running)
        of_machine = self._topologies.found[topology]
        domains, tasks = count_by_domain(of_machine, self._tasks_on(counted))
        running = np.zeros(int(of_machine.domain.max(initial=-1)) + 2, np.int64)
        running[domains] = tasks
        self._topology_of.append(topology)
        self._running.append(running)
        self._counts.append(running)
        self.counted_classes.append(self._weights(counted))
        return number

    def _weights(self, counted: int | Terms) -> Mapping[int, int]:
        """The classes that are counted, and what one task of each counts for."""
        if isinstance(counted, int):
            return dict.fromkeys(self._classes_of.get(counted, ()), 1)
        weights: dict[int, int] = {}
        for term in counted:
            for index in self._classes_of.get(term, ()):
                weights[index] = weights.get(index, 0) + (term.weight or 0)
        return weights

    def _tasks_on(self, counted: int | Terms) -> Mapping[int, int]:
        """What the running tasks on each row count for."""
        if isinstance(counted, int):
            return self._rows_of(counted)
        total: dict[int, int] = {}
        for term in counted:
            for row, tasks in self._rows_of(term).items():
                total[row] = total.get(row, 0) + (term.weight or 0) * tasks
        return total
