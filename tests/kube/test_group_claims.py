"""Groups from labels and PodGroups: quorum, queue, priority, run time and reasons."""

from typing import Any

import msgspec
import pytest
from manifests import as_list, inventory, load, native_group, node, pod, pod_group, reasons

from afflux.groups.register import GroupRegister
from afflux.kube import objects
from afflux.kube.group_claims import member
from afflux.kube.pods import task
from afflux.model.errors import InputError
from afflux.queue.rules import QueueRules
from oracles.held_tasks import held_tasks

AFFLUX = ("afflux.dev/group-name", "afflux.dev/group-size")
FLUXNETES = ("fluxnetes.group-name", "fluxnetes.group-size")


def labelled(
    name: str, group: str, size: Any, labels: tuple[str, str] = AFFLUX, **spec: Any
) -> Any:
    return pod(name, labels={labels[0]: group, labels[1]: str(size)}, **spec)


def ready(*items: Any) -> dict[str, list[str]]:
    """The names of the members of each group that may start."""
    return {g.name: [task.name for task in g.tasks] for g in inventory(*items).groups}


def test_a_pod_without_a_group_is_a_group_of_one() -> None:
    assert ready(pod("a"), pod("b")) == {"default/a": ["default/a"], "default/b": ["default/b"]}


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
    assert list(ready(basic, *members)) == ["default/g", "default/p1"]


def test_the_same_name_in_two_namespaces_is_two_groups() -> None:
    members = [
        labelled(f"p{i}", "g", 2, metadata={"namespace": space})
        for space in ("x", "y")
        for i in range(2)
    ]
    for each in members:
        each["metadata"]["labels"] = {AFFLUX[0]: "g", AFFLUX[1]: "2"}
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


def test_once_the_quorum_runs_late_members_start_one_by_one() -> None:
    running = [labelled(f"r{i}", "g", 2, nodeName="n1") for i in range(2)]
    pending = [labelled(f"p{i}", "g", 2) for i in range(2)]
    assert list(ready(node(), *running, *pending)) == ["default/p0", "default/p1"]


def test_members_that_are_deleted_or_done_do_not_count() -> None:
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    labels = dict(zip(AFFLUX, ("g", "2"), strict=True))
    members = [
        pod("gone", metadata={"labels": labels, **leaving}, nodeName="n1"),
        labelled("done", "g", 2, status={"phase": "Succeeded"}),
        labelled("left", "g", 2),
    ]
    assert reasons(node(), *members) == {"default/left": "group default/g has 1 of 2 members"}


def test_one_blocked_member_holds_back_the_whole_group() -> None:
    gated = labelled("b", "g", 2, schedulingGates=[{"name": "x"}])
    reason = "spec.schedulingGates: waiting for gate 'x' to be removed"
    assert reasons(labelled("a", "g", 2), gated, pod("c")) == {
        "default/a": f"group default/g waits for default/b: {reason}",
        "default/b": reason,
    }


@pytest.mark.parametrize("size", ["many", "0", "-3", "", "2.5", "9" * 30, "٣"])
def test_a_wrong_size_holds_back_that_pod_only(size: str) -> None:
    wrong = labelled("wrong", "g", size)
    others = [labelled(f"p{i}", "g", 2) for i in range(2)]
    assert reasons(wrong, *others, pod("solo")) == {
        "default/wrong": f"label {AFFLUX[1]}: {size!r}, expected a whole number from 1 up"
    }
    assert set(ready(wrong, *others, pod("solo"))) == {"default/g", "default/solo"}


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        (
            {AFFLUX[1]: "2"},
            f"label {AFFLUX[1]}: 2 without {AFFLUX[0]}; "
            f"add the label {AFFLUX[0]} with the name of the group",
        ),
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
def test_inconsistent_labels_hold_back_the_pod(labels: dict[str, str], reason: str) -> None:
    assert reasons(pod(labels=labels)) == {"default/web": reason}


def test_members_that_contradict_the_majority_are_refused() -> None:
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


def test_a_pod_that_is_seen_several_times_counts_once() -> None:
    # In the prototype one pod that was enqueued three times satisfied a group of three.
    register = GroupRegister()
    for version in range(3):
        manifest = labelled("a", "g", 3, metadata={"annotations": {"seen": str(version)}})
        found = msgspec.convert(manifest, objects.Pod)
        register.set(member(found, task(found)))
        register.take_starts()
    ((_, hold),) = held_tasks(register)
    assert hold.why == "group default/g has 1 of 3 members"


# --- Queues


