"""Pods that require each other, of which only some could be bound, are taken back like a group."""

from collections.abc import Awaitable, Callable
from typing import Any

from rollback_cluster import AFTER, OWNER, RollbackCluster, run_rollback
from small_api import SmallApi, until

from afflux.cycle.events import GroupReady
from afflux.kube.live.half_bound_circles import HalfBoundCircles
from afflux.model.placement import Placement


class Cluster(RollbackCluster):
    """Two pods, one in each of two namespaces, that were placed as a circle."""

    def __init__(self, server: SmallApi) -> None:
        super().__init__(server)
        self.circles = HalfBoundCircles(self.reader, self.half_bound)
        self.replica_set("one")
        self.replica_set("two")
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
        names = {"name": own, "namespace": space, "uid": f"uid-{own}"}
        self.put(
            {
                "metadata": {**names, "ownerReferences": [OWNER], **fields},
                "spec": {
                    "schedulerName": "afflux",
                    "nodeName": node,
                    "containers": [{"name": "c"}],
                },
            }
        )

    def observe(self) -> None:
        super().observe()
        self.circles.update(self.now)

    def notes(self) -> list[str]:
        return [each["note"] for each in self.events()]


def run_with_rollback(test: Callable[[Cluster], Awaitable[None]]) -> None:
    run_rollback(Cluster, test)


def test_the_bound_pod_is_deleted_if_the_other_cannot_be_bound_for_long() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("one/a", "n")
        # The other binding is in progress for long.
        await cluster.advance(0)
        await cluster.advance(2 * AFTER)
        assert cluster.deleted() == set()
        cluster.reader.forget_assumed(cluster.placements["two/b"], refusal="refused")
        await cluster.advance(0)
        await until(lambda: len(cluster.notes()) == 1)
        assert cluster.deleted() == {"a"}
        ((group, kind, _),) = cluster.noted()
        assert (group, kind) == ("one/fluxnetes-group-one-a/uid-a/alone", "TakenBack")
        assert cluster.notes() == [
            "Only 1 of 2 pods that require each other were bound, and the rest could not be for "
            "60 s; its controller recreates it, and all of them start together"
        ]

    run_with_rollback(test)


def test_a_circle_that_is_fully_bound_in_time_stays() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.pod("one/a", "n")
        cluster.reader.forget_assumed(cluster.placements["two/b"], refusal="refused")
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
        cluster.reader.forget_assumed(cluster.placements["two/b"], refusal="refused")
        await cluster.advance(0)
        await cluster.advance(2 * AFTER)
        assert cluster.deleted() == set()

    run_with_rollback(test)
