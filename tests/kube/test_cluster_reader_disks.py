"""The reader of a cluster whose profile counts disk bandwidth: pods, their disks, and reports."""

import asyncio
import json
from typing import Any

import msgspec
from disk_objects import disk_info, left, stating
from manifests import Manifest, node, pod

from afflux.cycle.event_intake import ResyncRequest
from afflux.cycle.events import (
    DisksReported,
    Event,
    GroupReady,
    NormalisersChanged,
    TaskEnded,
    TaskRuns,
)
from afflux.kube import objects
from afflux.kube.disks.disk_requests import DEFAULT_CHARGE, DiskCounting
from afflux.kube.reader.cluster_disks import DiskOptions
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.model.disks import as_stated
from afflux.model.placement import Placement

DEVICES = "afflux.dev/disk-devices"
RESERVED = "afflux.dev/reserved-disks"
BOTH = {"a": left(1000), "b": left(1000)}


class Cluster:
    """A reader, and the versions of the objects that it is shown."""

    def __init__(self, *, counts: bool = True) -> None:
        options = DiskOptions(DiskCounting(frozenset({"afflux"}), DEFAULT_CHARGE))
        self.reader = ClusterReader(["afflux"], disks=options if counts else None)
        self._version = 0

    def see(self, *manifests: Manifest) -> list[Event]:
        self.shown(*manifests)
        return self.reader.take_events(1000.0)

    def shown(self, *manifests: Manifest) -> None:
        """The watches deliver these objects."""
        kinds: dict[str, tuple[Any, Any]] = {
            "Node": (self.reader.nodes, objects.Node),
            "Pod": (self.reader.pods, objects.Pod),
            "NodeDiskIOInfo": (self.reader.cluster_disks.infos, objects.NodeDiskIOInfo),
        }
        for each in manifests:
            self._version += 1
            metadata = each["metadata"] | {"resourceVersion": str(self._version)}
            store, kind = kinds[each["kind"]]
            store.changed(msgspec.json.decode(json.dumps(each | {"metadata": metadata}), type=kind))

    def place(self, name: str, disk: int) -> Placement:
        """A waiting pod is placed on a disk of n1."""
        events = self.see(io_pod(name))
        (task,) = next(each.group.tasks for each in events if isinstance(each, GroupReady))
        placement = Placement(task, "n1", (disk,))
        self.reader.assume([placement])
        return placement

    def writes(self) -> tuple[str, ...] | None:
        """The list that the object of n1 has to get, None if it has it."""
        found = self.reader.cluster_disks.next_write("n1")
        return None if found is None else found[1].uids


def io_pod(name: str, *, bound: bool = False, **annotations: str) -> Manifest:
    metadata = stating({"rbps": 100})
    metadata["annotations"] |= annotations
    spec = {"nodeName": "n1"} if bound else {}
    return pod(
        name, metadata={**metadata, "name": name, "uid": name}, schedulerName="afflux", **spec
    )


def runs(events: list[Event]) -> dict[str, tuple[str, ...]]:
    return {each.task.id: each.disks for each in events if isinstance(each, TaskRuns)}


def acknowledged(events: list[Event]) -> list[set[str]]:
    return [set(each.report.acknowledged) for each in events if isinstance(each, DisksReported)]


def test_a_bound_pod_is_on_the_disks_that_its_annotation_names() -> None:
    cluster = Cluster()
    bound = io_pod("p", bound=True, **{DEVICES: '{"*": "b"}'})
    assert runs(cluster.see(node(), disk_info(disks=BOTH), bound)) == {"p": ("b",)}


def test_or_on_those_that_the_object_of_its_node_notes() -> None:
    cluster = Cluster()
    plain = pod("plain", metadata={"name": "plain", "uid": "plain"}, nodeName="n1")
    plain["spec"]["schedulerName"] = "afflux"
    info = disk_info(disks=BOTH, annotations={RESERVED: '{"plain": ["a"]}'})
    assert runs(cluster.see(node(), info, plain)) == {"plain": ("a",)}


def test_a_disk_that_is_not_known_is_left_to_the_account() -> None:
    cluster = Cluster()
    broken = io_pod("p", bound=True, **{DEVICES: "{"})
    assert runs(cluster.see(node(), disk_info(disks=BOTH), broken)) == {"p": ()}


def test_what_was_decided_is_not_reported_again_when_the_watch_confirms_it() -> None:
    cluster = Cluster()
    cluster.see(node(), disk_info(disks=BOTH))
    cluster.place("p", 1)
    assert cluster.writes() == ("p",)
    confirmed = io_pod("p", bound=True, **{DEVICES: '{"*": "b"}'})
    assert runs(cluster.see(confirmed)) == {}


