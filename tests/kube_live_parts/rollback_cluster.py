"""A small cluster in which half-bound pods are rolled back; only the test moves its clock."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from counting_event import CountingEvent
from small_api import SmallApi, run, serving

from afflux.kube import objects
from afflux.kube.live.cluster_reader import ClusterReader
from afflux.kube.live.event_recorder import EventRecorder
from afflux.kube.live.half_bound import HalfBoundGroups
from afflux.kube.live.half_bound_rollback import HalfBoundRollback
from afflux.web.scheduler_metrics import Metrics

AFTER = 60.0
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


class RollbackCluster:
    """An API server, the scheduler's copy of it, and what the rollback has announced."""

    def __init__(self, server: SmallApi) -> None:
        self.server = server
        self.now = 1_000.0
        self.remaining: float | None = None
        self.announced: list[tuple[str, set[str], str]] = []
        self.half_bound = HalfBoundGroups(AFTER)
        self.changed = self.half_bound.changed = CountingEvent()
        self.reader = ClusterReader(["afflux"], half_bound=self.half_bound)

    def put(self, manifest: dict[str, Any]) -> None:
        """The API server has this pod now, and the scheduler has seen it."""
        metadata = manifest["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        kept = self.server.put(path, manifest)
        self.reader.pods.changed(msgspec.json.decode(json.dumps(kept), type=objects.Pod))

    def gone(self, full_name: str) -> None:
        known = self.reader.pods.get(full_name)
        assert known is not None
        self.reader.pods.deleted(known)

    def deleted(self) -> set[str]:
        requests = self.server.requests
        return {each.path.rpartition("/")[2] for each in requests if each.method == "DELETE"}

    def events(self) -> list[Any]:
        requests = self.server.requests
        posted = (each for each in requests if each.method == "POST")
        return [each.body for each in posted if each.path.endswith("/events")]

    def observe(self) -> None:
        """The scheduler looks at what has changed."""
        self.reader.take_events(self.now)

    async def advance(self, seconds: float) -> None:
        """Move the clock, and wait until the rollback has done all that is due then."""
        self.now += seconds
        self.observe()
        await self.changed.wake_and_wait()


C = TypeVar("C", bound=RollbackCluster)


def run_rollback(cluster_of: Callable[[SmallApi], C], test: Callable[[C], Awaitable[None]]) -> None:
    """Run the test while the rollback runs."""

    async def whole() -> None:
        async with serving() as server, server.api() as api:
            cluster = cluster_of(server)
            recorder = EventRecorder(api, Metrics())
            rollback = HalfBoundRollback(
                api,
                cluster.reader,
                cluster.half_bound,
                recorder,
                remaining_seconds=lambda: cluster.remaining,
                announce=lambda group, pods, why: cluster.announced.append((group, set(pods), why)),
                clock=lambda: cluster.now,
            )
            work = asyncio.create_task(rollback.run())
            try:
                await test(cluster)
            finally:
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work
                await recorder.close()

    run(whole)
