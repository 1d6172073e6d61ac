"""Waiting pods hear when they will start, in few words and few writes."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from afflux.kube import objects
from afflux.kube.live import foretelling
from afflux.kube.live.foretelling import Foretelling, words_in, words_of
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.recording import FAILED, What
from afflux.kube.live.references import PodRef
from afflux.kube.live.reporting import Reporting
from afflux.model.promise import Promise
from afflux.web.metrics import Metrics

NOON = 1_794_744_000.0  # 2026-11-15 12:00 UTC
HOUR = 3600.0
WHY = "0/1 nodes are available: 1 Insufficient cpu."


class Told:
    """Counts what would be written."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.conditions: list[tuple[str, str]] = []

    def failed(
        self, pod: PodRef, why: str, scheduler: str | None = None, what: What = FAILED
    ) -> None:
        self.events.append((pod.name, what.reason, why))

    def write(self, pod: PodRef, wanted: Any, seen: Any, **more: Any) -> None:
        self.conditions.append((pod.name, wanted.message))


def _conditions(message: str | None) -> list[dict[str, str]]:
    if message is None:
        return []
    kind = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return [{**kind, "message": message}]


class Cluster:
    """Pods that wait, with the conditions that they have, if any."""

    def __init__(self, *names: str, conditions: Mapping[str, str] | None = None) -> None:
        self.mirror = Mirror(["afflux"])
        self.told = Told()
        told: Any = self.told
        self.reporting = Reporting(self.mirror, told, told, Metrics())
        for name in names:
            pod = {
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
                "spec": {"schedulerName": "afflux", "containers": [{"name": "c"}]},
                "status": {"conditions": _conditions((conditions or {}).get(name))},
            }
            self.mirror.pods.changed(msgspec.convert(pod, objects.Pod))
        events = self.mirror.drain()
        self.reporting.ready(event.group for event in events if hasattr(event, "group"))
        self.reasons = {f"uid-{name}": WHY for name in names}

    def decided(self, now: float = NOON, **starts: float | None) -> None:
        promises = [Promise(f"default/{name}", start) for name, start in starts.items()]
        self.reporting.decided(0.1, self.reasons, promises=promises, now_seconds=now)

    def promised(self) -> list[str]:
        return [note for _, what, note in self.told.events if what == "StartPromised"]


def test_a_waiting_pod_says_when_it_will_start_in_its_condition_and_an_event() -> None:
    cluster = Cluster("head", "other")
    cluster.decided(head=NOON + 1790)
    words = "Promised to start by 2026-11-15 12:30 UTC."
    assert cluster.told.conditions == [("head", f"{WHY} {words}"), ("other", WHY)]
    assert ("head", "StartPromised", words) in cluster.told.events
    # Why it waits is said in kube-scheduler's words, and nothing else.
    assert ("head", "FailedScheduling", WHY) in cluster.told.events


def test_who_waits_for_work_without_end_says_that_nobody_knows() -> None:
    cluster = Cluster("head")
    cluster.decided(head=None)
    assert cluster.told.conditions[-1][1] == f"{WHY} {foretelling.UNKNOWN}"
    assert "unknown" in foretelling.UNKNOWN
    cluster.decided(head=NOON + 60)
    assert cluster.promised()[-1] == "Promised to start by 2026-11-15 12:01 UTC."


@pytest.mark.parametrize(
    ("moved", "is_said"),
    [(0.0, False), (59.0, False), (-59.0, False), (61.0, False), (359.0, False), (400.0, True)],
)
def test_small_moves_are_not_worth_a_write(moved: float, is_said: bool) -> None:
    cluster = Cluster("head")
    cluster.decided(head=NOON + HOUR)
    before = len(cluster.told.conditions)
    cluster.decided(now=NOON + 10, head=NOON + HOUR + moved)
    assert (len(cluster.told.conditions) > before) == is_said
    assert len(cluster.promised()) == 1 + is_said


def test_a_start_that_slips_in_every_cycle_is_said_ever_more_rarely() -> None:
    cluster = Cluster("head")
    # Something runs ten hours longer than it said; a cycle every ten seconds.
    for cycle in range(3600):
        now = NOON + 10 * cycle
        cluster.decided(now, head=now)
    assert len(cluster.promised()) < 60
    assert len(cluster.told.conditions) == len(cluster.promised())


