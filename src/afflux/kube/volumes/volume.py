"""A PersistentVolume, and which claims could bind it."""

from dataclasses import dataclass, field

from afflux.kube import objects
from afflux.kube.label_selectors import selects
from afflux.kube.quantities import storage_bytes
from afflux.kube.volumes.claims import BETA_CLASS, Claim
from afflux.kube.volumes.node_sets import (
    NodeSet,
    affinity_node_set,
    sole_host,
    zone_node_sets,
)
from afflux.model.errors import InputError

# Provisioners and CSI drivers that make volumes of the disks of a node. Once it is provisioned, a
# volume of another one counts as local if a single node reaches it.
LOCAL_PROVISIONERS = frozenset(
    {
        "docker.io/hostpath",
        "hostpath.csi.k8s.io",
        "k8s.io/minikube-hostpath",
        "kubernetes.io/host-path",
        "local.csi.openebs.io",
        "microk8s.io/hostpath",
        "openebs.io/local",
        "rancher.io/local-path",
        "topolvm.cybozu.com",
        "topolvm.io",
        "zfs.csi.openebs.io",
    }
)

_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume as the scheduler sees it.

    `claim` and `claim_uid` name the claim it is reserved for, if any. `in_tree_type` is the field
    of an in-tree volume type, for which Kubernetes has special rules.
    """

    name: str
    storage_class: str
    capacity_bytes: int
    modes: frozenset[str]
    block: bool
    attributes: str
    labels: objects.Labels
    node_set: NodeSet
    zone_sets: tuple[NodeSet, ...]
    claim: str
    claim_uid: str
    available: bool
    deleting: bool
    driver: str
    handle: str
    in_tree_type: str | None
    # On a disk of a node, not attached over the network.
    is_local: bool
    version: str = field(compare=False)


def read_volume(stated: objects.PersistentVolume) -> Volume:
    """The volume; an InputError names the field that is wrong."""
    metadata, spec = stated.metadata, stated.spec
    labels, annotations = metadata.labels or {}, metadata.annotations or {}
    claim = spec.claim_ref
    written = (spec.capacity or {}).get("storage", 0)
    try:
        capacity_bytes = storage_bytes(written)
    except InputError as error:
        raise InputError(f"spec.capacity[storage]: {error}") from None
    return Volume(
        name=metadata.name or "",
        storage_class=annotations.get(BETA_CLASS, spec.storage_class_name or ""),
        capacity_bytes=capacity_bytes,
        modes=frozenset(spec.access_modes or ()),
        block=spec.volume_mode == "Block",
        attributes=spec.volume_attributes_class_name or "",
        labels=labels,
        node_set=affinity_node_set(spec.node_affinity),
        zone_sets=tuple(zone_node_sets(labels)),
        claim=f"{claim.namespace or ''}/{claim.name or ''}" if claim else "",
        claim_uid=(claim.uid or "") if claim else "",
        available=stated.status is not None and stated.status.phase == "Available",
        deleting=metadata.deletion_timestamp is not None,
        driver=(spec.csi.driver or "") if spec.csi else "",
        handle=(spec.csi.volume_handle or "") if spec.csi else "",
        in_tree_type=_in_tree_type(spec),
        is_local=_is_local(spec, affinity_node_set(spec.node_affinity)),
        version=metadata.resource_version or "",
    )


def meets_request(claim: Claim, volume: Volume) -> bool:
    """Whether a volume that is reserved for the claim has what the claim asks for."""
    return (
        volume.storage_class == claim.storage_class
        and volume.capacity_bytes >= (claim.size_bytes or 0)
        and volume.block == claim.block
        and volume.attributes == claim.attributes
    )


def can_bind(claim: Claim, volume: Volume) -> bool:
    """Whether the claim could bind a volume that is reserved for no claim."""
    return (
        meets_request(claim, volume)
        and claim.modes <= volume.modes
        and (claim.selector is None or _selected(claim.selector, volume.labels))
    )


def _selected(selector: objects.LabelSelector, labels: objects.Labels) -> bool:
    known = all(e.operator in _OPERATORS for e in selector.match_expressions or ())
    return known and selects(selector, labels)


def _is_local(spec: objects.VolumeSpec, node_set: NodeSet) -> bool:
    """A CSI volume that a single node reaches, by its hostname, is on a disk of that node."""
    if spec.csi is not None:
        return spec.csi.driver in LOCAL_PROVISIONERS or sole_host(node_set) is not None
    return spec.local is not None or spec.host_path is not None


def _in_tree_type(spec: objects.VolumeSpec) -> str | None:
    for name, stated in (
        ("awsElasticBlockStore", spec.aws_elastic_block_store),
        ("azureDisk", spec.azure_disk),
        ("cinder", spec.cinder),
        ("gcePersistentDisk", spec.gce_persistent_disk),
        ("portworxVolume", spec.portworx_volume),
    ):
        if stated is not None:
            return name
    return None
