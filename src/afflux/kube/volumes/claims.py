"""The claims of a pod, and what each of them asks for."""

from dataclasses import dataclass, field

from afflux.kube import objects
from afflux.kube.quantities import storage_bytes
from afflux.kube.volumes.volume_sources import claim_name, ephemeral_name
from afflux.model.errors import InputError

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"

_STORAGE = "storage"


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """A volume of a pod that names a claim; an ephemeral claim is created for this pod alone."""

    claim: str
    ephemeral: bool = False

    @property
    def name(self) -> str:
        """The claim's name without the namespace."""
        return self.claim.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim as the scheduler sees it; `key` is namespace/name.

    `volume` names the volume that is bound or reserved, `bound` says that binding is completed,
    `node` is the selected node for provisioning. The resource version orders two states of the
    claim and does not count when they are compared.
    """

    key: str
    uid: str
    storage_class: str
    size_bytes: int | None
    modes: frozenset[str]
    block: bool
    attributes: str
    selector: objects.LabelSelector | None
    volume: str
    bound: bool
    node: str | None
    lost: bool
    deleting: bool
    owners: frozenset[str]
    version: str = field(compare=False)

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]


def claim_references(pod: objects.Pod) -> tuple[ClaimReference, ...]:
    """The claims of a pod in the order of its volumes, without duplicates."""
    volumes = pod.spec.volumes or ()
    for volume in volumes:
        if "persistentVolumeClaim" in volume or "ephemeral" in volume:
            break
    else:
        return ()
    namespace = pod.metadata.namespace or "default"
    found: dict[ClaimReference, None] = {}
    for index, volume in enumerate(volumes):
        if (name := claim_name(volume, index)) is not None:
            found[ClaimReference(f"{namespace}/{name}")] = None
        elif (name := ephemeral_name(volume, index)) is not None:
            found[ClaimReference(f"{namespace}/{pod.metadata.name or ''}-{name}", True)] = None
    return tuple(found)


def read_claim(stated: objects.PersistentVolumeClaim) -> Claim:
    """The claim; an InputError names the field that is wrong."""
    metadata, spec = stated.metadata, stated.spec
    annotations = metadata.annotations or {}
    asked = (spec.resources.requests or {}) if spec.resources else {}
    size = asked.get(_STORAGE)
    return Claim(
        key=f"{metadata.namespace or 'default'}/{metadata.name or ''}",
        uid=metadata.uid or "",
        storage_class=annotations.get(BETA_CLASS, spec.storage_class_name or ""),
        size_bytes=None if size is None else _size(size, "spec.resources.requests[storage]"),
        modes=frozenset(spec.access_modes or ()),
        block=spec.volume_mode == "Block",
        attributes=spec.volume_attributes_class_name or "",
        selector=spec.selector,
        volume=spec.volume_name or "",
        bound=bool(spec.volume_name) and BIND_COMPLETED in annotations,
        node=annotations.get(SELECTED_NODE),
        lost=stated.status is not None and stated.status.phase == "Lost",
        deleting=metadata.deletion_timestamp is not None,
        owners=frozenset(o.uid for o in metadata.owner_references or () if o.controller and o.uid),
        version=metadata.resource_version or "",
    )


def _size(written: objects.QuantityValue, path: str) -> int:
    try:
        return storage_bytes(written)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
