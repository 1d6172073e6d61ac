"""What a pod's claims mean for placing it: where it may go, what it attaches, or why it waits.

Every answer and every word is kube-scheduler's. Claims of one pod that could get the same volume
are looked at together: each must find one of its own.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from afflux.kube.volumes.claims import Claim, Reference
from afflux.kube.volumes.regions import (
    EVERYWHERE,
    NOWHERE,
    Region,
    intersection,
    only,
    union,
)
from afflux.kube.volumes.supply import Provisioning, Supply
from afflux.kube.volumes.volume import Volume
from afflux.model import reason
from afflux.model.implied import attachments
from afflux.model.places import Places, driver_label
from afflux.model.resources import Resources, resources
from afflux.model.selectors import Requirement, Term

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_SUCH_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)

# So many different regions of volumes are combined; with more, each is looked at alone.
MOST_COMBINED = 12


@dataclass(frozen=True, slots=True)
class VolumeNeeds:
    """Where a pod may go because of its claims, what it attaches and which volumes it takes there.

    Volumes are only counted where a machine has so many for claims like these and no others.
    """

    places: tuple[Places, ...] = ()
    attached: Resources = ()
    taken: Resources = ()


@dataclass(frozen=True, slots=True)
class Blocked:
    """A pod has to wait whatever the nodes are like; the text says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Owner:
    """The pod whose claims are looked at."""

    namespace: str
    name: str
    uid: str


def find_needs(
    owner: Owner,
    references: Sequence[Reference],
    supply: Supply,
    without: Collection[str] = (),
) -> VolumeNeeds | Blocked:
    """What the claims of a pod that waits for a node mean; volumes `without` are not for it."""
    blocked = _blocked(owner, references, supply)
    if blocked is not None:
        return Blocked(blocked)
    claims = [supply.claims[reference.claim] for reference in references]
    found: set[Places] = set()
    for claim in claims:
        if claim.bound:
            volume = supply.volumes[claim.volume]
            _add(found, reason.VOLUME_AFFINITY, volume.region)
            for region in volume.zones:
                _add(found, reason.VOLUME_ZONE, region)
    for why, region in _unbound_regions([c for c in claims if not c.bound], supply, without):
        _add(found, why, region)
    attached = count_attachments(claims, supply)
    for driver in {driver for driver, _ in _handles(claims, supply)}:
        if supply.insists_on_driver(driver):
            there = Term((Requirement(driver_label(driver), "Exists"),))
            found.add(Places(reason.driver_missing(driver), (there,)))
    ordered = tuple(found) if len(found) < 2 else tuple(sorted(found, key=_places_key))
    return VolumeNeeds(ordered, attached)


def count_attachments(claims: Iterable[Claim], supply: Supply) -> Resources:
    """How many volumes of each driver these claims attach to a node that has none of them."""
    counts: dict[str, int] = {}
    for driver, _ in _handles(claims, supply):
        name = attachments(driver)
        counts[name] = counts.get(name, 0) + 1
    return resources(counts)


def count_taken(claims: Iterable[Claim], supply: Supply) -> Resources:
    """How many volumes of each kind these claims take of what their machine has."""
    counts: dict[str, int] = {}
    for claim in claims:
        name = None if claim.bound else supply.drawn_from(claim)
        if name is not None:
            counts[name] = counts.get(name, 0) + 1
    return resources(counts)


