"""Volumes for all pods of a gang, or for none.

One matching chooses them, so that no member takes the only volume of another. If there are too few,
the result says which members should avoid which volumes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from afflux.kube.volumes.bipartite_matching import BipartiteMatching, match
from afflux.kube.volumes.claims import Claim, ClaimReference
from afflux.kube.volumes.local_volumes import kind_name
from afflux.kube.volumes.node_sets import HOSTNAME, NOWHERE, NodeSet, contains, sole_host
from afflux.kube.volumes.storage_cache import StorageCache
from afflux.kube.volumes.volume import Volume
from afflux.kube.volumes.volume_choice import Choice, provisioning_problem
from afflux.model import reason

# The claim or its kind, why no volume can be provisioned, and the node sets of the candidates.
_Requester = tuple[str, str | None, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class GangMember:
    """A pod of the gang, its node with its labels, and the volumes that the pod avoids."""

    pod: str
    references: tuple[ClaimReference, ...]
    node: str
    labels: Mapping[str, str]
    avoided: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class VolumeShortfall:
    """There are too few volumes for the gang: the first pod without one, and the reason.

    `avoid`: by pod, the volumes it should avoid. `splits_claim`: pods that share a claim are on
    different nodes.
    """

    pod: str
    reason: str
    avoid: Mapping[str, frozenset[str]]
    splits_claim: bool = False


Chosen = dict[str, tuple[Choice, ...]]


def choose_gang(members: Sequence[GangMember], cache: StorageCache) -> Chosen | VolumeShortfall:
    """By pod, the choices for its unbound claims, without assuming them."""
    users: dict[str, list[GangMember]] = {}
    for each in members:
        for reference in each.references:
            claim = cache.claims.get(reference.claim)
            if claim is None:
                why = f'persistentvolumeclaim "{reference.name}" not found'
                return VolumeShortfall(each.pod, why, {})
            if not claim.bound:
                users.setdefault(claim.key, []).append(each)
                continue
            volume = cache.volumes.get(claim.volume)
            if volume is None or not contains(volume.node_set, each.node, each.labels):
                return VolumeShortfall(each.pod, reason.VOLUME_AFFINITY, {})
    requests = _Requests(users, cache)
    volumes = requests.match()
    choices: Chosen = {each.pod: () for each in members}
    for key, of in users.items():
        volume = volumes.get(key)
        if volume is None and (why := requests.provisioning_problem(key)) is not None:
            avoid = requests.volumes_to_avoid()
            return VolumeShortfall(of[0].pod, why, avoid, requests.splits_claim)
        for each in of:
            choices[each.pod] += (Choice(key, volume, each.node),)
    return choices


def find_shortfall(claims: Iterable[Claim], cache: StorageCache) -> tuple[int, int] | None:
    """The numbers of volumes that these claims need and could get on any nodes, if too few. Only
    claims without provisioning and without a reserved volume count."""
    wanted: dict[str, dict[str, Claim]] = {}
    for claim in claims:
        if claim.bound or cache.selected_node(claim) is not None or cache.reserved_volumes(claim):
            continue
        if cache.waits_for_consumer(claim) and cache.provisioning(claim).allowed == NOWHERE:
            wanted.setdefault(kind_name(claim), {})[claim.key] = claim
    needed = sum(len(of) for of in wanted.values())
    there = {kind: cache.candidates(next(iter(of.values()))) for kind, of in wanted.items()}
    if all(len(volumes) >= needed for volumes in there.values()):
        return None
    candidates = {kind: [volume.name for volume in volumes] for kind, volumes in there.items()}
    found = match(((kind, len(of)) for kind, of in wanted.items()), candidates)
    missing = sum(shortfall.missing for shortfall in found.shortfalls.values())
    return (needed, needed - missing) if missing else None


class _Requests:
    """Unbound claims as requesters of the matching.

    Claims of the same kind that reach the same volumes are one requester.
    """

    def __init__(self, users: Mapping[str, Sequence[GangMember]], cache: StorageCache) -> None:
        self._users = users
        self._cache = cache
        self._claims: dict[_Requester, list[Claim]] = {}
        self._candidates: dict[_Requester, list[str]] = {}
        self._indexes: dict[str, _CandidateIndex] = {}
        self._matching: BipartiteMatching[_Requester] | None = None
        self.splits_claim = False
        for key, of in users.items():
            claim = cache.claims[key]
            self.splits_claim |= len({each.node for each in of}) > 1
            if cache.selected_node(claim) is not None:
                continue
            what = key if cache.reserved_volumes(claim) else kind_name(claim)
            if what not in self._indexes:
                self._indexes[what] = _CandidateIndex(cache.candidates(claim))
            node_sets = self._indexes[what].node_sets(of)
            requester = (what, self.provisioning_problem(key), node_sets)
            self._claims.setdefault(requester, []).append(claim)
            if requester not in self._candidates:
                self._candidates[requester] = self._indexes[what].volumes(node_sets)

    def match(self) -> dict[str, str]:
        """Volumes by claim. Claims that cannot be provisioned come first, then the smallest."""
        order = sorted(
            self._claims,
            key=lambda requester: (
                requester[1] is None,
                self._claims[requester][0].size_bytes or 0,
            ),
        )
        wants = ((requester, len(self._claims[requester])) for requester in order)
        self._matching = match(wants, self._candidates)
        return {
            claim.key: volume
            for requester, assigned in self._matching.assigned.items()
            for claim, volume in zip(self._claims[requester], assigned, strict=False)
        }

    def provisioning_problem(self, key: str) -> str | None:
        """Why no volume can be provisioned for the claim; None if one can."""
        claim, of = self._cache.claims[key], self._users[key]
        if len({each.node for each in of}) > 1:
            return reason.VOLUME_MISSING
        return provisioning_problem(claim, of[0].node, of[0].labels, self._cache)

    def volumes_to_avoid(self) -> dict[str, frozenset[str]]:
        """By pod, the volumes to avoid: for the pods with the most alternatives."""
        found: dict[str, frozenset[str]] = {}
        for requester, shortfall in self._matching.shortfalls.items() if self._matching else ():
            if requester[1] is None or not shortfall.taken:
                continue
            claims = [claim for rival in shortfall.competitors for claim in self._claims[rival]]
            choice = {claim.key: self._alternatives(claim, shortfall.taken) for claim in claims}
            ranked = sorted((-others, key) for key, others in choice.items() if others)
            for _, key in ranked[: shortfall.missing]:
                for each in self._users[key]:
                    found[each.pod] = found.get(each.pod, frozenset()) | shortfall.taken
        return found

    def _alternatives(self, claim: Claim, taken: frozenset[str]) -> int:
        """How many volumes a claim could bind beside these and those that its pods avoid."""
        avoided = frozenset[str]().union(*(each.avoided for each in self._users[claim.key]))
        return sum(
            volume.name not in taken and volume.name not in avoided
            for volume in self._cache.candidates(claim)
        )


class _CandidateIndex:
    """Candidates by node set, with an index by hostname.

    With thousands of local volumes, those of other hosts are never looked at.
    """

    def __init__(self, candidates: Iterable[Volume]) -> None:
        self._volumes: dict[NodeSet, list[Volume]] = {}
        for volume in candidates:
            self._volumes.setdefault(volume.node_set, []).append(volume)
        self._numbers = {node_set: number for number, node_set in enumerate(self._volumes)}
        self._local: dict[str | None, list[NodeSet]] = {}
        for node_set in self._volumes:
            self._local.setdefault(sole_host(node_set), []).append(node_set)

    def node_sets(self, of: Sequence[GangMember]) -> tuple[int, ...]:
        """The numbers of the node sets to which the nodes of all these pods belong."""
        host = of[0].labels.get(HOSTNAME)
        near = [*self._local.get(None, ()), *(self._local.get(host, ()) if host else ())]
        return tuple(
            self._numbers[node_set]
            for node_set in near
            if all(contains(node_set, each.node, each.labels) for each in of)
        )

    def volumes(self, node_sets: Collection[int]) -> list[str]:
        """The volumes of these node sets, in order of preference."""
        listed = list(self._volumes.values())
        found = [volume for number in node_sets for volume in listed[number]]
        found.sort(key=lambda volume: (volume.capacity_bytes, volume.name))
        return [volume.name for volume in found]
