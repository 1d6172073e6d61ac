"""Required anti-affinity of running pods, which also applies to pods that start later.

A pod must not join the topology domain of a running pod whose anti-affinity matches it. A machine
without the topology label belongs to no domain. Where the input is incomplete (labels of a
namespace, or of the machine of a running pod), the term counts as matching. Messages never contain
names of pods in other namespaces.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from afflux.kube import objects
from afflux.kube.sized_cache import MAX_CACHED_SHAPES, shape_size, sized_cache
from afflux.model import reason
from afflux.model.reachability import Reachability
from afflux.model.selectors import Requirement, Term
from afflux.model.task import Shape

_OWN_NAME_LABEL = "kubernetes.io/metadata.name"

Labels = Mapping[str, str]


def has_required_anti_affinity(pod: objects.Pod) -> bool:
    """Whether this pod, once it runs, keeps other pods away."""
    affinity = pod.spec.affinity
    return bool(affinity and affinity.pod_anti_affinity and affinity.pod_anti_affinity.required)


def restricted_shape(shape: Shape, reachability: Reachability | None) -> Shape:
    """The shape of a task that may only go to these machines; equal shapes share an object."""
    return shape if reachability is None else _restricted_shape(shape, reachability)


def excluded_reason(reachability: Reachability, machines: Mapping[str, Labels]) -> str | None:
    """Why a task may go to none of these machines; None if it may go to one. Such a task waits
    outside of the queue, so that it delays no other task."""
    if any(reachability.matches(name, labels) for name, labels in machines.items()):
        return None
    return f"{len(machines)} {reachability.reason}"


@sized_cache(shape_size, MAX_CACHED_SHAPES)
def _restricted_shape(shape: Shape, reachability: Reachability) -> Shape:
    return replace(shape, reachability=(*shape.reachability, reachability))


@dataclass(slots=True)
class _Term:
    """A term with the domains that it excludes.

    `unknown_owner` names a running pod with this term whose domain is unknown.
    """

    term: objects.PodAffinityTerm
    domains: dict[str, None] = field(default_factory=dict[str, None])
    unknown_owner: str | None = None


class RunningAntiAffinity:
    """The required anti-affinity terms of running pods, without duplicates.

    `machines` are the labels of the machines, as far as they are known.
    """

    def __init__(
        self,
        running: Iterable[tuple[str, objects.Pod]],
        namespaces: Mapping[str, Labels],
        machines: Mapping[str, Labels],
    ) -> None:
        self._namespaces = namespaces
        self._by_namespace: dict[str, list[_Term]] = {}
        self._by_selector: list[_Term] = []
        all_terms: dict[bytes, _Term] = {}
        for name, pod in running:
            affinity = pod.spec.affinity
            if affinity is None or affinity.pod_anti_affinity is None:
                continue
            own = pod.metadata.namespace or "default"
            labels = machines.get(pod.spec.node_name or "")
            for term in affinity.pod_anti_affinity.required or ():
                identity = msgspec.json.encode((own, term), order="sorted")
                if identity not in all_terms:
                    all_terms[identity] = self._added(term, own)
                _extend(all_terms[identity], name, labels)

    def _added(self, term: objects.PodAffinityTerm, own: str) -> _Term:
        match = _Term(term)
        listed = term.namespaces or ()
        if not listed and term.namespace_selector is None:
            listed = (own,)
        for namespace in listed:
            self._by_namespace.setdefault(namespace, []).append(match)
        if term.namespace_selector is not None:
            self._by_selector.append(match)
        return match

    def blocking_reason(self, pod: objects.Pod) -> str | None:
        """Why this pod has to wait whatever machines are free, None if it need not."""
        owners = (match.unknown_owner for match in self._matching_terms(pod))
        if (owner := next(filter(None, owners), None)) is None:
            return None
        mine = owner.partition("/")[0] == (pod.metadata.namespace or "default")
        whose = f"running pod {owner}" if mine else "a running pod of another namespace"
        return f"spec.affinity.podAntiAffinity of {whose}, of whose node the labels are not known"

    def reachability(self, pod: objects.Pod) -> Reachability | None:
        """Where this pod may go, None for everywhere."""
        closed: dict[str, dict[str, None]] = {}
        for match in self._matching_terms(pod):
            if match.domains:
                closed.setdefault(match.term.topology_key or "", {}).update(match.domains)
        if not closed:
            return None
        excluded = [Requirement(key, "NotIn", tuple(sorted(closed[key]))) for key in sorted(closed)]
        return Reachability(reason.EXISTING_ANTI_AFFINITY, (Term(tuple(excluded)),), temporary=True)

    def _matching_terms(self, pod: objects.Pod) -> Iterable[_Term]:
        namespace = pod.metadata.namespace or "default"
        labels = pod.metadata.labels or {}
        for match in self._by_namespace.get(namespace, ()):
            if selects(match.term.label_selector, labels):
                yield match
        for match in self._by_selector:
            term = match.term
            if selects(term.label_selector, labels) and self._selects_namespace(term, namespace):
                yield match

    def _selects_namespace(self, term: objects.PodAffinityTerm, namespace: str) -> bool:
        given = self._namespaces.get(namespace)
        labels = {_OWN_NAME_LABEL: namespace, **(given or {})}
        return selects(term.namespace_selector, labels, complete=given is not None)


def selects(selector: objects.LabelSelector | None, labels: Labels, complete: bool = True) -> bool:
    """Whether the selector matches: none matches nothing, an empty one everything.

    Labels that are not `complete` may have others: an expression on a key that is not among them
    is then taken to match, as is an operator that is not known.
    """
    if selector is None:
        return False
    for key, value in (selector.match_labels or {}).items():
        if (complete or key in labels) and labels.get(key) != value:
            return False
    return all(
        _accepts(expression, labels)
        for expression in selector.match_expressions or ()
        if complete or expression.key in labels
    )


def _accepts(expression: objects.Expression, labels: Labels) -> bool:
    value = labels.get(expression.key)
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


def _extend(match: _Term, owner: str, labels: Labels | None) -> None:
    """Add a running pod with this term, on a machine with these labels."""
    if labels is None or not match.term.topology_key:
        match.unknown_owner = owner
    elif (domain := labels.get(match.term.topology_key)) is not None:
        match.domains[domain] = None
