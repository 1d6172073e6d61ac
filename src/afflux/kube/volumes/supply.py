"""The supply: claims, volumes, classes, drivers and free space, and who may have which volume.

A mirror that changes by whole objects. What was decided but is not written yet is assumed: a volume
that was given to a claim is nobody else's, a claim for which a node was chosen stays with it.
Assumptions end when they are forgotten or when the objects themselves say so.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from afflux.kube import objects
from afflux.kube.quantities import storage_bytes
from afflux.kube.repulsion import selects
from afflux.kube.volumes.claims import BETA_CLASS, Claim
from afflux.kube.volumes.regions import (
    EVERYWHERE,
    NOWHERE,
    Region,
    node_affinity_region,
    selected_region,
    topology_region,
    union,
    zone_regions,
)
from afflux.model.errors import InputError

NO_PROVISIONER = "kubernetes.io/no-provisioner"
# Provisioners from before CSI and the drivers that do their work today.
_SUCCESSORS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume as the scheduler sees it.

    `claim` and `claim_uid` are whom it is for, empty if for nobody in particular; `predecessor` is
    the field of a disk from before CSI, for which Kubernetes has rules of its own.
    """

    name: str
    storage_class: str
    capacity_bytes: int
    modes: frozenset[str]
    block: bool
    attributes: str
    labels: objects.Labels
    region: Region
    zones: tuple[Region, ...]
    claim: str
    claim_uid: str
    available: bool
    leaving: bool
    driver: str
    handle: str
    predecessor: str | None
    version: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Provisioning:
    """Where a volume may be made for a claim, and where there is space for it."""

    allowed: Region
    spacious: Region


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
        region=node_affinity_region(spec.node_affinity),
        zones=tuple(zone_regions(labels)),
        claim=f"{claim.namespace or ''}/{claim.name or ''}" if claim else "",
        claim_uid=(claim.uid or "") if claim else "",
        available=stated.status is not None and stated.status.phase == "Available",
        leaving=metadata.deletion_timestamp is not None,
        driver=(spec.csi.driver or "") if spec.csi else "",
        handle=(spec.csi.volume_handle or "") if spec.csi else "",
        predecessor=_predecessor(spec),
        version=metadata.resource_version or "",
    )


def _predecessor(spec: objects.VolumeSpec) -> str | None:
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


