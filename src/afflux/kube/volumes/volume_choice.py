"""A pod has its node: which volumes its claims get, what to write, and when all is done.

For each claim that waited for its first consumer either a volume that is there is written to be the
claim's, or the claim is given the node's name, upon which a provisioner makes a volume. Both writes
hold the version that was looked at, so that a change by somebody else is noticed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from afflux.kube.volumes.claims import SELECTED_NODE, Claim, Reference
from afflux.kube.volumes.needs import Blocked, assign
from afflux.kube.volumes.regions import contains
from afflux.kube.volumes.supply import Supply
from afflux.kube.volumes.volume import Volume
from afflux.model import reason

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


@dataclass(frozen=True, slots=True)
class Choice:
    """A claim gets this volume; without one, a volume is to be made for it on the node."""

    claim: str
    volume: str | None
    node: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of one object: its resource as in the API's paths, its name, the body."""

    resource: str
    namespace: str | None
    name: str
    body: dict[str, object]


def choose_volumes(
    references: Sequence[Reference],
    node: str,
    labels: Mapping[str, str],
    supply: Supply,
) -> tuple[Choice, ...] | Blocked:
    """Volumes for the unbound claims of a pod that goes to this node, or why there are none.

    What was assumed for others is theirs. A claim that another pod has taken elsewhere since, or
    that is gone, has no volume here.
    """
    claims: list[Claim] = []
    for reference in references:
        claim = supply.claims.get(reference.claim)
        if claim is None:
            return Blocked(f'persistentvolumeclaim "{reference.name}" not found')
        if not claim.bound:
            claims.append(claim)
            continue
        volume = supply.volumes.get(claim.volume)
        if volume is None or not contains(volume.region, node, labels):
            return Blocked(reason.VOLUME_AFFINITY)
    open_claims = [claim for claim in claims if supply.node_of(claim) is None]
    within_reach = {
        claim.key: [
            volume for volume in supply.candidates(claim) if contains(volume.region, node, labels)
        ]
        for claim in open_claims
    }
    found = assign(open_claims, within_reach)
    choices: list[Choice] = []
    for claim in claims:
        volume = found.get(claim.key)
        if volume is None and (why := unmakeable(claim, node, labels, supply)) is not None:
            return Blocked(why)
        choices.append(Choice(claim.key, volume.name if volume else None, node))
    return tuple(choices)


def unmakeable(claim: Claim, node: str, labels: Mapping[str, str], supply: Supply) -> str | None:
    """Why no volume can be made for a claim on this node."""
    making = supply.provisioning(claim)
    if supply.node_of(claim) not in {None, node} or not contains(making.allowed, node, labels):
        return reason.VOLUME_MISSING
    return None if contains(making.spacious, node, labels) else reason.VOLUME_SPACE


def patches(choices: Iterable[Choice], supply: Supply) -> list[Patch]:
    """What has to be written for these choices, in order; nothing where it is written already."""
    found: list[Patch] = []
    for choice in choices:
        claim = supply.claims[choice.claim]
        namespace, _, name = claim.key.partition("/")
        if choice.volume is not None:
            body = volume_patch(supply.volumes[choice.volume], claim)
            if body is not None:
                found.append(Patch("persistentvolumes", None, choice.volume, body))
        elif claim.node != choice.node:
            body = claim_patch(claim, choice.node)
            found.append(Patch("persistentvolumeclaims", namespace, name, body))
    return found


def volume_patch(volume: Volume, claim: Claim) -> dict[str, object] | None:
    """The merge patch that makes a volume the claim's; None if that is written already.

    The note that a controller did it, and not a person, belongs to it: without it the volume would
    not be given back when the claim goes.
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
    """The merge patch that has a volume made for a claim where this node can reach it."""
    return {"metadata": {"resourceVersion": claim.version, "annotations": {SELECTED_NODE: node}}}


def binding_progress(
    choices: Iterable[Choice], labels: Mapping[str, str], supply: Supply
) -> bool | Blocked:
    """Whether what was written has led to bound claims: yes, not yet, or never."""
    done = True
    for choice in choices:
        claim = supply.claims.get(choice.claim)
        if claim is None:
            return Blocked(f"persistentvolumeclaim {choice.claim} is gone")
        if supply.is_promised(claim):
            done = False
            continue
        volume = supply.volumes.get(choice.volume or claim.volume)
        if choice.volume is None:
            if supply.node_of(claim) != choice.node:
                return Blocked(f"provisioning failed for PVC {claim.name!r}")
            if claim.volume and volume is None:
                done = False
                continue
        elif volume is None or not _promised(volume, claim):
            return Blocked(f"ClaimRef got reset for pv {choice.volume!r}")
        if volume is not None and not contains(volume.region, choice.node, labels):
            return Blocked(f"pv {volume.name!r} node affinity doesn't match node {choice.node!r}")
        done = done and claim.bound
    return done


def _promised(volume: Volume, claim: Claim) -> bool:
    return volume.claim == claim.key and volume.claim_uid == claim.uid
