"""The volumes for the claims of a pod on its node, the patches to write, and their progress.

Each claim with WaitForFirstConsumer gets an existing volume (a patch of the volume's claimRef) or a
selected node (a patch of the claim, after which a provisioner creates a volume). Both patches carry
the resource version that was read, so that a concurrent change makes them fail.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from afflux.kube.volumes.claims import SELECTED_NODE, Claim, ClaimReference
from afflux.kube.volumes.node_sets import contains
from afflux.kube.volumes.storage_cache import StorageCache
from afflux.kube.volumes.volume import Volume
from afflux.kube.volumes.volume_needs import Blocked, assign
from afflux.model import reason

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


@dataclass(frozen=True, slots=True)
class Choice:
    """A claim gets this volume; if it is None, a volume is provisioned for the node."""

    claim: str
    volume: str | None
    node: str


def choose_volumes(
    references: Sequence[ClaimReference], node: str, labels: Mapping[str, str], cache: StorageCache
) -> tuple[Choice, ...] | Blocked:
    """Volumes for the unbound claims of a pod on this node, or why there are none.

    Volumes assumed for other claims are not available. A claim that has been bound or assumed
    elsewhere since, or that is gone, has no volume here.
    """
    claims: list[Claim] = []
    for reference in references:
        claim = cache.claims.get(reference.claim)
        if claim is None:
            return Blocked(f'persistentvolumeclaim "{reference.name}" not found')
        if not claim.bound:
            claims.append(claim)
            continue
        volume = cache.volumes.get(claim.volume)
        if volume is None or not contains(volume.node_set, node, labels):
            return Blocked(reason.VOLUME_AFFINITY)
    open_claims = [claim for claim in claims if cache.selected_node(claim) is None]
    reachable = {
        claim.key: [
            volume for volume in cache.candidates(claim) if contains(volume.node_set, node, labels)
        ]
        for claim in open_claims
    }
    found = assign(open_claims, reachable)
    choices: list[Choice] = []
    for claim in claims:
        volume = found.get(claim.key)
        if volume is None and (why := provisioning_problem(claim, node, labels, cache)) is not None:
            return Blocked(why)
        choices.append(Choice(claim.key, volume.name if volume else None, node))
    return tuple(choices)


def provisioning_problem(
    claim: Claim, node: str, labels: Mapping[str, str], cache: StorageCache
) -> str | None:
    """Why no volume can be provisioned for a claim on this node; None if one can."""
    provisioning = cache.provisioning(claim)
    elsewhere = cache.selected_node(claim) not in {None, node}
    if elsewhere or not contains(provisioning.allowed, node, labels):
        return reason.VOLUME_MISSING
    return None if contains(provisioning.with_capacity, node, labels) else reason.VOLUME_SPACE


def volume_patch(volume: Volume, claim: Claim) -> dict[str, object] | None:
    """The merge patch that reserves a volume for a claim; None if that is written already.

    The annotation says that a controller did it: without it, the volume would not be released when
    the claim is deleted.
    """
    if (volume.claim, volume.claim_uid) == (claim.key, claim.uid):
        return None
    metadata: dict[str, object] = {"resourceVersion": volume.version}
    if volume.claim != claim.key:
        metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    namespace, _, name = claim.key.partition("/")
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": name,
        "uid": claim.uid,
        "resourceVersion": claim.version,
    }
    return {"metadata": metadata, "spec": {"claimRef": reference}}


def claim_patch(claim: Claim, node: str) -> dict[str, object]:
    """The merge patch that selects the node for which a volume is provisioned."""
    return {"metadata": {"resourceVersion": claim.version, "annotations": {SELECTED_NODE: node}}}


def binding_progress(
    choices: Iterable[Choice], labels: Mapping[str, str], cache: StorageCache
) -> bool | Blocked:
    """Whether the claims are bound: True, not yet (False), or never (Blocked)."""
    done = True
    for choice in choices:
        claim = cache.claims.get(choice.claim)
        if claim is None:
            return Blocked(f"persistentvolumeclaim {choice.claim} is gone")
        if cache.has_assumed_volume(claim):
            done = False
            continue
        volume = cache.volumes.get(choice.volume or claim.volume)
        if choice.volume is None:
            if cache.selected_node(claim) != choice.node:
                return Blocked(f"provisioning failed for PVC {claim.name!r}")
            if claim.volume and volume is None:
                done = False
                continue
        elif volume is None or not _is_reserved_for(volume, claim):
            return Blocked(f"ClaimRef got reset for pv {choice.volume!r}")
        if volume is not None and not contains(volume.node_set, choice.node, labels):
            return Blocked(f"pv {volume.name!r} node affinity doesn't match node {choice.node!r}")
        done = done and claim.bound
    return done


def _is_reserved_for(volume: Volume, claim: Claim) -> bool:
    return volume.claim == claim.key and volume.claim_uid == claim.uid
