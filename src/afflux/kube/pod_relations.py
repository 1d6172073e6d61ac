"""What a pod requires and prefers of other pods, and its labels, at which other pods' terms look.

Pod affinity, pod anti-affinity and topology spread constraints become values of the model, read as
the API server and kube-scheduler read them, in a canonical form: Kubernetes ignores the order of
terms, expressions and values, so that equivalent pods get equal values and share a shape.

What the API server would refuse is a reason to wait and never ignored.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import msgspec

from afflux.kube import objects
from afflux.kube.input_errors import shown
from afflux.kube.label_selectors import in_order, label_selector
from afflux.kube.node_constraints import ConstraintError, requirement_key
from afflux.kube.object_limits import (
    MAX_AFFINITY_CHARACTERS,
    MAX_EXPRESSION_VALUES,
    MAX_EXPRESSIONS,
    MAX_POD_LABELS,
    MAX_POD_TERMS,
    MAX_TOPOLOGY_KEYS,
    limit_exceeded,
)
from afflux.kube.sized_cache import sized_cache
from afflux.model.relations import (
    DEFAULT_REQUIRED_AFFINITY_WEIGHT,
    NO_RELATIONS,
    AffinityTerm,
    Relations,
    SpreadConstraint,
    TaskLabels,
    TaskSelector,
)
from afflux.model.selectors import Requirement

# Labels, expressions and values in each cache, with what they were read from: about 250 bytes each.
_MAX_CACHED_PARTS = 250_000
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_AFFINITY, _ANTI_AFFINITY = "spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"
_SPREAD = "spec.topologySpreadConstraints"
_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")

Pairs = tuple[tuple[str, str], ...]
V = TypeVar("V")


def task_labels(pod: objects.Pod) -> TaskLabels:
    """The namespace and the labels of a pod; equal ones are one object."""
    metadata = pod.metadata
    labels = tuple(metadata.labels.items()) if metadata.labels else ()
    return _task_labels(
        metadata.namespace or "default", labels, metadata.deletion_timestamp is not None
    )


def _labels_size(labels: TaskLabels) -> int:
    return 2 * len(labels.labels) + 4


@sized_cache(_labels_size, _MAX_CACHED_PARTS)
def _task_labels(namespace: str, labels: Pairs, ending: bool) -> TaskLabels:
    return TaskLabels(namespace, tuple(sorted(labels)), ending)


def check_labels(pod: objects.Pod) -> None:
    """A ConstraintError if a pod has more labels than selectors should have to look at."""
    found = len(pod.metadata.labels or ())
    if found > MAX_POD_LABELS:
        raise ConstraintError(limit_exceeded("metadata.labels", found, MAX_POD_LABELS, "labels"))


# --- Terms and constraints


class _Stated(msgspec.Struct, frozen=True, gc=False):
    """Everything that a pod states about other pods."""

    affinity: objects.PodAffinity | None = None
    anti_affinity: objects.PodAffinity | None = None
    spread: tuple[objects.TopologySpreadConstraint, ...] | None = None

    def required_terms(self) -> Iterator[tuple[str, objects.PodAffinityTerm]]:
        """The required terms, each with its field."""
        for path, stated in ((_AFFINITY, self.affinity), (_ANTI_AFFINITY, self.anti_affinity)):
            for i, term in enumerate((stated and stated.required) or ()):
                yield f"{path}.{_REQUIRED}[{i}]", term

    def preferred_terms(self) -> Iterator[tuple[str, int, objects.PodAffinityTerm]]:
        """The preferred terms, each with its field and its weight, which is negative for those of
        anti-affinity."""
        kinds = ((_AFFINITY, self.affinity, 1), (_ANTI_AFFINITY, self.anti_affinity, -1))
        for path, stated, sign in kinds:
            for i, wish in enumerate((stated and stated.preferred) or ()):
                place = f"{path}.{_PREFERRED}[{i}].podAffinityTerm"
                yield place, sign * wish.weight, wish.pod_affinity_term

    def terms(self) -> list[tuple[str, objects.PodAffinityTerm]]:
        preferred = ((path, term) for path, _, term in self.preferred_terms())
        return [*self.required_terms(), *preferred]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Stated)


def relations(
    pod: objects.Pod, affinity_weight: int = DEFAULT_REQUIRED_AFFINITY_WEIGHT
) -> Relations:
    """What a pod states about other pods; a ConstraintError names an invalid field."""
    stated = _stated(pod.spec)
    return NO_RELATIONS if stated is None else _read(pod, stated, affinity_weight)


def running_relations(
    pod: objects.Pod, affinity_weight: int = DEFAULT_REQUIRED_AFFINITY_WEIGHT
) -> Relations:
    """The same of a pod that runs. As in kube-scheduler, a kind of terms of which one cannot be
    read does not count; the API server refuses such pods. A pod beyond the limits has none."""
    stated = _stated(pod.spec)
    if stated is None:
        return NO_RELATIONS
    try:
        return _read(pod, stated, affinity_weight)
    except ConstraintError:
        pass
    try:
        _check_size(stated)
    except ConstraintError:
        return NO_RELATIONS
    found: list[Relations] = []
    for kind in (
        _Stated(affinity=_only(stated.affinity, required=True)),
        _Stated(affinity=_only(stated.affinity, required=False)),
        _Stated(anti_affinity=_only(stated.anti_affinity, required=True)),
        _Stated(anti_affinity=_only(stated.anti_affinity, required=False)),
        _Stated(spread=stated.spread),
    ):
        try:
            found.append(_read(pod, kind, affinity_weight))
        except ConstraintError:
            continue
    joined = Relations(
        affinity=_joined(each.affinity for each in found),
        anti_affinity=_joined(each.anti_affinity for each in found),
        preferred=_joined(each.preferred for each in found),
        spread=_joined(each.spread for each in found),
    )
    return _with_weight(joined, affinity_weight)


def _stated(spec: objects.PodSpec) -> _Stated | None:
    """What a pod states about other pods; None if that is nothing."""
    affinity = anti_affinity = None
    if spec.affinity is not None:
        affinity = spec.affinity.pod_affinity
        anti_affinity = spec.affinity.pod_anti_affinity
    if affinity is None and anti_affinity is None and not spec.topology_spread_constraints:
        return None
    return _Stated(affinity, anti_affinity, spec.topology_spread_constraints)


def _only(stated: objects.PodAffinity | None, *, required: bool) -> objects.PodAffinity | None:
    if stated is None:
        return None
    if required:
        return objects.PodAffinity(required=stated.required)
    return objects.PodAffinity(preferred=stated.preferred)


def _joined(parts: Iterable[tuple[V, ...]]) -> tuple[V, ...]:
    return tuple(chain.from_iterable(parts))


def _read(pod: objects.Pod, stated: _Stated, affinity_weight: int) -> Relations:
    labels = pod.metadata.labels or {}
    keys = {
        key
        for _, term in stated.terms()
        for key in chain(term.match_label_keys or (), term.mismatch_label_keys or ())
    }
    keys.update(key for each in stated.spread or () for key in each.match_label_keys or ())
    named = tuple((key, labels[key]) for key in sorted(keys) if key in labels)
    namespace = pod.metadata.namespace or "default"
    found, _ = _relations(namespace, named, _encoder.encode(stated), affinity_weight)
    return found


def _read_size(read: tuple[Relations, int]) -> int:
    return read[1]


@sized_cache(_read_size, _MAX_CACHED_PARTS)
def _relations(
    namespace: str, named_labels: Pairs, encoded: bytes, affinity_weight: int
) -> tuple[Relations, int]:
    """The relations, and their size in the cache. `named_labels` are those labels of the pod that
    matchLabelKeys and mismatchLabelKeys name."""
    stated, labels = _decoder.decode(encoded), dict(named_labels)
    _check_size(stated)
    terms = [(path, _term(term, path, namespace, labels)) for path, term in stated.required_terms()]
    preferred = [
        (weight, _term(term, path, namespace, labels))
        for path, weight, term in stated.preferred_terms()
    ]
    found = Relations(
        affinity=_sorted_terms(term for path, term in terms if path.startswith(f"{_AFFINITY}.")),
        anti_affinity=_sorted_terms(
            term for path, term in terms if path.startswith(f"{_ANTI_AFFINITY}.")
        ),
        preferred=tuple(sorted(preferred, key=lambda each: (each[0], _term_key(each[1])))),
        spread=_spread(stated.spread or (), namespace, labels),
    )
    return _shared(_with_weight(found, affinity_weight)), found.parts + len(encoded) // 100 + 4


def _with_weight(found: Relations, affinity_weight: int) -> Relations:
    """The weight of required affinity means nothing without it."""
    return replace(found, affinity_weight=affinity_weight) if found.affinity else found


def _size(found: Relations) -> int:
    return found.parts + 4


@sized_cache(_size, _MAX_CACHED_PARTS)
def _shared(found: Relations) -> Relations:
    """The one object for all equal relations, however they were written."""
    return NO_RELATIONS if found == NO_RELATIONS else found


def with_spread(stated: Relations, defaults: Relations) -> Relations:
    """The relations of a pod that states no spread constraint, with these default ones."""
    if defaults is NO_RELATIONS:
        return stated
    return defaults if stated is NO_RELATIONS else _with_spread(stated, defaults)


@sized_cache(_size, _MAX_CACHED_PARTS)
def _with_spread(stated: Relations, defaults: Relations) -> Relations:
    return replace(stated, spread=defaults.spread)


def _term(
    stated: objects.PodAffinityTerm, path: str, namespace: str, labels: objects.Labels
) -> AffinityTerm:
    key = _topology_key(stated.topology_key, path)
    required = label_selector(stated.label_selector, f"{path}.labelSelector")
    if required is not None:
        match, mismatch = stated.match_label_keys or (), stated.mismatch_label_keys or ()
        # The API server has merged these labels into the selector when the pod was created, and
        # refuses a selector that names such a key itself. So a key that the selector names has been
        # merged, with the value that the label had then.
        named = {each.key for each in required}
        merged = [
            *(Requirement(key, "In", (labels[key],)) for key in match if key in labels),
            *(Requirement(key, "NotIn", (labels[key],)) for key in mismatch if key in labels),
        ]
        required = in_order([*required, *(each for each in merged if each.key not in named)])
    selected = label_selector(stated.namespace_selector, f"{path}.namespaceSelector")
    namespaces = tuple(sorted(set(stated.namespaces or ())))
    if not namespaces and selected is None:
        namespaces = (namespace,)
    if selected == ():
        # Every namespace is selected, whatever is listed.
        namespaces = ()
    return AffinityTerm(TaskSelector(namespaces, selected, required), key)


def _spread(
    stated: Sequence[objects.TopologySpreadConstraint], namespace: str, labels: objects.Labels
) -> tuple[SpreadConstraint, ...]:
    found: list[SpreadConstraint] = []
    for i, each in enumerate(stated):
        constraint = _spread_constraint(each, f"{_SPREAD}[{i}]", namespace, labels)
        key, required = constraint.topology_key, constraint.required
        if any(key == one.topology_key and required == one.required for one in found):
            twice = f"topologyKey {shown(key)} with whenUnsatisfiable {each.when_unsatisfiable}"
            raise ConstraintError(f"{_SPREAD}[{i}]: {twice} is given twice, expected once")
        found.append(constraint)
    return tuple(sorted(found, key=lambda each: (not each.required, each.topology_key)))


def _spread_constraint(
    stated: objects.TopologySpreadConstraint, path: str, namespace: str, labels: objects.Labels
) -> SpreadConstraint:
    key = _topology_key(stated.topology_key, path)
    when = _one_of(stated.when_unsatisfiable, _WHEN_UNSATISFIABLE, f"{path}.whenUnsatisfiable")
    required = when == "DoNotSchedule"
    if stated.max_skew < 1:
        raise ConstraintError(f"{path}.maxSkew: {stated.max_skew}, expected at least 1")
    if stated.min_domains is not None:
        if stated.min_domains < 1:
            raise ConstraintError(f"{path}.minDomains: {stated.min_domains}, expected at least 1")
        if not required:
            given = f"{stated.min_domains} with {when}"
            raise ConstraintError(f"{path}.minDomains: {given}, expected DoNotSchedule")
    selected = label_selector(stated.label_selector, f"{path}.labelSelector")
    if selected is not None:
        keys = stated.match_label_keys or ()
        merged = [Requirement(key, "In", (labels[key],)) for key in keys if key in labels]
        # kube-scheduler counts no pod for an empty selector, so that such a constraint only asks
        # for machines that have the topology key.
        selected = in_order([*selected, *merged]) or None
    return SpreadConstraint(
        TaskSelector((namespace,), None, selected, includes_ending=False),
        key,
        stated.max_skew,
        required=required,
        min_domains=stated.min_domains or 1,
        honors_affinity=_policy(stated.node_affinity_policy, "Honor", f"{path}.nodeAffinityPolicy"),
        honors_taints=_policy(stated.node_taints_policy, "Ignore", f"{path}.nodeTaintsPolicy"),
    )


def _policy(stated: str | None, default: str, path: str) -> bool:
    """Whether a node inclusion policy honours what it is about."""
    return _one_of(stated or default, _POLICIES, path) == "Honor"


def _one_of(stated: str | None, accepted: Sequence[str], path: str) -> str:
    if stated is None or stated not in accepted:
        given = "missing" if stated is None else shown(stated)
        raise ConstraintError(f"{path}: {given}, expected {' or '.join(accepted)}")
    return stated


def _topology_key(stated: str | None, path: str) -> str:
    if not stated:
        raise ConstraintError(f"{path}.topologyKey: missing, expected a label of nodes")
    return stated


def _sorted_terms(found: Iterable[AffinityTerm]) -> tuple[AffinityTerm, ...]:
    return tuple(sorted(set(found), key=_term_key))


def _term_key(term: AffinityTerm) -> tuple[object, ...]:
    selector = term.selector
    return (
        term.topology_key,
        selector.namespaces,
        *(
            # None sorts before every tuple.
            (each is not None, [requirement_key(one) for one in each or ()])
            for each in (selector.namespace_labels, selector.labels)
        ),
    )


# --- Limits


def _check_size(stated: _Stated) -> None:
    """A ConstraintError if a pod names too much, before any of it is read."""
    terms, spread = [term for _, term in stated.terms()], stated.spread or ()
    selectors = [
        *chain.from_iterable((each.label_selector, each.namespace_selector) for each in terms),
        *(each.label_selector for each in spread),
    ]
    names = [
        *chain.from_iterable(
            chain(
                each.namespaces or (), each.match_label_keys or (), each.mismatch_label_keys or ()
            )
            for each in terms
        ),
        *chain.from_iterable(each.match_label_keys or () for each in spread),
    ]
    keys = {each.topology_key or "" for each in (*terms, *spread)}
    expressions, values = 0, len(names)
    characters = sum(map(len, names)) + sum(map(len, keys))
    for each in selectors:
        if each is None:
            continue
        labels, stated_expressions = each.match_labels or {}, each.match_expressions or ()
        expressions += len(labels) + len(stated_expressions)
        values += len(labels)
        characters += sum(len(key) + len(value) for key, value in labels.items())
        for one in stated_expressions:
            values += len(one.values or ())
            characters += len(one.key) + sum(map(len, one.values or ()))
    field = "spec.affinity" if terms else _SPREAD
    for found, most, what in (
        (len(terms) + len(spread), MAX_POD_TERMS, "terms and constraints about other pods"),
        (len(keys), MAX_TOPOLOGY_KEYS, "different topology keys"),
        (expressions, MAX_EXPRESSIONS, "expressions about other pods"),
        (values, MAX_EXPRESSION_VALUES, "values about other pods"),
        (characters, MAX_AFFINITY_CHARACTERS, "characters about other pods"),
    ):
        if found > most:
            raise ConstraintError(limit_exceeded(field, found, most, what))
