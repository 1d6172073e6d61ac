"""Membership in groups: quorum, late members, reuse of names, and refused pods."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from cluster_objects import create, delete, event_of, names, node_of, wait_for_reason, wait_placed
from live_manifests import JOBS, in_group, job, pod
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane

from afflux.cycle.events import TaskRuns
from afflux.kube import objects
from afflux.kube.reader.cluster_reader import ClusterReader

RUN_SECONDS = "testbed.afflux.dev/run-seconds"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    queues = [{"name": "default"}, {"name": "short", "limits": {"duration": "1m", "groupSize": 2}}]
    directory = tmp_path_factory.mktemp("members")
    with running_scheduler(control_plane, rights, directory, queues=queues) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


def test_pods_leave_a_group_before_the_quorum_and_join_it_after_it_has_started(
    cluster: ControlPlane,
) -> None:
    cluster.create_nodes(2)
    trio = in_group("trio", 3)
    create(cluster, pod("a", **trio), pod("b", **trio))
    wait_for_reason(cluster, "b", "group default/trio has 2 of 3 members")
    delete(cluster, "Pod", "a")
    cluster.wait_until(lambda: names(cluster) == {"b"}, "the pod to leave")
    create(cluster, pod("c", **trio))
    wait_for_reason(cluster, "c", "group default/trio has 2 of 3 members")
    create(cluster, pod("d", **trio))
    wait_placed(cluster, "b", "c", "d")
    create(cluster, pod("late", **trio))
    wait_placed(cluster, "late")


def test_a_group_name_can_be_reused_when_all_its_pods_have_ended(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    pair = in_group("pair", 2)
    quick = pair | {"annotations": {RUN_SECONDS: "0.2"}, "restartPolicy": "Never"}
    create(cluster, pod("a", **quick), pod("b", **quick))
    cluster.wait_until(
        lambda: all(cluster.pod(name)["status"]["phase"] == "Succeeded" for name in "ab"),
        "the first group to end",
    )
    create(cluster, pod("c", **pair))
    # The pod does not join the ended group; the new group needs its own quorum.
    wait_for_reason(cluster, "c", "group default/pair has 1 of 2 members")
    create(cluster, pod("d", **pair))
    wait_placed(cluster, "c", "d")


def test_pods_with_invalid_group_sizes_are_refused_and_the_others_start(
    cluster: ControlPlane,
) -> None:
    cluster.create_nodes(2)
    # No negative size: the API server refuses label values that begin with a minus sign.
    sizes = {"word": "many", "zero": "0", "huge": "10001", "other": "7"}
    create(cluster, pod("a", **in_group("pair", 2)))
    create(cluster, *(pod(name, **in_group("pair", size)) for name, size in sizes.items()))
    create(cluster, pod("b", **in_group("pair", 2)))
    wait_placed(cluster, "a", "b")
    label = "label afflux.dev/group-size"
    words = {
        "word": f"{label}: 'many', expected a whole number from 1 up",
        "zero": f"{label}: '0', expected a whole number from 1 up",
        "huge": f"{label}: 10001, expected at most 10000 in queue default",
        "other": f"{label}: 7 on default/other, but {label}: 2 on default/a",
    }
    for name, why in words.items():
        event = event_of(cluster, name, "GroupRefused")
        assert (event["type"], event["note"]) == ("Warning", why)
        wait_for_reason(cluster, name, why)
    assert [node_of(cluster, name) for name in sizes] == [None] * len(sizes)


def test_the_event_for_an_unknown_queue_lists_the_known_ones(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    create(cluster, pod("lost", labels={"afflux.dev/queue": "nigth"}), pod("solo"))
    event = event_of(cluster, "lost", "GroupRefused")
    assert event["note"] == "queue 'nigth' is not known, expected one of: default, short"
    wait_placed(cluster, "solo")


def test_groups_beyond_the_limits_of_a_queue_are_refused(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    short = {"afflux.dev/queue": "short"}
    create(
        cluster,
        pod("endless", labels=short),
        pod("long", labels=short, activeDeadlineSeconds=61),
        pod("large", labels=short | in_group("g", 3)["labels"], activeDeadlineSeconds=60),
        pod("right", labels=short, activeDeadlineSeconds=60),
        pod("expected", labels=short, annotations={"afflux.dev/expected-seconds": "60"}),
    )
    wait_placed(cluster, "right", "expected")
    words = {
        "endless": "it may run without end, expected at most 60 s in queue short",
        "long": "it may run 61 s, expected at most 60 s in queue short",
        "large": "label afflux.dev/group-size: 3, expected at most 2 in queue short",
    }
    for name, why in words.items():
        assert event_of(cluster, name, "GroupRefused")["note"] == why


def test_an_unsatisfiable_group_has_an_event_and_starts_when_the_cluster_grows(
    cluster: ControlPlane,
) -> None:
    cluster.create_nodes(2, cpu="1")
    names = ("a", "b", "c")
    create(cluster, *(pod(name, cpu="600m", **in_group("trio", 3)) for name in names))
    for name in names:
        note = event_of(cluster, name, "Unsatisfiable")["note"]
        assert note.startswith("group default/trio: needs room for 3 of its members at once")
    wait_for_reason(cluster, "c", "Unsatisfiable: needs room for 3 of its members at once")
    cluster.create_nodes(1, cpu="1", prefix="third")
    wait_placed(cluster, *names)


def test_without_configuration_overdue_groups_are_not_deleted(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    cluster.api.create(JOBS, job("sum", 1))
    cluster.wait_until(
        lambda: cluster.api.get(f"{JOBS}/sum")["status"].get("failed", 0) >= 2, "the deadline"
    )
    # A later pod is placed, so the scheduler has seen the deadline.
    create(cluster, pod("later"))
    wait_placed(cluster, "later")
    # The kubelet stopped the pods; afflux deleted neither the pods nor the Job.
    assert "deletionTimestamp" not in cluster.api.get(f"{JOBS}/sum")["metadata"]
    phases = {each["metadata"]["name"]: each["status"]["phase"] for each in cluster.pods("default")}
    del phases["later"]
    assert set(phases.values()) == {"Failed"}


def test_the_end_of_a_pod_of_another_scheduler_is_known_from_its_start(
    cluster: ControlPlane,
) -> None:
    (node,) = cluster.create_nodes(1)
    fields = {"activeDeadlineSeconds": 600, "terminationGracePeriodSeconds": 7}
    create(cluster, pod("theirs", scheduler="another", **fields), pod("endless", scheduler="other"))
    cluster.bind("theirs", node)
    cluster.bind("endless", node)
    cluster.wait_until(lambda: "startTime" in cluster.pod("theirs")["status"], "the start")
    cluster.wait_until(lambda: "startTime" in cluster.pod("endless")["status"], "the start")
    began = datetime.fromisoformat(cluster.pod("theirs")["status"]["startTime"]).timestamp()
    assert expected_ends(cluster) == {"default/theirs": began + 607, "default/endless": None}


def expected_ends(cluster: ControlPlane) -> dict[str, float | None]:
    """The expected ends of the pods according to a new `ClusterReader`."""
    reader = ClusterReader(["afflux"])
    for manifests, store, kind in (
        (cluster.nodes(), reader.nodes, objects.Node),
        (cluster.pods("default"), reader.pods, objects.Pod),
    ):
        store.replaced([msgspec.json.decode(json.dumps(each), type=kind) for each in manifests])
    return {
        event.task.name: event.until_seconds
        for event in reader.take_events(0.0)
        if isinstance(event, TaskRuns)
    }
