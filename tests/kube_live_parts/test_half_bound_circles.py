"""Pods that require each other, of which only some could be bound, are taken back like a group."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
from counting_event import CountingEvent
from small_api import SmallApi, run, serving, until

from afflux.cycle.events import GroupReady
from afflux.kube import objects
from afflux.kube.live.cluster_reader import ClusterReader
from afflux.kube.live.event_recorder import EventRecorder
from afflux.kube.live.half_bound import HalfBoundGroups
from afflux.kube.live.half_bound_circles import HalfBoundCircles
from afflux.kube.live.half_bound_rollback import HalfBoundRollback
from afflux.model.placement import Placement
from afflux.web.scheduler_metrics import Metrics

AFTER = 60.0
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


class Cluster:
    """Two pods, one in each of two namespaces, that were placed as a circle."""

    def __init__(self, server: SmallApi) -> None:
        self.server = server
        self.now = 1_000.0
        self.announced: dict[str, set[str]] = {}
        self.half_bound = HalfBoundGroups(AFTER)
        self.changed = self.half_bound.changed = CountingEvent()
        self.reader = ClusterReader(["afflux"], half_bound=self.half_bound)
        self.circles = HalfBoundCircles(self.reader, self.half_bound)
        self.pod("one/a")
        self.pod("two/b")
        ready = [e for e in self.reader.take_events(self.now) if isinstance(e, GroupReady)]
        self.placements = {
            task.name: Placement(task, "n") for event in ready for task in event.group.tasks
        }
        placed = list(self.placements.values())
        self.reader.assume(placed)
        self.circles.add([frozenset(each.task.id for each in placed)], placed)

    def pod(self, name: str, node: str = "", **fields: Any) -> None:
        space, _, own = name.partition("/")
        manifest: dict[str, Any] = {
            "metadata": {
                "name": own,
                "namespace": space,
                "uid": f"uid-{own}",
                "ownerReferences": [OWNER],
                **fields,
            },
            "spec": {"schedulerName": "afflux", "nodeName": node, "containers": [{"name": "c"}]},
        }
        kept = self.server.put(f"/api/v1/namespaces/{space}/pods/{own}", manifest)
        self.reader.pods.changed(msgspec.json.decode(json.dumps(kept), type=objects.Pod))

    def gone(self, name: str) -> None:
        known = self.reader.pods.get(name)
        assert known is not None
        self.reader.pods.deleted(known)

    def deleted(self) -> set[str]:
        requests = self.server.requests
        return {each.path.rpartition("/")[2] for each in requests if each.method == "DELETE"}

    def notes(self) -> list[str]:
        requests = self.server.requests
        return [each.body["note"] for each in requests if each.path.endswith("/events")]

    async def advance(self, seconds: float) -> None:
        """Move the clock, and wait until the rollback has done all that is due then."""
        self.now += seconds
        self.reader.take_events(self.now)
        self.circles.update(self.now)
        await self.changed.wake_and_wait()


def run_with_rollback(test: Callable[[Cluster], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with serving() as server, server.api() as api:
            cluster = Cluster(server)
            recorder = EventRecorder(api, Metrics())
            rollback = HalfBoundRollback(
                api,
                cluster.reader,
                cluster.half_bound,
                recorder,
                announce=lambda group, pods, _: cluster.announced.update({group: set(pods)}),
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


def test_the_bound_pod_is_deleted_if_the_other_cannot_be_bound_for_long() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("one/a", "n")
        # The other binding is in progress for long.
        await cluster.advance(0)
        await cluster.advance(2 * AFTER)
        assert cluster.deleted() == set()
        cluster.reader.forget_assumed(cluster.placements["two/b"], "refused")
        await cluster.advance(0)
        await until(lambda: len(cluster.notes()) == 1)
        assert cluster.deleted() == {"a"}
        assert cluster.announced == {"one/a": {"uid-a"}}
        assert cluster.notes() == [
            "Only 1 of 2 pods that require each other were bound, and the rest could not be for "
            "60 s; its controller recreates it, and all of them start together"
        ]

    run_with_rollback(test)


def test_a_circle_that_is_fully_bound_in_time_stays() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("one/a", "n")
        cluster.reader.forget_assumed(cluster.placements["two/b"], "refused")
        await cluster.advance(0)
        await cluster.advance(AFTER - 1)
        cluster.pod("two/b", "n")
        await cluster.advance(AFTER)
        # One of them ends later.
        cluster.gone("two/b")
        await cluster.advance(2 * AFTER)
        assert cluster.deleted() == set()

    run_with_rollback(test)


def test_a_circle_is_over_when_the_waiting_pod_is_gone() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("one/a", "n")
        cluster.gone("two/b")
        await cluster.advance(0)
        await cluster.advance(2 * AFTER)
        assert cluster.deleted() == set()

    run_with_rollback(test)


def test_a_circle_of_which_nothing_was_bound_is_forgotten() -> None:
    async def test(cluster: Cluster) -> None:
        for placement in cluster.placements.values():
            cluster.reader.forget_assumed(placement)
        await cluster.advance(0)
        cluster.pod("one/a", "n")
        await cluster.advance(0)
        await cluster.advance(2 * AFTER)
        assert cluster.deleted() == set()

    run_with_rollback(test)


def test_pods_without_a_controller_stay() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("one/a", "n", ownerReferences=[])
        cluster.reader.forget_assumed(cluster.placements["two/b"], "refused")
        await cluster.advance(0)
        await cluster.advance(2 * AFTER)
        assert cluster.deleted() == set()

    run_with_rollback(test)
