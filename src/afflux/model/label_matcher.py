"""Requirements on the labels of a task or of a namespace, merged by key.

A pod may state hundreds of requirements with thousands of values, and each selector is compared
with the labels of many pods. A matcher looks at each label once, however much the selector names.
"""

from collections.abc import Iterable, Mapping

from afflux.model.selectors import Requirement

Labels = Mapping[str, str]

_NO_VALUE: frozenset[str] = frozenset()


class LabelMatcher:
    """Accepts the labels that satisfy all of these requirements."""

    __slots__ = ("_needed", "_others", "_refused")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        # The keys that have to be there, and those that need not; with the values that are
        # accepted, and those that are refused. None stands for every value.
        needed: dict[str, frozenset[str] | None] = {}
        refused: dict[str, frozenset[str] | None] = {}
        others: list[Requirement] = []
        for each in requirements:
            match each.operator:
                case "In":
                    known = needed.get(each.key)
                    values = frozenset(each.values)
                    needed[each.key] = values if known is None else known & values
                case "Exists":
                    needed.setdefault(each.key)
                case "NotIn":
                    known = refused.get(each.key, _NO_VALUE)
                    refused[each.key] = None if known is None else known.union(each.values)
                case "DoesNotExist":
                    refused[each.key] = None
                case "Gt" | "Lt":
                    others.append(each)
        self._needed = needed
        self._refused = refused
        self._others = tuple(others)

    def accepts(self, labels: Labels) -> bool:
        """Whether these labels satisfy every requirement."""
        needed, refused = self._needed, self._refused
        if len(needed) > len(labels):
            return False
        for key, accepted in needed.items():
            value = labels.get(key)
            if value is None or (accepted is not None and value not in accepted):
                return False
        for key in refused if len(refused) <= len(labels) else labels:
            value = labels.get(key)
            if value is not None and key in refused:
                values = refused[key]
                if values is None or value in values:
                    return False
        return all(each.accepts(labels.get(each.key)) for each in self._others)
