"""Disk writer: brings the NodeDiskIOInfo objects up to date with the pods on their nodes.

One write per node at a time, which the API server refuses if the object has changed meanwhile: then
the object is read again and the write is made anew. The same write adds the pods that are about to
be bound, adds those that were bound without an annotation, and removes those that are gone.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from afflux.control.backoff import Backoff
from afflux.kube import objects
from afflux.kube.api.client import MERGE_PATCH, Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.write_queue import WriteQueue
from afflux.kube.reader.cluster_disks import ClusterDisks
from afflux.web.rate_limited_log import RateLimitedLog
from afflux.web.scheduler_metrics import Metrics

GROUP, VERSION, PLURAL = "ioi.intel.com", "v1", "nodediskioinfos"
# Nodes that are written at the same time in the background.
_WORKERS = 4
_MAX_WAITING = 100_000

_log = RateLimitedLog(logging.getLogger(__name__))


@dataclass(frozen=True, slots=True)
class DiskWriterTimes:
    """How often a write is tried while others write too, and how long in all; how long background
    writes are collected, and how long they wait after a failure."""

    max_tries: int = 10
    timeout_seconds: float = 10.0
    request_timeout_seconds: float = 5.0
    initial_backoff_seconds: float = 0.05
    max_backoff_seconds: float = 2.0
    batch_seconds: float = 1.0
    failure_pause_seconds: float = 30.0


DISK_WRITER_TIMES = DiskWriterTimes()


class DiskWriter:
    """Writes what `disks` say. `remaining_seconds` returns how long this process may still write,
    None for no limit."""

    def __init__(
        self,
        api: Api,
        disks: ClusterDisks,
        metrics: Metrics,
        *,
        remaining_seconds: Callable[[], float | None] = lambda: None,
        times: DiskWriterTimes = DISK_WRITER_TIMES,
    ) -> None:
        self._api = api
        self._disks = disks
        self._metrics = metrics
        self._remaining_seconds = remaining_seconds
        self._times = times
        self._locks: dict[str, asyncio.Lock] = {}
        self._background = WriteQueue[None](
            self._settle, workers=_WORKERS, max_waiting=_MAX_WAITING, on_drop=lambda: None
        )

    def settle_later(self) -> None:
        """Queue the nodes whose objects have to be written."""
        for node in self._disks.take_unsettled():
            self._background.put(node, None, self._times.batch_seconds)

    async def close(self, seconds: float = 3.0) -> None:
        """Finish the writes that are queued within this time."""
        await self._background.close(seconds)

    async def reserve(self, node: str, uids: Collection[str]) -> str | None:
        """Write the object of this node; None if these pods are reserved then, otherwise why they
        are not."""
        try:
            async with asyncio.timeout(self._limited(self._times.timeout_seconds)):
                failure = await self._write(node)
        except TimeoutError:
            self._metrics.disk_write("failed")
            return f"{_shown(node)} was not written within {self._times.timeout_seconds:g} s"
        if all(self._disks.is_reserved(node, uid) for uid in uids):
            return None
        return failure or f"{_shown(node)} is gone, or the pod is"

    async def _settle(self, node: str, _: None) -> None:
        failure = None
        try:
            async with asyncio.timeout(self._limited(self._times.timeout_seconds)):
                failure = await self._write(node)
        except TimeoutError:
            failure = "timed out"
        if failure is not None:
            pause = self._times.failure_pause_seconds
            _log.warning("%s: %s; trying again in %s s", _shown(node), failure, pause)
            self._background.put(node, None, pause)

    def _limited(self, seconds: float) -> float:
        remaining = self._remaining_seconds()
        return seconds if remaining is None else max(0.0, min(seconds, remaining))

    async def _write(self, node: str) -> str | None:
        """Write until the object is as it should be; otherwise why it is not."""
        lock = self._locks.setdefault(node, asyncio.Lock())
        async with lock:
            backoff = Backoff(self._times.initial_backoff_seconds, self._times.max_backoff_seconds)
            failure = None
            for tries in range(self._times.max_tries):
                found = self._disks.next_write(node)
                if found is None:
                    return None
                info, write = found
                try:
                    written = await self._api.send(
                        "PATCH",
                        _path(info),
                        write.patch(info),
                        answer=objects.NodeDiskIOInfo,
                        content_type=MERGE_PATCH,
                        timeout_seconds=self._times.request_timeout_seconds,
                    )
                    self._disks.infos.changed(written)
                    self._metrics.disk_write("written")
                    continue
                except UnreachableError as error:
                    failure = str(error)
                except ApiError as error:
                    failure = str(error)
                    if error.is_not_found:
                        self._disks.infos.deleted(info)
                        break
                    if not (error.is_conflict or error.is_temporary):
                        break
                    self._metrics.disk_write("conflict" if error.is_conflict else "failed")
                if tries:
                    await asyncio.sleep(backoff.wait_seconds())
                await self._read_again(info)
            self._metrics.disk_write("failed")
            return failure

    async def _read_again(self, info: objects.NodeDiskIOInfo) -> None:
        """After a conflict, or a write of which it is not known whether it happened."""
        try:
            now = await self._api.find(_path(info), objects.NodeDiskIOInfo)
        except (ApiError, UnreachableError):
            # The watch may bring it meanwhile.
            return
        if now is None:
            self._disks.infos.deleted(info)
        else:
            self._disks.infos.changed(now)


def collection_path(namespace: str) -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"


def _path(info: objects.NodeDiskIOInfo) -> str:
    return f"{collection_path(info.metadata.namespace or 'default')}/{info.metadata.name}"


def _shown(node: str) -> str:
    return f"the NodeDiskIOInfo of node {node}"