def test_the_queue_of_a_group_comes_from_its_pods() -> None:
    rules = {name: QueueRules(name) for name in ("default", "night")}
    queued = pod("a", labels={"afflux.dev/queue": "night"})
    loaded = load([("cluster.json", as_list(queued, pod("b")))], rules)
    assert {group.name: group.queue for group in loaded.groups} == {
        "default/a": "night",
        "default/b": "default",
    }


def test_the_reason_for_an_unknown_queue_lists_the_known_ones() -> None:
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
def test_an_invalid_or_unsupported_pod_group_holds_back_its_pods(
    spec: dict[str, Any], reason: str
) -> None:
    member = pod(schedulingGroup={"podGroupName": "g"})
    assert reasons(native_group("g", **spec), member) == {"default/web": reason}


def test_a_group_and_a_pod_of_the_same_name_are_two_groups() -> None:
    items = [pod("g"), labelled("a", "g", 2), labelled("b", "g", 2)]
    groups = inventory(*items).groups
    assert sorted((each.name, len(each.tasks)) for each in groups) == [
        ("default/g", 1),
        ("default/g", 2),
    ]


@pytest.mark.parametrize("labels", [AFFLUX, FLUXNETES])
def test_a_name_without_a_size_means_one_and_a_size_of_one_needs_no_name(
    labels: tuple[str, str],
) -> None:
    named, sized = pod("a", labels={labels[0]: "g"}), pod("b", labels={labels[1]: "1"})
    assert ready(named, sized) == {"default/g": ["default/a"], "default/b": ["default/b"]}


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
def test_priority_comes_from_the_pod_or_its_priority_class(
    spec: dict[str, Any], priority: int
) -> None:
    classes = priority_class("high", 1000), priority_class("usual", 5, globalDefault=True)
    assert inventory(*classes, pod(**spec)).groups[0].priority == priority


def test_a_group_has_the_highest_priority_and_the_latest_time_of_its_members() -> None:
    first, last = labelled("a", "g", 2, priority=3), labelled("b", "g", 2, priority=9)
    first["metadata"]["creationTimestamp"] = "1970-01-01T00:01:40Z"
    last["metadata"]["creationTimestamp"] = "1970-01-01T02:00:00.5+02:00"
    (group,) = inventory(first, last).groups
    assert (group.priority, group.ready_seconds) == (9, pytest.approx(100.0, abs=1e-3))


def run_seconds(*items: Any) -> float | None:
    (group,) = inventory(*items).groups
    return group.run_seconds


def test_the_run_time_of_a_group_is_that_of_its_longest_member_if_all_are_bounded() -> None:
    bounded = labelled("a", "g", 2, activeDeadlineSeconds=60, terminationGracePeriodSeconds=5)
    longer = labelled("b", "g", 2, activeDeadlineSeconds=50, terminationGracePeriodSeconds=20)
    endless = labelled("b", "g", 2)
    assert run_seconds(bounded, longer) == 70.0
    assert run_seconds(bounded, endless) is None


def test_the_run_time_includes_the_grace_period_of_30_s_by_default() -> None:
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
def test_the_run_time_is_the_expectation_or_an_earlier_deadline(
    where: str, spec: dict[str, Any], seconds: float
) -> None:
    item = pod(metadata={where: {"afflux.dev/expected-seconds": "40"}}, **spec)
    assert run_seconds(item) == seconds


@pytest.mark.parametrize("written", ["soon", "0", "-5", "1e3", "", "inf", "nan", "٣"])
def test_an_invalid_expectation_is_refused(written: str) -> None:
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
        # A pod of another scheduler is in no queue of afflux, whatever its labels say: no end.
        ({"schedulerName": "another"}, None),
        ({}, None),
    ],
)
def test_running_pods_of_ours_without_a_run_time_get_the_default_of_their_queue(
    spec: dict[str, Any], end: float | None
) -> None:
    rules = {"default": QueueRules(), "night": QueueRules("night", default_run_seconds=300.0)}
    up = {"phase": "Running", "startTime": "1970-01-01T00:16:40Z"}
    item = pod(nodeName="n1", labels={"afflux.dev/queue": "night"}, status=up, **spec)
    loaded = load([("cluster.json", as_list(node(), item))], rules, scheduler_names=["afflux"])
    assert loaded.ends.get("default/web") == end


@pytest.mark.parametrize("spec", [{}, {"activeDeadlineSeconds": 60}])
def test_a_pod_being_deleted_ends_with_its_grace_period(spec: dict[str, Any]) -> None:
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
