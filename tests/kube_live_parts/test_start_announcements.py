"""Start announcements: waiting pods say when they will start, with few writes."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from recorded_announcements import Recorded

from afflux.control import start_announcements
from afflux.control.announcements import Announcements
from afflux.control.start_announcements import StartAnnouncements, start_text, start_text_in
from afflux.kube import objects
from afflux.kube.live.pod_notices import PodNotices
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.model.reservation import Reservation
from afflux.web.scheduler_metrics import Metrics

NOON = 1_794_744_000.0  # 2026-11-15 12:00 UTC
HOUR = 3600.0
WHY = "0/1 nodes are available: 1 Insufficient cpu."


def _conditions(message: str | None) -> list[dict[str, str]]:
    if message is None:
        return []
    kind = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return [{**kind, "message": message}]


class Cluster:
    """Waiting pods, some with a condition."""

    def __init__(self, *names: str, conditions: Mapping[str, str] | None = None) -> None:
        self.reader = ClusterReader(["afflux"])
        self.recorded = Recorded()
        recorded: Any = self.recorded
        self.announcements = Announcements(
            PodNotices(self.reader, recorded, recorded),
            Metrics(),
            self.reader.register.waiting_group,
        )
        for name in names:
            pod = {
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
                "spec": {"schedulerName": "afflux", "containers": [{"name": "c"}]},
                "status": {"conditions": _conditions((conditions or {}).get(name))},
            }
            self.reader.pods.changed(msgspec.convert(pod, objects.Pod))
        events = self.reader.take_events()
        self.announcements.ready(event.group for event in events if hasattr(event, "group"))
        self.reasons = {f"uid-{name}": WHY for name in names}

    def decided(self, now: float = NOON, **starts: float | None) -> None:
        reservations = [
            Reservation(f"default/fluxnetes-group-default-{name}/uid-{name}/alone", start)
            for name, start in starts.items()
        ]
        self.announcements.decided(0.1, self.reasons, reservations=reservations, now_seconds=now)

    def promised(self) -> list[str]:
        return [note for _, what, note in self.recorded.events if what == "StartPromised"]


def test_the_reserved_start_is_in_the_condition_and_an_event() -> None:
    cluster = Cluster("head", "other")
    cluster.decided(head=NOON + 1790)
    words = "Promised to start by 2026-11-15 12:30 UTC."
    assert cluster.recorded.messages() == [("head", f"{WHY} {words}"), ("other", WHY)]
    assert ("head", "StartPromised", words) in cluster.recorded.events
    # The event with the reason has kube-scheduler's text and nothing else.
    assert ("head", "FailedScheduling", WHY) in cluster.recorded.events


def test_an_unknown_start_is_announced_as_unknown() -> None:
    cluster = Cluster("head")
    cluster.decided(head=None)
    assert cluster.recorded.messages()[-1][1] == f"{WHY} {start_announcements.UNKNOWN}"
    assert "unknown" in start_announcements.UNKNOWN
    cluster.decided(head=NOON + 60)
    assert cluster.promised()[-1] == "Promised to start by 2026-11-15 12:01 UTC."


@pytest.mark.parametrize(
    ("moved", "is_said"),
    [(0.0, False), (59.0, False), (-59.0, False), (61.0, False), (359.0, False), (400.0, True)],
)
def test_small_moves_of_a_start_are_not_announced(moved: float, is_said: bool) -> None:
    cluster = Cluster("head")
    cluster.decided(head=NOON + HOUR)
    before = len(cluster.recorded.messages())
    cluster.decided(now=NOON + 10, head=NOON + HOUR + moved)
    assert (len(cluster.recorded.messages()) > before) == is_said
    assert len(cluster.promised()) == 1 + is_said


def test_a_start_that_slips_in_every_cycle_is_announced_more_and_more_rarely() -> None:
    cluster = Cluster("head")
    # A task runs ten hours longer than expected; there is a cycle every ten seconds.
    for cycle in range(3600):
        now = NOON + 10 * cycle
        cluster.decided(now, head=now)
    assert len(cluster.promised()) < 60
    assert len(cluster.recorded.messages()) == len(cluster.promised())


def test_announcements_are_rate_limited() -> None:
    names = [f"p{number}" for number in range(3000)]
    cluster = Cluster(*names)
    first = len(cluster.recorded.messages())
    # Every start moves by an hour or more in each cycle, one cycle a second.
    seconds = 50
    for cycle in range(seconds):
        start = NOON + HOUR * (2 + 3 * cycle)
        cluster.decided(NOON + cycle, **dict.fromkeys(names, start))
    bound = start_announcements.MAX_BURST_TASKS + start_announcements.TASKS_PER_SECOND * seconds
    assert 0 < len(cluster.promised()) <= bound
    # In addition to the first condition of each pod, which says why it waits.
    assert len(cluster.recorded.messages()) - first - len(names) <= bound


def test_the_text_is_removed_when_the_reservation_is_gone() -> None:
    cluster = Cluster("head")
    cluster.decided(head=NOON + HOUR)
    cluster.decided()
    assert cluster.recorded.messages()[-1] == ("head", WHY)


def after_a_leader_change(cycles: int, start: float) -> tuple[Cluster, dict[str, set[str]]]:
    """3,000 pods that an earlier leader told to start at 13:00, with reservations for `start` now.

    Also returns the messages written for each pod, with one cycle a second.
    """
    had = f"{WHY} {start_text(NOON + HOUR)}"
    conditions = {f"p{number}": had for number in range(3000)}
    cluster = Cluster(*conditions, conditions=conditions)
    for cycle in range(cycles):
        cluster.decided(NOON + cycle, **dict.fromkeys(conditions, start))
    asked: dict[str, set[str]] = {name: {had} for name in conditions}
    for name, message in cluster.recorded.messages():
        asked[name].add(message)
    return cluster, asked


def test_a_new_leader_does_not_repeat_announcements() -> None:
    cluster, asked = after_a_leader_change(cycles=300, start=NOON + HOUR)
    # The condition is not written again, and no start is announced twice.
    assert {len(messages) for messages in asked.values()} == {1}
    assert cluster.promised() == []


def test_a_start_that_moved_is_announced_once_after_a_leader_change() -> None:
    cluster, asked = after_a_leader_change(cycles=300, start=NOON + 3 * HOUR)
    words = start_text(NOON + 3 * HOUR)
    assert all(f"{WHY} {words}" in messages for messages in asked.values())
    assert {len(messages) for messages in asked.values()} == {2}
    assert cluster.promised() == [words] * 3000


def test_a_changed_reason_keeps_the_start_text_until_its_announcement() -> None:
    had = "0/9 nodes are available: 9 Insufficient cpu. Promised to start by 2026-11-15 13:00 UTC."
    others = {f"p{number}": had for number in range(1000)}
    cluster = Cluster(*others, "last", conditions={**others, "last": had})
    cluster.decided(**dict.fromkeys([*others, "last"], NOON + 3 * HOUR))
    assert cluster.recorded.messages()[-1] == (
        "last",
        f"{WHY} Promised to start by 2026-11-15 13:00 UTC.",
    )


def test_a_start_text_of_an_earlier_leader_without_reservation_is_removed_at_once() -> None:
    had = f"{WHY} {start_text(NOON + HOUR)}"
    others = [f"p{number}" for number in range(1000)]
    cluster = Cluster(*others, "last", conditions={"last": had})
    cluster.decided(**dict.fromkeys([*others, "last"], NOON + HOUR))
    assert ("last", WHY) not in cluster.recorded.messages()
    cluster.decided(**dict.fromkeys(others, NOON + HOUR))
    assert cluster.recorded.messages()[-1] == ("last", WHY)


def test_only_texts_of_afflux_are_recognised() -> None:
    for words in (start_announcements.UNKNOWN, start_text(NOON), start_text(1e15)):
        assert start_text_in(f"{WHY} {words}") == words
    for other in ("", WHY, f"{start_text(NOON)} {WHY}", "Promised to start by noon UTC."):
        assert start_text_in(other) == ""


def test_an_unknown_group_takes_no_tokens() -> None:
    start_announcements = StartAnnouncements()
    gone = [Reservation(f"gone-{number}", NOON) for number in range(5000)]
    assert set(start_announcements.announce(gone, lambda _: 0, NOON).values()) == {None}
    assert (
        start_announcements.announce([Reservation("there", NOON)], lambda _: 1, NOON)["there"]
        is not None
    )


def test_a_start_after_the_year_9999_has_a_text() -> None:
    assert start_text(1e15) == "Promised to start by 9999-12-31 23:59 UTC."
