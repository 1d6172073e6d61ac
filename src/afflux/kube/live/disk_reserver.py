"""Disk reserver: no pod that states what it does on disks is bound before it is reserved.

Before the pods of a cycle are bound, their uids are written into the NodeDiskIOInfo objects of
their nodes, so that the IO drivers keep bandwidth for them. The members of a group, and the pods of
a circle, are reserved together or not at all. What was reserved for pods that are not bound is
given back in the background, as they do not count on the node any more.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from time import time

from afflux.kube.disks.disk_devices import devices_annotation
from afflux.kube.disks.disk_requests import disk_volume_names
from afflux.kube.live.disk_writer import GROUP, VERSION, DiskWriter
from afflux.kube.live.event_recorder import EventReason, EventRecorder
from afflux.kube.live.object_refs import ObjectRef
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.kube.reader.node_disks import DiskNotice, NoticeKind
from afflux.kube.reader.volume_chooser import Unit, units
from afflux.kube.rejection import Rejection
from afflux.model.placement import Placement
from afflux.model.waiting_group import WaitingGroup
from afflux.web.scheduler_metrics import Metrics

_EVENTS: Mapping[NoticeKind, EventReason] = {
    "duplicate": EventReason("Warning", "DuplicateNodeDiskIOInfo", "Reading"),
    "silent": EventReason("Warning", "DiskDriverSilent", "Reading"),
    "heard": EventReason("Normal", "DiskDriverReports", "Reading"),
    "invalid": EventReason("Warning", "InvalidDiskStatus", "Reading"),
    "ahead": EventReason("Warning", "InvalidDiskStatus", "Reading"),
}
# A driver may go silent at any time; it is looked for at least so often.
_MAX_PAUSE_SECONDS = 5.0

Rejected = list[tuple[Placement, Rejection]]


class DiskReserver:
    """The reserve step of disks, and what follows from reports in a live cluster."""

    def __init__(
        self, reader: ClusterReader, writer: DiskWriter, recorder: EventRecorder, metrics: Metrics
    ) -> None:
        self._reader = reader
        self._disks = reader.cluster_disks
        self._writer = writer
        self._recorder = recorder
        self._metrics = metrics

    async def reserve(
        self,
        placements: Sequence[Placement],
        groups: Iterable[WaitingGroup],
        circles: Iterable[Collection[str]] = (),
    ) -> tuple[Sequence[Placement], Rejected]:
        """Reserve these placements: those that can be bound, and those that cannot."""
        by_node: dict[str, list[str]] = {}
        for each in placements:
            if _is_stated(each):
                by_node.setdefault(each.machine, []).append(each.task.id)
        if not by_node:
            return placements, []
        written = await asyncio.gather(
            *(self._writer.reserve(node, uids) for node, uids in by_node.items())
        )
        failures = {node: why for node, why in zip(by_node, written, strict=True) if why}
        if not failures:
            return placements, []
        refused: dict[str, Rejection] = {}
        for unit in units(placements, groups, circles):
            refused |= _refused(unit, failures)
        bindable = [each for each in placements if each.task.id not in refused]
        return bindable, [(p, refused[p.task.id]) for p in placements if p.task.id in refused]

    def annotations(self, placement: Placement) -> dict[str, str]:
        """What the binding tells the pod, and so its driver: the disk of each of its volumes."""
        if not _is_stated(placement):
            return {}
        pod = self._reader.pending_pod(placement.task)
        if pod is None:
            return {}
        names = disk_volume_names(pod, self._reader.cluster_storage.storage)
        disks = self._disks.disks_of(placement.machine, placement.task.id)
        return devices_annotation(names, disks)

    def drained(self) -> None:
        """The reader has looked at all changes: what follows from them is written and told."""
        self._writer.settle_later()
        for notice in self._disks.nodes.take_notices():
            self._tell(notice)
        statistics = self._disks.nodes.take_statistics()
        self._metrics.disk_statuses(statistics.statuses, statistics.intervals_seconds)

    async def run(self) -> None:
        """Wake the reader when a driver goes silent, until cancelled."""
        try:
            while True:
                due_seconds = self._disks.nodes.next_silence_seconds() - time()
                if due_seconds <= 0:
                    self._reader.changes.put(("cycle", ""))
                await asyncio.sleep(min(max(due_seconds, 0.5), _MAX_PAUSE_SECONDS))
        finally:
            with suppress(Exception):
                await self._writer.close()

    def _tell(self, notice: DiskNotice) -> None:
        metadata = notice.info.metadata
        about = ObjectRef(
            f"{GROUP}/{VERSION}",
            "NodeDiskIOInfo",
            metadata.namespace or "",
            metadata.name or "",
            metadata.uid or "",
        )
        self._recorder.event(_EVENTS[notice.kind], about, notice.text)


def _is_stated(placement: Placement) -> bool:
    request = placement.task.shape.disks
    return request is not None and request.is_stated


def _refused(unit: Unit, failures: Mapping[str, str]) -> dict[str, Rejection]:
    """The pods of a unit that cannot be bound: none, or all with the reason of one of them."""
    failed = next((p for p in unit.members if _is_stated(p) and p.machine in failures), None)
    if failed is None:
        return {}
    why = f"its disk bandwidth could not be reserved: {failures[failed.machine]}"
    others = f"group waits for {failed.task.name}: {why}"
    if not unit.names_members:
        others = "the disk bandwidth of a pod that it requires could not be reserved"
    return {
        each.task.id: Rejection(
            why if each.machine == failed.machine and _is_stated(each) else others
        )
        for each in unit.members
    }
