"""ClusterRelations: the namespaces, and what selects pods together: Services and controllers.

The selectors of other pods look at the labels of a pod's namespace. A pod that states no topology
spread constraint gets the default ones, which spread the pods of its Services and of its controller
(a ReplicationController, ReplicaSet or StatefulSet) over hosts and zones.

As in kube-scheduler, the pods that the default constraints count are those that match the selectors
of all of the pod's Services and of its controller. A pod without any has no default constraints.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from afflux.kube import objects
from afflux.kube.default_constraints import DefaultConstraint, DefaultConstraints
from afflux.kube.label_selectors import Requirements, in_order, label_selector, with_labels
from afflux.kube.node_constraints import ConstraintError
from afflux.kube.object_limits import MAX_SERVICES_COMPARED
from afflux.kube.sized_cache import sized_cache
from afflux.model.relations import (
    DEFAULT_REQUIRED_AFFINITY_WEIGHT,
    NO_RELATIONS,
    Labels,
    Relations,
    TaskSelector,
)

# The scheduler of a pod that names none.
DEFAULT_SCHEDULER = "default-scheduler"
# The label that every namespace has: its name.
NAME_LABEL = "kubernetes.io/metadata.name"

Pairs = tuple[tuple[str, str], ...]
_OwnerKey = tuple[str, str, str]  # kind, namespace, name
# The kinds of controllers that count, with their apiVersion in owner references.
_CONTROLLERS = {
    ("v1", "ReplicationController"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
}
# Requirements and values in the cache of default constraints, about 100 bytes each.
_MAX_CACHED_PARTS = 200_000


def namespace_labels(name: str, found: objects.Namespace | None) -> Labels:
    """The labels of a namespace; one whose object is not known has only its name label."""
    stated = found.metadata.labels if found is not None else None
    return {NAME_LABEL: name, **(stated or {})}


class _Services:
    """The different selectors of the Services of one namespace.

    Each is kept under one of its labels, so that a pod is compared only with selectors with which
    it shares that label.
    """

    def __init__(self) -> None:
        self._uses: Counter[Pairs] = Counter()
        self._kept_under: dict[Pairs, tuple[str, str]] = {}
        self._by_label: dict[tuple[str, str], dict[Pairs, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._uses)

    def add(self, selector: Pairs) -> None:
        self._uses[selector] += 1
        if self._uses[selector] == 1:
            label = min(selector, key=lambda each: len(self._by_label.get(each, ())))
            self._kept_under[selector] = label
            self._by_label.setdefault(label, {})[selector] = None

    def remove(self, selector: Pairs) -> None:
        self._uses[selector] -= 1
        if self._uses[selector]:
            return
        del self._uses[selector]
        label = self._kept_under.pop(selector)
        del self._by_label[label][selector]
        if not self._by_label[label]:
            del self._by_label[label]

    def labels_selecting(self, labels: Labels) -> dict[str, str]:
        """The labels in the selectors that match a pod with these labels. The pod is compared with
        at most MAX_SERVICES_COMPARED of them."""
        found: dict[str, str] = {}
        candidates = (
            selector for label in labels.items() for selector in self._by_label.get(label, ())
        )
        for selector in islice(candidates, MAX_SERVICES_COMPARED):
            if _matches(selector, labels):
                found.update(selector)
        return found


@dataclass(frozen=True, slots=True)
class _WaitingPod:
    """What decides which default constraints a waiting pod has."""

    namespace: str
    labels: Labels
    owner: _OwnerKey | None


class ClusterRelations:
    """The Services and controllers of a cluster, and the default constraints that follow.

    With the weight `affinity_weight` the required affinity of a running pod attracts the pods that
    it selects.
    """

    def __init__(
        self,
        defaults: DefaultConstraints | None = None,
        affinity_weight: int = DEFAULT_REQUIRED_AFFINITY_WEIGHT,
    ) -> None:
        self._defaults = DefaultConstraints() if defaults is None else defaults
        self.affinity_weight = affinity_weight
        self._services: dict[str, _Services] = {}
        self._service_selectors: dict[str, Pairs] = {}
        self._owners: dict[_OwnerKey, Requirements] = {}
        self._waiting: dict[str, _WaitingPod] = {}
        self._waiting_in: dict[str, dict[str, None]] = {}
        self._stale: dict[str, None] = {}

    # --- Objects

    def set(self, found: objects.SelectingObject) -> None:
        """An object was added, or has changed."""
        namespace, name = _namespace(found), found.metadata.name or ""
        if isinstance(found, objects.Service):
            selector = found.spec.selector if found.spec is not None else None
            self._set_service(namespace, name, tuple(sorted((selector or {}).items())))
        else:
            self._set_owner((type(found).__name__, namespace, name), _owner_selector(found))

    def remove(self, kind: type[objects.SelectingObject], full_name: str) -> None:
        """The object of this kind and namespace/name is gone."""
        namespace, _, name = full_name.rpartition("/")
        if kind is objects.Service:
            self._set_service(namespace, name, ())
        else:
            self._set_owner((kind.__name__, namespace, name), ())

    def _set_service(self, namespace: str, name: str, selector: Pairs) -> None:
        full_name = f"{namespace}/{name}"
        before = self._service_selectors.pop(full_name, ())
        if selector:
            self._service_selectors[full_name] = selector
        if before == selector:
            return
        services = self._services.setdefault(namespace, _Services())
        if before:
            services.remove(before)
        if selector:
            services.add(selector)
        if not services:
            del self._services[namespace]
        for pod in self._waiting_in.get(namespace, ()):
            labels = self._waiting[pod].labels
            if any(each and _matches(each, labels) for each in (before, selector)):
                self._stale[pod] = None

    def _set_owner(self, key: _OwnerKey, selector: Requirements) -> None:
        before = self._owners.pop(key, ())
        if selector:
            self._owners[key] = selector
        if before != selector:
            for pod in self._waiting_in.get(key[1], ()):
                if self._waiting[pod].owner == key:
                    self._stale[pod] = None

    # --- Pods

    def default_relations(self, pod: objects.Pod) -> Relations:
        """The default constraints of a pod that states no topology spread constraint."""
        defaults = self._defaults.of(pod.spec.scheduler_name or DEFAULT_SCHEDULER)
        if not defaults:
            return NO_RELATIONS
        namespace = _namespace(pod)
        services, owner = self._services.get(namespace), _owner_of(pod, namespace)
        owner_selector = self._owners.get(owner, ()) if owner is not None else ()
        labels = pod.metadata.labels
        selected = services.labels_selecting(labels) if services is not None and labels else {}
        if not selected and not owner_selector:
            return NO_RELATIONS
        if owner is not None and owner[0] == "ReplicationController":
            # Where a ReplicationController and a Service name the same label, kube-scheduler takes
            # the value of the former.
            for each in owner_selector:
                selected.pop(each.key, None)
        return _default_relations(
            namespace, tuple(sorted(selected.items())), owner_selector, defaults
        )

    def watch(self, name: str, pod: objects.Pod) -> None:
        """The pod waits: `take_stale` names it when its default constraints may have changed."""
        self.forget(name)
        if pod.spec.topology_spread_constraints:
            return
        namespace = _namespace(pod)
        owner = _owner_of(pod, namespace)
        self._waiting[name] = _WaitingPod(namespace, pod.metadata.labels or {}, owner)
        self._waiting_in.setdefault(namespace, {})[name] = None

    def forget(self, name: str) -> None:
        """The pod does not wait any more."""
        known = self._waiting.pop(name, None)
        if known is None:
            return
        self._stale.pop(name, None)
        there = self._waiting_in[known.namespace]
        del there[name]
        if not there:
            del self._waiting_in[known.namespace]

    def take_stale(self) -> Iterable[str]:
        """The waiting pods whose default constraints may have changed since the last call."""
        stale, self._stale = self._stale, {}
        return stale


def _namespace(found: objects.Object) -> str:
    return found.metadata.namespace or "default"


def _matches(selector: Pairs, labels: Labels) -> bool:
    return all(labels.get(key) == value for key, value in selector)


def _owner_of(pod: objects.Pod, namespace: str) -> _OwnerKey | None:
    """The controller of a pod, if its kind is one that counts."""
    for each in pod.metadata.owner_references or ():
        if each.controller:
            if (each.api_version, each.kind) not in _CONTROLLERS:
                return None
            return each.kind or "", namespace, each.name or ""
    return None


def _owner_selector(found: objects.SelectingObject) -> Requirements:
    """The selector of a controller; empty if it has none. An invalid one does not count."""
    match found:
        case objects.ReplicationController(spec=objects.MapSelectorSpec(selector=labels)):
            return with_labels(labels or {})
        case (
            objects.ReplicaSet(spec=objects.LabelSelectorSpec(selector=stated))
            | objects.StatefulSet(spec=objects.LabelSelectorSpec(selector=stated))
        ):
            try:
                return label_selector(stated, "spec.selector") or ()
            except ConstraintError:
                return ()
        case _:
            return ()


def _parts(relations: Relations) -> int:
    return relations.parts


@sized_cache(_parts, _MAX_CACHED_PARTS)
def _default_relations(
    namespace: str,
    services: Pairs,
    owner: Requirements,
    defaults: tuple[DefaultConstraint, ...],
) -> Relations:
    labels = in_order([*with_labels(dict(services)), *owner])
    selector = TaskSelector((namespace,), None, labels, includes_ending=False)
    return Relations(spread=tuple(each.over(selector) for each in defaults))
