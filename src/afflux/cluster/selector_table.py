"""The registered selectors, in a form in which those that may select a task are found quickly.

A selector that requires a label is kept under it, and one that names its namespaces under these: it
is compared only with the tasks that have them. Most selectors select the tasks of one controller,
of which there may be thousands.
"""

from collections.abc import Container, Iterable

from afflux.model.relations import AnySelector, Labels, TaskLabels

Label = tuple[str, str]
# A namespace, None for a selector that selects namespaces by their labels; and a label, None for a
# selector that requires none.
_Place = tuple[str | None, Label | None]

_NO_SELECTORS: dict[int, AnySelector] = {}


class SelectorTable:
    """Selectors by their ids, which grow."""

    def __init__(self) -> None:
        self._by_place: dict[_Place, dict[int, AnySelector]] = {}
        self._label_of: dict[int, Label | None] = {}

    def add(self, number: int, selector: AnySelector) -> None:
        """`number` is greater than those of all selectors that were added before."""
        spaces = _spaces(selector)

        def uses(label: Label) -> int:
            return sum(len(self._by_place.get((space, label), ())) for space in spaces)

        label = min(selector.required_labels, key=uses, default=None)
        self._label_of[number] = label
        for space in spaces:
            self._by_place.setdefault((space, label), {})[number] = selector

    def discard(self, number: int, selector: AnySelector) -> None:
        label = self._label_of.pop(number)
        for space in _spaces(selector):
            kept = self._by_place[space, label]
            del kept[number]
            if not kept:
                del self._by_place[space, label]

    def matching(
        self,
        labels: TaskLabels,
        own: Labels,
        namespace_labels: Labels,
        from_number: int = 0,
        among: Container[int] | None = None,
    ) -> list[int]:
        """The selectors that select a task, ascending: those with at least this id, and among
        these. `own` are the labels of the task, `namespace_labels` those of its namespace."""
        found: list[int] = []
        namespace = labels.namespace
        for space in (namespace, None):
            for label in (None, *labels.labels):
                kept = self._by_place.get((space, label), _NO_SELECTORS)
                # The newest first.
                for number in reversed(kept):
                    if number < from_number:
                        break
                    selector = kept[number]
                    if (
                        (among is None or number in among)
                        and selector.admits_namespace(namespace, namespace_labels)
                        and selector.admits_labels(own, ending=labels.ending)
                    ):
                        found.append(number)
        found.sort()
        return found


def _spaces(selector: AnySelector) -> Iterable[str | None]:
    named = selector.named_namespaces
    return (None,) if named is None else dict.fromkeys(named)
