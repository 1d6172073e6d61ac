"""Groups start together, wait for their members, and say for whom."""

from typing import Any

import msgspec
import pytest
from manifests import as_list, inventory, native_group, node, pod, pod_group, reasons

from afflux.kube import objects
from afflux.kube.decoding import task
from afflux.kube.grouping import Member
from afflux.kube.inventory import load
from afflux.kube.live.gathering import Gathering
from afflux.model.errors import InputError
from afflux.queue.rules import QueueRules

AFFLUX = ("afflux.dev/group-name", "afflux.dev/group-size")
FLUXNETES = ("fluxnetes.group-name", "fluxnetes.group-size")


def labelled(
    name: str, group: str, size: Any, labels: tuple[str, str] = AFFLUX, **spec: Any
) -> Any:
    return pod(name, labels={labels[0]: group, labels[1]: str(size)}, **spec)


def _member(manifest: Any) -> Member:
    found = msgspec.convert(manifest, objects.Pod)
    return Member(task(found), found, running=False)


def ready(*items: Any) -> dict[str, list[str]]:
    """The names of the members of each group that may start."""
    return {g.name: [task.name for task in g.tasks] for g in inventory(*items).groups}


def test_a_pod_without_a_group_is_a_group_of_one() -> None:
    assert ready(pod("a"), pod("b")) == {
        "default/a": ["default/a"],
        "default/b": ["default/b"],
    }


@pytest.mark.parametrize("labels", [AFFLUX, FLUXNETES])
def test_labels_make_a_group(labels: tuple[str, str]) -> None:
    members = [labelled(f"p{i}", "train", 3, labels) for i in range(3)]
    assert ready(*members) == {"default/train": ["default/p0", "default/p1", "default/p2"]}


def test_a_coscheduling_pod_group_makes_a_group() -> None:
    members = [pod(f"p{i}", labels={"scheduling.x-k8s.io/pod-group": "g"}) for i in range(2)]
    assert ready(pod_group("g", 2), *members) == {"default/g": ["default/p0", "default/p1"]}


def test_a_native_pod_group_makes_a_group_if_it_is_a_gang() -> None:
    members = [pod(f"p{i}", schedulingGroup={"podGroupName": "g"}) for i in range(2)]
    gang = native_group("g", schedulingPolicy={"gang": {"minCount": 2}})
    basic = native_group("g", schedulingPolicy={"basic": {}})
    assert list(ready(gang, *members)) == ["default/g"]
    assert list(ready(basic, *members)) == ["default/p0", "default/p1"]


def test_the_same_name_in_two_namespaces_is_two_groups() -> None:
    members = [
        labelled(f"p{i}", "g", 2, metadata={"namespace": space})
        for space in ("x", "y")
        for i in range(2)
    ]
    for member in members:
        member["metadata"]["labels"] = {AFFLUX[0]: "g", AFFLUX[1]: "2"}
    assert list(ready(*members)) == ["x/g", "y/g"]


def test_a_group_below_its_quorum_waits_and_says_how_many_are_missing() -> None:
    members = [labelled(f"p{i}", "g", 8) for i in range(3)]
    assert set(reasons(*members).values()) == {"group default/g has 3 of 8 members"}
    assert not ready(*members)


def test_more_members_than_needed_still_start_together() -> None:
    members = [labelled(f"p{i}", "g", 2) for i in range(4)]
    assert list(map(len, ready(*members).values())) == [4]


def test_running_members_count_towards_the_quorum() -> None:
    running = [labelled(f"r{i}", "g", 4, nodeName="n1") for i in range(2)]
    pending = [labelled(f"p{i}", "g", 4) for i in range(2)]
    assert ready(node(), *running, *pending) == {"default/g": ["default/p0", "default/p1"]}


def test_once_the_quorum_runs_newcomers_start_on_their_own() -> None:
    running = [labelled(f"r{i}", "g", 2, nodeName="n1") for i in range(2)]
    pending = [labelled(f"p{i}", "g", 2) for i in range(2)]
    assert list(ready(node(), *running, *pending)) == ["default/p0", "default/p1"]


def test_members_that_are_leaving_or_done_do_not_count() -> None:
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    labels = dict(zip(AFFLUX, ("g", "2"), strict=True))
    members = [
        pod("gone", metadata={"labels": labels, **leaving}, nodeName="n1"),
        labelled("done", "g", 2, status={"phase": "Succeeded"}),
        labelled("left", "g", 2),
    ]
    assert reasons(node(), *members) == {"default/left": "group default/g has 1 of 2 members"}


def test_one_blocked_member_holds_the_whole_group() -> None:
    gated = labelled("b", "g", 2, schedulingGates=[{"name": "x"}])
    reason = "spec.schedulingGates: waiting for gate 'x' to be removed"
    assert reasons(labelled("a", "g", 2), gated, pod("c")) == {
        "default/a": f"group default/g waits for default/b: {reason}",
        "default/b": reason,
    }


