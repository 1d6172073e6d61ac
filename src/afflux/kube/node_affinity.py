"""Node selectors, node affinity and tolerations: from manifests to the model, in one spelling.

Kubernetes ignores the order of terms, expressions, values and tolerations, so they are sorted:
pods that mean the same get equal values and share a shape. What the API server would refuse, or
what this version does not know, is a reason to wait and never quietly dropped.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, cast, get_args

from afflux.kube import objects
from afflux.kube.complaints import shown
from afflux.model.selectors import ANYWHERE, NodeAffinity, Operator, Requirement, Term
from afflux.model.taints import Effect, Toleration

OPERATORS: tuple[str, ...] = get_args(Operator)
_TOLERATION_OPERATORS = ("Exists", "Equal", "Gt", "Lt")
_EFFECTS: tuple[str, ...] = ("", *get_args(Effect))
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_AFFINITY = "spec.affinity.nodeAffinity"
_REQUIRED = f"{_AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = f"{_AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution"


class UnusableError(ValueError):
    """A constraint that cannot be enforced; the text names the field."""


def node_affinity(spec: objects.PodSpec) -> NodeAffinity:
    """Where the pod may run and would like to, by nodeSelector and nodeAffinity."""
    selector = tuple(sorted(spec.node_selector.items())) if spec.node_selector else ()
    stated = spec.affinity.node_affinity if spec.affinity is not None else None
    if stated is None:
        return _selecting(selector)
    return _affinity(selector, stated)


@lru_cache(maxsize=4096)
def _selecting(selector: tuple[tuple[str, str], ...]) -> NodeAffinity:
    return NodeAffinity(selector=selector) if selector else ANYWHERE


@lru_cache(maxsize=4096)
def _affinity(selector: tuple[tuple[str, str], ...], stated: objects.NodeAffinity) -> NodeAffinity:
    required = None
    if stated.required is not None:
        path = f"{_REQUIRED}.nodeSelectorTerms"
        terms = stated.required.node_selector_terms or ()
        required = sorted_terms(
            term for i, t in enumerate(terms) if (term := selector_term(t, f"{path}[{i}]"))
        )
    preferred: list[tuple[int, Term]] = []
    for i, wish in enumerate(stated.preferred or ()):
        term = selector_term(wish.preference, f"{_PREFERRED}[{i}].preference")
        if term is not None and wish.weight:
            preferred.append((wish.weight, term))
    preferred.sort(key=lambda pair: (pair[0], term_key(pair[1])))
    return NodeAffinity(selector=selector, required=required, preferred=tuple(preferred))


def selector_term(stated: objects.NodeSelectorTerm, path: str) -> Term | None:
    """The term; None if it is empty, which matches no machine."""
    labels = {
        label_requirement(e, f"{path}.matchExpressions[{i}]")
        for i, e in enumerate(stated.match_expressions or ())
    }
    names = {_field(e, f"{path}.matchFields[{i}]") for i, e in enumerate(stated.match_fields or ())}
    if not labels and not names:
        return None
    return Term(
        labels=tuple(sorted(labels, key=requirement_key)),
        names=tuple(sorted(names, key=requirement_key)),
    )


def label_requirement(stated: objects.Expression, path: str) -> Requirement:
    """One expression on a label; an UnusableError names the field at `path` that is wrong."""
    values = tuple(sorted(set(stated.values or ())))
    if wrong := next((value for value in values if not _LABEL_VALUE.fullmatch(value)), None):
        raise UnusableError(f"{path}.values: {shown(wrong)} can be no label's value")
    match stated.operator:
        case "In" | "NotIn":
            if not values:
                raise UnusableError(
                    f"{path}.values: empty, expected at least one for {stated.operator}"
                )
        case "Exists" | "DoesNotExist":
            if values:
                raise UnusableError(f"{path}.values: expected none for {stated.operator}")
        case "Gt" | "Lt":
            if len(values) != 1 or not _is_int64(values[0]):
                raise UnusableError(
                    f"{path}.values: {shown(list(values))}, "
                    f"expected one whole number for {stated.operator}"
                )
        case _:
            raise UnusableError(f"{path}.operator: {shown(stated.operator)} is not supported")
    return Requirement(stated.key, stated.operator, values)


def _field(stated: objects.Expression, path: str) -> Requirement:
    if stated.key != "metadata.name":
        raise UnusableError(f"{path}.key: {shown(stated.key)} is not supported, only metadata.name")
    if stated.operator not in {"In", "NotIn"}:
        raise UnusableError(
            f"{path}.operator: {shown(stated.operator)} is not supported for fields"
        )
    if len(stated.values or ()) != 1:
        raise UnusableError(f"{path}.values: {shown(list(stated.values or ()))}, expected one name")
    return Requirement(stated.key, cast("Operator", stated.operator), tuple(stated.values or ()))


def _is_int64(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def requirement_key(requirement: Requirement) -> tuple[str, str, tuple[str, ...]]:
    """What requirements are sorted by."""
    return requirement.key, requirement.operator, requirement.values


def term_key(term: Term) -> tuple[object, ...]:
    """What terms are sorted by."""
    return (
        tuple(requirement_key(r) for r in term.labels),
        tuple(requirement_key(r) for r in term.names),
    )


def sorted_terms(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Terms in the one order in which equal sets of them are equal."""
    return tuple(sorted(set(terms), key=term_key))


# --- Tolerations


@lru_cache(maxsize=4096)
def tolerations(stated: tuple[objects.Toleration, ...]) -> tuple[Toleration, ...]:
    """What the pod puts up with; how long (tolerationSeconds) matters only once it runs."""
    found = {_toleration(t, f"spec.tolerations[{i}]") for i, t in enumerate(stated)}
    return tuple(sorted(found, key=lambda t: (t.key, t.operator, t.value, t.effect)))


def _toleration(stated: objects.Toleration, path: str) -> Toleration:
    key, value, effect = stated.key or "", stated.value or "", stated.effect or ""
    operator = stated.operator or "Equal"
    if operator not in _TOLERATION_OPERATORS:
        raise UnusableError(f"{path}.operator: {shown(operator)} is not supported")
    if effect not in _EFFECTS:
        raise UnusableError(f"{path}.effect: {shown(effect)} is not supported")
    if not key and operator != "Exists":
        raise UnusableError(f"{path}.operator: {shown(operator)}, expected Exists without a key")
    if operator == "Exists" and value:
        raise UnusableError(f"{path}.value: {shown(value)}, expected none for Exists")
    if operator in {"Gt", "Lt"} and not _is_int64(value):
        raise UnusableError(f"{path}.value: {shown(value)}, expected a whole number for {operator}")
    return Toleration(
        key=key,
        operator=operator,
        value=value,
        effect=cast("Effect | Literal['']", effect),
    )
