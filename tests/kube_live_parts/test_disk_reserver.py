"""Pods that state what they do on disks are reserved before they are bound, together or not at all;
whatever goes wrong has a reason and an end."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from small_api import Fault, Object, Request, SmallApi, run, serving, until

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.disks.disk_requests import DEFAULT_CHARGE, DiskCounting
from afflux.kube.live.disk_reserver import DiskReserver
from afflux.kube.live.disk_writer import DiskWriter, DiskWriterTimes
from afflux.kube.live.event_recorder import EventRecorder
from afflux.kube.reader.cluster_disks import DiskOptions
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.model.placement import Placement
from afflux.model.waiting_group import WaitingGroup
from afflux.web.scheduler_metrics import Metrics

PATH = "/apis/ioi.intel.com/v1/namespaces/disks/nodediskioinfos"
TIMES = DiskWriterTimes(
    max_tries=4,
    timeout_seconds=5.0,
    request_timeout_seconds=1.0,
    initial_backoff_seconds=0.001,
    max_backoff_seconds=0.002,
    batch_seconds=0.0,
    failure_pause_seconds=0.05,
)


def info(node: str, *reserved: str) -> Object:
    left = {"total": 1e9, "read": 1e9, "write": 1e9}
    return {
        "metadata": {"name": node, "namespace": "disks", "uid": f"uid-{node}", "generation": 1},
        "spec": {"nodeName": node, "reservedPods": list(reserved)},
        "status": {
            "observedGeneration": 1,
            "allocatableBandwidth": {"a": {"status": left}, "b": {"status": left}},
        },
    }


def pod(name: str, *, stated: bool = True, group: str = "", size: int = 0) -> Object:
    annotations = {"blockio.kubernetes.io/throughput": '{"rbps": "1Mi"}'} if stated else {}
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": str(size)} if group else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "annotations": annotations,
            "labels": labels,
        },
        "spec": {"schedulerName": "afflux", "containers": [{"name": "c"}]},
    }


class Cluster:
    """A server with the objects of nodes, a reader that has seen them, and the reserver."""

    def __init__(self, server: SmallApi, api: Api, nodes: Sequence[str]) -> None:
        self.server = server
        options = DiskOptions(DiskCounting(frozenset({"afflux"}), DEFAULT_CHARGE))
        self.reader = ClusterReader(["afflux"], disks=options)
        self.metrics = Metrics()
        writer = DiskWriter(api, self.reader.cluster_disks, self.metrics, times=TIMES)
        recorder = EventRecorder(api, self.metrics)
        self.reserver = DiskReserver(self.reader, writer, recorder, self.metrics)
        for node in nodes:
            self.see_node(node)
            self.see_info(server.put(f"{PATH}/{node}", info(node)))

    def see_node(self, name: str) -> None:
        allocatable = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        node = {"metadata": {"name": name}, "status": {"allocatable": allocatable}}
        self.reader.nodes.changed(decoded(node, objects.Node))

    def see_info(self, manifest: Object) -> None:
        found = decoded(manifest, objects.NodeDiskIOInfo)
        self.reader.cluster_disks.infos.changed(found)

    def see_pod(self, manifest: Object) -> None:
        self.reader.pods.changed(decoded(manifest, objects.Pod))

    def place(self, *pods: Object, **nodes: str) -> list[Placement]:
        """Placements of these pods on nodes, assumed; the second disk for each."""
        for each in pods:
            self.see_pod(each)
        events = self.reader.take_events()
        groups = [event.group for event in events if hasattr(event, "group")]
        tasks = {task.name: task for group in groups for task in group.tasks}
        self.groups: list[WaitingGroup] = groups
        placed = [Placement(tasks[f"default/{name}"], node, (1,)) for name, node in nodes.items()]
        self.reader.assume(placed)
        return placed

    async def reserve(self, placed: Sequence[Placement]) -> tuple[set[str], dict[str, str]]:
        """The pods that can be bound, and why the others cannot."""
        kept, rejected = await self.reserver.reserve(placed, self.groups)
        for placement, rejection in rejected:
            self.reader.forget_assumed(placement, refusal=rejection.reason)
        return (
            {each.task.name.removeprefix("default/") for each in kept},
            {p.task.name.removeprefix("default/"): r.reason for p, r in rejected},
        )

    def drain(self) -> None:
        self.reader.take_events()
        self.reserver.drained()

    def reserved(self, node: str) -> list[str]:
        return self.server.objects[f"{PATH}/{node}"]["spec"]["reservedPods"]

    def writes(self) -> int:
        return sum(each.method == "PATCH" for each in self.server.requests)


def decoded(manifest: Object, kind: type[Any]) -> Any:
    return msgspec.json.decode(json.dumps(manifest), type=kind)


@asynccontextmanager
async def clusters(*nodes: str) -> AsyncIterator[Cluster]:
    async with serving() as server, server.api() as api:
        yield Cluster(server, api, nodes or ("n1", "n2"))


def on_cluster(test: Callable[[Cluster], Any]) -> None:
    async def run_test() -> None:
        async with clusters() as cluster:
            await test(cluster)

    run(run_test)


def test_one_write_per_node_reserves_all_pods_of_a_cycle() -> None:
    async def test(cluster: Cluster) -> None:
        pods = [pod(f"p{number}") for number in range(5)]
        placed = cluster.place(*pods, p0="n1", p1="n1", p2="n1", p3="n2", p4="n2")
        kept, rejected = await cluster.reserve(placed)
        assert (len(kept), rejected) == (5, {})
        assert cluster.reserved("n1") == ["uid-p0", "uid-p1", "uid-p2"]
        assert cluster.reserved("n2") == ["uid-p3", "uid-p4"]
        assert cluster.writes() == 2

    on_cluster(test)


def test_the_binding_and_the_object_name_the_disks() -> None:
    async def test(cluster: Cluster) -> None:
        (placed,) = cluster.place(pod("p"), p="n1")
        await cluster.reserve([placed])
        assert cluster.reserver.annotations(placed) == {"afflux.dev/disk-devices": '{"*":"b"}'}
        annotations = cluster.server.objects[f"{PATH}/n1"]["metadata"]["annotations"]
        assert annotations == {"afflux.dev/reserved-disks": '{"uid-p":["b"]}'}

    on_cluster(test)


def test_pods_without_an_annotation_are_not_waited_for() -> None:
    async def test(cluster: Cluster) -> None:
        placed = cluster.place(pod("plain", stated=False), plain="n1")
        assert await cluster.reserve(placed) == ({"plain"}, {})
        cluster.drain()
        assert cluster.writes() == 0
        # When it is bound, it is written in the background.
        running = pod("plain", stated=False)
        running["spec"]["nodeName"] = "n1"
        cluster.see_pod(running)
        cluster.drain()
        await until(lambda: cluster.reserved("n1") == ["uid-plain"])

    on_cluster(test)


def test_a_conflict_is_read_again_and_the_other_writer_loses_nothing() -> None:
    async def test(cluster: Cluster) -> None:
        placed = cluster.place(pod("p"), p="n1")
        # The reader has not seen this version.
        other = info("n1")
        other["metadata"]["annotations"] = {"example.org/other": "kept"}
        cluster.server.put(f"{PATH}/n1", other)
        assert await cluster.reserve(placed) == ({"p"}, {})
        stored = cluster.server.objects[f"{PATH}/n1"]
        assert stored["spec"]["reservedPods"] == ["uid-p"]
        assert stored["metadata"]["annotations"]["example.org/other"] == "kept"

    on_cluster(test)


def failing(cluster: Cluster, node: str, fault: Fault) -> None:
    def decide(request: Request) -> Fault:
        return fault if request.method == "PATCH" and request.path.endswith(node) else Fault()

    cluster.server.fault = decide


def test_a_write_that_is_refused_keeps_only_the_pods_of_its_node_waiting() -> None:
    async def test(cluster: Cluster) -> None:
        failing(cluster, "n1", Fault(status=403))
        placed = cluster.place(pod("bad"), pod("good"), bad="n1", good="n2")
        kept, rejected = await cluster.reserve(placed)
        assert kept == {"good"}
        assert rejected["bad"].startswith("its disk bandwidth could not be reserved: ")
        assert "403" in rejected["bad"]
        assert cluster.writes() == 2

    on_cluster(test)


def test_an_object_that_is_gone_is_named() -> None:
    async def test(cluster: Cluster) -> None:
        placed = cluster.place(pod("p"), p="n1")
        del cluster.server.objects[f"{PATH}/n1"]
        _, rejected = await cluster.reserve(placed)
        assert "404" in rejected["p"]

    on_cluster(test)


def test_conflicts_and_errors_without_end_are_given_up_after_a_few_tries() -> None:
    async def test(cluster: Cluster) -> None:
        for status in (409, 503):
            failing(cluster, "n1", Fault(status=status))
            before = cluster.writes()
            placed = cluster.place(pod(f"p{status}"), **{f"p{status}": "n1"})
            _, rejected = await cluster.reserve(placed)
            assert str(status) in rejected[f"p{status}"]
            assert cluster.writes() - before == TIMES.max_tries

    on_cluster(test)


def test_a_write_whose_answer_is_lost_is_read_back() -> None:
    async def test(cluster: Cluster) -> None:
        answers = iter([Fault(hang_up_after=True)])

        def once(request: Request) -> Fault:
            return next(answers, Fault()) if request.method == "PATCH" else Fault()

        cluster.server.fault = once
        placed = cluster.place(pod("p"), p="n1")
        assert await cluster.reserve(placed) == ({"p"}, {})
        assert cluster.reserved("n1") == ["uid-p"]
        assert cluster.writes() == 1

    on_cluster(test)


def test_the_members_of_a_group_are_reserved_together_or_given_back() -> None:
    async def test(cluster: Cluster) -> None:
        failing(cluster, "n2", Fault(status=403))
        members = [pod(f"g-{number}", group="g", size=2) for number in range(2)]
        placed = cluster.place(*members, pod("alone"), **{"g-0": "n1", "g-1": "n2", "alone": "n1"})
        kept, rejected = await cluster.reserve(placed)
        assert kept == {"alone"}
        assert rejected["g-1"].startswith("its disk bandwidth could not be reserved: ")
        assert rejected["g-0"].startswith("group waits for default/g-1: its disk bandwidth")
        cluster.drain()
        await until(lambda: cluster.reserved("n1") == ["uid-alone"])

    on_cluster(test)


def test_what_failed_in_the_background_is_tried_again() -> None:
    async def test(cluster: Cluster) -> None:
        failing(cluster, "n1", Fault(status=403))
        running = pod("p")
        running["spec"]["nodeName"] = "n1"
        cluster.see_pod(running)
        cluster.drain()
        await until(lambda: cluster.writes() > 0)
        cluster.server.fault = lambda _: Fault()
        await until(lambda: cluster.reserved("n1") == ["uid-p"])
        cluster.reader.pods.deleted(decoded(running, objects.Pod))
        cluster.drain()
        await until(lambda: cluster.reserved("n1") == [])

    on_cluster(test)


def test_after_the_term_nothing_is_written() -> None:
    async def test() -> None:
        async with serving() as server, server.api() as api:
            cluster = Cluster(server, api, ["n1"])
            writer = DiskWriter(
                api, cluster.reader.cluster_disks, Metrics(), remaining_seconds=lambda: 0.0
            )
            cluster.place(pod("p"), p="n1")
            assert await writer.reserve("n1", ["uid-p"])
            await asyncio.sleep(0)
            assert cluster.writes() == 0

    run(partial(test))
