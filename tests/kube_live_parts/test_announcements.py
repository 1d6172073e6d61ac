"""Reports about groups: who is refused, and who could never fit, hears so by name."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from afflux.kube import objects
from afflux.kube.live import reporting
from afflux.kube.live.conditions import Condition
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.recording import FAILED, What
from afflux.kube.live.references import PodRef
from afflux.kube.live.reporting import Reporting
from afflux.web.metrics import Metrics


@dataclass
class Told:
    """Events and conditions, as they were asked for."""

    events: list[tuple[str, str, str]] = field(default_factory=list)
    conditions: dict[str, Condition] = field(default_factory=dict)

    def failed(
        self, pod: PodRef, why: str, scheduler: str | None = None, what: What = FAILED
    ) -> None:
        self.events.append((pod.name, what.reason, why))

    def write(self, pod: PodRef, wanted: Condition, seen: Any, **more: Any) -> None:
        self.conditions[pod.name] = wanted


class Cluster:
    def __init__(self) -> None:
        self.mirror = Mirror(["afflux"])
        self.told = Told()
        told: Any = self.told
        self.reporting = Reporting(self.mirror, told, told, Metrics())
        node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
        self.mirror.nodes.changed(msgspec.convert(node, objects.Node))

    def pod(self, name: str, group: str | None = None, size: object = 2) -> None:
        labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": str(size)}
        pod = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "labels": labels if group else {},
            },
            "spec": {"schedulerName": "afflux", "containers": [{"name": "c"}]},
        }
        self.mirror.pods.changed(msgspec.convert(pod, objects.Pod))

    def look(self) -> None:
        events = self.mirror.drain()
        self.reporting.held_back(self.mirror.gathering.take_held_back())
        self.reporting.ready(event.group for event in events if hasattr(event, "group"))


def test_who_is_refused_hears_so_by_an_event_of_its_own_and_a_condition() -> None:
    cluster = Cluster()
    cluster.pod("a", "g", "many")
    cluster.pod("b", "g")
    cluster.look()
    why = "label afflux.dev/group-size: 'many', expected a whole number from 1 up"
    assert ("a", "GroupRefused", why) in cluster.told.events
    assert cluster.told.conditions["a"] == Condition("False", "Unschedulable", why)
    # Who only waits for others has done nothing wrong.
    words = "0/1 nodes are available: group default/g has 1 of 2 members; 1 refused."
    assert ("b", "FailedScheduling", words) in cluster.told.events


def test_it_is_said_once() -> None:
    cluster = Cluster()
    cluster.pod("a", "g", 0)
    for _ in range(3):
        cluster.mirror.gathering.touch("default/g")
        cluster.look()
    assert len(cluster.told.events) == 1


def test_a_group_that_could_never_fit_is_told_so_on_every_pod() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.pod(name, "g")
    cluster.pod("solo")
    cluster.look()
    words = "0/1 nodes are available: 1 Insufficient cpu."
    reasons = dict.fromkeys(("uid-a", "uid-b", "uid-solo"), words)
    unsatisfiable = {"default/g": "needs 8 cpu", "default/solo": "needs 9 cpu"}
    for _ in range(2):
        cluster.reporting.decided(0.1, reasons, unsatisfiable)
    told = [event for event in cluster.told.events if event[1] == "Unsatisfiable"]
    assert told == [
        ("a", "Unsatisfiable", "group default/g: needs 8 cpu"),
        ("b", "Unsatisfiable", "group default/g: needs 8 cpu"),
        ("solo", "Unsatisfiable", "group default/solo: needs 9 cpu"),
    ]
    assert cluster.told.conditions["a"].message == f"{words} Unsatisfiable: needs 8 cpu."
    # Of a pod by itself these are kube-scheduler's words, and nothing else.
    assert cluster.told.conditions["solo"] == Condition("False", "Unschedulable", words)


def test_when_the_cluster_has_changed_it_waits_as_others_do() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.pod(name, "g")
    cluster.look()
    reasons = dict.fromkeys(("uid-a", "uid-b"), "behind others in the queue.")
    cluster.reporting.decided(0.1, reasons, {"default/g": "too large"})
    cluster.reporting.decided(0.1, reasons)
    assert cluster.told.conditions["a"].message == "behind others in the queue."
    # It was never taken out of the queue for that; and if it is so again, it is said again.
    assert cluster.mirror.gathering.waiting("default/g") is not None
    cluster.reporting.decided(0.1, reasons, {"default/g": "too large"})
    told = [event for event in cluster.told.events if event[:2] == ("a", "Unsatisfiable")]
    assert len(told) == 2


def test_a_group_that_has_left_meanwhile_is_no_matter() -> None:
    cluster = Cluster()
    cluster.reporting.decided(0.1, {}, {"default/gone": "too large"})
    assert not cluster.told.events


def test_however_often_somebody_asks_those_who_wait_are_counted_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    for number in range(5):
        cluster.pod(f"p{number}")
    cluster.look()
    looks, now = 0, 100.0
    pending = cluster.mirror.pending

    def slowly(task: Any) -> Any:
        nonlocal looks, now
        looks += 1
        now += 0.1
        return pending(task)

    monkeypatch.setattr(cluster.mirror, "pending", slowly)
    monkeypatch.setattr(reporting, "monotonic", lambda: now)
    for _ in range(100):
        cluster.reporting.count_pending()
    assert looks == 5
    now += 26.0
    cluster.reporting.count_pending()
    assert looks == 10
