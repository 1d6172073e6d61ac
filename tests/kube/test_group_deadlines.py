"""When a group is past its deadline, also if its pods are stopped and replaced meanwhile."""

from time import process_time
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from manifests import group_id, node, pod

from afflux.kube import objects
from afflux.kube.group_deadlines import MIN_STALE_ENTRIES, GroupDeadlines, OverdueGroup
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.kube.run_time import deadline_ends_seconds


def running(
    name: str, group: str | None = None, job: str | None = None, **metadata: Any
) -> objects.Pod:
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": "2"} if group else {}
    owners = (
        [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": job,
                "uid": f"uid-{job}",
                "controller": True,
            }
        ]
        if job
        else []
    )
    manifest = pod(
        name,
        labels=labels,
        metadata={"uid": f"uid-{name}", "labels": labels, "ownerReferences": owners, **metadata},
    )
    return msgspec.convert(manifest, objects.Pod)


def started(found: objects.Pod, at: str) -> objects.Pod:
    """The same pod, running on machine n since then, with a deadline of 60 s."""
    spec = msgspec.structs.replace(found.spec, node_name="n", active_deadline_seconds=60)
    status = msgspec.convert({"phase": "Running", "startTime": at}, objects.PodStatus)
    return msgspec.structs.replace(found, spec=spec, status=status)


def set_running(
    deadlines: GroupDeadlines, pod: objects.Pod, ends_seconds: float | None, now_seconds: float
) -> None:
    deadlines.set(group_id(pod), pod, ends_seconds, now_seconds)


def uids(overdue: list[OverdueGroup]) -> list[set[str]]:
    return [set(each.pods) for each in overdue]


def test_a_deadline_counts_from_the_start_of_the_pod() -> None:
    manifest = pod(activeDeadlineSeconds=60, status={"startTime": "1970-01-01T00:01:40Z"})
    assert deadline_ends_seconds(msgspec.convert(manifest, objects.Pod)) == 160.0
    waiting = pod(activeDeadlineSeconds=60)
    assert deadline_ends_seconds(msgspec.convert(waiting, objects.Pod)) is None


def test_a_single_pod_is_overdue_at_its_deadline_and_is_reported_once() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a", job="j"), 60.0, 0.0)
    assert deadlines.next_seconds() == 60.0
    assert deadlines.take(59.9) == []
    (overdue,) = deadlines.take(60.0)
    assert (overdue.id.shown, overdue.pods) == ("default/a", {"uid-a"})
    assert [ref.name for ref in overdue.controllers] == ["j"]
    set_running(deadlines, running("a", job="j"), 60.0, 61.0)
    assert deadlines.next_seconds() is None


def test_groups_with_an_endless_pod_are_never_overdue() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a", "g"), 60.0, 0.0)
    set_running(deadlines, running("b", "g"), None, 0.0)
    set_running(deadlines, running("c"), None, 0.0)
    assert deadlines.next_seconds() is None


def test_a_group_is_overdue_at_the_deadline_of_its_last_member() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a", "g"), 60.0, 0.0)
    set_running(deadlines, running("b", "g"), 90.0, 0.0)
    assert deadlines.next_seconds() == 90.0
    assert uids(deadlines.take(90.0)) == [{"uid-a", "uid-b"}]


def test_a_late_member_extends_the_deadline_of_the_group() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a", "g"), 60.0, 0.0)
    set_running(deadlines, running("late", "g"), 110.0, 50.0)
    assert deadlines.next_seconds() == 110.0


def test_a_group_that_ends_early_is_not_reported() -> None:
    deadlines = GroupDeadlines()
    for name in ("a", "b"):
        set_running(deadlines, running(name, "g"), 60.0, 0.0)
    for name in ("a", "b"):
        deadlines.remove(f"uid-{name}", 59.0)
    assert deadlines.next_seconds() is None
    # The next group of the same name.
    set_running(deadlines, running("c", "g"), 120.0, 60.0)
    assert uids(deadlines.take(120.0)) == [{"uid-c"}]


