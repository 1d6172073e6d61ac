"""Running pods that keep others away: required anti-affinity works in both directions.

A pod without any constraint of its own must not join the domain of a running pod whose
anti-affinity matches it. Until afflux enforces that, such a pod waits. Where the input does not
say (the labels of a namespace that was not given), the answer is the careful one: kept away.
"""

from collections.abc import Iterable, Mapping

import msgspec

from afflux.kube import objects

_OWN_NAME_LABEL = "kubernetes.io/metadata.name"

Labels = Mapping[str, str]


def repels(pod: objects.Pod) -> bool:
    """Whether this pod, once it runs, keeps others away."""
    affinity = pod.spec.affinity
    return bool(affinity and affinity.pod_anti_affinity and affinity.pod_anti_affinity.required)


class Repulsion:
    """Required anti-affinity of running pods, each different term once."""

    def __init__(
        self, running: Iterable[tuple[str, objects.Pod]], namespaces: Mapping[str, Labels]
    ) -> None:
        self._namespaces = namespaces
        self._by_namespace: dict[str, list[tuple[objects.PodAffinityTerm, str]]] = {}
        self._by_selector: list[tuple[objects.PodAffinityTerm, str]] = []
        seen: set[bytes] = set()
        for name, pod in running:
            affinity = pod.spec.affinity
            if affinity is None or affinity.pod_anti_affinity is None:
                continue
            own = pod.metadata.namespace or "default"
            for term in affinity.pod_anti_affinity.required or ():
                identity = msgspec.json.encode((own, term), order="sorted")
                if identity not in seen:
                    seen.add(identity)
                    self._add(term, own, name)

    def _add(self, term: objects.PodAffinityTerm, own: str, name: str) -> None:
        listed = term.namespaces or ()
        if not listed and term.namespace_selector is None:
            listed = (own,)
        for namespace in listed:
            self._by_namespace.setdefault(namespace, []).append((term, name))
        if term.namespace_selector is not None:
            self._by_selector.append((term, name))

    def against(self, pod: objects.Pod) -> str | None:
        """Why this pod has to wait, None if no running pod minds it."""
        namespace = pod.metadata.namespace or "default"
        labels = pod.metadata.labels or {}
        for term, owner in self._by_namespace.get(namespace, ()):
            if selects(term.label_selector, labels):
                return _reason(owner)
        for term, owner in self._by_selector:
            if selects(term.label_selector, labels) and self._selects_namespace(term, namespace):
                return _reason(owner)
        return None

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


def _reason(owner: str) -> str:
    return f"spec.affinity.podAntiAffinity of running pod {owner}, which is not supported yet"
