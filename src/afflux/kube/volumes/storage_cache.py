"""The storage cache: claims, volumes, classes, drivers and capacities, with assumed bindings.

Updated object by object. As kube-scheduler's assume cache, it treats decisions that are not written
yet as done: an assumed volume belongs to its claim, a claim with an assumed node keeps it. An
assumption ends when it is forgotten or when the objects themselves confirm it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from afflux.kube import objects
from afflux.kube.quantities import storage_bytes
from afflux.kube.volumes.claims import Claim
from afflux.kube.volumes.local_volumes import LocalVolumes, kind_name
from afflux.kube.volumes.node_sets import (
    EVERYWHERE,
    NOWHERE,
    NodeSet,
    selector_node_set,
    topology_node_set,
    union,
)
from afflux.kube.volumes.volume import LOCAL_PROVISIONERS, Volume, can_bind, meets_request
from afflux.model.errors import InputError

NO_PROVISIONER = "kubernetes.io/no-provisioner"
# Results are cached for this many kinds of claims.
_MAX_CACHED = 1000
# In-tree provisioners and the CSI drivers that replaced them.
_CSI_DRIVERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}


@dataclass(frozen=True, slots=True)
class Provisioning:
    """Where a volume may be provisioned for a claim, and where there is capacity for it."""

    allowed: NodeSet
    with_capacity: NodeSet


class StorageCache:
    """Storage objects by name, free volumes by class, and assumptions."""

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self.local_volumes = LocalVolumes()
        self._free: dict[str, dict[str, Volume]] = {}
        self._reserved: dict[str, dict[str, Volume]] = {}
        self._classes: dict[str, objects.StorageClass] = {}
        self._drivers: dict[str, objects.CSIDriver] = {}
        self._capacities: dict[str, dict[str, objects.CSIStorageCapacity]] = {}
        self._assumed_claims: dict[str, str] = {}
        self._assumed_volumes: dict[str, str] = {}
        self._assumed_nodes: dict[str, str] = {}
        # By kind of claim, its candidates and the nodes that reach them, until something changes.
        self._candidates: dict[str, list[Volume]] = {}
        self._reach_cache: dict[str, NodeSet] = {}
        # The nodes where claims of one pod, by their kinds, find volumes at the same time.
        self._joint_reach_cache: dict[tuple[str, ...], NodeSet] = {}

    # --- Updates

    def set_claim(self, claim: Claim) -> None:
        self.claims[claim.key] = claim
        if claim.volume or claim.node is not None:
            self._assumed_nodes.pop(claim.key, None)
        if claim.bound:
            self.forget(claim.key)
        self._update_claim(claim)

    def remove_claim(self, key: str) -> None:
        self.claims.pop(key, None)
        self.forget(key)
        self.local_volumes.remove_claim(key)

    def set_volume(self, volume: Volume) -> None:
        self._drop_volume(volume.name)
        self.volumes[volume.name] = volume
        if volume.claim:
            self._reserved.setdefault(volume.claim, {})[volume.name] = volume
            if (claim := self._assumed_volumes.pop(volume.name, None)) is not None:
                self._assumed_claims.pop(claim, None)
        elif volume.available and not volume.deleting:
            self._free.setdefault(volume.storage_class, {})[volume.name] = volume
        self._update_volume(volume.name)

    def remove_volume(self, name: str) -> None:
        self._drop_volume(name)
        if (claim := self._assumed_volumes.pop(name, None)) is not None:
            self._assumed_claims.pop(claim, None)
        self._update_volume(name)

    def _drop_volume(self, name: str) -> None:
        before = self.volumes.pop(name, None)
        if before is not None:
            self._free.get(before.storage_class, {}).pop(name, None)
            self._reserved.get(before.claim, {}).pop(name, None)

    def set_class(self, stated: objects.StorageClass) -> None:
        name = stated.metadata.name or ""
        self._classes[name] = stated
        self._update_class(name)

    def remove_class(self, name: str) -> None:
        self._classes.pop(name, None)
        self._update_class(name)

    def set_driver(self, stated: objects.CSIDriver) -> None:
        self._drivers[stated.metadata.name or ""] = stated
        self._clear_caches()

    def remove_driver(self, name: str) -> None:
        self._drivers.pop(name, None)
        self._clear_caches()

    def set_capacity(self, stated: objects.CSIStorageCapacity) -> None:
        """Add or update a capacity report; an InputError names an invalid quantity."""
        key = _full_name(stated)
        for name, written in (
            ("capacity", stated.capacity),
            ("maximumVolumeSize", stated.maximum_volume_size),
        ):
            try:
                storage_bytes(0 if written is None else written)
            except InputError as error:
                raise InputError(f"{name}: {error}") from None
        self.remove_capacity(stated)
        self._capacities.setdefault(stated.storage_class_name or "", {})[key] = stated

    def remove_capacity(self, stated: objects.CSIStorageCapacity) -> None:
        for reports in self._capacities.values():
            reports.pop(_full_name(stated), None)
        self._clear_caches()

    def assume(self, claim: str, volume: str | None, node: str) -> None:
        """Assume that the claim gets this volume, or one provisioned for the node."""
        self.forget(claim)
        if volume is None:
            self._assumed_nodes[claim] = node
        else:
            self._assumed_claims[claim] = volume
            self._assumed_volumes[volume] = claim
            self._update_volume(volume)

    def forget(self, claim: str) -> None:
        self._assumed_nodes.pop(claim, None)
        if (volume := self._assumed_claims.pop(claim, None)) is not None:
            self._assumed_volumes.pop(volume, None)
            self._update_volume(volume)

    def _update_volume(self, name: str) -> None:
        self._clear_caches()
        volume = self.volumes.get(name)
        free = self._free.get(volume.storage_class, {}) if volume is not None else {}
        if volume is not None and name in free and name not in self._assumed_volumes:
            self.local_volumes.add_volume(volume)
        else:
            self.local_volumes.remove_volume(name)

    def _update_claim(self, claim: Claim) -> None:
        # With a provisioner, the number of volumes is not limited.
        if claim.bound or claim.volume or not self._has_no_provisioner(claim.storage_class):
            self.local_volumes.remove_claim(claim.key)
        else:
            self.local_volumes.add_claim(claim)

    def _clear_caches(self) -> None:
        self._candidates.clear()
        self._reach_cache.clear()
        self._joint_reach_cache.clear()

    def _update_class(self, name: str) -> None:
        self._clear_caches()
        for claim in self.claims.values():
            if claim.storage_class == name:
                self._update_claim(claim)

    # --- Queries

    def selected_node(self, claim: Claim) -> str | None:
        """The node for which a volume is being provisioned for the claim."""
        return self._assumed_nodes.get(claim.key, claim.node)

    def has_assumed_volume(self, claim: Claim) -> bool:
        """Whether the claim has an assumed volume that is not confirmed yet."""
        return claim.key in self._assumed_claims

    def waits_for_consumer(self, claim: Claim) -> bool:
        """Whether the class of the claim has the binding mode WaitForFirstConsumer."""
        stated = self._classes.get(claim.storage_class) if claim.storage_class else None
        return stated is not None and stated.volume_binding_mode == "WaitForFirstConsumer"

    def candidates(self, claim: Claim) -> list[Volume]:
        """The volumes that a claim could bind, in order of preference. A reserved volume is the
        only one; otherwise the smallest volume comes first."""
        own = self.reserved_volumes(claim)
        if own:
            return own[:1]
        kind = kind_name(claim)
        found = self._candidates.get(kind)
        if found is None:
            found = [
                volume
                for volume in self._free.get(claim.storage_class, {}).values()
                if volume.name not in self._assumed_volumes and can_bind(claim, volume)
            ]
            found.sort(key=lambda volume: (volume.capacity_bytes, volume.name))
            if len(self._candidates) >= _MAX_CACHED:
                self._candidates.clear()
            self._candidates[kind] = found
        return found

    def reachable_from(self, claim: Claim) -> NodeSet:
        """The nodes that reach one of the candidates of a claim."""
        if self.reserved_volumes(claim):
            return union(volume.node_set for volume in self.candidates(claim))
        kind = kind_name(claim)
        if kind not in self._reach_cache:
            if len(self._reach_cache) >= _MAX_CACHED:
                self._reach_cache.clear()
            self._reach_cache[kind] = union(volume.node_set for volume in self.candidates(claim))
        return self._reach_cache[kind]

    def joint_node_set(self, claims: Sequence[Claim], find: Callable[[], NodeSet]) -> NodeSet:
        """The nodes where these claims of one pod find volumes at the same time; cached."""
        if any(self.reserved_volumes(claim) for claim in claims):
            return find()
        kinds = tuple(sorted(kind_name(claim) for claim in claims))
        if kinds not in self._joint_reach_cache:
            if len(self._joint_reach_cache) >= _MAX_CACHED:
                self._joint_reach_cache.clear()
            self._joint_reach_cache[kinds] = find()
        return self._joint_reach_cache[kinds]

    def reserved_volumes(self, claim: Claim) -> list[Volume]:
        """The volumes that are assumed or reserved for the claim: it takes no other."""
        assumed = self._assumed_claims.get(claim.key)
        if assumed is not None and assumed in self.volumes:
            return [self.volumes[assumed]]
        return [
            volume
            for _, volume in sorted(self._reserved.get(claim.key, {}).items())
            if volume.claim_uid in {"", claim.uid}
            and not volume.deleting
            and meets_request(claim, volume)
        ]

    def local_resource(self, claim: Claim) -> str | None:
        """The resource of a machine of which the claim takes one; None if there is none."""
        if self.selected_node(claim) is not None or self.reserved_volumes(claim):
            return None
        return self.local_volumes.resource(claim.key)

    def is_local(self, key: str) -> bool:
        """Whether the claim has a volume on a disk of a node, or will get one there."""
        claim = self.claims.get(key)
        if claim is None:
            return False
        bound = self.volumes.get(claim.volume)
        if bound is not None:
            return bound.is_local
        stated = self._classes.get(claim.storage_class)
        if stated is not None and stated.provisioner in LOCAL_PROVISIONERS:
            return True
        return any(volume.is_local for volume in self.candidates(claim))

    def provisioning(self, claim: Claim) -> Provisioning:
        """Where a volume may be provisioned for a claim, and where there is capacity for it."""
        if self.has_assumed_volume(claim):
            return Provisioning(NOWHERE, EVERYWHERE)
        stated = self._classes.get(claim.storage_class)
        if stated is None or self._has_no_provisioner(claim.storage_class):
            return Provisioning(NOWHERE, EVERYWHERE)
        allowed = topology_node_set(stated.allowed_topologies)
        driver = self._drivers.get(stated.provisioner or "")
        if driver is None or not driver.spec.storage_capacity or claim.size_bytes is None:
            return Provisioning(allowed, EVERYWHERE)
        reports = self._capacities.get(claim.storage_class, {}).values()
        return Provisioning(allowed, union(_with_capacity(reports, claim.size_bytes)))

    def _has_no_provisioner(self, storage_class: str) -> bool:
        """Whether volumes of this class are only created by hand."""
        stated = self._classes.get(storage_class)
        return stated is not None and (stated.provisioner or "") in {"", NO_PROVISIONER}

    def attachment(self, claim: Claim) -> tuple[str, str] | None:
        """The driver that attaches the claim's volume, and the handle of the volume, if any. A
        volume that is not provisioned yet has a unique handle."""
        volume = self.volumes.get(claim.volume)
        if volume is not None:
            return (volume.driver, volume.handle) if volume.driver and volume.handle else None
        stated = self._classes.get(claim.storage_class) if claim.storage_class else None
        provisioner = (stated.provisioner or "") if stated else ""
        if provisioner in {"", NO_PROVISIONER}:
            return None
        return _CSI_DRIVERS.get(provisioner, provisioner), f"claim {claim.key}"

    def requires_driver(self, driver: str) -> bool:
        """Whether pods must not run on nodes without this driver."""
        stated = self._drivers.get(driver)
        return stated is not None and bool(stated.spec.prevent_pod_scheduling_if_missing)


def _with_capacity(
    reports: Iterable[objects.CSIStorageCapacity], size_bytes: int
) -> Iterator[NodeSet]:
    for report in reports:
        limit = report.maximum_volume_size
        if limit is None:
            limit = report.capacity
        if limit is not None and storage_bytes(limit) >= size_bytes:
            yield selector_node_set(report.node_topology)


def _full_name(stated: objects.Object) -> str:
    return f"{stated.metadata.namespace or 'default'}/{stated.metadata.name or ''}"