def test_a_group_that_reuses_the_name_of_an_overdue_one_has_its_own_deadline() -> None:
    deadlines = GroupDeadlines()
    reader = ClusterReader(["default-scheduler"], deadlines=deadlines)
    reader.nodes.changed(msgspec.convert(node("n"), objects.Node))
    first = started(running("a", "g", "j"), "1970-01-01T00:00:00Z")
    second = started(running("b", "g", "j"), "1970-01-01T00:01:01Z")
    reader.pods.changed(first)
    reader.take_events(0.0)
    reader.pods.deleted(first)
    reader.pods.changed(second)
    reader.take_events(61.0)
    (overdue,) = deadlines.take(61.0)
    assert (overdue.id.shown, overdue.pods, overdue.at_seconds) == ("default/g", {"uid-a"}, 60.0)
    assert deadlines.next_seconds() == 121.0
    assert uids(deadlines.take(121.0)) == [{"uid-b"}]


def test_a_pod_that_names_another_group_takes_its_deadline_there() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a", "g"), 60.0, 0.0)
    set_running(deadlines, running("b", "h"), 90.0, 0.0)
    set_running(deadlines, running("a", "h"), 60.0, 1.0)
    assert uids(deadlines.take(90.0)) == [{"uid-a", "uid-b"}]
    assert deadlines.next_seconds() is None


def test_a_deadline_can_be_brought_forward() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a"), 60.0, 0.0)
    set_running(deadlines, running("a"), 30.0, 1.0)
    assert deadlines.next_seconds() == 30.0


def test_replacements_of_stopped_pods_do_not_extend_the_deadline() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a", "g", "j"), 60.0, 0.0)
    set_running(deadlines, running("b", "g", "j"), 65.0, 5.0)
    deadlines.remove("uid-a", 60.2)
    set_running(deadlines, running("a-again", "g", "j"), 121.0, 61.0)
    assert deadlines.next_seconds() == 65.0
    (overdue,) = deadlines.take(65.0)
    assert overdue.pods == {"uid-a", "uid-b", "uid-a-again"}


def test_pods_that_join_after_the_first_deadline_do_not_extend_the_deadline() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a", "g"), 60.0, 0.0)
    set_running(deadlines, running("b", "g"), 65.0, 5.0)
    set_running(deadlines, running("late", "g"), 122.0, 62.0)
    assert deadlines.next_seconds() == 65.0


def test_a_pod_stopped_before_take_is_still_reported_with_its_controller() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a", "g", "j"), 60.0, 0.0)
    deadlines.remove("uid-a", 60.3)
    (overdue,) = deadlines.take(60.3)
    assert [ref.uid for ref in overdue.controllers] == ["uid-j"]
    assert overdue.claims.keys() == {"uid-a"}


def test_members_of_another_controller_whose_deadline_is_not_over_are_watched_further() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a", "g"), 60.0, 0.0)
    set_running(deadlines, running("b", "g"), 65.0, 0.0)
    deadlines.remove("uid-a", 60.1)
    set_running(deadlines, running("late", "g", "j"), 200.0, 61.0)
    (overdue,) = deadlines.take(65.0)
    assert overdue.claims.keys() == {"uid-a", "uid-b"}
    assert "uid-late" not in overdue.pods
    assert uids(deadlines.take(200.0)) == [{"uid-late"}]


def test_the_claims_of_a_pod_are_the_latest_ones() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a", "g", "j"), 60.0, 0.0)
    # The Job has released a pod that it does not count as its own.
    set_running(deadlines, running("a", "g"), 60.0, 1.0)
    (overdue,) = deadlines.take(60.0)
    assert overdue.controllers == set()


def test_the_changed_event_is_set_only_if_the_next_deadline_changes() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("a"), 60.0, 0.0)
    assert deadlines.changed.is_set()
    deadlines.changed.clear()
    set_running(deadlines, running("a"), 60.0, 1.0)
    assert not deadlines.changed.is_set()


