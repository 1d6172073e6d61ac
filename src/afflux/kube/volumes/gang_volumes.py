"""Pods that start together: volumes for all of them, or for none.

They are chosen in one matching, so that no member takes what only another could have had. Where
that does not work out, the answer says which of them had better look elsewhere.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from afflux.kube.volumes.choosing import Choice, unmakeable
from afflux.kube.volumes.claims import Claim, Reference
from afflux.kube.volumes.matching import Matching, match
from afflux.kube.volumes.regions import HOSTNAME, NOWHERE, Region, contains, sole_host
from afflux.kube.volumes.stock import kind_name
from afflux.kube.volumes.supply import Supply
from afflux.kube.volumes.volume import Volume
from afflux.model import reason

# What is wanted, why nothing else would do, and the regions in which it can be reached.
_Bidder = tuple[str, str | None, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Going:
    """One of the pods, and the node it goes to; `avoided` are volumes it leaves to the others."""

    pod: str
    references: tuple[Reference, ...]
    node: str
    labels: Mapping[str, str]
    avoided: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Short:
    """Not all of the pods get their volumes: why, and the first that does not.

    `avoid` is, by pod, what it had better leave to the others. `scattered` says that a claim which
    several of them share would have to be on several nodes at once.
    """

    pod: str
    reason: str
    avoid: Mapping[str, frozenset[str]]
    scattered: bool = False


Chosen = dict[str, tuple[Choice, ...]]


def choose_together(going: Sequence[Going], supply: Supply) -> Chosen | Short:
    """By pod the volumes for all claims that have none; nothing is assumed by asking."""
    users: dict[str, list[Going]] = {}
    for each in going:
        for reference in each.references:
            claim = supply.claims.get(reference.claim)
            if claim is None:
                why = f'persistentvolumeclaim "{reference.name}" not found'
                return Short(each.pod, why, {})
            if not claim.bound:
                users.setdefault(claim.key, []).append(each)
                continue
            volume = supply.volumes.get(claim.volume)
            if volume is None or not contains(volume.region, each.node, each.labels):
                return Short(each.pod, reason.VOLUME_AFFINITY, {})
    bids = _Bids(users, supply)
    volumes = bids.match()
    choices: Chosen = {each.pod: () for each in going}
    for key, of in users.items():
        volume = volumes.get(key)
        if volume is None and (why := bids.necessity(key)) is not None:
            return Short(of[0].pod, why, bids.better_avoided(), bids.scattered)
        for each in of:
            choices[each.pod] += (Choice(key, volume, each.node),)
    return choices


def find_shortage(claims: Iterable[Claim], supply: Supply) -> tuple[int, int] | None:
    """How many volumes these claims need and could have, wherever they are, if that is fewer.

    Only claims count for which no volume can be made and which have none of their own.
    """
    wanted: dict[str, dict[str, Claim]] = {}
    for claim in claims:
        if claim.bound or supply.node_of(claim) is not None or supply.kept_for(claim):
            continue
        if supply.waits_for_consumer(claim) and supply.provisioning(claim).allowed == NOWHERE:
            wanted.setdefault(kind_name(claim), {})[claim.key] = claim
    needed = sum(len(of) for of in wanted.values())
    there = {kind: supply.candidates(next(iter(of.values()))) for kind, of in wanted.items()}
    if all(len(volumes) >= needed for volumes in there.values()):
        return None
    candidates = {kind: [volume.name for volume in volumes] for kind, volumes in there.items()}
    found = match(((kind, len(of)) for kind, of in wanted.items()), candidates)
    missing = sum(shortage.missing for shortage in found.short.values())
    return (needed, needed - missing) if missing else None


class _Bids:
    """Open claims as bidders: those that ask for the same and reach the same volumes are one."""

    def __init__(self, users: Mapping[str, Sequence[Going]], supply: Supply) -> None:
        self._users = users
        self._supply = supply
        self._claims: dict[_Bidder, list[Claim]] = {}
        self._candidates: dict[_Bidder, list[str]] = {}
        self._reaches: dict[str, _Reach] = {}
        self._matching: Matching[_Bidder] | None = None
        self.scattered = False
        for key, of in users.items():
            claim = supply.claims[key]
            self.scattered |= len({each.node for each in of}) > 1
            if supply.node_of(claim) is not None:
                continue
            what = key if supply.kept_for(claim) else kind_name(claim)
            if what not in self._reaches:
                self._reaches[what] = _Reach(supply.candidates(claim))
            regions = self._reaches[what].regions(of)
            bidder = (what, self.necessity(key), regions)
            self._claims.setdefault(bidder, []).append(claim)
            if bidder not in self._candidates:
                self._candidates[bidder] = self._reaches[what].volumes(regions)

    def match(self) -> dict[str, str]:
        """Volumes by claim; first for those that can have no other, the smallest first."""
        order = sorted(
            self._claims,
            key=lambda bidder: (bidder[1] is None, self._claims[bidder][0].size_bytes or 0),
        )
        wants = ((bidder, len(self._claims[bidder])) for bidder in order)
        self._matching = match(wants, self._candidates)
        return {
            claim.key: volume
            for bidder, given in self._matching.given.items()
            for claim, volume in zip(self._claims[bidder], given, strict=False)
        }

    def necessity(self, key: str) -> str | None:
        """Why a claim has to have a volume that is there already; None if one can be made."""
        claim, of = self._supply.claims[key], self._users[key]
        if len({each.node for each in of}) > 1:
            return reason.VOLUME_MISSING
        return unmakeable(claim, of[0].node, of[0].labels, self._supply)

    def better_avoided(self) -> dict[str, frozenset[str]]:
        """Who had better leave which volumes to the others: those with the most others to take."""
        found: dict[str, frozenset[str]] = {}
        for bidder, shortage in self._matching.short.items() if self._matching else ():
            if bidder[1] is None or not shortage.taken:
                continue
            rivals = [claim for rival in shortage.rivals for claim in self._claims[rival]]
            choice = {claim.key: self._others(claim, shortage.taken) for claim in rivals}
            ranked = sorted((-others, key) for key, others in choice.items() if others)
            for _, key in ranked[: shortage.missing]:
                for each in self._users[key]:
                    found[each.pod] = found.get(each.pod, frozenset()) | shortage.taken
        return found

    def _others(self, claim: Claim, taken: frozenset[str]) -> int:
        """How many volumes a claim could have beside these and those that its pods avoid."""
        avoided = frozenset[str]().union(*(each.avoided for each in self._users[claim.key]))
        return sum(
            volume.name not in taken and volume.name not in avoided
            for volume in self._supply.candidates(claim)
        )


class _Reach:
    """Candidates by the region from which they can be reached, and who is in which region.

    Thousands of disks are each on one node: those of the others are not even looked at.
    """

    def __init__(self, candidates: Iterable[Volume]) -> None:
        self._volumes: dict[Region, list[Volume]] = {}
        for volume in candidates:
            self._volumes.setdefault(volume.region, []).append(volume)
        self._numbers = {region: number for number, region in enumerate(self._volumes)}
        self._local: dict[str | None, list[Region]] = {}
        for region in self._volumes:
            self._local.setdefault(sole_host(region), []).append(region)

    def regions(self, of: Sequence[Going]) -> tuple[int, ...]:
        """The regions, by number, to which the nodes of all these pods belong."""
        host = of[0].labels.get(HOSTNAME)
        near = [*self._local.get(None, ()), *(self._local.get(host, ()) if host else ())]
        return tuple(
            self._numbers[region]
            for region in near
            if all(contains(region, each.node, each.labels) for each in of)
        )

    def volumes(self, regions: Collection[int]) -> list[str]:
        """The volumes of these regions, the one to take first at the front."""
        listed = list(self._volumes.values())
        found = [volume for number in regions for volume in listed[number]]
        found.sort(key=lambda volume: (volume.capacity_bytes, volume.name))
        return [volume.name for volume in found]
