"""Running pods that keep others away: required anti-affinity works in both directions.

A pod without any constraint of its own must not join the domain of a running pod whose
anti-affinity matches it: the machines that have the same value of the label that the term names.
A machine without that label is in nobody's domain. Where the input does not say (the labels of a
namespace that was not given, those of a running pod's machine), the answer is the careful one: kept
away. Nobody hears the names of pods in other namespaces.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import msgspec

from afflux.kube import objects
from afflux.model import reason
from afflux.model.places import Places
from afflux.model.selectors import Requirement, Term
from afflux.model.task import Shape

_OWN_NAME_LABEL = "kubernetes.io/metadata.name"

Labels = Mapping[str, str]


def repels(pod: objects.Pod) -> bool:
    """Whether this pod, once it runs, keeps others away."""
    affinity = pod.spec.affinity
    return bool(affinity and affinity.pod_anti_affinity and affinity.pod_anti_affinity.required)


def kept_out(shape: Shape, places: Places | None) -> Shape:
    """The shape of a task that may only go to these places; one object for all that are equal."""
    return shape if places is None else _kept_out(shape, places)


def shut_out(places: Places, machines: Mapping[str, Labels]) -> str | None:
    """Why a task waits that may go to none of these machines; None if there is one.

    Such a task waits beside the queue: nobody has to wait behind it.
    """
    if any(places.include(name, labels) for name, labels in machines.items()):
        return None
    return f"{len(machines)} {places.reason}"


@lru_cache(maxsize=4096)
def _kept_out(shape: Shape, places: Places) -> Shape:
    return replace(shape, places=(*shape.places, places))


@dataclass(slots=True)
class _Ban:
    """A term, and the domains that it closes; or a pod because of which nobody can tell which."""

    term: objects.PodAffinityTerm
    domains: dict[str, None] = field(default_factory=dict[str, None])
    anywhere: str | None = None


class Repulsion:
    """Required anti-affinity of running pods, each different term once.

    `machines` are the labels of those on which they run, as far as they are known.
    """

    def __init__(
        self,
        running: Iterable[tuple[str, objects.Pod]],
        namespaces: Mapping[str, Labels],
        machines: Mapping[str, Labels],
    ) -> None:
        self._namespaces = namespaces
        self._by_namespace: dict[str, list[_Ban]] = {}
        self._by_selector: list[_Ban] = []
        bans: dict[bytes, _Ban] = {}
        for name, pod in running:
            affinity = pod.spec.affinity
            if affinity is None or affinity.pod_anti_affinity is None:
                continue
            own = pod.metadata.namespace or "default"
            labels = machines.get(pod.spec.node_name or "")
            for term in affinity.pod_anti_affinity.required or ():
                identity = msgspec.json.encode((own, term), order="sorted")
                if identity not in bans:
                    bans[identity] = self._added(term, own)
                _extend(bans[identity], name, labels)

    def _added(self, term: objects.PodAffinityTerm, own: str) -> _Ban:
        ban = _Ban(term)
        listed = term.namespaces or ()
        if not listed and term.namespace_selector is None:
            listed = (own,)
        for namespace in listed:
            self._by_namespace.setdefault(namespace, []).append(ban)
        if term.namespace_selector is not None:
            self._by_selector.append(ban)
        return ban

    def against(self, pod: objects.Pod) -> str | None:
        """Why this pod has to wait wherever there is room, None if it need not."""
        owner = next((ban.anywhere for ban in self._bans(pod) if ban.anywhere), None)
        if owner is None:
            return None
        mine = owner.partition("/")[0] == (pod.metadata.namespace or "default")
        whose = f"running pod {owner}" if mine else "a running pod of another namespace"
        return f"spec.affinity.podAntiAffinity of {whose}, of whose node the labels are not known"

    def places(self, pod: objects.Pod) -> Places | None:
        """Where this pod may go, None for everywhere."""
        closed: dict[str, dict[str, None]] = {}
        for ban in self._bans(pod):
            if ban.domains:
                closed.setdefault(ban.term.topology_key or "", {}).update(ban.domains)
        if not closed:
            return None
        apart = [Requirement(key, "NotIn", tuple(sorted(closed[key]))) for key in sorted(closed)]
        return Places(reason.REPELLED, (Term(tuple(apart)),), passing=True)

    def _bans(self, pod: objects.Pod) -> Iterable[_Ban]:
        """What is against this pod somewhere."""
        namespace = pod.metadata.namespace or "default"
        labels = pod.metadata.labels or {}
        for ban in self._by_namespace.get(namespace, ()):
            if selects(ban.term.label_selector, labels):
                yield ban
        for ban in self._by_selector:
            term = ban.term
            if selects(term.label_selector, labels) and self._selects_namespace(term, namespace):
                yield ban

    def _selects_namespace(self, term: objects.PodAffinityTerm, namespace: str) -> bool:
        given = self._namespaces.get(namespace)
        labels = {_OWN_NAME_LABEL: namespace, **(given or {})}
        return selects(term.namespace_selector, labels, complete=given is not None)


def selects(
    selector: objects.LabelSelector | None, labels: Labels, *, complete: bool = True
) -> bool:
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


def _extend(ban: _Ban, owner: str, labels: Labels | None) -> None:
    """Another running pod has this term, on a machine with these labels."""
    if labels is None or not ban.term.topology_key:
        ban.anywhere = owner
    elif (domain := labels.get(ban.term.topology_key)) is not None:
        ban.domains[domain] = None
