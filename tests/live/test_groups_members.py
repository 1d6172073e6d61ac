"""Who belongs to a group, from its first pod until its name is free; and who is refused."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from live_manifests import JOBS, in_group, job, pod
from looking import create, delete, event_of, names, node_of, placed, waits
from scheduler import Scheduler
from sharing import emptied, shared
from testbed import ControlPlane

from afflux.cycle.events import TaskRuns
from afflux.kube import objects
from afflux.kube.live.mirror import Mirror

RUN_SECONDS = "testbed.afflux.dev/run-seconds"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    queues = [{"name": "default"}, {"name": "short", "limits": {"duration": "1m", "groupSize": 2}}]
    directory = tmp_path_factory.mktemp("members")
    with shared(control_plane, rights, directory, queues=queues) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return emptied(control_plane, afflux)


def test_a_pod_that_is_deleted_before_the_quorum_leaves_and_a_late_one_joins(
    cluster: ControlPlane,
) -> None:
    cluster.create_nodes(2)
    trio = in_group("trio", 3)
    create(cluster, pod("a", **trio), pod("b", **trio))
    waits(cluster, "b", "group default/trio has 2 of 3 members")
    delete(cluster, "Pod", "a")
    cluster.wait_until(lambda: names(cluster) == {"b"}, "the pod to leave")
    create(cluster, pod("c", **trio))
    waits(cluster, "c", "group default/trio has 2 of 3 members")
    create(cluster, pod("d", **trio))
    placed(cluster, "b", "c", "d")
    create(cluster, pod("late", **trio))
    placed(cluster, "late")


def test_a_name_is_used_again_by_another_group_when_all_have_ended(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    pair = in_group("pair", 2)
    quick = pair | {"annotations": {RUN_SECONDS: "0.2"}, "restartPolicy": "Never"}
    create(cluster, pod("a", **quick), pod("b", **quick))
    cluster.wait_until(
        lambda: all(cluster.pod(name)["status"]["phase"] == "Succeeded" for name in "ab"),
        "the first group to end",
    )
    create(cluster, pod("c", **pair))
    # It does not join what has ended: it needs a quorum of its own.
    waits(cluster, "c", "group default/pair has 1 of 2 members")
    create(cluster, pod("d", **pair))
    placed(cluster, "c", "d")


def test_sizes_that_cannot_be_are_refused_and_the_others_start(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    # A label cannot begin with a minus sign: the API server itself refuses what is negative.
    sizes = {"word": "many", "zero": "0", "huge": "10001", "other": "7"}
    create(cluster, pod("a", **in_group("pair", 2)))
    create(cluster, *(pod(name, **in_group("pair", size)) for name, size in sizes.items()))
    create(cluster, pod("b", **in_group("pair", 2)))
    placed(cluster, "a", "b")
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
        waits(cluster, name, why)
    assert [node_of(cluster, name) for name in sizes] == [None] * len(sizes)


def test_a_queue_that_is_not_known_is_refused_with_those_that_are(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    create(cluster, pod("lost", labels={"afflux.dev/queue": "nigth"}), pod("solo"))
    event = event_of(cluster, "lost", "GroupRefused")
    assert event["note"] == "queue 'nigth' is not known, expected one of: default, short"
    placed(cluster, "solo")


def test_what_a_queue_does_not_take_is_refused(cluster: ControlPlane) -> None:
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
    placed(cluster, "right", "expected")
    words = {
        "endless": "it may run without end, expected at most 60 s in queue short",
        "long": "it may run 61 s, expected at most 60 s in queue short",
        "large": "label afflux.dev/group-size: 3, expected at most 2 in queue short",
    }
    for name, why in words.items():
        assert event_of(cluster, name, "GroupRefused")["note"] == why


def test_what_can_never_fit_is_told_so_and_looked_at_again(cluster: ControlPlane) -> None:
    cluster.create_nodes(2, cpu="1")
    names = ("a", "b", "c")
    create(cluster, *(pod(name, cpu="600m", **in_group("trio", 3)) for name in names))
    for name in names:
        note = event_of(cluster, name, "Unsatisfiable")["note"]
        assert note.startswith("group default/trio: needs room for 3 of its members at once")
    waits(cluster, "c", "Unsatisfiable: needs room for 3 of its members at once")
    cluster.create_nodes(1, cpu="1", prefix="third")
    placed(cluster, *names)


def test_without_being_asked_nobody_cleans_up(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    cluster.api.create(JOBS, job("sum", 1))
    cluster.wait_until(
        lambda: cluster.api.get(f"{JOBS}/sum")["status"].get("failed", 0) >= 2, "the deadline"
    )
    # The kubelet has stopped them, and nobody else has done anything: the Job will make others.
    time.sleep(1)
    assert "deletionTimestamp" not in cluster.api.get(f"{JOBS}/sum")["metadata"]
    assert {each["status"]["phase"] for each in cluster.pods("default")} == {"Failed"}


def test_when_a_pod_ends_is_known_from_its_start_whoever_placed_it(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1)
    fields = {"activeDeadlineSeconds": 600, "terminationGracePeriodSeconds": 7}
    create(cluster, pod("theirs", scheduler="another", **fields), pod("endless", scheduler="other"))
    cluster.bind("theirs", node)
    cluster.bind("endless", node)
    cluster.wait_until(lambda: "startTime" in cluster.pod("theirs")["status"], "the start")
    cluster.wait_until(lambda: "startTime" in cluster.pod("endless")["status"], "the start")
    began = datetime.fromisoformat(cluster.pod("theirs")["status"]["startTime"]).timestamp()
    assert ends(cluster) == {
        "default/theirs": began + 607,
        "default/endless": None,
    }


def ends(cluster: ControlPlane) -> dict[str, float | None]:
    """When the pods of a cluster are expected to end, as a scheduler that has just started says."""
    mirror = Mirror(["afflux"])
    for manifests, shelf, kind in (
        (cluster.nodes(), mirror.nodes, objects.Node),
        (cluster.pods("default"), mirror.pods, objects.Pod),
    ):
        shelf.replaced([msgspec.json.decode(json.dumps(each), type=kind) for each in manifests])
    return {
        event.task.name: event.until_seconds
        for event in mirror.drain(0.0)
        if isinstance(event, TaskRuns)
    }