@pytest.mark.parametrize("size", ["many", "0", "-3", "", "2.5", "9" * 30, "٣"])
def test_a_wrong_size_holds_that_pod_and_nobody_else(size: str) -> None:
    wrong = labelled("wrong", "g", size)
    others = [labelled(f"p{i}", "g", 2) for i in range(2)]
    assert reasons(wrong, *others, pod("solo")) == {
        "default/wrong": f"label {AFFLUX[1]}: {size!r}, expected a whole number from 1 up"
    }
    assert set(ready(wrong, *others, pod("solo"))) == {"default/g", "default/solo"}


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({AFFLUX[0]: "g"}, f"label {AFFLUX[1]}: missing, expected the number of members"),
        ({AFFLUX[1]: "2"}, f"label {AFFLUX[1]}: '2' without {AFFLUX[0]}"),
        ({AFFLUX[0]: "", AFFLUX[1]: "2"}, f"label {AFFLUX[0]}: '', expected the name of a group"),
        (
            {AFFLUX[0]: "g", AFFLUX[1]: "1", FLUXNETES[0]: "h", FLUXNETES[1]: "1"},
            f"label {AFFLUX[0]}: 'g', but label {FLUXNETES[0]}: 'h'; expected one group",
        ),
        (
            {"scheduling.x-k8s.io/pod-group": "g"},
            "label scheduling.x-k8s.io/pod-group: PodGroup default/g is not in the input",
        ),
    ],
)
def test_labels_that_make_no_sense_hold_the_pod(labels: dict[str, str], reason: str) -> None:
    assert reasons(pod(labels=labels)) == {"default/web": reason}


def test_of_members_that_contradict_each_other_the_minority_is_refused() -> None:
    found = reasons(labelled("a", "g", 2), labelled("b", "g", 3), labelled("c", "h", 1))
    assert found == {
        "default/a": "group default/g has 1 of 2 members; 1 refused",
        "default/b": f"label {AFFLUX[1]}: 3 on default/b, but label {AFFLUX[1]}: 2 on default/a",
    }
    members = [labelled("z", "g", 3), *(labelled(f"p{i}", "g", 2) for i in range(2))]
    assert ready(*members) == {"default/g": ["default/p0", "default/p1"]}
    assert list(reasons(*members)) == ["default/z"]


@pytest.mark.parametrize("size", [10_001, 999_999_999])
def test_a_size_larger_than_allowed_is_refused(size: int) -> None:
    reason = f"label {AFFLUX[1]}: {size}, expected at most 10000 in queue default"
    assert reasons(labelled("a", "g", size), pod("solo")) == {"default/a": reason}


def test_the_same_pod_however_often_it_is_seen_counts_once() -> None:
    # What the prototype got wrong: one pod enqueued three times satisfied a group of three.
    gathering = Gathering()
    for version in range(3):
        member = _member(labelled("a", "g", 3, metadata={"annotations": {"seen": str(version)}}))
        gathering.set(member)
        gathering.drain()
    assert [why for _, why in gathering.held_back.values()] == [
        "group default/g has 1 of 3 members"
    ]


# --- Queues


def test_the_queue_of_a_group_is_on_its_pods() -> None:
    rules = {name: QueueRules(name) for name in ("default", "night")}
    queued = pod("a", labels={"afflux.dev/queue": "night"})
    loaded = load([("cluster.json", as_list(queued, pod("b")))], rules)
    assert {group.name: group.queue for group in loaded.groups} == {
        "default/a": "night",
        "default/b": "default",
    }


def test_a_queue_that_is_not_known_is_refused_with_those_that_are() -> None:
    queued = pod("a", labels={"afflux.dev/queue": "night"})
    assert reasons(queued, pod("b")) == {
        "default/a": "queue 'night' is not known, expected one of: default"
    }


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({}, "PodGroup default/g: spec.schedulingPolicy: missing, expected basic or gang"),
        (
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            "PodGroup default/g: spec.schedulingPolicy.gang.minCount: 0, "
            "expected a whole number from 1 up",
        ),
        (
            {
                "schedulingPolicy": {"basic": {}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
            },
            "PodGroup default/g: spec.schedulingConstraints.topology is not supported yet",
        ),
        (
            {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": "all"},
            "PodGroup default/g: spec.parentCompositePodGroupName is not supported yet",
        ),
    ],
)
def test_a_pod_group_that_cannot_be_followed_holds_its_pods(
    spec: dict[str, Any], reason: str
) -> None:
    member = pod(schedulingGroup={"podGroupName": "g"})
    assert reasons(native_group("g", **spec), member) == {"default/web": reason}


def test_a_group_and_a_pod_of_the_same_name_are_told_apart() -> None:
    items = [pod("g"), labelled("a", "g", 2), labelled("b", "g", 2)]
    assert sorted(ready(*items)) == ["default/g", "default/g (group)"]


# --- Priority and time


