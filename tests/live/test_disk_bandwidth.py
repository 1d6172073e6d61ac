"""Scheduling by disk bandwidth on a real control plane, with fake IO drivers."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from cluster_objects import create, delete, node_of, wait_for_reason, wait_placed
from fake_disk_drivers import MI, PATH, Drivers, stating, taken
from live_manifests import pod
from scheduler_process import NAMESPACE, WITHOUT_ELECTION, Scheduler
from shared_scheduler import empty_cluster, installed_scheduler
from testbed import ControlPlane, Manifest
from testbed.api import ApiError

SECTIONS: dict[str, Any] = {
    "policies": [{"name": "cpu-memory"}, {"name": "disk-io"}],
    "diskIO": {"namespace": NAMESPACE, "silent": {"after": "5s", "action": "exclude"}},
    "leaderElection": {"resourceName": "disks", **WITHOUT_ELECTION},
}
FULL = "node(s) had insufficient disk bandwidth"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    directory = tmp_path_factory.mktemp("disks")
    with installed_scheduler(control_plane, "disks", directory, **SECTIONS) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


def used(drivers: Drivers, pods: list[Manifest]) -> dict[tuple[str, str], int]:
    """What pods with an annotation take of each disk, in MiB per second."""
    found: dict[tuple[str, str], int] = {}
    for each in pods:
        (disk,) = drivers.disks_of(each)
        key = each["spec"]["nodeName"], disk
        found[key] = found.get(key, 0) + taken(each) // MI
    return found


def bound(cluster: ControlPlane) -> list[Manifest]:
    return [each for each in cluster.pods("default") if each["spec"].get("nodeName")]


def versions(cluster: ControlPlane, path: str, since: str) -> list[Manifest]:
    """Every version of the objects of a collection since then, in order."""
    answer = cluster.api.get(
        path, watch="true", resourceVersion=since, timeoutSeconds=1, allowWatchBookmarks="false"
    )
    if "type" in answer:
        return [answer["object"]]
    return [json.loads(line)["object"] for line in answer["message"].splitlines()]


def test_pods_never_overcommit_a_disk_and_those_that_do_not_fit_wait(
    cluster: ControlPlane,
) -> None:
    nodes = cluster.create_nodes(3)
    disks = {"a": 100, "b": 50}
    with Drivers(cluster, dict.fromkeys(nodes, disks)) as drivers:
        names = [f"p{n}" for n in range(12)]
        create(cluster, *(pod(name, annotations=stating(40)) for name in names))
        # Two on each disk a, one on each disk b.
        cluster.wait_until(lambda: len(bound(cluster)) == 9, "nine pods to be bound")
        waiting = [name for name in names if node_of(cluster, name) is None]
        for name in waiting:
            wait_for_reason(cluster, name, f"0/3 nodes are available: 3 {FULL}.")
        for (_, disk), amount in used(drivers, bound(cluster)).items():
            assert amount <= disks[disk]


def test_a_pod_is_reserved_before_it_is_bound(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(2)
    with Drivers(cluster, {node: {"a": 1000} for node in nodes}) as drivers:
        since = cluster.api.get("/api/v1/namespaces/default/pods")["metadata"]["resourceVersion"]
        names = [f"p{n}" for n in range(6)]
        create(cluster, *(pod(name, annotations=stating(10)) for name in names))
        wait_placed(cluster, *names)
        infos = versions(cluster, PATH, since)
        pods = versions(cluster, "/api/v1/namespaces/default/pods", since)
        for each in bound(cluster):
            uid = each["metadata"]["uid"]
            reserved_at = min(
                int(info["metadata"]["resourceVersion"])
                for info in infos
                if uid in info["spec"].get("reservedPods", [])
            )
            bound_at = min(
                int(seen["metadata"]["resourceVersion"])
                for seen in pods
                if seen["metadata"]["uid"] == uid and seen["spec"].get("nodeName")
            )
            assert reserved_at < bound_at
            assert drivers.disks_of(each) == ["a"]


def test_bandwidth_that_a_deleted_pod_leaves_is_given_to_the_next(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}) as drivers:
        create(cluster, pod("first", annotations=stating(80)))
        wait_placed(cluster, "first")
        first = cluster.pod("first")["metadata"]["uid"]
        create(cluster, pod("second", annotations=stating(80)))
        wait_for_reason(cluster, "second", f"0/1 nodes are available: 1 {FULL}.")
        delete(cluster, "Pod", "first")
        wait_placed(cluster, "second")
        second = cluster.pod("second")["metadata"]["uid"]
        cluster.wait_until(lambda: drivers.reserved(nodes[0]) == {second}, f"{first} to leave")


def test_pods_without_an_annotation_are_reserved_after_they_are_bound(
    cluster: ControlPlane,
) -> None:
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}) as drivers:
        create(cluster, *(pod(f"plain{n}") for n in range(3)))
        wait_placed(cluster, *(f"plain{n}" for n in range(3)))
        uids = {each["metadata"]["uid"] for each in bound(cluster)}
        cluster.wait_until(lambda: drivers.reserved(nodes[0]) == uids, "the pods to be reserved")
        delete(cluster, "Pod", "plain0", "plain1", "plain2")
        cluster.wait_until(lambda: not drivers.reserved(nodes[0]), "the pods to leave")


def test_a_pod_of_another_scheduler_with_an_annotation_counts(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}) as drivers:
        create(cluster, pod("foreign", scheduler="other", annotations=stating(80)))
        cluster.bind("foreign", nodes[0])
        uid = cluster.pod("foreign")["metadata"]["uid"]
        cluster.wait_until(lambda: uid in drivers.reserved(nodes[0]), "the pod to be reserved")
        create(cluster, pod("ours", annotations=stating(40)))
        wait_for_reason(cluster, "ours", f"0/1 nodes are available: 1 {FULL}.")


def test_a_node_without_an_object_takes_no_pod_that_states_what_it_does(
    cluster: ControlPlane,
) -> None:
    cluster.create_nodes(1)
    create(cluster, pod("io", annotations=stating(1)), pod("plain"))
    wait_placed(cluster, "plain")
    reason = "0/1 nodes are available: 1 node(s) had no disk IO information."
    wait_for_reason(cluster, "io", reason)


def test_a_malformed_annotation_is_an_event_and_keeps_only_its_pod_waiting(
    cluster: ControlPlane,
) -> None:
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}):
        broken = {"blockio.kubernetes.io/throughput": '{"rbps": "fast"}'}
        create(cluster, pod("broken", annotations=broken), pod("io", annotations=stating(1)))
        wait_placed(cluster, "io")
        words = "annotation blockio.kubernetes.io/throughput: rbps: 'fast', expected bytes"
        wait_for_reason(cluster, "broken", words)


def test_writes_of_others_only_delay_a_reservation(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(2)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.wait(0.01):
            number += 1
            for node in nodes:
                patch = {"metadata": {"annotations": {"example.org/n": str(number)}}}
                with suppress(ApiError):
                    cluster.api.patch(f"{PATH}/{node}", patch)

    with Drivers(cluster, {node: {"a": 1000} for node in nodes}) as drivers:
        other = threading.Thread(target=write)
        other.start()
        try:
            names = [f"p{n}" for n in range(20)]
            create(cluster, *(pod(name, annotations=stating(10)) for name in names))
            wait_placed(cluster, *names)
        finally:
            stop.set()
            other.join()
        uids = {each["metadata"]["uid"] for each in bound(cluster)}
        assert uids == drivers.reserved(nodes[0]) | drivers.reserved(nodes[1])


def test_a_driver_that_restarts_loses_nothing(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}) as drivers:
        create(cluster, pod("first", annotations=stating(60)))
        wait_placed(cluster, "first")
        drivers.stop()
        create(cluster, pod("second", annotations=stating(30)))
        wait_placed(cluster, "second")
        drivers.start()
        create(cluster, pod("third", annotations=stating(30)))
        wait_for_reason(cluster, "third", f"0/1 nodes are available: 1 {FULL}.")
        assert used(drivers, bound(cluster)) == {(nodes[0], "a"): 90}


def test_a_silent_driver_is_told_and_its_node_excluded_until_it_reports(
    cluster: ControlPlane, afflux: Scheduler
) -> None:
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}) as drivers:
        create(cluster, pod("first", annotations=stating(10)))
        wait_placed(cluster, "first")
        drivers.stop()
        cluster.wait_until(
            lambda: afflux.metric("afflux_disk_nodes", 'state="silent"') == 1, "silence"
        )
        create(cluster, pod("second", annotations=stating(10)))
        reason = "0/1 nodes are available: 1 node(s) had a disk IO driver that went silent."
        wait_for_reason(cluster, "second", reason)
        drivers.start()
        wait_placed(cluster, "second")
        told = {each["reason"] for each in cluster.events(NAMESPACE)}
        assert told >= {"DiskDriverSilent", "DiskDriverReports"}


def test_after_a_kill_between_reserving_and_binding_nothing_is_lost(
    cluster: ControlPlane, afflux: Scheduler
) -> None:
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}) as drivers:
        killed = threading.Event()

        def kill_when_reserved(node: str) -> None:
            if drivers.reserved(node) and not killed.is_set():
                killed.set()
                afflux.kill()

        drivers.before_write = kill_when_reserved
        create(cluster, *(pod(f"p{n}", annotations=stating(40)) for n in range(4)))
        cluster.wait_until(killed.is_set, "a pod to be reserved")
        drivers.before_write = lambda _: None
        afflux.start()
        cluster.wait_until(lambda: len(bound(cluster)) == 2, "two pods to be bound")
        for name in {"p0", "p1", "p2", "p3"} - {e["metadata"]["name"] for e in bound(cluster)}:
            wait_for_reason(cluster, name, f"0/1 nodes are available: 1 {FULL}.")
        uids = {each["metadata"]["uid"] for each in bound(cluster)}
        cluster.wait_until(lambda: drivers.reserved(nodes[0]) == uids, "the list to settle")
        assert used(drivers, bound(cluster)) == {(nodes[0], "a"): 80}


def test_the_definition_refuses_objects_that_make_no_sense(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}):

        def refused(patch: Manifest, subresource: str = "") -> str:
            with pytest.raises(ApiError) as error:
                cluster.api.patch(f"{PATH}/{nodes[0]}{subresource}", patch)
            assert error.value.status == 422
            return str(error.value)

        assert "cannot be changed" in refused({"spec": {"nodeName": "another"}})
        assert "reservedPods" in refused({"spec": {"reservedPods": [1]}})
        figures = {"a": {"status": {"total": -1, "read": 1, "write": 1}}}
        assert "total" in refused({"status": {"allocatableBandwidth": figures}}, "/status")


def test_events_about_silent_drivers_are_on_their_objects(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}) as drivers:
        drivers.stop()
        cluster.wait_until(
            lambda: any(
                each["reason"] == "DiskDriverSilent" and each["regarding"]["name"] == nodes[0]
                for each in cluster.events(NAMESPACE)
            ),
            "an event",
        )
        drivers.start()
