"""How many tasks each selector selects on every machine.

A selector is matched once with every distinct set of labels, not with every task. A set knows which
selectors select it and on which rows its tasks run, so that starting or removing a task changes
one number for each of those selectors. Only rows with selected tasks take memory: a selector that
selects nothing costs nothing per machine. While no selector is registered nothing is counted.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from afflux.model.relations import AllSelectors, AnySelector, Labels, TaskLabels

# Label sets without running tasks are kept up to this number, and as many as there are others.
MAX_IDLE_SETS = 4_096

Label = tuple[str, str]

_NO_LABELS: Labels = {}
_NO_SELECTORS: Mapping[int, AnySelector] = {}


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
    """The selectors that admit the tasks of a namespace, and the label sets of these tasks.

    A selector that requires a label is kept under it, so that it is compared only with tasks that
    have this label: most select the tasks of one controller, of which there may be thousands.
    """

    label_sets: dict[TaskLabels, _LabelSet] = field(default_factory=dict[TaskLabels, _LabelSet])
    _by_label: dict[Label | None, dict[int, AnySelector]] = field(
        default_factory=dict[Label | None, dict[int, AnySelector]]
    )
    _kept_under: dict[int, Label | None] = field(default_factory=dict[int, Label | None])

    def add(self, number: int, selector: AnySelector) -> None:
        label = min(
            _required_labels(selector),
            key=lambda each: len(self._by_label.get(each, ())),
            default=None,
        )
        self._kept_under[number] = label
        self._by_label.setdefault(label, {})[number] = selector

    def discard(self, number: int) -> bool:
        """Returns whether the selector admitted the tasks of this namespace."""
        if number not in self._kept_under:
            return False
        label = self._kept_under.pop(number)
        del self._by_label[label][number]
        if not self._by_label[label]:
            del self._by_label[label]
        return True

    def matching(self, labels: TaskLabels) -> tuple[int, ...]:
        """The selectors that select a task of this namespace with these labels, ascending."""
        return tuple(
            sorted(
                number
                for label in (None, *labels.labels)
                for number, selector in self._by_label.get(label, _NO_SELECTORS).items()
                if selector.matches_labels(labels)
            )
        )

    def selected_by(self, number: int) -> list[_LabelSet]:
        """The label sets that a selector of this namespace selects."""
        label = self._kept_under[number]
        selector = self._by_label[label][number]
        return [
            label_set
            for labels, label_set in self.label_sets.items()
            if (label is None or label in labels.labels) and selector.matches_labels(labels)
        ]


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
                    namespace.add(number, selector)
                    for label_set in namespace.selected_by(number):
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
            if not namespace.discard(number):
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
            now = self._namespaces[name] = self._new_namespace(name)
            now.label_sets = namespace.label_sets
            for task_labels, label_set in now.label_sets.items():
                self._set_selected_by(label_set, now.matching(task_labels))

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

    def _new_namespace(self, name: str) -> _Namespace:
        """The selectors that admit the tasks of a namespace."""
        labels, namespace = self.namespace_labels(name), _Namespace()
        for selector, number in self._ids.items():
            if selector.admits_namespace(name, labels):
                namespace.add(number, selector)
        return namespace

    def _label_set(self, labels: TaskLabels) -> _LabelSet:
        namespace = self._namespaces.get(labels.namespace)
        label_set = namespace.label_sets.get(labels) if namespace else None
        if label_set is not None:
            return label_set
        if self._label_sets >= self._sweep_above:
            self._sweep()
            namespace = self._namespaces.get(labels.namespace)
        if namespace is None:
            namespace = self._new_namespace(labels.namespace)
            self._namespaces[labels.namespace] = namespace
        label_set = namespace.label_sets[labels] = _LabelSet(namespace.matching(labels))
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


def _required_labels(selector: AnySelector) -> list[Label]:
    """Labels that every selected task has."""
    parts = selector.selectors if isinstance(selector, AllSelectors) else (selector,)
    return [
        (each.key, each.values[0])
        for part in parts
        for each in part.labels or ()
        if each.operator == "In" and len(each.values) == 1
    ]


def _add(rows: dict[int, int], row: int, tasks: int) -> None:
    """Add to the number of tasks on a row; rows without tasks have no entry."""
    rows[row] = rows.get(row, 0) + tasks
    if not rows[row]:
        del rows[row]
