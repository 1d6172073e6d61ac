"""Rollback of groups that stay half-bound: which pods are deleted, when, and which never."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from rollback_cluster import AFTER, OWNER, RollbackCluster, run_rollback
from small_api import Fault, SmallApi, until

from afflux.cycle.events import GroupReady
from afflux.groups.half_bound import HalfBoundGroup, HalfBoundGroups
from afflux.model.placement import Placement

PODS = "/api/v1/namespaces/default/pods"


def group_labels(size: int) -> dict[str, str]:
    return {"afflux.dev/group-name": "g", "afflux.dev/group-size": str(size)}


class Cluster(RollbackCluster):
    """A group `g` in the namespace `default`."""

    def __init__(self, server: SmallApi) -> None:
        super().__init__(server)
        self.replica_set("default", labels=group_labels(3))

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
        manifest: dict[str, Any] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "labels": group_labels(size),
                "creationTimestamp": "1970-01-01T00:10:00Z",
                "ownerReferences": [owner] if owner else [],
            },
            "spec": {"schedulerName": scheduler, "nodeName": node, "containers": [{"name": "c"}]},
            "status": status,
        }
        self.put(manifest)

    def placements(self) -> list[Placement]:
        """Places all pods that may start now on one machine."""
        return [
            Placement(task, "n")
            for event in self.reader.take_events(self.now)
            if isinstance(event, GroupReady)
            for task in event.group.tasks
        ]


def run_with_rollback(test: Callable[[Cluster], Awaitable[None]]) -> None:
    run_rollback(Cluster, test)


def test_a_group_that_stays_half_bound_is_rolled_back_after_its_time_and_not_before() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("b", "n")
        cluster.pod("c")
        await cluster.advance(0)
        await cluster.advance(AFTER - 1)
        assert cluster.server.requests == []
        await cluster.advance(1)
        await until(lambda: len(cluster.events()) == 2)
        # The pending pod stays.
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
        assert [each[1:] for each in cluster.noted()] == [("TakenBack", why)]
        for event in cluster.events():
            assert event["reason"] == "TakenBack"
            assert (
                event["note"]
                == f"{why}; its controller recreates it, and the whole group starts together"
            )

    run_with_rollback(test)


def test_the_time_counts_from_the_last_bind() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("b")
        cluster.pod("c")
        await cluster.advance(0)
        await cluster.advance(AFTER - 1)
        cluster.pod("b", "n")
        await cluster.advance(0)
        await cluster.advance(AFTER - 1)
        assert not cluster.deleted()
        await cluster.advance(1)
        await until(lambda: cluster.deleted() == {"a", "b"})

    run_with_rollback(test)


def test_failed_binds_do_not_extend_the_time() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("b")
        cluster.pod("c")
        placements = cluster.placements()
        cluster.changed.set()
        assert [each.task.name for each in placements] == ["default/b", "default/c"]
        cluster.reader.assume(placements)
        # No rollback while binds of the group are in progress.
        await cluster.advance(AFTER)
        assert not cluster.deleted()
        for each in placements:
            cluster.reader.forget_assumed(each, refusal="rejected by the node")
        await cluster.advance(0)
        await until(lambda: cluster.deleted() == {"a"})

    run_with_rollback(test)


@pytest.mark.parametrize("owner", [None, OWNER | {"controller": False}])
def test_nothing_is_deleted_unless_all_bound_pods_are_recreated(
    owner: dict[str, Any] | None,
) -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("mine", "n", owner=owner)
        cluster.pod("c")
        cluster.pod("d")
        await cluster.advance(0)
        await cluster.advance(AFTER)
        await cluster.advance(AFTER)
        assert cluster.server.requests == []
        # Without that pod, controllers recreate all the others.
        cluster.gone("default/mine")
        await cluster.advance(0)
        await until(lambda: cluster.deleted() == {"a"})

    run_with_rollback(test)


@pytest.mark.parametrize(
    ("template", "owner"),
    [
        ({}, OWNER),
        ({"labels": group_labels(2)}, OWNER),
        ({"labels": group_labels(3)}, OWNER | {"uid": "an-earlier-one"}),
        ({"labels": group_labels(3)}, OWNER | {"kind": "Pod", "apiVersion": "v1"}),
    ],
)
def test_a_pod_whose_controller_does_not_confirm_it_would_not_be_recreated(
    template: dict[str, Any], owner: dict[str, Any]
) -> None:
    async def test(cluster: Cluster) -> None:
        cluster.replica_set("default", **template)
        cluster.pod("a", "n", owner=owner)
        cluster.pod("b")
        cluster.pod("c")
        await cluster.advance(0)
        await cluster.advance(AFTER)
        await cluster.advance(AFTER)
        assert not cluster.deleted()

    run_with_rollback(test)


def test_a_group_is_rolled_back_once_its_controller_can_be_read() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.server.fault = lambda request: Fault(
            status=403 if request.method == "GET" else None
        )
        cluster.pod("a", "n")
        cluster.pod("b")
        cluster.pod("c")
        await cluster.advance(0)
        await cluster.advance(AFTER)
        await cluster.advance(0)
        assert not cluster.deleted()
        cluster.server.fault = lambda _: Fault()
        await cluster.advance(AFTER)
        await until(lambda: cluster.deleted() == {"a"})

    run_with_rollback(test)


def never_rolled_back(prepare: Callable[[Cluster], None]) -> None:
    async def test(cluster: Cluster) -> None:
        prepare(cluster)
        await cluster.advance(0)
        await cluster.advance(AFTER)
        await cluster.advance(AFTER)
        assert cluster.server.requests == []

    run_with_rollback(test)


def test_a_group_with_a_pod_of_another_scheduler_is_not_rolled_back() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("theirs", "n", scheduler="another")
        cluster.pod("c")

    never_rolled_back(prepare)


def test_a_group_with_as_many_bound_members_as_it_needs_is_not_half_bound() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a", "n", size=2)
        cluster.pod("b", "n", size=2)
        cluster.pod("late", size=2)

    never_rolled_back(prepare)


def test_a_group_that_was_fully_bound_is_not_half_bound_when_members_have_ended() -> None:
    def prepare(cluster: Cluster) -> None:
        for name in "abc":
            cluster.pod(name, "n")
        cluster.reader.take_events(cluster.now)
        for name in "ab":
            cluster.pod(name, "n", phase="Failed")
            cluster.pod(f"{name}-again")

    never_rolled_back(prepare)


def test_a_group_that_could_not_start_together_again_is_not_rolled_back() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a", "n")
        cluster.pod("b", "n")
        cluster.pod("c")
        cluster.reader.take_events(cluster.now)
        # No controller recreates this pod, so the group would never have enough members.
        cluster.pod("b", "n", phase="Succeeded")

    never_rolled_back(prepare)


def test_a_group_whose_other_members_do_not_exist_is_not_rolled_back() -> None:
    never_rolled_back(lambda cluster: cluster.pod("a", "n"))


def test_a_group_with_contradictory_labels_is_not_rolled_back() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a", "n", size=4)
        for name in "bcd":
            cluster.pod(name)

    never_rolled_back(prepare)


def test_a_group_that_is_fully_bound_in_time_is_not_rolled_back() -> None:
    async def test(cluster: Cluster) -> None:
        for name in "abc":
            cluster.pod(name, "" if name == "c" else "n")
        await cluster.advance(0)
        await cluster.advance(AFTER - 1)
        cluster.pod("c", "n")
        await cluster.advance(AFTER)
        assert cluster.server.requests == []

    run_with_rollback(test)


def test_a_bind_that_only_the_watch_has_seen_prevents_the_rollback() -> None:
    async def test(cluster: Cluster) -> None:
        for name in "abc":
            cluster.pod(name, "" if name == "c" else "n")
        await cluster.advance(0)
        cluster.pod("c", "n")
        cluster.now += AFTER
        await cluster.changed.wake_and_wait()
        assert cluster.server.requests == []

    run_with_rollback(test)


def test_a_replica_that_does_not_lead_rolls_back_nothing() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.remaining = 0.0
        for name in "abc":
            cluster.pod(name, "" if name == "c" else "n")
        await cluster.advance(0)
        await cluster.advance(AFTER)
        assert not cluster.deleted()

    run_with_rollback(test)


@pytest.mark.parametrize("status", [400, 403])
def test_a_failed_rollback_is_reported_and_retried_after_the_same_time(status: int) -> None:
    async def test(cluster: Cluster) -> None:
        cluster.server.fault = lambda request: (
            Fault(status=status) if request.method == "DELETE" else Fault()
        )
        for name in "abc":
            cluster.pod(name, "" if name == "c" else "n")
        await cluster.advance(0)
        await cluster.advance(AFTER)
        await until(lambda: len(cluster.events()) == 2)
        assert all("could not be deleted" in event["note"] for event in cluster.events())
        cluster.server.requests.clear()
        await cluster.advance(AFTER - 1)
        assert not cluster.deleted()
        await cluster.advance(1)
        await until(lambda: cluster.deleted() == {"a", "b"})

    run_with_rollback(test)


def test_a_pod_that_could_not_be_deleted_and_runs_to_its_end_has_run() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.server.fault = lambda request: (
            Fault(status=403) if request.method == "DELETE" else Fault()
        )
        for name in "abc":
            cluster.pod(name, "" if name == "c" else "n")
        await cluster.advance(0)
        await cluster.advance(AFTER)
        await until(lambda: len(cluster.events()) == 2)
        for name in "ab":
            cluster.pod(name, "n", phase="Succeeded")
        cluster.gone("default/c")
        cluster.observe()
        (ended,) = cluster.reader.register.changes.take(cluster.now)[1]
        assert ended.how == "succeeded"
        assert [each.name for each in ended.members] == ["default/a", "default/b"]

    run_with_rollback(test)


# --- Due times


def test_the_next_due_time_is_that_of_the_group_that_is_half_bound_longest() -> None:
    half_bound = HalfBoundGroups(10)
    assert half_bound.next_seconds() is None
    half_bound.set(HalfBoundGroup("d/one", "d/one", 2, frozenset("a")), 1)
    half_bound.set(HalfBoundGroup("d/two", "d/two", 3, frozenset("b")), 2)
    assert half_bound.next_seconds() == 11
    half_bound.remove("d/one")
    assert half_bound.next_seconds() == 12
    assert [each.name for each in half_bound.take(12)] == ["d/two"]
    assert half_bound.next_seconds() is None
    # Unchanged, so not reported again; with another pod it is.
    half_bound.set(HalfBoundGroup("d/two", "d/two", 3, frozenset("b")), 20)
    assert half_bound.next_seconds() is None
    half_bound.set(HalfBoundGroup("d/two", "d/two", 3, frozenset("bc")), 20)
    assert half_bound.next_seconds() == 30