class Supply:
    """Storage objects by name, volumes that are to be had by class, and what is assumed."""

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self._free: dict[str, dict[str, Volume]] = {}
        self._promised: dict[str, dict[str, Volume]] = {}
        self._classes: dict[str, objects.StorageClass] = {}
        self._drivers: dict[str, objects.CSIDriver] = {}
        self._spaces: dict[str, dict[str, objects.CSIStorageCapacity]] = {}
        self._assumed_claims: dict[str, str] = {}
        self._assumed_volumes: dict[str, str] = {}
        self._assumed_nodes: dict[str, str] = {}

    # --- What happens

    def set_claim(self, claim: Claim) -> None:
        """A claim is there, or has changed."""
        self.claims[claim.key] = claim
        if claim.volume or claim.node is not None:
            self._assumed_nodes.pop(claim.key, None)
        if claim.bound:
            self.forget(claim.key)

    def remove_claim(self, key: str) -> None:
        """A claim is gone."""
        self.claims.pop(key, None)
        self.forget(key)

    def set_volume(self, volume: Volume) -> None:
        """A volume is there, or has changed."""
        self.remove_volume(volume.name, gone=False)
        self.volumes[volume.name] = volume
        if volume.claim:
            self._promised.setdefault(volume.claim, {})[volume.name] = volume
            if (claim := self._assumed_volumes.pop(volume.name, None)) is not None:
                self._assumed_claims.pop(claim, None)
        elif volume.available and not volume.leaving:
            self._free.setdefault(volume.storage_class, {})[volume.name] = volume

    def remove_volume(self, name: str, *, gone: bool = True) -> None:
        """A volume is gone."""
        before = self.volumes.pop(name, None)
        if before is not None:
            self._free.get(before.storage_class, {}).pop(name, None)
            self._promised.get(before.claim, {}).pop(name, None)
        if gone and (claim := self._assumed_volumes.pop(name, None)) is not None:
            self._assumed_claims.pop(claim, None)

    def set_class(self, stated: objects.StorageClass) -> None:
        """A storage class is there, or has changed."""
        self._classes[stated.metadata.name or ""] = stated

    def remove_class(self, name: str) -> None:
        """A storage class is gone."""
        self._classes.pop(name, None)

    def set_driver(self, stated: objects.CSIDriver) -> None:
        """A driver is there, or has changed."""
        self._drivers[stated.metadata.name or ""] = stated

    def remove_driver(self, name: str) -> None:
        """A driver is gone."""
        self._drivers.pop(name, None)

    def set_space(self, stated: objects.CSIStorageCapacity) -> None:
        """Free space was reported; an InputError names a figure that is none."""
        key = _full_name(stated)
        for name, written in (
            ("capacity", stated.capacity),
            ("maximumVolumeSize", stated.maximum_volume_size),
        ):
            try:
                storage_bytes(0 if written is None else written)
            except InputError as error:
                raise InputError(f"{name}: {error}") from None
        self.remove_space(stated)
        self._spaces.setdefault(stated.storage_class_name or "", {})[key] = stated

    def remove_space(self, stated: objects.CSIStorageCapacity) -> None:
        """A report of free space is gone."""
        for reports in self._spaces.values():
            reports.pop(_full_name(stated), None)

    def assume(self, claim: str, volume: str | None, node: str) -> None:
        """A claim is about to get this volume, or one that is made on the node."""
        self.forget(claim)
        if volume is None:
            self._assumed_nodes[claim] = node
        else:
            self._assumed_claims[claim] = volume
            self._assumed_volumes[volume] = claim

    def forget(self, claim: str) -> None:
        """Nothing is assumed about a claim any more."""
        self._assumed_nodes.pop(claim, None)
        if (volume := self._assumed_claims.pop(claim, None)) is not None:
            self._assumed_volumes.pop(volume, None)

    # --- What there is

    def node_of(self, claim: Claim) -> str | None:
        """The node where a volume for the claim is being made."""
        return self._assumed_nodes.get(claim.key, claim.node)

    def is_promised(self, claim: Claim) -> bool:
        """Whether a claim was given a volume and nobody has confirmed it yet."""
        return claim.key in self._assumed_claims

    def waits_for_consumer(self, claim: Claim) -> bool:
        """Whether the class of a claim leaves it to the scheduler to bind it."""
        stated = self._classes.get(claim.storage_class) if claim.storage_class else None
        return stated is not None and stated.volume_binding_mode == "WaitForFirstConsumer"

    def candidates(self, claim: Claim) -> list[Volume]:
        """The volumes that a claim could have, the one to take first at the front.

        A volume that is promised to the claim is the only one; otherwise the smallest goes first.
        """
        assumed = self._assumed_claims.get(claim.key)
        if assumed is not None and assumed in self.volumes:
            return [self.volumes[assumed]]
        promised = [
            volume
            for _, volume in sorted(self._promised.get(claim.key, {}).items())
            if volume.claim_uid in {"", claim.uid}
            and volume.storage_class == claim.storage_class
            and not volume.leaving
            and _suits(claim, volume)
        ]
        if promised:
            return promised[:1]
        found = [
            volume
            for volume in self._free.get(claim.storage_class, {}).values()
            if volume.name not in self._assumed_volumes
            and _suits(claim, volume)
            and claim.modes <= volume.modes
            and (claim.selector is None or _selected(claim.selector, volume.labels))
        ]
        return sorted(found, key=lambda volume: (volume.capacity_bytes, volume.name))

    def provisioning(self, claim: Claim) -> Provisioning:
        """Where a volume may be made for a claim, and where there is space for it."""
        if self.is_promised(claim):
            return Provisioning(NOWHERE, EVERYWHERE)
        stated = self._classes.get(claim.storage_class)
        provisioner = (stated.provisioner or "") if stated else ""
        if stated is None or provisioner in {"", NO_PROVISIONER}:
            return Provisioning(NOWHERE, EVERYWHERE)
        allowed = topology_region(stated.allowed_topologies)
        driver = self._drivers.get(provisioner)
        if driver is None or not driver.spec.storage_capacity or claim.size_bytes is None:
            return Provisioning(allowed, EVERYWHERE)
        reports = self._spaces.get(claim.storage_class, {}).values()
        return Provisioning(allowed, union(_spacious(reports, claim.size_bytes)))

    def attachment(self, claim: Claim) -> tuple[str, str] | None:
        """The driver that attaches the claim's volume and the volume's handle; None if none does.

        A volume that is not there yet has a handle that is nobody else's.
        """
        volume = self.volumes.get(claim.volume)
        if volume is not None:
            return (volume.driver, volume.handle) if volume.driver and volume.handle else None
        stated = self._classes.get(claim.storage_class) if claim.storage_class else None
        provisioner = (stated.provisioner or "") if stated else ""
        if provisioner in {"", NO_PROVISIONER}:
            return None
        return _SUCCESSORS.get(provisioner, provisioner), f"claim {claim.key}"

    def insists_on_driver(self, driver: str) -> bool:
        """Whether pods must not go where this driver is not installed."""
        stated = self._drivers.get(driver)
        return stated is not None and bool(stated.spec.prevent_pod_scheduling_if_missing)


def _suits(claim: Claim, volume: Volume) -> bool:
    return (
        volume.capacity_bytes >= (claim.size_bytes or 0)
        and volume.block == claim.block
        and volume.attributes == claim.attributes
    )


def _selected(selector: objects.LabelSelector, labels: objects.Labels) -> bool:
    known = all(e.operator in _OPERATORS for e in selector.match_expressions or ())
    return known and selects(selector, labels)


def _spacious(reports: Iterable[objects.CSIStorageCapacity], size_bytes: int) -> Iterator[Region]:
    for report in reports:
        limit = report.maximum_volume_size
        if limit is None:
            limit = report.capacity
        if limit is not None and storage_bytes(limit) >= size_bytes:
            yield selected_region(report.node_topology)


def _full_name(stated: objects.Object) -> str:
    return f"{stated.metadata.namespace or 'default'}/{stated.metadata.name or ''}"