steps = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from([None, "g", "h"]),
        st.sampled_from(["runs", "runs", "left"]),
        st.one_of(st.none(), st.integers(1, 30)),
        st.integers(0, 5),
    ),
    max_size=40,
)


def test_stale_entries_of_pods_that_ended_early_are_bounded() -> None:
    deadlines = GroupDeadlines()
    set_running(deadlines, running("stays", "g"), 1e9, 0.0)
    for number in range(5 * MIN_STALE_ENTRIES):
        for group in (None, "g"):
            one = running(f"{group}-{number}", group)
            set_running(deadlines, one, 1e9 + number, 0.0)
            deadlines.remove(one.metadata.uid or "", 1.0)
    assert deadlines.next_seconds() == 1e9
    # Every live pod and group has at most two entries.
    assert sum(len(each.earliest) for each in deadlines._groups.values()) <= MIN_STALE_ENTRIES + 4
    assert len(deadlines._due) <= MIN_STALE_ENTRIES + 4


def test_pods_that_end_before_their_deadline_leave_nothing_behind() -> None:
    """A group may run for years, and replace its pods."""
    deadlines = GroupDeadlines()
    set_running(deadlines, running("stays", "g"), None, 0.0)
    for n in range(1_000):
        set_running(deadlines, running(f"p{n}", "g"), n + 60.0, float(n))
        deadlines.remove(f"uid-p{n}", n + 1.0)
    (group,) = deadlines._groups.values()
    each = (group.deadlines, group.claims, group.overran, deadlines._key_of, deadlines._reported)
    assert [len(known) for known in each] == [1, 1, 0, 1, 0]
    # When the last pod gets a deadline, those that are gone are not overdue.
    set_running(deadlines, running("stays", "g"), 2_000.0, 1_500.0)
    (overdue,) = deadlines.take(2_000.0)
    assert overdue.pods == {"uid-stays"}


def test_a_large_group_costs_no_more_than_many_small_ones() -> None:
    def seconds(groups: int, size: int) -> float:
        pods = [running(f"p{g}-{n}", f"g{g}") for g in range(groups) for n in range(size)]
        deadlines = GroupDeadlines()
        began = process_time()
        for number, each in enumerate(pods):
            set_running(deadlines, each, 1e6 + number, 0.0)
        for each in pods:
            deadlines.remove(each.metadata.uid or "", 1.0)
        return process_time() - began

    # A cost quadratic in the size of the group would make the ratio about a hundred.
    assert seconds(1, 4000) < 10 * seconds(1000, 4)


@given(steps)
def test_in_any_history_no_pod_is_reported_early_or_twice(steps: list[Any]) -> None:
    deadlines, now = GroupDeadlines(), 0.0
    group_of: dict[int, str | None] = {}
    ends: dict[str, float | None] = {}
    reported: set[str] = set()
    for number, named, what, seconds, pause in steps:
        now += pause
        for overdue in deadlines.take(now):
            assert overdue.at_seconds <= now
            alive = overdue.pods & ends.keys()
            assert not alive & reported
            assert all((end := ends[uid]) and end <= overdue.at_seconds for uid in alive)
            reported |= alive
        name = f"p{number}"
        group = group_of.setdefault(number, named)
        uid = f"uid-{name}"
        if what == "left":
            deadlines.remove(uid, now)
            ends.pop(uid, None)
            reported.discard(uid)
        elif uid not in ends:
            # The end of a pod does not change here: None stays None, a time stays a time.
            ends[uid] = None if seconds is None else now + seconds
            set_running(deadlines, running(name, group), ends[uid], now)
    # Pods that remain have no end, or share a group with a pod that has none.
    for overdue in deadlines.take(10_000.0):
        reported |= overdue.pods & ends.keys()
    assert deadlines.next_seconds() is None
    bounded = {
        uid for uid, end in ends.items() if end is not None and group_of[int(uid[5:])] is None
    }
    assert bounded <= reported