def test_a_pod_that_was_not_bound_is_not_acknowledged_any_more() -> None:
    cluster = Cluster()
    cluster.see(node(), disk_info(disks=BOTH))
    placement = cluster.place("p", 0)
    info = disk_info(
        disks=BOTH, generation=2, observed=2, reserved=["p"], annotations={RESERVED: '{"p": ["a"]}'}
    )
    assert acknowledged(cluster.see(info)) == [{"p"}]
    cluster.reader.forget_assumed(placement)
    events = cluster.see()
    assert acknowledged(events) == [set()]
    # It may be placed again, on another disk, only after that.
    kinds = [type(each) for each in events]
    assert kinds.index(TaskEnded) < kinds.index(DisksReported) < kinds.index(GroupReady)
    assert cluster.writes() == ()


def test_an_ended_pod_leaves_the_list_and_a_foreign_reservation_stays() -> None:
    cluster = Cluster()
    foreign = pod("f", metadata={"name": "f", "uid": "f"}, nodeName="n1", schedulerName="other")
    info = disk_info(disks=BOTH, reserved=["p", "f", "unknown"])
    cluster.see(node(), info, io_pod("p", bound=True), foreign)
    assert cluster.writes() == ("p", "f")
    ended = io_pod("p", bound=True)
    ended["status"] = {"phase": "Succeeded"}
    cluster.see(ended)
    assert cluster.writes() == ("f",)


def test_a_machine_that_the_cycle_has_forgotten_is_reported_with_its_disks() -> None:
    cluster = Cluster()
    cluster.see(node(), disk_info(disks=BOTH), io_pod("p", bound=True))
    cluster.reader.resync([ResyncRequest("machine", "n1", RuntimeError())])
    events = cluster.see(node(labels={"new": "label"}))
    assert len(acknowledged(events)) == 1
    assert set(runs(events)) == {"p"}
    assert acknowledged(cluster.see(node())) == []


def test_normalisers_are_an_event_with_all_models_that_changed_since() -> None:
    cluster = Cluster()
    disks = cluster.reader.cluster_disks
    disks.set_normalisers(frozenset({"Acme/A"}), as_stated)
    disks.set_normalisers(frozenset({"Acme/B"}), as_stated)
    expected = NormalisersChanged(frozenset({"Acme/A", "Acme/B"}), as_stated)
    assert cluster.see() == [expected]
    assert cluster.see() == []


def test_without_the_policy_nothing_counts() -> None:
    cluster = Cluster(counts=False)
    events = cluster.see(node(), disk_info(disks=BOTH), io_pod("p", bound=True), io_pod("w"))
    assert acknowledged(events) == []
    shapes = [each.task.shape for each in events if isinstance(each, TaskRuns)]
    assert [shape.disks for shape in shapes] == [None]
    assert cluster.reader.cluster_disks.take_unsettled() == []


def test_a_status_wakes_the_cycle_at_once_only_if_a_pod_waits_for_disks() -> None:
    async def is_awake(reader: ClusterReader) -> bool:
        waiting = asyncio.create_task(reader.changes.wait())
        for _ in range(5):
            await asyncio.sleep(0)
        return waiting.done() or not waiting.cancel()

    async def watch() -> None:
        cluster = Cluster()
        cluster.see(node(), disk_info(disks=BOTH))
        cluster.shown(disk_info(disks={"a": left(900)}))
        assert not await is_awake(cluster.reader)
        placement = cluster.place("p", 0)
        cluster.see()
        cluster.shown(disk_info(disks={"a": left(800)}))
        assert not await is_awake(cluster.reader)
        cluster.reader.forget_assumed(placement)
        cluster.see()
        cluster.shown(disk_info(disks={"a": left(900)}))
        assert await is_awake(cluster.reader)

    asyncio.run(watch())


def test_a_disk_that_the_node_does_not_have_is_never_written_into_its_object() -> None:
    """Otherwise one pod of a tenant could make the object larger than the API server takes."""
    cluster = Cluster()
    forged = io_pod("p", bound=True, **{DEVICES: json.dumps({"*": "x" * 200_000})})
    cluster.see(node(), disk_info(disks=BOTH), forged)
    found = cluster.reader.cluster_disks.next_write("n1")
    assert found is not None
    assert found[1].uids == ("p",)
    assert found[1].annotation == {RESERVED: "{}"}
    # The driver answers: nothing more has to be written, and the pod is acknowledged.
    answered = disk_info(disks=BOTH, reserved=["p"], generation=2, observed=2)
    assert acknowledged(cluster.see(answered)) == [{"p"}]
    assert cluster.writes() is None
