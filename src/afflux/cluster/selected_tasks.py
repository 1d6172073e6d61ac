"""How many tasks each selector selects on every machine, and which selectors select a task.

A selector is matched with distinct sets of labels, not with every task, and only when its answer
is asked for. Tasks are counted for the selectors that were asked for last: starting or removing a
task then changes one number for each of these that select it. Most selectors of running tasks are
never asked for: they only say which waiting tasks a term concerns.

Only rows with selected tasks take memory: a selector that selects nothing costs nothing per
machine. While no selector is registered nothing is counted.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from afflux.cluster.selector_table import SelectorTable
from afflux.model.relations import AnySelector, Labels, TaskLabels

# Rows and label sets of all counted selectors together, 100 bytes each. Those asked for last are
# kept: about 400 selectors that select tasks on each of 5,000 machines.
MAX_COUNTED = 2_000_000
# Selectors in the answers for waiting tasks that are kept, 8 bytes each; an answer counts as 8
# more.
MAX_MATCHED = 4_000_000

_NO_LABELS: Labels = {}
_ANSWER_SIZE = 8


@dataclass(slots=True)
class _Registered:
    selector: AnySelector
    references: int = 0


@dataclass(slots=True)
class _LabelSet:
    """A set of labels that running tasks have, and the number of these tasks on each row."""

    own: Labels
    rows: dict[int, int] = field(default_factory=dict[int, int])
    # The counted selectors that select it.
    counted_by: dict[int, None] = field(default_factory=dict[int, None])


@dataclass(slots=True)
class _Counted:
    """The tasks that a selector selects on every row that has any, and their label sets."""

    rows: dict[int, int] = field(default_factory=dict[int, int])
    label_sets: dict[TaskLabels, _LabelSet] = field(default_factory=dict[TaskLabels, _LabelSet])


@dataclass(frozen=True, slots=True)
class _Matched:
    """The selectors that select a task, among those with ids below `below`, when so many selectors
    had been released."""

    selected_by: tuple[int, ...]
    below: int
    releases: int


class SelectedTasks:
    """Registered selectors have ids, which are never used again. `running` yields the labels and
    the row of every task that runs; it is read when the first selector is registered.
    """

    def __init__(self, running: Callable[[], Iterable[tuple[TaskLabels, int]]]) -> None:
        self._running = running
        self._ids: dict[AnySelector, int] = {}
        self._registered: dict[int, _Registered] = {}
        self._table = SelectorTable()
        self._next_id = 0
        self._releases = 0
        self._namespace_labels: dict[str, Labels] = {}
        # How often the labels of a namespace have changed.
        self.namespaces_version = 0
        # By namespace, the label sets of running tasks.
        self._label_sets: dict[str, dict[TaskLabels, _LabelSet]] = {}
        # The selector that was asked for last is the last one.
        self._counted: OrderedDict[int, _Counted] = OrderedDict()
        self._counted_size = 0
        self._matched: dict[TaskLabels, _Matched] = {}
        self._matched_size = 0

    def __bool__(self) -> bool:
        """Whether any selector is registered; if not, changes need not be reported."""
        return bool(self._ids)

    def register(self, selector: AnySelector) -> int:
        """The id of a selector. It has to be released as often as it was registered."""
        number = self._ids.get(selector)
        if number is None:
            is_first = not self._ids
            number = self._ids[selector] = self._next_id
            self._next_id += 1
            self._registered[number] = _Registered(selector)
            self._table.add(number, selector)
            if is_first:
                for labels, row in self._running():
                    self.add(labels, row)
        self._registered[number].references += 1
        return number

    def release(self, number: int) -> bool:
        """Give up one registration; with the last one, the selector is forgotten. Returns whether
        it is still known."""
        registered = self._registered[number]
        registered.references -= 1
        if registered.references:
            return True
        self._releases += 1
        self._forget_count(number)
        self._table.discard(number, registered.selector)
        del self._registered[number], self._ids[registered.selector]
        if not self._ids:
            self._label_sets.clear()
            self._forget_matched()
        return False

    def selectors_of(self, labels: TaskLabels) -> tuple[int, ...]:
        """The ids of the registered selectors that select a task with these labels, ascending."""
        if not self._ids:
            return ()
        known = self._matched.get(labels)
        if known is not None and known.below == self._next_id and known.releases == self._releases:
            return known.selected_by
        return self._match(labels, known)

    def on_rows(self, number: int) -> Mapping[int, int]:
        """The number of selected tasks by row, without zeros. Callers must not keep it."""
        counted = self._counted.get(number)
        if counted is None:
            counted = self._counted[number] = self._count(number)
            self._counted_size += len(counted.rows) + len(counted.label_sets)
        self._counted.move_to_end(number)
        self._forget_oldest_counts()
        return counted.rows

    def namespace_labels(self, name: str) -> Labels:
        """The labels of a namespace; none if it is not known."""
        return self._namespace_labels.get(name, _NO_LABELS)

    def set_namespace(self, name: str, labels: Labels) -> None:
        """The labels of a namespace are these from now on; a deleted one has none."""
        if self.namespace_labels(name) == labels:
            return
        self.namespaces_version += 1
        if labels:
            self._namespace_labels[name] = dict(labels)
        else:
            del self._namespace_labels[name]
        self._forget_matched()
        if name in self._label_sets:
            for number in list(self._counted):
                if self._registered[number].selector.looks_at_namespaces:
                    self._forget_count(number)

    def add(self, labels: TaskLabels, row: int) -> None:
        """A task with these labels runs on this row."""
        label_sets = self._label_sets.setdefault(labels.namespace, {})
        label_set = label_sets.get(labels)
        if label_set is None:
            label_set = label_sets[labels] = _LabelSet(dict(labels.labels))
            for number in self._counted_selectors_of(labels, label_set):
                label_set.counted_by[number] = None
                self._counted[number].label_sets[labels] = label_set
                self._counted_size += 1
        _add(label_set.rows, row, 1)
        for number in label_set.counted_by:
            self._counted_size += _add(self._counted[number].rows, row, 1)
        self._forget_oldest_counts()

    def remove(self, labels: TaskLabels, row: int) -> None:
        """A task with these labels does not run on this row any more."""
        label_sets = self._label_sets[labels.namespace]
        label_set = label_sets[labels]
        _add(label_set.rows, row, -1)
        for number in label_set.counted_by:
            self._counted_size += _add(self._counted[number].rows, row, -1)
        if label_set.rows:
            return
        for number in label_set.counted_by:
            del self._counted[number].label_sets[labels]
            self._counted_size -= 1
        del label_sets[labels]
        if not label_sets:
            del self._label_sets[labels.namespace]

    def _match(self, labels: TaskLabels, known: _Matched | None) -> tuple[int, ...]:
        """The selectors that select a task: those of the last answer that are still registered, and
        newer ones."""
        selected_by: tuple[int, ...] = ()
        below = 0
        if known is not None:
            selected_by, below = known.selected_by, known.below
            if known.releases != self._releases:
                selected_by = tuple(each for each in selected_by if each in self._registered)
            self._matched_size -= _ANSWER_SIZE + len(known.selected_by)
        if below < self._next_id:
            space = self.namespace_labels(labels.namespace)
            newer = self._table.matching(labels, dict(labels.labels), space, below)
            if newer:
                selected_by = (*selected_by, *newer)
        self._matched_size += _ANSWER_SIZE + len(selected_by)
        if self._matched_size > MAX_MATCHED:
            self._forget_matched()
            self._matched_size = _ANSWER_SIZE + len(selected_by)
        self._matched[labels] = _Matched(selected_by, self._next_id, self._releases)
        return selected_by

    def _counted_selectors_of(self, labels: TaskLabels, label_set: _LabelSet) -> list[int]:
        if not self._counted:
            return []
        space = self.namespace_labels(labels.namespace)
        return self._table.matching(labels, label_set.own, space, among=self._counted)

    def _count(self, number: int) -> _Counted:
        """Count the running tasks that a selector selects, from now on."""
        selector, counted = self._registered[number].selector, _Counted()
        named = selector.named_namespaces
        for name in self._label_sets if named is None else named:
            label_sets = self._label_sets.get(name)
            if not label_sets or not selector.admits_namespace(name, self.namespace_labels(name)):
                continue
            for labels, label_set in label_sets.items():
                if selector.admits_labels(label_set.own, ending=labels.ending):
                    counted.label_sets[labels] = label_set
                    label_set.counted_by[number] = None
                    for row, tasks in label_set.rows.items():
                        _add(counted.rows, row, tasks)
        return counted

    def _forget_oldest_counts(self) -> None:
        while self._counted_size > MAX_COUNTED and len(self._counted) > 1:
            self._forget_count(next(iter(self._counted)))

    def _forget_count(self, number: int) -> None:
        counted = self._counted.pop(number, None)
        if counted is not None:
            self._counted_size -= len(counted.rows) + len(counted.label_sets)
            for label_set in counted.label_sets.values():
                del label_set.counted_by[number]

    def _forget_matched(self) -> None:
        self._matched.clear()
        self._matched_size = 0


def _add(rows: dict[int, int], row: int, tasks: int) -> int:
    """Add to the number of tasks on a row; rows without tasks have no entry. Returns how many
    entries there are more."""
    before = rows.get(row, 0)
    rows[row] = before + tasks
    if not rows[row]:
        del rows[row]
        return -1
    return 0 if before else 1
