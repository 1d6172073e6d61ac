"""The supply: claims, volumes, classes, drivers and free space, and who may have which volume.

A mirror that changes by whole objects. What was decided but is not written yet is assumed: a volume
that was given to a claim is nobody else's, a claim for which a node was chosen stays with it.
Assumptions end when they are forgotten or when the objects themselves say so.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from afflux.kube import objects
from afflux.kube.quantities import storage_bytes
from afflux.kube.volumes.claims import Claim
from afflux.kube.volumes.regions import (
    EVERYWHERE,
    NOWHERE,
    Region,
    selected_region,
    topology_region,
    union,
)
from afflux.kube.volumes.stock import Stock, kind_name
from afflux.kube.volumes.volume import Volume, could_have, suits
from afflux.model.errors import InputError

NO_PROVISIONER = "kubernetes.io/no-provisioner"
# Of so many kinds of claims we remember what could be had.
_MOST_REMEMBERED = 1000
# Provisioners from before CSI and the drivers that do their work today.
_SUCCESSORS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}


@dataclass(frozen=True, slots=True)
class Provisioning:
    """Where a volume may be made for a claim, and where there is space for it."""

    allowed: Region
    spacious: Region


class Supply:
    """Storage objects by name, volumes that are to be had by class, and what is assumed."""

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self.stock = Stock()
        self._free: dict[str, dict[str, Volume]] = {}
        self._promised: dict[str, dict[str, Volume]] = {}
        self._classes: dict[str, objects.StorageClass] = {}
        self._drivers: dict[str, objects.CSIDriver] = {}
        self._spaces: dict[str, dict[str, objects.CSIStorageCapacity]] = {}
        self._assumed_claims: dict[str, str] = {}
        self._assumed_volumes: dict[str, str] = {}
        self._assumed_nodes: dict[str, str] = {}
        # By kind of claim what could be had, until that changes.
        self._found: dict[str, list[Volume]] = {}
        self._reached: dict[str, Region] = {}
        # The same for claims of one pod together, by their kinds.
        self._reached_together: dict[tuple[str, ...], Region] = {}

    # --- What happens

    def set_claim(self, claim: Claim) -> None:
        """A claim is there, or has changed."""
        self.claims[claim.key] = claim
        if claim.volume or claim.node is not None:
            self._assumed_nodes.pop(claim.key, None)
        if claim.bound:
            self.forget(claim.key)
        self._recount_claim(claim)

    def remove_claim(self, key: str) -> None:
        """A claim is gone."""
        self.claims.pop(key, None)
        self.forget(key)
        self.stock.look_no_more(key)

    def set_volume(self, volume: Volume) -> None:
        """A volume is there, or has changed."""
        self._drop_volume(volume.name)
        self.volumes[volume.name] = volume
        if volume.claim:
            self._promised.setdefault(volume.claim, {})[volume.name] = volume
            if (claim := self._assumed_volumes.pop(volume.name, None)) is not None:
                self._assumed_claims.pop(claim, None)
        elif volume.available and not volume.leaving:
            self._free.setdefault(volume.storage_class, {})[volume.name] = volume
        self._recount_volume(volume.name)

    def remove_volume(self, name: str) -> None:
        """A volume is gone."""
        self._drop_volume(name)
        if (claim := self._assumed_volumes.pop(name, None)) is not None:
            self._assumed_claims.pop(claim, None)
        self._recount_volume(name)

    def _drop_volume(self, name: str) -> None:
        before = self.volumes.pop(name, None)
        if before is not None:
            self._free.get(before.storage_class, {}).pop(name, None)
            self._promised.get(before.claim, {}).pop(name, None)

    def set_class(self, stated: objects.StorageClass) -> None:
        """A storage class is there, or has changed."""
        name = stated.metadata.name or ""
        self._classes[name] = stated
        self._recount_class(name)

    def remove_class(self, name: str) -> None:
        """A storage class is gone."""
        self._classes.pop(name, None)
        self._recount_class(name)

    def set_driver(self, stated: objects.CSIDriver) -> None:
        """A driver is there, or has changed."""
        self._drivers[stated.metadata.name or ""] = stated
        self._forget_regions()

    def remove_driver(self, name: str) -> None:
        """A driver is gone."""
        self._drivers.pop(name, None)
        self._forget_regions()

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
        self._forget_regions()

    def assume(self, claim: str, volume: str | None, node: str) -> None:
        """A claim is about to get this volume, or one that is made on the node."""
        self.forget(claim)
        if volume is None:
            self._assumed_nodes[claim] = node
        else:
            self._assumed_claims[claim] = volume
            self._assumed_volumes[volume] = claim
            self._recount_volume(volume)

    def forget(self, claim: str) -> None:
        """Nothing is assumed about a claim any more."""
        self._assumed_nodes.pop(claim, None)
        if (volume := self._assumed_claims.pop(claim, None)) is not None:
            self._assumed_volumes.pop(volume, None)
            self._recount_volume(volume)

    def _recount_volume(self, name: str) -> None:
        self._forget_regions()
        volume = self.volumes.get(name)
        free = self._free.get(volume.storage_class, {}) if volume is not None else {}
        if volume is not None and name in free and name not in self._assumed_volumes:
            self.stock.offer(volume)
        else:
            self.stock.withdraw(name)

    def _recount_claim(self, claim: Claim) -> None:
        # Where volumes are made there is no end to them.
        if claim.bound or claim.volume or not self._is_by_hand(claim.storage_class):
            self.stock.look_no_more(claim.key)
        else:
            self.stock.look_for(claim)

    def _forget_regions(self) -> None:
        self._found.clear()
        self._reached.clear()
        self._reached_together.clear()

    def _recount_class(self, name: str) -> None:
        self._forget_regions()
        for claim in self.claims.values():
            if claim.storage_class == name:
                self._recount_claim(claim)

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
        own = self.kept_for(claim)
        if own:
            return own[:1]
        kind = kind_name(claim)
        found = self._found.get(kind)
        if found is None:
            found = [
                volume
                for volume in self._free.get(claim.storage_class, {}).values()
                if volume.name not in self._assumed_volumes and could_have(claim, volume)
            ]
            found.sort(key=lambda volume: (volume.capacity_bytes, volume.name))
            if len(self._found) >= _MOST_REMEMBERED:
                self._found.clear()
            self._found[kind] = found
        return found

    def reach(self, claim: Claim) -> Region:
        """Where one of the volumes that a claim could have can be reached from."""
        if self.kept_for(claim):
            return union(volume.region for volume in self.candidates(claim))
        kind = kind_name(claim)
        if kind not in self._reached:
            if len(self._reached) >= _MOST_REMEMBERED:
                self._reached.clear()
            self._reached[kind] = union(volume.region for volume in self.candidates(claim))
        return self._reached[kind]

    def remembered(self, claims: Sequence[Claim], find: Callable[[], Region]) -> Region:
        """Where these claims, which are one pod's, find volumes at once; found when first asked."""
        if any(self.kept_for(claim) for claim in claims):
            return find()
        kinds = tuple(sorted(kind_name(claim) for claim in claims))
        if kinds not in self._reached_together:
            if len(self._reached_together) >= _MOST_REMEMBERED:
                self._reached_together.clear()
            self._reached_together[kinds] = find()
        return self._reached_together[kinds]

    def kept_for(self, claim: Claim) -> list[Volume]:
        """The volumes that are this claim's and nobody else's: it takes no other."""
        assumed = self._assumed_claims.get(claim.key)
        if assumed is not None and assumed in self.volumes:
            return [self.volumes[assumed]]
        return [
            volume
            for _, volume in sorted(self._promised.get(claim.key, {}).items())
            if volume.claim_uid in {"", claim.uid} and not volume.leaving and suits(claim, volume)
        ]

    def drawn_from(self, claim: Claim) -> str | None:
        """The resource of a machine out of which a claim gets its volume; None if it is none."""
        if self.node_of(claim) is not None or self.kept_for(claim):
            return None
        return self.stock.resource(claim.key)

    def provisioning(self, claim: Claim) -> Provisioning:
        """Where a volume may be made for a claim, and where there is space for it."""
        if self.is_promised(claim):
            return Provisioning(NOWHERE, EVERYWHERE)
        stated = self._classes.get(claim.storage_class)
        if stated is None or self._is_by_hand(claim.storage_class):
            return Provisioning(NOWHERE, EVERYWHERE)
        allowed = topology_region(stated.allowed_topologies)
        driver = self._drivers.get(stated.provisioner or "")
        if driver is None or not driver.spec.storage_capacity or claim.size_bytes is None:
            return Provisioning(allowed, EVERYWHERE)
        reports = self._spaces.get(claim.storage_class, {}).values()
        return Provisioning(allowed, union(_spacious(reports, claim.size_bytes)))

    def _is_by_hand(self, storage_class: str) -> bool:
        """Whether nobody makes volumes of this class but people."""
        stated = self._classes.get(storage_class)
        return stated is not None and (stated.provisioner or "") in {"", NO_PROVISIONER}

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


def _spacious(reports: Iterable[objects.CSIStorageCapacity], size_bytes: int) -> Iterator[Region]:
    for report in reports:
        limit = report.maximum_volume_size
        if limit is None:
            limit = report.capacity
        if limit is not None and storage_bytes(limit) >= size_bytes:
            yield selected_region(report.node_topology)


def _full_name(stated: objects.Object) -> str:
    return f"{stated.metadata.namespace or 'default'}/{stated.metadata.name or ''}"
