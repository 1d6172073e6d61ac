"""What a scheduler writes into a NodeDiskIOInfo: the pods for which the driver keeps bandwidth.

A pod that was reserved for other disks than it has now is removed in one write and added in the
next: only a changed list raises the generation, by which the driver says what it has taken into
account.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from afflux.kube import objects
from afflux.kube.disks.disk_devices import reserved_annotation, reserved_disks


@dataclass(frozen=True, slots=True)
class ReservedPods:
    """The list to write, and the annotation that belongs to it. Unless it `is_complete`, another
    write follows."""

    uids: tuple[str, ...]
    annotation: Mapping[str, str]
    is_complete: bool

    def patch(self, info: objects.NodeDiskIOInfo) -> dict[str, object]:
        """The merge patch, which the API server refuses if the object has changed meanwhile."""
        version = info.metadata.resource_version
        return {
            "metadata": {"resourceVersion": version, "annotations": self.annotation},
            "spec": {"reservedPods": self.uids},
        }


def next_reserved_pods(
    info: objects.NodeDiskIOInfo, wanted: Mapping[str, tuple[str, ...]], present: Container[str]
) -> ReservedPods | None:
    """What to write next, None if the object is as it should be.

    `wanted` are the disks, by uid, of the pods on the node that have to be reserved, empty if they
    are not known. Other pods stay reserved, for whatever reason, while they are `present` on the
    node.
    """
    reserved = info.spec.reserved_pods or ()
    noted = reserved_disks(info.metadata.annotations)
    kept: dict[str, None] = {}
    moved: set[str] = set()
    for uid in reserved:
        disks = wanted.get(uid, ())
        if disks and noted.get(uid, disks) != disks:
            moved.add(uid)
        elif uid in wanted or uid in present:
            kept[uid] = None
    added = sorted(uid for uid in wanted if uid not in kept and uid not in moved)
    uids = (*kept, *added)
    disks_by_uid = {uid: disks for uid in uids if (disks := wanted.get(uid) or noted.get(uid))}
    if uids == reserved and disks_by_uid == noted:
        return None
    return ReservedPods(uids, reserved_annotation(disks_by_uid), not moved)
