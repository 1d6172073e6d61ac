"""How many tasks each selector selects on every machine.

A selector is matched once with every distinct set of labels, not with every task. A set knows which
selectors select it and on which rows its tasks run, so that starting or removing a task changes
one number for each of those selectors. Only rows with selected tasks take memory: a selector that
selects nothing costs nothing per machine. While no selector is registered nothing is counted.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from afflux.model.relations import AnySelector, Labels, TaskLabels

# Label sets without running tasks are kept up to this number, and as many as there are others.
MAX_IDLE_SETS = 4_096

_NO_LABELS: Labels = {}


@dataclass(slots=True)
class _Selected:
    """A registered selector, and the number of its tasks on every row that has any."""

    selector: AnySelector
    references: int = 0
    rows: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class _LabelSet:
    """The selectors that select a set of labels, and the number of its tasks on each row."""

    selected_by: tuple[int, ...] = ()
    rows: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class _Namespace:
    """The selectors that admit the tasks of a namespace, and the label sets of these tasks."""

    selectors: dict[int, AnySelector]
    label_sets: dict[TaskLabels, _LabelSet] = field(default_factory=dict[TaskLabels, _LabelSet])


class SelectedTasks:
    """Registered selectors have ids, which are never used again. `running` yields the labels and
    the row of every task that runs; it is read when the first selector is registered.
    """

    def __init__(self, running: Callable[[], Iterable[tuple[TaskLabels, int]]]) -> None:
        self._running = running
        self._ids: dict[AnySelector, int] = {}
        self._selected: dict[int, _Selected] = {}
        self._next_id = 0
        self._namespaces: dict[str, _Namespace] = {}
        self._namespace_labels: dict[str, Labels] = {}
        # How often the labels of a namespace have changed.
        self.namespaces_version = 0
        self._label_sets = 0
        self._sweep_above = MAX_IDLE_SETS

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
            self._selected[number] = _Selected(selector)
            for name, namespace in self._namespaces.items():
                if selector.admits_namespace(name, self.namespace_labels(name)):
                    namespace.selectors[number] = selector
                    for labels, label_set in namespace.label_sets.items():
                        if selector.matches_labels(labels):
                            self._set_selected_by(label_set, (*label_set.selected_by, number))
            if is_first:
                for labels, row in self._running():
                    self.add(labels, row)
        self._selected[number].references += 1
        return number

    def release(self, number: int) -> bool:
        """Give up one registration; with the last one, the selector is forgotten. Returns whether
        it is still known."""
        selected = self._selected[number]
        selected.references -= 1
        if selected.references:
            return True
        del self._ids[selected.selector]
        if not self._ids:
            self._selected.clear()
            self._namespaces.clear()
            self._label_sets = 0
            return False
        for namespace in self._namespaces.values():
            if namespace.selectors.pop(number, None) is None:
                continue
            for label_set in namespace.label_sets.values():
                if number in label_set.selected_by:
                    kept = tuple(each for each in label_set.selected_by if each != number)
                    label_set.selected_by = kept
        del self._selected[number]
        return False

    def selector(self, number: int) -> AnySelector:
        """The selector with this id."""
        return self._selected[number].selector

    def selectors_of(self, labels: TaskLabels) -> tuple[int, ...]:
        """The ids of the registered selectors that select a task with these labels, ascending."""
        return self._label_set(labels).selected_by if self._ids else ()

    def on_rows(self, number: int) -> Mapping[int, int]:
        """The number of selected tasks by row, without zeros. Callers must not keep it."""
        return self._selected[number].rows

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
        namespace = self._namespaces.get(name)
        if namespace is not None:
            namespace.selectors = self._admitting(name)
            for task_labels, label_set in namespace.label_sets.items():
                self._set_selected_by(label_set, _matching(namespace, task_labels))

    def add(self, labels: TaskLabels, row: int) -> None:
        """A task with these labels runs on this row."""
        label_set = self._label_set(labels)
        _add(label_set.rows, row, 1)
        for number in label_set.selected_by:
            _add(self._selected[number].rows, row, 1)

    def remove(self, labels: TaskLabels, row: int) -> None:
        """A task with these labels does not run on this row any more."""
        label_set = self._label_set(labels)
        _add(label_set.rows, row, -1)
        for number in label_set.selected_by:
            _add(self._selected[number].rows, row, -1)

    def _admitting(self, name: str) -> dict[int, AnySelector]:
        """The selectors that admit the tasks of a namespace, by ascending id."""
        labels = self.namespace_labels(name)
        return {
            number: selector
            for selector, number in self._ids.items()
            if selector.admits_namespace(name, labels)
        }

    def _label_set(self, labels: TaskLabels) -> _LabelSet:
        namespace = self._namespaces.get(labels.namespace)
        label_set = namespace.label_sets.get(labels) if namespace else None
        if label_set is not None:
            return label_set
        if self._label_sets >= self._sweep_above:
            self._sweep()
            namespace = self._namespaces.get(labels.namespace)
        if namespace is None:
            admitting = self._admitting(labels.namespace)
            namespace = self._namespaces[labels.namespace] = _Namespace(admitting)
        label_set = namespace.label_sets[labels] = _LabelSet(_matching(namespace, labels))
        self._label_sets += 1
        return label_set

    def _set_selected_by(self, label_set: _LabelSet, selected_by: tuple[int, ...]) -> None:
        for number in set(label_set.selected_by) ^ set(selected_by):
            sign = 1 if number in selected_by else -1
            for row, tasks in label_set.rows.items():
                _add(self._selected[number].rows, row, sign * tasks)
        label_set.selected_by = selected_by

    def _sweep(self) -> None:
        """Forget label sets without running tasks; they are matched again when they are needed."""
        self._label_sets = 0
        for name, namespace in list(self._namespaces.items()):
            used = {labels: each for labels, each in namespace.label_sets.items() if each.rows}
            namespace.label_sets = used
            self._label_sets += len(used)
            if not used:
                del self._namespaces[name]
        self._sweep_above = 2 * self._label_sets + MAX_IDLE_SETS


def _matching(namespace: _Namespace, labels: TaskLabels) -> tuple[int, ...]:
    """The selectors that select a task of this namespace with these labels."""
    selectors = namespace.selectors.items()
    return tuple(number for number, selector in selectors if selector.matches_labels(labels))


def _add(rows: dict[int, int], row: int, tasks: int) -> None:
    """Add to the number of tasks on a row; rows without tasks have no entry."""
    rows[row] = rows.get(row, 0) + tasks
    if not rows[row]:
        del rows[row]