def assign(claims: Sequence[Claim], candidates: dict[str, list[Volume]]) -> dict[str, Volume]:
    """Volumes for claims, by key.

    As kube-scheduler does: the smallest claim first, each taking its first candidate that is left.
    Whatever else is there, a claim that finds one among fewer also finds one among more.
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


def _blocked(owner: Owner, references: Sequence[Reference], supply: Supply) -> str | None:
    """The first thing that no choice of a node can help, in the order of kube-scheduler."""
    steps = (
        [_missing(reference, supply) for reference in references],
        [_unusable(owner, reference, supply) for reference in references],
        [_unbound(reference, supply) for reference in references],
        [_without_volume(reference, supply) for reference in references],
    )
    return next((why for step in steps for why in step if why is not None), None)


def _missing(reference: Reference, supply: Supply) -> str | None:
    if reference.ephemeral or reference.claim in supply.claims:
        return None
    return f'persistentvolumeclaim "{reference.name}" not found'


def _unusable(owner: Owner, reference: Reference, supply: Supply) -> str | None:
    """What is wrong with a claim itself."""
    claim, name = supply.claims.get(reference.claim), reference.name
    if claim is None:
        why = "waiting for ephemeral volume controller to create the"
        return f'{why} persistentvolumeclaim "{name}"'
    if claim.lost:
        why = "bound to non-existent persistentvolume"
        return f'persistentvolumeclaim "{name}" {why} "{claim.volume}"'
    if claim.leaving:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if reference.ephemeral and (not owner.uid or owner.uid not in claim.owners):
        pod = f"{owner.namespace}/{owner.name}"
        return f"PVC {claim.key} was not created for pod {pod} (pod is not owner)"
    return None


def _unbound(reference: Reference, supply: Supply) -> str | None:
    claim = supply.claims.get(reference.claim)
    if claim is None or claim.bound:
        return None
    return UNBOUND if claim.volume or not supply.waits_for_consumer(claim) else None


def _without_volume(reference: Reference, supply: Supply) -> str | None:
    claim = supply.claims.get(reference.claim)
    if claim is None or not claim.bound:
        return None
    volume = supply.volumes.get(claim.volume)
    if volume is None:
        if reference.ephemeral:
            return NO_SUCH_VOLUME
        return f'persistentvolume "{claim.volume}" not found'
    if volume.predecessor is not None:
        return f"spec.{volume.predecessor} of PersistentVolume {volume.name} is not supported yet"
    return None


def _unbound_regions(
    claims: Sequence[Claim], supply: Supply, without: Collection[str]
) -> Iterator[tuple[str, Region]]:
    """For claims that wait for their first consumer: where each finds a volume or may get one."""
    open_claims: list[Claim] = []
    making: dict[str, Provisioning] = {}
    candidates: dict[str, list[Volume]] = {}
    for claim in claims:
        making[claim.key] = supply.provisioning(claim)
        node = supply.node_of(claim)
        if node is not None:
            yield reason.VOLUME_MISSING, only(node)
            yield reason.VOLUME_MISSING, making[claim.key].allowed
            yield reason.VOLUME_SPACE, making[claim.key].spacious
            continue
        open_claims.append(claim)
        candidates[claim.key] = found = supply.candidates(claim)
        there = supply.reach(claim)
        if without:
            found = [volume for volume in found if volume.name not in without]
            candidates[claim.key], there = found, union(volume.region for volume in found)
        yield reason.VOLUME_MISSING, union([there, making[claim.key].allowed])
        yield reason.VOLUME_SPACE, union([there, making[claim.key].spacious])
    if len(candidates) > 1 and _compete(candidates.values()):
        yield (
            reason.VOLUME_MISSING,
            _joint_region(open_claims, candidates, making)
            if without
            else supply.remembered(
                open_claims, lambda: _joint_region(open_claims, candidates, making)
            ),
        )


def _compete(candidates: Iterable[list[Volume]]) -> bool:
    seen: set[str] = set()
    for volumes in candidates:
        names = {volume.name for volume in volumes}
        if seen & names:
            return True
        seen |= names
    return False


def _joint_region(
    claims: Sequence[Claim],
    candidates: dict[str, list[Volume]],
    making: dict[str, Provisioning],
) -> Region:
    """Where all the claims find volumes at once.

    Volumes that can be reached from the same nodes are one pool. A pool, or a few where there are
    few, is tried with what can be reached from everywhere; what finds none there must be made.
    """
    by_pool = {key: _by_region(volumes) for key, volumes in candidates.items()}
    pools = dict.fromkeys(region for of in by_pool.values() for region in of)
    pools.pop(EVERYWHERE, None)
    most = len(claims) if len(pools) <= MOST_COMBINED else 1
    regions: list[Region] = []
    for chosen, together in _combined([*pools], most):
        usable = {
            key: _merged([of.get(EVERYWHERE, []), *(of.get(pool, []) for pool in chosen)])
            for key, of in by_pool.items()
        }
        found = assign(claims, usable)
        region = together
        for claim in claims:
            if claim.key not in found:
                region = intersection(region, making[claim.key].allowed)
                region = intersection(region, making[claim.key].spacious)
        if region != NOWHERE:
            regions.append(region)
    return union(regions)


def _by_region(volumes: Iterable[Volume]) -> dict[Region, list[Volume]]:
    found: dict[Region, list[Volume]] = {}
    for volume in volumes:
        found.setdefault(volume.region, []).append(volume)
    return found


def _merged(lists: Iterable[list[Volume]]) -> list[Volume]:
    """One list in the order in which volumes are taken."""
    found = [volume for each in lists for volume in each]
    found.sort(key=lambda volume: (volume.capacity_bytes, volume.name))
    return found


def _combined(pools: Sequence[Region], most: int) -> Iterator[tuple[tuple[Region, ...], Region]]:
    """Up to so many pools at once, none included, and the nodes that belong to all of them.

    Pools without a node in common, as disks of different machines are, are not combined: with
    them nothing else needs to be.
    """
    waiting: list[tuple[tuple[Region, ...], Region, int]] = [((), EVERYWHERE, 0)]
    while waiting:
        chosen, region, first = waiting.pop()
        yield chosen, region
        if len(chosen) < most:
            for number in range(first, len(pools)):
                both = intersection(region, pools[number])
                if both != NOWHERE:
                    waiting.append(((*chosen, pools[number]), both, number + 1))


def _handles(claims: Iterable[Claim], supply: Supply) -> set[tuple[str, str]]:
    return {handle for claim in claims if (handle := supply.attachment(claim)) is not None}


def _add(found: set[Places], why: str, region: Region) -> None:
    if region is not None:
        found.add(Places(why, region))


def _places_key(places: Places) -> tuple[str, str]:
    return places.reason, repr(places.terms)
