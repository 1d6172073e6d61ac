"""Taking back: what becomes of a group of which only a part could be bound, and what must not."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from small_api import Fault, SmallApi, run, serving, until

from afflux.cycle.events import GroupReady
from afflux.kube import objects
from afflux.kube.live.halves import Half, Halves
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.recording import Recorder
from afflux.kube.live.taking_back import TakingBack
from afflux.model.placement import Placement
from afflux.web.metrics import Metrics

PODS = "/api/v1/namespaces/default/pods"
AFTER = 60.0
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


class Cluster:
    """An API server, what a scheduler knows of it, a clock that stands still until it is set, and
    somebody who takes back."""

    def __init__(self, server: SmallApi) -> None:
        self.server = server
        self.now = 1_000.0
        self.remaining: float | None = None
        self.announced: list[tuple[str, set[str], str]] = []
        self.halves = Halves(AFTER)
        self.mirror = Mirror(["afflux"], halves=self.halves)

    def pod(
        self,
        name: str,
        node: str = "",
        *,
        size: int = 3,
        scheduler: str = "afflux",
        owner: dict[str, Any] | None = OWNER,
        **status: Any,
    ) -> None:
        labels = {"afflux.dev/group-name": "g", "afflux.dev/group-size": str(size)}
        manifest: dict[str, Any] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "labels": labels,
                "creationTimestamp": "1970-01-01T00:10:00Z",
                "ownerReferences": [owner] if owner else [],
            },
            "spec": {
                "schedulerName": scheduler,
                "nodeName": node,
                "containers": [{"name": "c"}],
            },
            "status": status,
        }
        kept = self.server.put(f"{PODS}/{name}", manifest)
        self.mirror.pods.changed(msgspec.json.decode(json.dumps(kept), type=objects.Pod))

    def gone(self, name: str) -> None:
        known = self.mirror.pods.get(f"default/{name}")
        assert known is not None
        self.mirror.pods.deleted(known)

    def placements(self) -> list[Placement]:
        """Everybody who may start now, on one machine."""
        return [
            Placement(task, "n")
            for event in self.mirror.drain(self.now)
            if isinstance(event, GroupReady)
            for task in event.group.tasks
        ]

    def deleted(self) -> set[str]:
        return {
            request.path.rpartition("/")[2]
            for request in self.server.requests
            if request.method == "DELETE"
        }

    def events(self) -> list[Any]:
        return [
            request.body
            for request in self.server.requests
            if request.method == "POST" and request.path.endswith("/events")
        ]

    async def later(self, seconds: float) -> None:
        """So much later, after everybody has looked."""
        self.now += seconds
        self.mirror.drain(self.now)
        self.halves.changed.set()
        await asyncio.sleep(0.05)


def at_work(test: Callable[[Cluster], Awaitable[None]]) -> None:
    """The test, while somebody takes back."""

    async def whole() -> None:
        async with serving() as server, server.api() as api:
            cluster = Cluster(server)
            recorder = Recorder(api, Metrics())
            taking_back = TakingBack(
                api,
                cluster.mirror,
                cluster.halves,
                recorder,
                remaining_seconds=lambda: cluster.remaining,
                announce=lambda group, pods, why: cluster.announced.append((group, set(pods), why)),
                clock=lambda: cluster.now,
            )
            work = asyncio.create_task(taking_back.run())
            try:
                await test(cluster)
            finally:
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work
                await recorder.close()

    run(whole)


def test_a_group_that_stays_half_bound_is_taken_back_after_its_time_and_not_before() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("b", "n")
        cluster.pod("c")
        await cluster.later(0)
        await cluster.later(AFTER - 1)
        assert cluster.server.requests == []
        await cluster.later(1)
        await until(lambda: len(cluster.events()) == 2)
        # What waits is not touched.
        assert cluster.deleted() == {"a", "b"}
        uids = {
            each.body["preconditions"]["uid"]
            for each in cluster.server.requests
            if each.method == "DELETE"
        }
        assert uids == {"uid-a", "uid-b"}
        why = (
            "Only 2 of 3 members of group default/g were bound, and the rest could not be for 60 s"
        )
        assert cluster.announced == [("default/g", uids, why)]
        for event in cluster.events():
            assert event["reason"] == "TakenBack"
            assert event["note"] == f"{why}; it is made anew, and all of them start together"

    at_work(test)


def test_the_time_counts_from_the_last_one_that_was_bound() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("b")
        cluster.pod("c")
        await cluster.later(0)
        await cluster.later(AFTER - 1)
        cluster.pod("b", "n")
        await cluster.later(0)
        await cluster.later(AFTER - 1)
        assert not cluster.deleted()
        await cluster.later(1)
        await until(lambda: cluster.deleted() == {"a", "b"})

    at_work(test)


def test_attempts_that_come_to_nothing_do_not_make_its_time_longer() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("b")
        cluster.pod("c")
        placements = cluster.placements()
        cluster.halves.changed.set()
        assert [each.task.name for each in placements] == ["default/b", "default/c"]
        cluster.mirror.assume(placements)
        # While it is not known whether they are bound nobody is taken back.
        await cluster.later(AFTER)
        assert not cluster.deleted()
        for each in placements:
            cluster.mirror.unplaced(each, "the node said no")
        await cluster.later(0)
        await until(lambda: cluster.deleted() == {"a"})

    at_work(test)


@pytest.mark.parametrize("owner", [None, OWNER | {"controller": False}])
def test_nothing_goes_unless_all_of_it_would_be_made_anew(owner: dict[str, Any] | None) -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("mine", "n", owner=owner)
        cluster.pod("c")
        cluster.pod("d")
        await cluster.later(0)
        await cluster.later(AFTER)
        await cluster.later(AFTER)
        assert cluster.server.requests == []
        # Without it, what is left would be.
        cluster.gone("mine")
        await cluster.later(0)
        await until(lambda: cluster.deleted() == {"a"})

    at_work(test)


def never_taken_back(prepare: Callable[[Cluster], None]) -> None:
    async def test(cluster: Cluster) -> None:
        prepare(cluster)
        await cluster.later(0)
        await cluster.later(AFTER)
        await cluster.later(AFTER)
        assert cluster.server.requests == []

    at_work(test)


def test_a_group_with_a_pod_of_another_scheduler_is_left_alone() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("theirs", "n", scheduler="another")
        cluster.pod("c")

    never_taken_back(prepare)


def test_who_has_as_many_as_it_needs_is_not_half_bound() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a", "n", size=2)
        cluster.pod("b", "n", size=2)
        cluster.pod("late", size=2)

    never_taken_back(prepare)


def test_who_has_been_whole_is_not_half_bound_when_some_have_ended() -> None:
    def prepare(cluster: Cluster) -> None:
        for name in "abc":
            cluster.pod(name, "n")
        cluster.mirror.drain(cluster.now)
        for name in "ab":
            cluster.pod(name, "n", phase="Failed")
            cluster.pod(f"{name}-again")

    never_taken_back(prepare)


def test_a_group_that_could_not_start_together_again_is_left_alone() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("b", "n")
        cluster.pod("c")
        cluster.mirror.drain(cluster.now)
        # Nobody makes this one anew, so that a quorum would never be there.
        cluster.pod("b", "n", phase="Succeeded")

    never_taken_back(prepare)


def test_nobody_waits_for_members_that_are_not_there() -> None:
    never_taken_back(lambda cluster: cluster.pod("a", "n"))


def test_members_that_contradict_each_other_are_left_alone() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a", "n", size=4)
        for name in "bcd":
            cluster.pod(name)

    never_taken_back(prepare)


def test_who_is_bound_in_time_stays() -> None:
    async def test(cluster: Cluster) -> None:
        for name in "abc":
            cluster.pod(name, "" if name == "c" else "n")
        await cluster.later(0)
        await cluster.later(AFTER - 1)
        cluster.pod("c", "n")
        await cluster.later(AFTER)
        assert cluster.server.requests == []

    at_work(test)


def test_what_the_watch_knows_already_counts_before_anybody_has_looked_at_it() -> None:
    async def test(cluster: Cluster) -> None:
        for name in "abc":
            cluster.pod(name, "" if name == "c" else "n")
        await cluster.later(0)
        cluster.pod("c", "n")
        cluster.now += AFTER
        cluster.halves.changed.set()
        await asyncio.sleep(0.05)
        assert cluster.server.requests == []

    at_work(test)


def test_who_leads_no_longer_deletes_nothing() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.remaining = 0.0
        for name in "abc":
            cluster.pod(name, "" if name == "c" else "n")
        await cluster.later(0)
        await cluster.later(AFTER)
        assert not cluster.deleted()

    at_work(test)


@pytest.mark.parametrize("status", [400, 403])
def test_what_failed_is_told_and_tried_again_after_as_long(status: int) -> None:
    async def test(cluster: Cluster) -> None:
        cluster.server.fault = lambda request: (
            Fault(status=status) if request.method == "DELETE" else Fault()
        )
        for name in "abc":
            cluster.pod(name, "" if name == "c" else "n")
        await cluster.later(0)
        await cluster.later(AFTER)
        await until(lambda: len(cluster.events()) == 2)
        assert all("could not be deleted" in event["note"] for event in cluster.events())
        cluster.server.requests.clear()
        await cluster.later(AFTER - 1)
        assert not cluster.deleted()
        await cluster.later(1)
        await until(lambda: cluster.deleted() == {"a", "b"})

    at_work(test)


# --- The timetable by itself


def test_the_next_time_is_that_of_the_group_that_has_waited_longest() -> None:
    halves = Halves(10)
    assert halves.next_seconds() is None
    halves.set(Half("d/one", 2, frozenset("a")), 1)
    halves.set(Half("d/two", 3, frozenset("b")), 2)
    assert halves.next_seconds() == 11
    halves.remove("d/one")
    assert halves.next_seconds() == 12
    assert [each.group for each in halves.take(12)] == ["d/two"]
    assert halves.next_seconds() is None
    # As it was: that has been said. Another pod of it is news.
    halves.set(Half("d/two", 3, frozenset("b")), 20)
    assert halves.next_seconds() is None
    halves.set(Half("d/two", 3, frozenset("bc")), 20)
    assert halves.next_seconds() == 30
