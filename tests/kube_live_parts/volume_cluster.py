"""A cluster with disks in one process: the loop and its bindings, a server, controllers.

The cluster reader gets the server's contents as from a watch. A volume that is given to a claim is
bound to it a moment later, a claim for which a node was chosen gets a volume there, as the
controllers of a real cluster do it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from small_api import Object, SmallApi, serving, until

from afflux.admit.strategies import flow
from afflux.cluster.state import State
from afflux.control.adapter import HeldTask, NoticeKind
from afflux.control.loop import ControlLoop
from afflux.control.violation_announcements import ViolationAnnouncements
from afflux.cycle.loop import Cycle, Outcome
from afflux.cycle.optimiser import Optimiser
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.live.binder import BINDER_TIMES, Binder, BinderTimes
from afflux.kube.live.kubernetes_adapter import KubernetesAdapter, held_tasks
from afflux.kube.live.pod_locator import PodLocator
from afflux.kube.live.volume_binder import AVOIDANCE_SECONDS, VolumeBinder
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import ONE_QUEUE, QueueRules
from afflux.web.scheduler_metrics import Metrics
from afflux.web.watchdog import Watchdog

HOST = "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"
BOUND = "pv.kubernetes.io/bind-completed"
CORE = "/api/v1"
SPACE = "/api/v1/namespaces/default"
PATHS = {
    "Node": f"{CORE}/nodes",
    "Pod": f"{SPACE}/pods",
    "PersistentVolume": f"{CORE}/persistentvolumes",
    "PersistentVolumeClaim": f"{SPACE}/persistentvolumeclaims",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
}


def node(name: str, zone: str = "a", cpu: str = "8") -> Object:
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, "zone": zone}},
        "status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"}},
    }


def pod(name: str, *claims: str, group: str = "", size: int = 0, cpu: str = "1") -> Object:
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": str(size)} if group else {}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "schedulerName": "afflux",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            "volumes": [
                {"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims
            ],
        },
        "status": {"phase": "Pending"},
    }


def gang(name: str, size: int, **fields: Any) -> list[Object]:
    """Members, and a claim for each."""
    names = [f"{name}-{number}" for number in range(size)]
    return [
        *(claim(each) for each in names),
        *(pod(each, each, group=name, size=size, **fields) for each in names),
    ]


def claim(name: str, storage: str = "local") -> Object:
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": {}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    }


def disk(name: str, **where: str) -> Object:
    """A volume on the machine of this `host`, or for all of a `zone`."""
    (key, value), *_ = where.items()
    expression = {"key": HOST if key == "host" else key, "operator": "In", "values": [value]}
    terms = [{"matchExpressions": [expression]}]
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "capacity": {"storage": "1Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
        "status": {"phase": "Available"},
    }


def storage_class(name: str = "local", provisioner: str = "kubernetes.io/no-provisioner") -> Object:
    return {
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


class Recorded:
    """Records what would be announced."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.errors: list[str] = []
        self.rounds = 0
        self.bound_pods: list[str] = []

    def held_back(self, held: Iterable[HeldTask], machines: int) -> None:
        self.reasons.update((each.task.id, each.why) for each in held)

    def ready(self, groups: Iterable[WaitingGroup]) -> None: ...

    def placed(self, placements: Iterable[Placement]) -> None: ...

    def decided(self, seconds: float, reasons: Mapping[str, str], *_: object) -> None:
        self.rounds += 1
        self.reasons.update(reasons)

    def bound(self, placement: Placement, seconds: float) -> None:
        self.bound_pods.append(placement.task.name)

    def not_bound(self, placement: Placement, seconds: float) -> None:
        self.errors.append(placement.task.name)

    def in_doubt(self, placement: Placement, why: str) -> None: ...

    def event(self, task: Task, kind: NoticeKind, text: str) -> None: ...