def priority_class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value, **fields}


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ({"priority": 7, "priorityClassName": "high"}, 7),
        ({"priorityClassName": "high"}, 1000),
        ({"priorityClassName": "system-node-critical"}, 2_000_001_000),
        ({"priorityClassName": "unheard-of"}, 0),
        ({}, 5),
    ],
)
def test_priority_is_the_pods_own_or_its_class_s(spec: dict[str, Any], priority: int) -> None:
    classes = priority_class("high", 1000), priority_class("usual", 5, globalDefault=True)
    assert inventory(*classes, pod(**spec)).groups[0].priority == priority


def test_a_group_has_the_highest_priority_and_the_latest_time_of_its_members() -> None:
    first, last = labelled("a", "g", 2, priority=3), labelled("b", "g", 2, priority=9)
    first["metadata"]["creationTimestamp"] = "1970-01-01T00:01:40Z"
    last["metadata"]["creationTimestamp"] = "1970-01-01T02:00:00.5+02:00"
    (group,) = inventory(first, last).groups
    assert (group.priority, group.ready_seconds) == (9, 100.0)


def run_seconds(*items: Any) -> float | None:
    (group,) = inventory(*items).groups
    return group.run_seconds


def test_a_group_runs_as_long_as_its_longest_member_if_all_end() -> None:
    bounded = labelled("a", "g", 2, activeDeadlineSeconds=60, terminationGracePeriodSeconds=5)
    longer = labelled("b", "g", 2, activeDeadlineSeconds=50, terminationGracePeriodSeconds=20)
    endless = labelled("b", "g", 2)
    assert run_seconds(bounded, longer) == 70.0
    assert run_seconds(bounded, endless) is None


def test_the_grace_period_is_part_of_it_and_lasts_30_s_if_nothing_else_is_said() -> None:
    assert run_seconds(pod(activeDeadlineSeconds=60)) == 90.0
    assert run_seconds(pod(activeDeadlineSeconds=60, terminationGracePeriodSeconds=0)) == 60.0


@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 40.0),
        ({"activeDeadlineSeconds": 100}, 40.0),
        ({"activeDeadlineSeconds": 10, "terminationGracePeriodSeconds": 5}, 15.0),
    ],
)
def test_what_is_expected_is_planned_unless_the_deadline_is_before(
    where: str, spec: dict[str, Any], seconds: float
) -> None:
    item = pod(metadata={where: {"afflux.dev/expected-seconds": "40"}}, **spec)
    assert run_seconds(item) == seconds


@pytest.mark.parametrize("written", ["soon", "0", "-5", "1e3", "", "inf", "nan", "٣"])
def test_an_expectation_that_makes_no_sense_is_refused(written: str) -> None:
    item = pod(metadata={"annotations": {"afflux.dev/expected-seconds": written}})
    assert reasons(item, pod("other")) == {
        "default/web": f"annotation afflux.dev/expected-seconds: {written!r}, "
        "expected a number of seconds above 0"
    }


def test_two_expectations_that_differ_are_refused() -> None:
    key = "afflux.dev/expected-seconds"
    item = pod(metadata={"annotations": {key: "40"}, "labels": {key: "50"}})
    assert reasons(item) == {
        "default/web": f"label {key}: '50', but annotation: '40'; expected one of them"
    }


@pytest.mark.parametrize(
    ("spec", "end"),
    [
        ({"schedulerName": "afflux"}, 1300.0),
        ({"schedulerName": "afflux", "activeDeadlineSeconds": 60}, 1090.0),
        # Nobody has put it in a queue of ours, whatever it says: it has no end.
        ({"schedulerName": "another"}, None),
        ({}, None),
    ],
)
def test_what_runs_and_says_nothing_ends_as_its_queue_says_if_it_is_ours(
    spec: dict[str, Any], end: float | None
) -> None:
    rules = {"default": QueueRules(), "night": QueueRules("night", default_run_seconds=300.0)}
    up = {"phase": "Running", "startTime": "1970-01-01T00:16:40Z"}
    item = pod(nodeName="n1", labels={"afflux.dev/queue": "night"}, status=up, **spec)
    loaded = load([("cluster.json", as_list(node(), item))], rules, scheduler_names=["afflux"])
    assert loaded.ends.get("default/web") == end


@pytest.mark.parametrize("spec", [{}, {"activeDeadlineSeconds": 60}])
def test_what_is_being_deleted_ends_when_its_grace_period_does(spec: dict[str, Any]) -> None:
    up = {"phase": "Running", "startTime": "1970-01-01T00:16:40Z"}
    deleted = {"deletionTimestamp": "1970-01-01T00:20:00Z"}
    item = pod(nodeName="n1", metadata=deleted, status=up, **spec)
    assert load([("cluster.json", as_list(node(), item))]).ends == {"default/web": 1200.0}


@pytest.mark.parametrize("written", ["yesterday", "2026-02-30T00:00:00Z", "2026-01-01", "0"])
def test_a_malformed_time_is_an_error(written: str) -> None:
    with pytest.raises(
        InputError, match=f"metadata.creationTimestamp: '{written}', expected a tim"
    ):
        inventory(pod(metadata={"creationTimestamp": written}))
