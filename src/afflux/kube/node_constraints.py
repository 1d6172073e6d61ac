"""Node selectors, node affinity and tolerations: from manifests to the model, in a canonical form.

Kubernetes ignores the order of terms, expressions, values and tolerations. Here they are sorted, so
that equivalent pods get equal values and share a shape. What the API server would refuse, or this
version does not support, is a reason to wait and never ignored.
"""

import re
from collections.abc import Iterable
from itertools import chain
from typing import Literal, cast, get_args

from afflux.kube import objects
from afflux.kube.input_errors import shown
from afflux.kube.object_limits import (
    MAX_AFFINITY_CHARACTERS,
    MAX_EXPRESSION_VALUES,
    MAX_EXPRESSIONS,
    MAX_LABEL_KEYS,
    MAX_TOLERATIONS,
    limit_exceeded,
)
from afflux.kube.sized_cache import sized_cache
from afflux.model.selectors import ANYWHERE, NodeAffinity, Operator, Requirement, Term
from afflux.model.taints import Effect, Toleration

_TOLERATION_OPERATORS = ("Exists", "Equal", "Gt", "Lt")
_EFFECTS: tuple[str, ...] = ("", *get_args(Effect))
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_AFFINITY = "spec.affinity.nodeAffinity"
_REQUIRED = f"{_AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = f"{_AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution"
# Expressions, values and tolerations in each cache; with the objects that they were read from, each
# takes about 250 bytes.
_MAX_CACHED_PARTS = 250_000


class ConstraintError(ValueError):
    """A constraint that is invalid or not supported; the message names the field."""


def node_affinity(spec: objects.PodSpec) -> NodeAffinity:
    """The required and preferred nodes of a pod, from nodeSelector and nodeAffinity."""
    selector = tuple(sorted(spec.node_selector.items())) if spec.node_selector else ()
    stated = spec.affinity.node_affinity if spec.affinity is not None else None
    if stated is None and not selector:
        return ANYWHERE
    return _affinity(selector, stated)


def _cached_parts(affinity: NodeAffinity) -> int:
    return affinity.parts + 4


@sized_cache(_cached_parts, _MAX_CACHED_PARTS)
def _affinity(
    selector: tuple[tuple[str, str], ...], stated: objects.NodeAffinity | None
) -> NodeAffinity:
    _check_size(selector, stated)
    if stated is None:
        return NodeAffinity(selector=selector)
    required = None
    if stated.required is not None:
        path = f"{_REQUIRED}.nodeSelectorTerms"
        terms = stated.required.node_selector_terms or ()
        found = (selector_term(term, f"{path}[{i}]") for i, term in enumerate(terms))
        required = sorted_terms(term for term in found if term is not None)
    preferred: list[tuple[int, Term]] = []
    for i, wish in enumerate(stated.preferred or ()):
        term = selector_term(wish.preference, f"{_PREFERRED}[{i}].preference")
        if term is not None and wish.weight:
            preferred.append((wish.weight, term))
    preferred.sort(key=lambda pair: (pair[0], term_key(pair[1])))
    return NodeAffinity(selector=selector, required=required, preferred=tuple(preferred))


def _check_size(selector: tuple[tuple[str, str], ...], stated: objects.NodeAffinity | None) -> None:
    """A ConstraintError if a pod names too much, before any of it is read."""
    terms: list[objects.NodeSelectorTerm] = []
    if stated is not None:
        required = stated.required.node_selector_terms if stated.required is not None else None
        terms = [*(required or ()), *(wish.preference for wish in stated.preferred or ())]
    expressions, values, characters = len(selector), len(selector), 0
    keys: set[str] = set()
    for key, value in selector:
        keys.add(key)
        characters += len(key) + len(value)
    for term in terms:
        labels, fields = term.match_expressions or (), term.match_fields or ()
        # An empty term counts as well.
        expressions += max(1, len(labels) + len(fields))
        keys.update(each.key for each in labels)
        for each in chain(labels, fields):
            named = each.values or ()
            values += len(named)
            characters += len(each.key) + sum(map(len, named))
    field = _AFFINITY if stated is not None else "spec.nodeSelector"
    for found, most, what in (
        (expressions, MAX_EXPRESSIONS, "expressions"),
        (values, MAX_EXPRESSION_VALUES, "values"),
        (len(keys), MAX_LABEL_KEYS, "different label keys"),
        (characters, MAX_AFFINITY_CHARACTERS, "characters"),
    ):
        if found > most:
            raise ConstraintError(limit_exceeded(field, found, most, what))


def selector_term(stated: objects.NodeSelectorTerm, path: str) -> Term | None:
    """The term, None if it is empty: an empty term matches no machine."""
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
    """One label expression; a ConstraintError names the invalid field below `path`."""
    values, operator = tuple(sorted(set(stated.values or ()))), stated.operator
    if wrong := next((value for value in values if not _LABEL_VALUE.fullmatch(value)), None):
        raise ConstraintError(f"{path}.values: {shown(wrong)} is not a valid label value")
    match operator:
        case "In" | "NotIn":
            if not values:
                raise ConstraintError(f"{path}.values: empty, expected at least one for {operator}")
        case "Exists" | "DoesNotExist":
            if values:
                raise ConstraintError(f"{path}.values: expected none for {operator}")
        case "Gt" | "Lt":
            if len(values) != 1 or not _is_int64(values[0]):
                expected = f"expected one whole number for {operator}"
                raise ConstraintError(f"{path}.values: {shown(list(values))}, {expected}")
        case _:
            raise ConstraintError(f"{path}.operator: {shown(operator)} is not supported")
    return Requirement(stated.key, operator, values)


def _field(stated: objects.Expression, path: str) -> Requirement:
    key, operator, values = stated.key, stated.operator, stated.values or ()
    if key != "metadata.name":
        raise ConstraintError(f"{path}.key: {shown(key)} is not supported, only metadata.name")
    if operator not in {"In", "NotIn"}:
        raise ConstraintError(f"{path}.operator: {shown(operator)} is not supported for fields")
    if len(values) != 1:
        raise ConstraintError(f"{path}.values: {shown(list(values))}, expected one name")
    return Requirement(key, cast("Operator", operator), tuple(values))


def _is_int64(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def requirement_key(requirement: Requirement) -> tuple[str, str, tuple[str, ...]]:
    return requirement.key, requirement.operator, requirement.values


def term_key(term: Term) -> tuple[object, ...]:
    return (
        tuple(requirement_key(r) for r in term.labels),
        tuple(requirement_key(r) for r in term.names),
    )


def sorted_terms(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Terms without duplicates, in canonical order."""
    return tuple(sorted(set(terms), key=term_key))


# --- Tolerations


def _cached_tolerations(found: tuple[Toleration, ...]) -> int:
    return 2 * len(found) + 2


@sized_cache(_cached_tolerations, _MAX_CACHED_PARTS)
def tolerations(stated: tuple[objects.Toleration, ...]) -> tuple[Toleration, ...]:
    """The tolerations of a pod; tolerationSeconds does not matter for placement."""
    if len(stated) > MAX_TOLERATIONS:
        found, what = len(stated), "tolerations"
        raise ConstraintError(limit_exceeded("spec.tolerations", found, MAX_TOLERATIONS, what))
    found = {_toleration(t, f"spec.tolerations[{i}]") for i, t in enumerate(stated)}
    return tuple(sorted(found, key=lambda t: (t.key, t.operator, t.value, t.effect)))


def _toleration(stated: objects.Toleration, path: str) -> Toleration:
    key, value, effect = stated.key or "", stated.value or "", stated.effect or ""
    operator = stated.operator or "Equal"
    if operator not in _TOLERATION_OPERATORS:
        raise ConstraintError(f"{path}.operator: {shown(operator)} is not supported")
    if effect not in _EFFECTS:
        raise ConstraintError(f"{path}.effect: {shown(effect)} is not supported")
    if not key and operator != "Exists":
        raise ConstraintError(f"{path}.operator: {shown(operator)}, expected Exists without a key")
    if operator == "Exists" and value:
        raise ConstraintError(f"{path}.value: {shown(value)}, expected none for Exists")
    if operator in {"Gt", "Lt"} and not _is_int64(value):
        raise ConstraintError(
            f"{path}.value: {shown(value)}, expected a whole number for {operator}"
        )
    return Toleration(key, operator, value, cast("Effect | Literal['']", effect))
