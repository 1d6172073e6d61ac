"""Volumes that pods of a gang avoid, after a plan sent the gang to nodes with too few volumes.

A plan knows how many volumes a machine has, but not how many a zone has, nor that two different
claims could bind the same volume. So it may send a gang where there are too few volumes for all its
pods. Then some pods, those with the most alternatives, avoid the contested volumes, and the gang is
planned again. After MAX_PLANS such plans, a matching gives each pod the volumes of one node set,
and it avoids all others.
"""

from collections.abc import Iterable, Mapping, Sequence

from afflux.kube.volumes.bipartite_matching import match
from afflux.kube.volumes.claims import Claim
from afflux.kube.volumes.gang_volumes import GangMember, VolumeShortfall
from afflux.kube.volumes.local_volumes import kind_name
from afflux.kube.volumes.storage_cache import StorageCache

# After this many failed plans in a row, each pod is restricted to a share of the volumes.
MAX_PLANS = 5

_NOTHING = frozenset[str]()


class AvoidedVolumes:
    """The volumes that each pod avoids, until its gang starts or one of the gang is removed."""

    def __init__(self) -> None:
        self._avoided: dict[str, frozenset[str]] = {}
        self._gangs: dict[str, frozenset[str]] = {}
        self._plans: dict[frozenset[str], int] = {}

    def of(self, pod: str) -> frozenset[str]:
        return self._avoided.get(pod, _NOTHING)

    def add(
        self, members: Sequence[GangMember], shortfall: VolumeShortfall, cache: StorageCache
    ) -> bool:
        """Make pods of this gang avoid volumes; False if there is nothing new to try."""
        gang = frozenset(each.pod for each in members)
        plans = self._plans[gang] = self._plans.get(gang, 0) + 1
        self._gangs.update(dict.fromkeys(gang, gang))
        avoided = {pod: self.of(pod) | names for pod, names in shortfall.avoid.items()}
        if plans < MAX_PLANS and self._set(avoided):
            return True
        if plans > MAX_PLANS:
            return False
        self._plans[gang] = MAX_PLANS
        return self._set(_outside_share(members, cache))

    def end(self, pods: Iterable[str]) -> frozenset[str]:
        """Clear what these pods avoid; returns the pods that avoided something."""
        changed: set[str] = set()
        for pod in pods:
            if (gang := self._gangs.pop(pod, None)) is not None:
                self._plans.pop(gang, None)
            if self._avoided.pop(pod, None):
                changed.add(pod)
        return frozenset(changed)

    def left(self, pod: str) -> frozenset[str]:
        """A pod has a node or is gone: clears its gang; returns the other pods affected."""
        return self.end(self._gangs.get(pod, _NOTHING)) - {pod}

    def _set(self, avoided: Mapping[str, frozenset[str]]) -> bool:
        new = any(self.of(pod) != names for pod, names in avoided.items())
        self._avoided.update(avoided)
        return new


def _outside_share(members: Sequence[GangMember], cache: StorageCache) -> dict[str, frozenset[str]]:
    """By pod, the volumes outside of its share."""
    claims: dict[str, Claim] = {}
    for each in members:
        for reference in each.references:
            claim = cache.claims.get(reference.claim)
            if claim is not None and not claim.bound and cache.selected_node(claim) is None:
                claims[claim.key] = claim
    requesters: dict[str, list[str]] = {}
    for key, claim in claims.items():
        requester = key if cache.reserved_volumes(claim) else kind_name(claim)
        requesters.setdefault(requester, []).append(key)
    candidates = {
        requester: [volume.name for volume in cache.candidates(claims[keys[0]])]
        for requester, keys in requesters.items()
    }
    found = match(((requester, len(keys)) for requester, keys in requesters.items()), candidates)
    assigned = {
        key: cache.volumes[name].node_set
        for requester, names in found.assigned.items()
        for key, name in zip(requesters[requester], names, strict=False)
    }
    shares: dict[str, frozenset[str]] = {}
    for each in members:
        keys = [r.claim for r in each.references if r.claim in claims]
        node_sets = [assigned[key] for key in keys if key in assigned]
        shares[each.pod] = frozenset(
            volume.name
            for key in keys
            for volume in cache.candidates(claims[key])
            if volume.node_set not in node_sets
        )
    return shares
