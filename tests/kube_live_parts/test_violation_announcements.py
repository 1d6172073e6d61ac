"""Running pods that do not meet their requirements any more: events and metrics."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from prometheus_client import generate_latest
from recorded_announcements import Recorded

from afflux.app import make_scheduler
from afflux.cluster.state import State
from afflux.config import parse_scheduler_spec
from afflux.control.violation_announcements import ViolationAnnouncements
from afflux.cycle.loop import Cycle
from afflux.kube import objects
from afflux.kube.live.pod_notices import PodNotices
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.plan.standing_violations import Violation
from afflux.web.scheduler_metrics import Metrics

REQUIRED = {"afflux.dev/required-during-execution": "true"}
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PLACED_APART = "node(s) didn't match pod anti-affinity rules"


class Cluster:
    """Nodes and running pods as a watch reports them; judging takes `judging_seconds`."""

    def __init__(self) -> None:
        self.reader = ClusterReader(["afflux"])
        state = State()
        self.cycle = Cycle(state, make_scheduler(parse_scheduler_spec("cpu-memory"), state))
        self.recorded, self.metrics = Recorded(), Metrics()
        self.now, self.judging_seconds = 100.0, 0.0
        recorded: Any = self.recorded
        self.announcements = ViolationAnnouncements(
            PodNotices(self.reader, recorded, recorded), self.metrics, clock=lambda: self.now
        )
        self.woken: list[float] = []
        self._version = 0

    def node(self, name: str, **labels: str) -> None:
        metadata = {"name": name, "labels": labels, "resourceVersion": self._next()}
        status = {"allocatable": {"cpu": "4", "pods": "9"}}
        node = {"metadata": metadata, "status": status}
        self.reader.nodes.changed(msgspec.convert(node, objects.Node))

    def pod(
        self, name: str, node: str, annotations: dict[str, str] | None = None, **spec: Any
    ) -> None:
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {"app": name},
            "annotations": annotations,
            "resourceVersion": self._next(),
        }
        spec = {"schedulerName": "afflux", "containers": [{}], "nodeName": node, **spec}
        self.reader.pods.changed(msgspec.convert({"metadata": metadata, "spec": spec}, objects.Pod))

    def ends(self, name: str) -> None:
        pod = self.reader.pods.get(f"default/{name}")
        assert pod is not None
        self.reader.pods.deleted(pod)

    def cycle_once(self) -> list[str] | None:
        """One cycle; the names of the violating pods if they have changed."""
        self.cycle.run(self.reader.take_events())

        async def judge(current: Callable[[], Sequence[Violation]]) -> Sequence[Violation]:
            self.now += self.judging_seconds
            return current()

        violations = self.cycle.violations
        found = asyncio.run(self.announcements.update(violations, judge, self.woken.append))
        return None if found is None else [each.task.name for each in found]

    def gauges(self) -> dict[str, float]:
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        found = (line for line in lines if line.startswith("afflux_violating_pods{"))
        return {line.split('"')[1]: float(line.split()[-1]) for line in found}

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


def counts(**more: float) -> dict[str, float]:
    kinds = ("node-affinity", "spread", "affinity", "anti-affinity")
    return {kind: more.get(kind.replace("-", "_"), 0.0) for kind in kinds}


def test_a_violation_is_announced_once_and_cleared_when_it_ends() -> None:
    cluster = Cluster()
    assert cluster.gauges() == counts()
    cluster.node("n", disk="ssd")
    cluster.pod("web", "n", REQUIRED, nodeSelector={"disk": "ssd"})
    cluster.pod("plain", "n", nodeSelector={"disk": "ssd"})
    assert cluster.cycle_once() is None
    cluster.node("n")
    assert cluster.cycle_once() == ["default/web"]
    event = ("web", "RequirementViolated", f"n does not meet the pod's requirements: {AFFINITY}")
    assert cluster.recorded.events == [event]
    assert cluster.gauges() == counts(node_affinity=1)
    # Another change does not repeat it.
    cluster.pod("later", "n")
    assert cluster.cycle_once() is None
    assert cluster.recorded.events == [event]
    cluster.node("n", disk="ssd")
    assert cluster.cycle_once() == []
    assert cluster.gauges() == counts()
    # The next violation is one of its own.
    cluster.node("n", disk="hdd")
    assert cluster.cycle_once() == ["default/web"]
    assert cluster.recorded.events == [event, event]
    cluster.ends("web")
    assert cluster.cycle_once() == []
    assert cluster.gauges() == counts()


def test_a_violation_for_another_reason_is_announced_again() -> None:
    cluster = Cluster()
    term = {"labelSelector": {"matchLabels": {"app": "other"}}, "topologyKey": "zone"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    cluster.node("n", zone="a")
    cluster.node("m", zone="a")
    affinity = {"podAntiAffinity": required}
    cluster.pod("web", "n", REQUIRED, nodeSelector={"zone": "a"}, affinity=affinity)
    cluster.pod("other", "m")
    assert cluster.cycle_once() == ["default/web"]
    assert cluster.gauges() == counts(anti_affinity=1)
    cluster.node("n", zone="b")
    assert cluster.cycle_once() == ["default/web"]
    assert cluster.gauges() == counts(node_affinity=1)
    notes = [note.partition(": ")[2] for _, _, note in cluster.recorded.events]
    assert notes == [PLACED_APART, AFFINITY]


def test_the_annotation_may_come_and_go_while_the_pod_runs() -> None:
    cluster = Cluster()
    cluster.node("n")
    cluster.pod("web", "n", nodeSelector={"disk": "ssd"})
    assert cluster.cycle_once() is None
    cluster.pod("web", "n", REQUIRED, nodeSelector={"disk": "ssd"})
    assert cluster.cycle_once() == ["default/web"]
    cluster.pod("web", "n", nodeSelector={"disk": "ssd"})
    assert cluster.cycle_once() == []


def test_judging_takes_a_small_share_of_the_time() -> None:
    cluster = Cluster()
    cluster.judging_seconds = 0.5
    cluster.node("n", disk="ssd")
    cluster.pod("web", "n", REQUIRED, nodeSelector={"disk": "ssd"})
    cluster.cycle_once()
    cluster.now += 4.0
    for disk in ("hdd", "old"):
        cluster.node("n", disk=disk)
        assert cluster.cycle_once() is None
    assert not cluster.recorded.events
    assert cluster.woken == [6.0]
    cluster.now += 6.0
    assert cluster.cycle_once() == ["default/web"]
    assert cluster.woken == [6.0]
