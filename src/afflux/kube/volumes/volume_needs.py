"""What the claims of a pod mean for its placement: where it may run, what it attaches, or why it
waits.

Results and messages are those of kube-scheduler. Claims of one pod that could bind the same volume
are matched together: each needs a volume of its own.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from afflux.kube import objects
from afflux.kube.volumes.claims import Claim, ClaimReference
from afflux.kube.volumes.node_sets import EVERYWHERE, NOWHERE, NodeSet, intersection, only, union
from afflux.kube.volumes.storage_cache import Provisioning, StorageCache
from afflux.kube.volumes.volume import Volume
from afflux.model import reason
from afflux.model.implied_resources import attachment_resource
from afflux.model.reachability import Reachability, driver_label
from afflux.model.resources import Resources, resources
from afflux.model.selectors import Requirement, Term

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_SUCH_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)

# Up to this many different node sets of volumes are combined; with more, each is tried alone.
MAX_COMBINED_NODE_SETS = 12


@dataclass(frozen=True, slots=True)
class VolumeNeeds:
    """Where a pod may run because of its claims, what it attaches, the local volumes it takes.

    `taken` counts only claims whose volumes are all local to one machine.
    """

    reachability: tuple[Reachability, ...] = ()
    attached: Resources = ()
    taken: Resources = ()


@dataclass(frozen=True, slots=True)
class Blocked:
    """The pod has to wait, whatever nodes there are; the text says why."""

    reason: str


def find_needs(
    pod: objects.Pod,
    references: Sequence[ClaimReference],
    cache: StorageCache,
    avoided: Collection[str] = (),
) -> VolumeNeeds | Blocked:
    """What the claims of a pod without a node mean, if it does not use the `avoided` volumes."""
    blocked = _blocked(pod, references, cache)
    if blocked is not None:
        return Blocked(blocked)
    claims = [cache.claims[reference.claim] for reference in references]
    found: set[Reachability] = set()
    for claim in claims:
        if claim.bound:
            volume = cache.volumes[claim.volume]
            _add(found, reason.VOLUME_AFFINITY, volume.node_set)
            for node_set in volume.zone_sets:
                _add(found, reason.VOLUME_ZONE, node_set)
    for why, node_set in _unbound_node_sets([c for c in claims if not c.bound], cache, avoided):
        _add(found, why, node_set)
    attached = count_attachments(claims, cache)
    for driver in {driver for driver, _ in _handles(claims, cache)}:
        if cache.requires_driver(driver):
            there = Term((Requirement(driver_label(driver), "Exists"),))
            found.add(Reachability(reason.driver_missing(driver), (there,)))
    ordered = tuple(found) if len(found) < 2 else tuple(sorted(found, key=_reachability_key))
    return VolumeNeeds(ordered, attached)


def count_attachments(claims: Iterable[Claim], cache: StorageCache) -> Resources:
    """How many volumes of each driver these claims attach to a node that has none of them."""
    return resources(Counter(attachment_resource(driver) for driver, _ in _handles(claims, cache)))


def count_taken(claims: Iterable[Claim], cache: StorageCache) -> Resources:
    """How many local volumes of each kind these claims take."""
    names = (cache.local_resource(claim) for claim in claims if not claim.bound)
    return resources(Counter(name for name in names if name is not None))


def assign(claims: Sequence[Claim], candidates: dict[str, list[Volume]]) -> dict[str, Volume]:
    """Volumes for claims, by key.

    As in kube-scheduler: the smallest claim first, and each takes its first free candidate. A claim
    that finds a volume among some candidates also finds one among more.
    """
    taken: dict[str, Volume] = {}
    used: set[str] = set()
    for claim in sorted(claims, key=lambda each: each.size_bytes or 0):
        for volume in candidates[claim.key]:
            if volume.name not in used:
                used.add(volume.name)
                taken[claim.key] = volume
                break
    return taken


def _blocked(
    pod: objects.Pod, references: Sequence[ClaimReference], cache: StorageCache
) -> str | None:
    """The first problem that no node can solve, in the order of kube-scheduler."""
    steps = (
        [_missing_claim(reference, cache) for reference in references],
        [_unusable(pod, reference, cache) for reference in references],
        [_unbound(reference, cache) for reference in references],
        [_volume_problem(reference, cache) for reference in references],
    )
    return next((why for step in steps for why in step if why is not None), None)


def _missing_claim(reference: ClaimReference, cache: StorageCache) -> str | None:
    if reference.ephemeral or reference.claim in cache.claims:
        return None
    return f'persistentvolumeclaim "{reference.name}" not found'


def _unusable(pod: objects.Pod, reference: ClaimReference, cache: StorageCache) -> str | None:
    """Why the claim itself cannot be used."""
    claim, name = cache.claims.get(reference.claim), reference.name
    if claim is None:
        why = "waiting for ephemeral volume controller to create the"
        return f'{why} persistentvolumeclaim "{name}"'
    if claim.lost:
        why = "bound to non-existent persistentvolume"
        return f'persistentvolumeclaim "{name}" {why} "{claim.volume}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{name}" is being deleted'
    metadata = pod.metadata
    if reference.ephemeral and (not metadata.uid or metadata.uid not in claim.owners):
        owner = f"{metadata.namespace or 'default'}/{metadata.name or ''}"
        return f"PVC {claim.key} was not created for pod {owner} (pod is not owner)"
    return None


def _unbound(reference: ClaimReference, cache: StorageCache) -> str | None:
    claim = cache.claims.get(reference.claim)
    if claim is None or claim.bound:
        return None
    return UNBOUND if claim.volume or not cache.waits_for_consumer(claim) else None


def _volume_problem(reference: ClaimReference, cache: StorageCache) -> str | None:
    claim = cache.claims.get(reference.claim)
    if claim is None or not claim.bound:
        return None
    volume = cache.volumes.get(claim.volume)
    if volume is None:
        if reference.ephemeral:
            return NO_SUCH_VOLUME
        return f'persistentvolume "{claim.volume}" not found'
    if volume.in_tree_type is not None:
        return f"spec.{volume.in_tree_type} of PersistentVolume {volume.name} is not supported yet"
    return None


def _unbound_node_sets(
    claims: Sequence[Claim], cache: StorageCache, avoided: Collection[str]
) -> Iterator[tuple[str, NodeSet]]:
    """For claims with WaitForFirstConsumer: the nodes where each finds or may get a volume."""
    open_claims: list[Claim] = []
    provisioning: dict[str, Provisioning] = {}
    candidates: dict[str, list[Volume]] = {}
    for claim in claims:
        provisioning[claim.key] = cache.provisioning(claim)
        node = cache.selected_node(claim)
        if node is not None:
            yield reason.VOLUME_MISSING, only(node)
            yield reason.VOLUME_MISSING, provisioning[claim.key].allowed
            yield reason.VOLUME_SPACE, provisioning[claim.key].with_capacity
            continue
        open_claims.append(claim)
        candidates[claim.key] = found = cache.candidates(claim)
        there = cache.reachable_from(claim)
        if avoided:
            found = [volume for volume in found if volume.name not in avoided]
            candidates[claim.key], there = found, union(volume.node_set for volume in found)
        yield reason.VOLUME_MISSING, union([there, provisioning[claim.key].allowed])
        yield reason.VOLUME_SPACE, union([there, provisioning[claim.key].with_capacity])
    if len(candidates) > 1 and _compete(candidates.values()):
        find = partial(_joint_node_set, open_claims, candidates, provisioning)
        yield reason.VOLUME_MISSING, find() if avoided else cache.joint_node_set(open_claims, find)


def _compete(candidates: Iterable[list[Volume]]) -> bool:
    seen: set[str] = set()
    for volumes in candidates:
        names = {volume.name for volume in volumes}
        if seen & names:
            return True
        seen |= names
    return False


def _joint_node_set(
    claims: Sequence[Claim],
    candidates: dict[str, list[Volume]],
    provisioning: dict[str, Provisioning],
) -> NodeSet:
    """The nodes where all claims find volumes at the same time.

    Volumes with the same node set are one pool. Each combination of a few pools (each single pool,
    if there are many) is tried together with the volumes that all nodes reach. Claims without a
    volume then need provisioning.
    """
    by_pool = {key: _by_node_set(volumes) for key, volumes in candidates.items()}
    pools = dict.fromkeys(node_set for of in by_pool.values() for node_set in of)
    pools.pop(EVERYWHERE, None)
    most = len(claims) if len(pools) <= MAX_COMBINED_NODE_SETS else 1
    node_sets: list[NodeSet] = []
    for chosen, common in _combined([*pools], most):
        usable = {
            key: _merged([of.get(EVERYWHERE, []), *(of.get(pool, []) for pool in chosen)])
            for key, of in by_pool.items()
        }
        found = assign(claims, usable)
        node_set = common
        for claim in claims:
            if claim.key not in found:
                node_set = intersection(node_set, provisioning[claim.key].allowed)
                node_set = intersection(node_set, provisioning[claim.key].with_capacity)
        if node_set != NOWHERE:
            node_sets.append(node_set)
    return union(node_sets)


def _by_node_set(volumes: Iterable[Volume]) -> dict[NodeSet, list[Volume]]:
    found: dict[NodeSet, list[Volume]] = {}
    for volume in volumes:
        found.setdefault(volume.node_set, []).append(volume)
    return found


def _merged(lists: Iterable[list[Volume]]) -> list[Volume]:
    """One list in order of preference."""
    found = [volume for each in lists for volume in each]
    found.sort(key=lambda volume: (volume.capacity_bytes, volume.name))
    return found


def _combined(pools: Sequence[NodeSet], most: int) -> Iterator[tuple[tuple[NodeSet, ...], NodeSet]]:
    """Combinations of up to `most` pools, also of none, with the nodes that belong to all of them.
    Pools without a common node, such as local volumes of different machines, are not combined."""
    waiting: list[tuple[tuple[NodeSet, ...], NodeSet, int]] = [((), EVERYWHERE, 0)]
    while waiting:
        chosen, node_set, first = waiting.pop()
        yield chosen, node_set
        if len(chosen) < most:
            for number in range(first, len(pools)):
                both = intersection(node_set, pools[number])
                if both != NOWHERE:
                    waiting.append(((*chosen, pools[number]), both, number + 1))


def _handles(claims: Iterable[Claim], cache: StorageCache) -> set[tuple[str, str]]:
    return {handle for claim in claims if (handle := cache.attachment(claim)) is not None}


def _add(found: set[Reachability], why: str, node_set: NodeSet) -> None:
    if node_set is not None:
        found.add(Reachability(why, node_set))


def _reachability_key(reachability: Reachability) -> tuple[str, str]:
    return reachability.reason, repr(reachability.terms)
