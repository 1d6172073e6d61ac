"""A small cluster in which half-bound pods are rolled back; only the test moves its clock."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from counting_event import CountingEvent
from small_api import SmallApi, run, serving

from afflux.groups.half_bound import HalfBoundGroups
from afflux.kube import objects
from afflux.kube.live.event_recorder import EventRecorder
from afflux.kube.live.half_bound_rollback import HalfBoundRollback
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.web.scheduler_metrics import Metrics

AFTER = 60.0
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


class RollbackCluster:
    """An API server, and the scheduler's copy of it."""

    def __init__(self, server: SmallApi) -> None:
        self.server = server
        self.now = 1_000.0
        self.remaining: float | None = None
        self.half_bound = HalfBoundGroups(AFTER)
        self.changed = CountingEvent()
        self.reader = ClusterReader(["afflux"], half_bound=self.half_bound)
        # Without a ledger, groups that were there before may have been whole: they are left alone.
        self.reader.take_events(self.now)
        resources = [{"name": "replicasets", "kind": "ReplicaSet"}]
        server.put("/apis/apps/v1", {"metadata": {}, "resources": resources})

    def replica_set(self, namespace: str, **template: Any) -> None:
        """The owner of the pods of this namespace; `template` are fields of their metadata."""
        spec = {"schedulerName": "afflux", "containers": [{"name": "c"}]}
        self.server.put(
            f"/apis/apps/v1/namespaces/{namespace}/replicasets/r",
            {
                "metadata": {"name": "r", "uid": "r"},
                "spec": {
                    "selector": {"matchLabels": {}},
                    "template": {"metadata": template, "spec": spec},
                },
            },
        )

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

    def noted(self) -> list[tuple[str, str, str]]:
        """The events in the history of groups since the last call."""
        events = self.reader.register.changes.take(self.now)[2]
        return [(each.group, each.kind, each.message) for each in events]

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
                clock=lambda: cluster.now,
            )
            rollback.changed = cluster.changed
            work = asyncio.create_task(rollback.run())
            try:
                await test(cluster)
            finally:
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work
                await recorder.close()

    run(whole)