def test_all_together_hear_so_much_in_a_second_at_most() -> None:
    names = [f"p{number}" for number in range(3000)]
    cluster = Cluster(*names)
    first = len(cluster.told.conditions)
    # Every promise moves by an hour or more in each of the cycles, one a second.
    seconds = 50
    for cycle in range(seconds):
        start = NOON + HOUR * (2 + 3 * cycle)
        cluster.decided(NOON + cycle, **dict.fromkeys(names, start))
    bound = foretelling.PODS_AT_ONCE + foretelling.PODS_PER_SECOND * seconds
    assert 0 < len(cluster.promised()) <= bound
    # Beside the first words of each, which say why it waits.
    assert len(cluster.told.conditions) - first - len(names) <= bound


def test_who_is_promised_nothing_any_more_does_not_say_so_any_more() -> None:
    cluster = Cluster("head")
    cluster.decided(head=NOON + HOUR)
    cluster.decided()
    assert cluster.told.conditions[-1] == ("head", WHY)


def after_a_leader_change(cycles: int, start: float) -> tuple[Cluster, dict[str, set[str]]]:
    """3,000 pods whom the leader before us had promised noon and an hour, and promised this now;
    with what each of them was to have as its condition, one cycle a second."""
    had = f"{WHY} {words_of(NOON + HOUR)}"
    conditions = {f"p{number}": had for number in range(3000)}
    cluster = Cluster(*conditions, conditions=conditions)
    for cycle in range(cycles):
        cluster.decided(NOON + cycle, **dict.fromkeys(conditions, start))
    asked: dict[str, set[str]] = {name: {had} for name in conditions}
    for name, message in cluster.told.conditions:
        asked[name].add(message)
    return cluster, asked


def test_a_new_leader_leaves_the_promises_that_pods_were_told_as_they_are() -> None:
    cluster, asked = after_a_leader_change(cycles=300, start=NOON + HOUR)
    # The condition they have is not written again; and nobody hears the same promise twice.
    assert {len(messages) for messages in asked.values()} == {1}
    assert cluster.promised() == []


def test_a_promise_that_has_moved_is_written_once_after_a_leader_change() -> None:
    cluster, asked = after_a_leader_change(cycles=300, start=NOON + 3 * HOUR)
    words = words_of(NOON + 3 * HOUR)
    assert all(f"{WHY} {words}" in messages for messages in asked.values())
    assert {len(messages) for messages in asked.values()} == {2}
    assert cluster.promised() == [words] * 3000


def test_who_waits_for_other_reasons_than_before_keeps_its_promise_until_it_is_its_turn() -> None:
    had = "0/9 nodes are available: 9 Insufficient cpu. Promised to start by 2026-11-15 13:00 UTC."
    others = {f"p{number}": had for number in range(1000)}
    cluster = Cluster(*others, "last", conditions={**others, "last": had})
    cluster.decided(**dict.fromkeys([*others, "last"], NOON + 3 * HOUR))
    assert cluster.told.conditions[-1] == (
        "last",
        f"{WHY} Promised to start by 2026-11-15 13:00 UTC.",
    )


def test_a_promise_of_the_leader_before_that_is_none_any_more_goes_at_once() -> None:
    had = f"{WHY} {words_of(NOON + HOUR)}"
    others = [f"p{number}" for number in range(1000)]
    cluster = Cluster(*others, "last", conditions={"last": had})
    cluster.decided(**dict.fromkeys([*others, "last"], NOON + HOUR))
    assert ("last", WHY) not in cluster.told.conditions
    cluster.decided(**dict.fromkeys(others, NOON + HOUR))
    assert cluster.told.conditions[-1] == ("last", WHY)


def test_only_words_of_our_own_count_as_a_promise() -> None:
    for words in (foretelling.UNKNOWN, words_of(NOON), words_of(1e15)):
        assert words_in(f"{WHY} {words}") == words
    for other in ("", WHY, f"{words_of(NOON)} {WHY}", "Promised to start by noon UTC."):
        assert words_in(other) == ""


def test_a_group_that_is_unknown_costs_nothing() -> None:
    foretelling = Foretelling()
    gone = [Promise(f"gone-{number}", NOON) for number in range(5000)]
    assert set(foretelling.tell(gone, lambda _: 0, NOON).values()) == {None}
    assert foretelling.tell([Promise("there", NOON)], lambda _: 1, NOON)["there"] is not None


def test_a_start_in_ten_thousand_years_has_words_too() -> None:
    assert words_of(1e15) == "Promised to start by 9999-12-31 23:59 UTC."
