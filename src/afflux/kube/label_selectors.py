"""Label selectors: from manifests to requirements, in a canonical form.

As everywhere in Kubernetes, a missing selector selects nothing, and an empty one everything.
"""

from collections.abc import Mapping, Sequence

from afflux.kube import objects
from afflux.kube.input_errors import shown
from afflux.kube.node_constraints import ConstraintError, label_requirement, requirement_key
from afflux.model.selectors import Requirement

Requirements = tuple[Requirement, ...]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def label_selector(stated: objects.LabelSelector | None, path: str) -> Requirements | None:
    """The requirements of a selector, None if it is missing; a ConstraintError names the invalid
    field below `path`."""
    if stated is None:
        return None
    found = [
        label_requirement(objects.Expression(key, "In", (value,)), f"{path}.matchLabels")
        for key, value in (stated.match_labels or {}).items()
    ]
    for index, each in enumerate(stated.match_expressions or ()):
        place = f"{path}.matchExpressions[{index}]"
        if each.operator not in _OPERATORS:
            expected = f"expected one of {', '.join(_OPERATORS)}"
            raise ConstraintError(f"{place}.operator: {shown(each.operator)}, {expected}")
        found.append(label_requirement(each, place))
    return in_order(found)


def with_labels(labels: Mapping[str, str]) -> Requirements:
    """The requirements that select everything with these labels."""
    return in_order([Requirement(key, "In", (value,)) for key, value in labels.items()])


def in_order(found: Sequence[Requirement]) -> Requirements:
    """Requirements without duplicates, in canonical order."""
    return tuple(sorted(set(found), key=requirement_key))


def selects(selector: objects.LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches these labels. An operator that is not known matches."""
    if selector is None:
        return False
    stated = (selector.match_labels or {}).items()
    return all(labels.get(key) == value for key, value in stated) and all(
        _accepts(expression, labels.get(expression.key))
        for expression in selector.match_expressions or ()
    )


def _accepts(expression: objects.Expression, value: str | None) -> bool:
    match expression.operator:
        case "In":
            return value is not None and value in (expression.values or ())
        case "NotIn":
            return value is None or value not in (expression.values or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return True
