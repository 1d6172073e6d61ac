"""Announcements: events and conditions of refused and unsatisfiable groups; pending metrics."""

from typing import Any

import msgspec
import pytest
from recorded_announcements import Recorded

from afflux.control.announcements import Announcements
from afflux.kube import objects
from afflux.kube.live.kubernetes_adapter import held_tasks
from afflux.kube.live.pod_conditions import Condition
from afflux.kube.live.pod_notices import PodNotices
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.web.scheduler_metrics import Metrics


class Cluster:
    def __init__(self) -> None:
        self.reader = ClusterReader(["afflux"])
        self.recorded = Recorded()
        self.now = 100.0
        recorded: Any = self.recorded
        self.announcements = Announcements(
            PodNotices(self.reader, recorded, recorded),
            Metrics(),
            self.reader.register.waiting_group,
            clock=lambda: self.now,
        )
        node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
        self.reader.nodes.changed(msgspec.convert(node, objects.Node))

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
        self.reader.pods.changed(msgspec.convert(pod, objects.Pod))

    def look(self) -> None:
        events = self.reader.take_events()
        self.announcements.held_back(held_tasks(self.reader), len(self.reader.nodes))
        self.announcements.ready(event.group for event in events if hasattr(event, "group"))


def test_a_refused_pod_gets_its_own_event_and_a_condition() -> None:
    cluster = Cluster()
    cluster.pod("a", "g", "many")
    cluster.pod("b", "g")
    cluster.look()
    why = "label afflux.dev/group-size: 'many', expected a whole number from 1 up"
    assert ("a", "GroupRefused", why) in cluster.recorded.events
    assert cluster.recorded.condition("a") == Condition("False", "Unschedulable", why)
    # A pod that only waits for other members is not refused.
    words = "0/1 nodes are available: group default/g has 1 of 2 members; 1 refused."
    assert ("b", "FailedScheduling", words) in cluster.recorded.events


def test_a_refusal_is_announced_once() -> None:
    cluster = Cluster()
    cluster.pod("a", "g", 0)
    for _ in range(3):
        cluster.reader.register.reconsider("default", "g")
        cluster.look()
    assert len(cluster.recorded.events) == 1


def test_every_pod_of_an_unsatisfiable_group_gets_an_event() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.pod(name, "g")
    cluster.pod("solo")
    cluster.look()
    words = "0/1 nodes are available: 1 Insufficient cpu."
    reasons = dict.fromkeys(("uid-a", "uid-b", "uid-solo"), words)
    solo = "default/fluxnetes-group-default-solo/uid-solo/alone"
    unsatisfiable = {"default/g/uid-a": "needs 8 cpu", solo: "needs 9 cpu"}
    for _ in range(2):
        cluster.announcements.decided(0.1, reasons, unsatisfiable)
    recorded = [event for event in cluster.recorded.events if event[1] == "Unsatisfiable"]
    assert recorded == [
        ("a", "Unsatisfiable", "group default/g: needs 8 cpu"),
        ("b", "Unsatisfiable", "group default/g: needs 8 cpu"),
        ("solo", "Unsatisfiable", "group default/solo: needs 9 cpu"),
    ]
    assert cluster.recorded.condition("a").message == f"{words} Unsatisfiable: needs 8 cpu."
    # A single pod has kube-scheduler's text and nothing else.
    assert cluster.recorded.condition("solo") == Condition("False", "Unschedulable", words)


def test_an_unsatisfiable_group_waits_again_when_the_cluster_has_changed() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.pod(name, "g")
    cluster.look()
    reasons = dict.fromkeys(("uid-a", "uid-b"), "behind others in the queue.")
    cluster.announcements.decided(0.1, reasons, {"default/g/uid-a": "too large"})
    cluster.announcements.decided(0.1, reasons)
    assert cluster.recorded.condition("a").message == "behind others in the queue."
    # The group stayed in the queue; if it is unsatisfiable again, it is announced again.
    assert cluster.reader.register.waiting_group("default/g/uid-a") is not None
    cluster.announcements.decided(0.1, reasons, {"default/g/uid-a": "too large"})
    recorded = [event for event in cluster.recorded.events if event[:2] == ("a", "Unsatisfiable")]
    assert len(recorded) == 2


def test_an_unsatisfiable_group_that_is_gone_is_ignored() -> None:
    cluster = Cluster()
    cluster.announcements.decided(0.1, {}, {"default/gone": "too large"})
    assert not cluster.recorded.events


def test_frequent_scrapes_do_not_count_pending_pods_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    for number in range(5):
        cluster.pod(f"p{number}")
    cluster.look()
    looks = 0
    pending = cluster.reader.pending_pod

    def slowly(task: Any) -> Any:
        nonlocal looks
        looks += 1
        cluster.now += 0.1
        return pending(task)

    monkeypatch.setattr(cluster.reader, "pending_pod", slowly)
    for _ in range(100):
        cluster.announcements.count_pending()
    assert looks == 5
    cluster.now += 26.0
    cluster.announcements.count_pending()
    assert looks == 10
