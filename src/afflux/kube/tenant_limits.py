"""Limits on what waiting pods may name together: in one namespace, and in all of them.

The limits of object_limits.py bound one pod; with many pods, a tenant could still name anything.
Each different thing is counted once, however many pods name it. A pod that names too much waits
with a reason, and is admitted when earlier pods have started or are gone. Every namespace may name
a guaranteed number whatever the others name, so that no tenant can use up the total for all.

Pure: the adapters say which pods wait, and ask again for those that may be admitted.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from afflux.kube.object_limits import limit_exceeded
from afflux.model.implied_resources import default_capacity
from afflux.model.relations import NO_RELATIONS, Relations
from afflux.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from afflux.model.selectors import ANYWHERE, NodeAffinity
from afflux.model.task import Shape


@dataclass(frozen=True, slots=True)
class Limit:
    """How many different things of one kind waiting pods may name. `guaranteed` is what each
    namespace may name even if the total is used up."""

    what: str
    per_namespace: int
    total: int
    guaranteed: int


# A host port and an attached kind of volume is a column: 16 bytes for each machine in the tables of
# the cluster, and 8 in a plan. The total takes 250 MB on 5,000 machines, one namespace 60 MB. Few
# clusters have more than a dozen of them in waiting pods at one time.
PORTS = Limit("different host ports and attached kinds of volumes", 512, 2_048, 16)
# A resource that no machine has takes only its name, up to 0.5 kB. The others are as many as
# machines state.
RESOURCES = Limit("different extended resources", 1_024, 8_192, 64)
# A key that no machine has takes only its name, up to 0.5 kB.
LABEL_KEYS = Limit("different label keys in node selectors and affinities", 1_024, 8_192, 64)
# About 150 bytes for each expression and value, and 50 ns whenever machines have changed: one
# namespace takes 15 MB, the total 60 MB and 20 ms. 100 different affinities with 1,000 names of
# nodes each are within the limit of a namespace.
AFFINITIES = Limit("expressions and values in different node affinities", 100_000, 400_000, 2_000)
# A topology key that machines have is a column of 4 bytes for each machine.
# Clusters have a handful: hostname, zone, region, rack.
TOPOLOGY_KEYS = Limit("different topology keys", 64, 512, 4)
# A selector that requires no label is compared once with every different set of labels of waiting
# pods, and of running ones if it is counted: 0.5 us each.
SELECTORS = Limit("different selectors of other pods", 512, 4_096, 64)
# In a round each is compared with every machine for every class of pods that it counts, so that the
# time grows with the square: 256 that count each other's 128 classes take 4 s on 1,000 machines,
# 1,024 take 270 s. Most pods have one or two, which their replicas share.
CONSTRAINTS = Limit("different topology spread constraints", 256, 2_048, 32)
# About 150 bytes for each.
TERMS = Limit("expressions and values in different terms about other pods", 100_000, 400_000, 2_000)
# For each request with several volumes disks are searched for on every machine. 100 requests of 16
# volumes, each of another size, take seconds in a round on 100 machines with 4 disks. Few pods
# state more than one volume, and their replicas share the request.
DISK_VOLUMES = Limit("volumes in different disk requests of several volumes", 256, 1_024, 16)

LIMITS = (
    PORTS,
    RESOURCES,
    LABEL_KEYS,
    AFFINITIES,
    TOPOLOGY_KEYS,
    SELECTORS,
    CONSTRAINTS,
    TERMS,
    DISK_VOLUMES,
)

_FREE = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})


@dataclass(frozen=True, slots=True)
class _Named:
    """One thing that a pod names, and what it counts as."""

    limit: Limit
    thing: Hashable
    amount: int = 1


Demand = frozenset[_Named]
"""Everything of a pod that counts towards a limit."""

NOTHING: Demand = frozenset()


def demand_of(shape: Shape) -> Demand:
    """What a task of this shape names."""
    named: list[_Named] = []
    for name, _ in shape.requests:
        if name not in _FREE:
            named.append(_Named(PORTS if default_capacity(name) else RESOURCES, name))
    affinity = shape.affinity
    if affinity is not ANYWHERE:
        named.extend(_Named(LABEL_KEYS, key) for key in _label_keys(affinity))
        named.append(_Named(AFFINITIES, affinity, affinity.parts))
    if shape.relations is not NO_RELATIONS:
        named.extend(_named_relations(shape.relations))
    if shape.disks is not None and len(shape.disks.volumes) > 1:
        named.append(_Named(DISK_VOLUMES, shape.disks, len(shape.disks.volumes)))
    return frozenset(named) if named else NOTHING


def _named_relations(relations: Relations) -> list[_Named]:
    """What the relations of a task name. The system's default constraints do not count: their
    selectors are those of Services and controllers, however many pods there are."""
    spread = [each for each in relations.spread if each.needs_all_keys]
    if not spread and not relations.terms:
        return []
    related = [*relations.terms, *spread]
    keys = {each.topology_key for each in related}
    selectors = {each.selector for each in related}
    return [
        *(_Named(TOPOLOGY_KEYS, key) for key in sorted(keys)),
        *(_Named(SELECTORS, selector) for selector in selectors),
        *(_Named(CONSTRAINTS, each) for each in spread),
        _Named(TERMS, relations, relations.parts),
    ]


def _label_keys(affinity: NodeAffinity) -> set[str]:
    keys = {key for key, _ in affinity.selector}
    for term in (*(affinity.required or ()), *(term for _, term in affinity.preferred)):
        keys.update(each.key for each in term.labels)
    return keys


class _Use:
    """What admitted pods name: how many pods name each thing, and the amounts by limit."""

    def __init__(self) -> None:
        self.pods: Counter[_Named] = Counter()
        self.amounts: Counter[Limit] = Counter()

    def new(self, limit: Limit, demand: Demand) -> int:
        """The amount of this demand that no pod names yet."""
        return sum(n.amount for n in demand if n.limit is limit and n not in self.pods)

    def add(self, demand: Demand) -> None:
        for named in demand:
            self.pods[named] += 1
            if self.pods[named] == 1:
                self.amounts[named.limit] += named.amount

    def remove(self, demand: Demand) -> None:
        for named in demand:
            self.pods[named] -= 1
            if not self.pods[named]:
                del self.pods[named]
                self.amounts[named.limit] -= named.amount


@dataclass(slots=True)
class _Refusal:
    """The pods that wait with one demand, and the amounts that were missing when it was last
    compared: of the namespace, and of the total."""

    limit: Limit
    of_namespace: int
    of_total: int
    pods: dict[str, None] = field(default_factory=dict[str, None])


class TenantLimits:
    """The waiting pods that are admitted, and those that wait for room under a limit."""

    def __init__(self) -> None:
        self._admitted: dict[str, tuple[str, Demand]] = {}
        self._namespaces: dict[str, _Use] = {}
        self._total = _Use()
        self._refusals: dict[tuple[str, Demand], _Refusal] = {}
        self._refused: dict[str, tuple[str, Demand]] = {}
        self._has_more_room = False

    def admit(self, pod: str, namespace: str, demand: Demand) -> str | None:
        """Count what a waiting pod names; if that is too much, the reason why it has to wait."""
        if self._admitted.get(pod) == (namespace, demand):
            return None
        self.release(pod)
        if not demand:
            return None
        use = self._namespaces.setdefault(namespace, _Use())
        for limit in LIMITS:
            refusal = self._refusal(use, limit, demand)
            if refusal is not None:
                refusals = self._refusals.setdefault((namespace, demand), refusal)
                refusals.limit = limit
                refusals.of_namespace, refusals.of_total = refusal.of_namespace, refusal.of_total
                refusals.pods[pod] = None
                self._refused[pod] = (namespace, demand)
                return self._reason(namespace, use, refusal)
        use.add(demand)
        self._total.add(demand)
        self._admitted[pod] = (namespace, demand)
        return None

    def release(self, pod: str) -> None:
        """The pod does not wait any more, or waits for another reason."""
        admitted = self._admitted.pop(pod, None)
        if admitted is not None:
            namespace, demand = admitted
            self._total.remove(demand)
            self._namespaces[namespace].remove(demand)
            if not self._namespaces[namespace].pods:
                del self._namespaces[namespace]
            self._has_more_room = True
        refused = self._refused.pop(pod, None)
        if refused is not None:
            del self._refusals[refused].pods[pod]
            if not self._refusals[refused].pods:
                del self._refusals[refused]

    def take_admissible(self) -> list[str]:
        """The refused pods for which there may be room, since the last call; the caller asks for
        each of them again. The pods refused first come first."""
        if not self._has_more_room:
            return []
        self._has_more_room = False
        return [
            pod
            for (namespace, _), refusal in self._refusals.items()
            if self._allows(namespace, refusal)
            for pod in refusal.pods
        ]

    def _refusal(self, use: _Use, limit: Limit, demand: Demand) -> _Refusal | None:
        refusal = _Refusal(limit, use.new(limit, demand), self._total.new(limit, demand))
        return None if self._fits(use, refusal) else refusal

    def _allows(self, namespace: str, refusal: _Refusal) -> bool:
        use = self._namespaces.get(namespace)
        return self._fits(_Use() if use is None else use, refusal)

    def _fits(self, use: _Use, refusal: _Refusal) -> bool:
        limit = refusal.limit
        after = use.amounts[limit] + refusal.of_namespace
        if refusal.of_namespace and after > limit.per_namespace:
            return False
        total_after = self._total.amounts[limit] + refusal.of_total
        return not refusal.of_total or total_after <= limit.total or after <= limit.guaranteed

    def _reason(self, namespace: str, use: _Use, refusal: _Refusal) -> str:
        limit = refusal.limit
        after = use.amounts[limit] + refusal.of_namespace
        scope, most = f"waiting pods of namespace {namespace}", limit.per_namespace
        if after <= limit.per_namespace:
            scope, most = "waiting pods of all namespaces", limit.total
            after = self._total.amounts[limit] + refusal.of_total
        return limit_exceeded(scope, after, most, limit.what)