class Cluster:
    """The components, to be called step by step or run in the background."""

    def __init__(
        self,
        server: SmallApi,
        api: Api,
        volume_timeout_seconds: float = 5.0,
        rules: Mapping[str, QueueRules] = ONE_QUEUE,
        binder_times: BinderTimes = BINDER_TIMES,
        avoidance_seconds: float = AVOIDANCE_SECONDS,
    ) -> None:
        self.server = server
        self.recorded = Recorded()
        self.reader = ClusterReader(["afflux"], rules)
        self.state = State()
        policies = {"afflux": [Weighted(CpuMemory())]}
        scheduler = Optimiser(self.state, [(QueueRules(), flow)], constraints(), policies)
        self.cycle = Cycle(self.state, scheduler)
        # How long this process may write, None for no limit.
        self.remaining_seconds: float | None = None
        self.api = api
        self.volume_binder = VolumeBinder(
            api,
            self.reader,
            volume_timeout_seconds,
            lambda: self.remaining_seconds,
            avoidance_seconds,
        )
        self.binder = Binder(
            api,
            self.reader,
            self.recorded,
            metrics=Metrics(),
            remaining_seconds=lambda: self.remaining_seconds,
            parallelism=8,
            timeout_seconds=5.0,
            pre_binder=self.volume_binder,
            times=binder_times,
        )
        self.metrics = Metrics()
        # Claims that no controller binds.
        self.neglected: set[str] = set()
        self._stores: dict[str, tuple[Any, type[objects.Object]]] = {
            "Node": (self.reader.nodes, objects.Node),
            "Pod": (self.reader.pods, objects.Pod),
            "PersistentVolume": (self.reader.cluster_storage.volumes, objects.PersistentVolume),
            "PersistentVolumeClaim": (
                self.reader.cluster_storage.claims,
                objects.PersistentVolumeClaim,
            ),
            "StorageClass": (self.reader.cluster_storage.classes, objects.StorageClass),
        }
        server.written = self._written

    def add(self, *manifests: Object) -> None:
        for each in manifests:
            self.server.put(f"{PATHS[each['kind']]}/{each['metadata']['name']}", each)

    def remove(self, kind: str, name: str) -> None:
        store, item = self._stores[kind]
        gone = self.server.objects.pop(f"{PATHS[kind]}/{name}")
        store.deleted(msgspec.json.decode(json.dumps(gone), type=item))

    def node_of(self, name: str) -> str | None:
        return self.server.objects[f"{PATHS['Pod']}/{name}"]["spec"].get("nodeName")

    def places(self) -> dict[str, str]:
        """The nodes of the bound pods."""
        return {name: there for name in self.pods() if (there := self.node_of(name))}

    def pods(self) -> list[str]:
        split = (path.rpartition("/") for path in self.server.objects)
        return [name for of, _, name in split if of == PATHS["Pod"]]

    # --- Step by step

    def decide(self) -> Outcome:
        """One cycle, the placements of which are assumed."""
        outcome = self.cycle.run(self.reader.take_events())
        self.recorded.held_back(held_tasks(self.reader), len(self.reader.nodes))
        self.reader.assume(outcome.placements)
        return outcome

    async def choose(self, outcome: Outcome) -> tuple[dict[str, str], dict[str, str]]:
        """The pods that got volumes, with their nodes, and why the others were rejected."""
        groups = outcome.decision.plan.placed if outcome.decision else ()
        kept, rejected = await self.volume_binder.choose(
            outcome.placements, groups, outcome.circles
        )
        for placement, why in rejected:
            self.reader.forget_assumed(placement, refusal=why.reason or None)
        return (
            {each.task.id.removeprefix("uid-"): each.machine for each in kept},
            {each.task.id.removeprefix("uid-"): why.reason for each, why in rejected},
        )

    # --- In the background

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        adapter = KubernetesAdapter(
            self.reader, self.volume_binder, self.binder, PodLocator(self.api, self.reader)
        )
        recorded: Any = self.recorded
        loop = ControlLoop(
            adapter,
            self.cycle,
            recorded,
            metrics=self.metrics,
            watchdog=Watchdog(60.0),
            violation_announcements=ViolationAnnouncements(recorded, Metrics()),
            error_pause_seconds=0.1,
        )
        parts = [asyncio.create_task(self.binder.run()), asyncio.create_task(loop.run())]
        try:
            yield
            for part in parts:
                assert not part.done(), part
        finally:
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)

    async def all_placed(self, *names: str) -> None:
        try:
            await until(lambda: self.places().keys() >= set(names))
        except TimeoutError:
            raise AssertionError(f"{self.places()}, {self.recorded.reasons}") from None

    def reason(self, name: str) -> str:
        return self.recorded.reasons.get(f"uid-{name}", "")

    # --- The server and its controllers

    def _written(self, path: str, kept: Object) -> None:
        if "/binding/" in path:
            name = path.rpartition("/")[2]
            bound = json.loads(json.dumps(self.server.objects[f"{PATHS['Pod']}/{name}"]))
            assert not bound["spec"].get("nodeName")
            bound["spec"]["nodeName"] = kept["target"]["name"]
            self.server.put(f"{PATHS['Pod']}/{name}", bound)
            return
        kind = next(kind for kind, of in PATHS.items() if path.rpartition("/")[0] == of)
        store, item = self._stores[kind]
        store.changed(msgspec.json.decode(json.dumps(kept), type=item))
        if kind == "PersistentVolume" and kept["spec"].get("claimRef"):
            self.bind_later(kept["spec"]["claimRef"]["name"], kept["metadata"]["name"])
        elif kind == "PersistentVolumeClaim" and kept["metadata"]["annotations"].get(SELECTED):
            self.bind_later(kept["metadata"]["name"], None)

    def bind_later(self, claim: str, volume: str | None) -> None:
        """Soon bind a claim to this volume, or to a new one."""
        if claim not in self.neglected:
            asyncio.get_running_loop().call_later(0.01, self._bind, claim, volume)

    def _bind(self, name: str, volume: str | None) -> None:
        path = f"{PATHS['PersistentVolumeClaim']}/{name}"
        if path not in self.server.objects:
            return
        bound = json.loads(json.dumps(self.server.objects[path]))
        if bound["spec"].get("volumeName"):
            return
        if volume is None:
            host = bound["metadata"]["annotations"][SELECTED]
            made = disk(volume := f"made-for-{name}", host=host)
            made["spec"]["claimRef"] = {
                "namespace": "default",
                "name": name,
                "uid": bound["metadata"]["uid"],
            }
            self.add(made)
        bound["spec"]["volumeName"] = volume
        bound["metadata"]["annotations"][BOUND] = "yes"
        bound["status"]["phase"] = "Bound"
        self.server.put(path, bound)


@asynccontextmanager
async def clusters(**options: Any) -> AsyncGenerator[Cluster]:
    async with serving() as server, server.api() as api:
        yield Cluster(server, api, **options)
