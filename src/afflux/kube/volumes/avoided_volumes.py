"""Concessions: volumes that some of the pods that start together leave to the others.

A plan knows how many volumes a machine has, but not how many a zone has, nor that one volume would
suit two different claims. So pods that start together may be sent where there are too few for all
of them. Then some look elsewhere: those with the most other volumes to take. If that leads nowhere
after a few plans, everybody gets a share: the volumes of one region, as many as there are pods that
have to take one there.
"""

from collections.abc import Iterable, Mapping, Sequence

from afflux.kube.volumes.claims import Claim
from afflux.kube.volumes.matching import match
from afflux.kube.volumes.stock import kind_name
from afflux.kube.volumes.supply import Supply
from afflux.kube.volumes.together import Going, Short

# So many plans in a row may fail before everybody gets a share.
MOST_PLANS = 5

_NOTHING = frozenset[str]()


class Concessions:
    """What pods do not take, by pod, until one of those with whom they start has gone."""

    def __init__(self) -> None:
        self._avoided: dict[str, frozenset[str]] = {}
        self._fellows: dict[str, frozenset[str]] = {}
        self._plans: dict[frozenset[str], int] = {}

    def of(self, pod: str) -> frozenset[str]:
        """The volumes that a pod does not take."""
        return self._avoided.get(pod, _NOTHING)

    def make(self, going: Sequence[Going], short: Short, supply: Supply) -> bool:
        """These pods did not find volumes for all; whether there is anything new to try."""
        fellows = frozenset(each.pod for each in going)
        plans = self._plans[fellows] = self._plans.get(fellows, 0) + 1
        self._fellows.update(dict.fromkeys(fellows, fellows))
        if plans < MOST_PLANS and self._set(
            {pod: self.of(pod) | names for pod, names in short.avoid.items()}
        ):
            return True
        if plans > MOST_PLANS:
            return False
        self._plans[fellows] = MOST_PLANS
        return self._set(_shares(going, supply))

    def end(self, pods: Iterable[str]) -> frozenset[str]:
        """These pods may take anything again; returns those for whom that makes a difference."""
        changed: set[str] = set()
        for pod in pods:
            if (fellows := self._fellows.pop(pod, None)) is not None:
                self._plans.pop(fellows, None)
            if self._avoided.pop(pod, None):
                changed.add(pod)
        return frozenset(changed)

    def left(self, pod: str) -> frozenset[str]:
        """A pod has gone, or has its node: for those with whom it was to start all is different."""
        return self.end(self._fellows.get(pod, _NOTHING)) - {pod}

    def _set(self, avoided: Mapping[str, frozenset[str]]) -> bool:
        new = any(self.of(pod) != names for pod, names in avoided.items())
        self._avoided.update(avoided)
        return new


def _shares(going: Sequence[Going], supply: Supply) -> dict[str, frozenset[str]]:
    """By pod the volumes that are not its share; nothing if there are too few for all."""
    claims: dict[str, Claim] = {}
    for each in going:
        for reference in each.references:
            claim = supply.claims.get(reference.claim)
            if claim is not None and not claim.bound and supply.node_of(claim) is None:
                claims[claim.key] = claim
    bidders: dict[str, list[str]] = {}
    for key, claim in claims.items():
        bidders.setdefault(key if supply.kept_for(claim) else kind_name(claim), []).append(key)
    candidates = {
        bidder: [volume.name for volume in supply.candidates(claims[keys[0]])]
        for bidder, keys in bidders.items()
    }
    found = match(((bidder, len(keys)) for bidder, keys in bidders.items()), candidates)
    given = {
        key: supply.volumes[name].region
        for bidder, names in found.given.items()
        for key, name in zip(bidders[bidder], names, strict=False)
    }
    shares: dict[str, frozenset[str]] = {}
    for each in going:
        keys = [r.claim for r in each.references if r.claim in claims]
        regions = [given[key] for key in keys if key in given]
        shares[each.pod] = frozenset(
            volume.name
            for key in keys
            for volume in supply.candidates(claims[key])
            if volume.region not in regions
        )
    return shares
