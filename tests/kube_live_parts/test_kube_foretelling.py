"""Waiting pods hear when they will start, in few words and few writes."""

from typing import Any

import msgspec
import pytest

from afflux.kube import objects
from afflux.kube.live import foretelling
from afflux.kube.live.foretelling import Foretelling, words_of
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


class Cluster:
    def __init__(self, *names: str) -> None:
        self.mirror = Mirror(["afflux"])
        self.told = Told()
        told: Any = self.told
        self.reporting = Reporting(self.mirror, told, told, Metrics())
        for name in names:
            pod = {
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
                "spec": {"schedulerName": "afflux", "containers": [{"name": "c"}]},
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


def test_a_group_that_is_unknown_costs_nothing() -> None:
    assert Foretelling().tell([Promise("gone", NOON)], lambda _: 0, NOON) == {}


def test_a_start_in_ten_thousand_years_has_words_too() -> None:
    assert words_of(1e15) == "Promised to start by 9999-12-31 23:59 UTC."
