"""Deadlines: when a group's time is over, whoever is stopped and replaced meanwhile."""

from time import process_time
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from manifests import pod

from afflux.kube import objects
from afflux.kube.lasting import over_seconds
from afflux.kube.live.deadlines import FEW_ENTRIES, Deadlines, Over


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


def uids(over: list[Over]) -> list[set[str]]:
    return [set(each.pods) for each in over]


def test_a_deadline_counts_from_the_start() -> None:
    manifest = pod(activeDeadlineSeconds=60, status={"startTime": "1970-01-01T00:01:40Z"})
    assert over_seconds(msgspec.convert(manifest, objects.Pod)) == 160.0
    waiting = pod(activeDeadlineSeconds=60)
    assert over_seconds(msgspec.convert(waiting, objects.Pod)) is None


def test_a_pod_by_itself_is_over_at_its_deadline_and_is_reported_once() -> None:
    deadlines = Deadlines()
    deadlines.runs(running("a", job="j"), 60.0, 0.0)
    assert deadlines.next_seconds() == 60.0
    assert deadlines.take(59.9) == []
    (over,) = deadlines.take(60.0)
    assert (over.name, over.group, over.pods) == ("default/a", None, {"uid-a"})
    assert over.namespace == "default"
    assert [ref.name for ref in over.controllers] == ["j"]
    deadlines.runs(running("a", job="j"), 60.0, 61.0)
    assert deadlines.next_seconds() is None


def test_what_has_no_end_is_never_over() -> None:
    deadlines = Deadlines()
    deadlines.runs(running("a", "g"), 60.0, 0.0)
    deadlines.runs(running("b", "g"), None, 0.0)
    deadlines.runs(running("c"), None, 0.0)
    assert deadlines.next_seconds() is None


def test_a_group_is_over_with_its_last_member() -> None:
    deadlines = Deadlines()
    deadlines.runs(running("a", "g"), 60.0, 0.0)
    deadlines.runs(running("b", "g"), 90.0, 0.0)
    assert deadlines.next_seconds() == 90.0
    assert uids(deadlines.take(90.0)) == [{"uid-a", "uid-b"}]


def test_a_late_member_has_its_time() -> None:
    deadlines = Deadlines()
    deadlines.runs(running("a", "g"), 60.0, 0.0)
    deadlines.runs(running("late", "g"), 110.0, 50.0)
    assert deadlines.next_seconds() == 110.0


def test_a_group_that_ends_early_is_not_over_at_all() -> None:
    deadlines = Deadlines()
    for name in ("a", "b"):
        deadlines.runs(running(name, "g"), 60.0, 0.0)
    for name in ("a", "b"):
        deadlines.left(f"uid-{name}", 59.0)
    assert deadlines.next_seconds() is None
    # Its name is used again.
    deadlines.runs(running("c", "g"), 120.0, 60.0)
    assert uids(deadlines.take(120.0)) == [{"uid-c"}]


def test_a_deadline_that_is_brought_forward_counts() -> None:
    deadlines = Deadlines()
    deadlines.runs(running("a"), 60.0, 0.0)
    deadlines.runs(running("a"), 30.0, 1.0)
    assert deadlines.next_seconds() == 30.0


def test_replacements_of_what_was_stopped_do_not_keep_a_group_alive() -> None:
    deadlines = Deadlines()
    deadlines.runs(running("a", "g", "j"), 60.0, 0.0)
    deadlines.runs(running("b", "g", "j"), 65.0, 5.0)
    deadlines.left("uid-a", 60.2)
    deadlines.runs(running("a-again", "g", "j"), 121.0, 61.0)
    assert deadlines.next_seconds() == 65.0
    (over,) = deadlines.take(65.0)
    assert over.pods == {"uid-a", "uid-b", "uid-a-again"}


def test_nor_does_who_joins_while_one_takes_its_grace_period() -> None:
    deadlines = Deadlines()
    deadlines.runs(running("a", "g"), 60.0, 0.0)
    deadlines.runs(running("b", "g"), 65.0, 5.0)
    deadlines.runs(running("late", "g"), 122.0, 62.0)
    assert deadlines.next_seconds() == 65.0


def test_who_is_stopped_before_we_look_is_still_reported_with_its_controller() -> None:
    deadlines = Deadlines()
    deadlines.runs(running("a", "g", "j"), 60.0, 0.0)
    deadlines.left("uid-a", 60.3)
    (over,) = deadlines.take(60.3)
    assert [ref.uid for ref in over.controllers] == ["uid-j"]


def test_a_change_of_the_next_deadline_wakes_whoever_waits_for_it() -> None:
    deadlines = Deadlines()
    deadlines.runs(running("a"), 60.0, 0.0)
    assert deadlines.changed.is_set()
    deadlines.changed.clear()
    deadlines.runs(running("a"), 60.0, 1.0)
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


def test_who_has_ended_early_is_not_remembered_until_his_deadline() -> None:
    deadlines = Deadlines()
    deadlines.runs(running("stays", "g"), 1e9, 0.0)
    for number in range(5 * FEW_ENTRIES):
        for group in (None, "g"):
            one = running(f"{group}-{number}", group)
            deadlines.runs(one, 1e9 + number, 0.0)
            deadlines.left(one.metadata.uid or "", 1.0)
    assert deadlines.next_seconds() == 1e9
    # Each one and each group at most twice.
    assert sum(len(each.first) for each in deadlines._groups.values()) <= FEW_ENTRIES + 4
    assert len(deadlines._due) <= FEW_ENTRIES + 4


def test_a_large_group_costs_no_more_than_many_small_ones() -> None:
    def seconds(groups: int, size: int) -> float:
        pods = [running(f"p{g}-{n}", f"g{g}") for g in range(groups) for n in range(size)]
        deadlines = Deadlines()
        began = process_time()
        for number, each in enumerate(pods):
            deadlines.runs(each, 1e6 + number, 0.0)
        for each in pods:
            deadlines.left(each.metadata.uid or "", 1.0)
        return process_time() - began

    # If every pod looked at all the others, a hundred times as much.
    assert seconds(1, 4000) < 10 * seconds(1000, 4)


@given(steps)
def test_in_any_history_nobody_is_reported_early_or_twice(steps: list[Any]) -> None:
    deadlines, now = Deadlines(), 0.0
    group_of: dict[int, str | None] = {}
    ends: dict[str, float | None] = {}
    reported: set[str] = set()
    for number, named, what, seconds, pause in steps:
        now += pause
        for over in deadlines.take(now):
            assert over.at_seconds <= now
            alive = over.pods & ends.keys()
            assert not alive & reported
            reported |= alive
        name = f"p{number}"
        group = group_of.setdefault(number, named)
        uid = f"uid-{name}"
        if what == "left":
            deadlines.left(uid, now)
            ends.pop(uid, None)
            reported.discard(uid)
        elif uid not in ends:
            # An end that is known is not given up: None stays None, and a time stays a time.
            ends[uid] = None if seconds is None else now + seconds
            deadlines.runs(running(name, group), ends[uid], now)
    # Who is left has no end, or shares a group with somebody who has none.
    for over in deadlines.take(10_000.0):
        reported |= over.pods & ends.keys()
    assert deadlines.next_seconds() is None
    bounded = {
        uid for uid, end in ends.items() if end is not None and group_of[int(uid[5:])] is None
    }
    assert bounded <= reported
