"""Scheduler, IO driver and API server in any order of writes, deliveries and restarts: disks are
never promised twice, and once everything is acknowledged nothing is deducted twice."""

import json
from dataclasses import dataclass, field
from typing import Any

from disk_objects import read_info
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from afflux.cluster.state import State
from afflux.cycle.events import DisksReported
from afflux.kube import objects
from afflux.kube.disks.disk_devices import reserved_disks
from afflux.kube.disks.disk_requests import DiskCounting
from afflux.kube.disks.reserved_pods import ReservedPods
from afflux.kube.reader.cluster_disks import ClusterDisks, DiskOptions
from afflux.kube.reader.object_store import Key
from afflux.kube.reader.work_queue import WorkQueue
from afflux.kube.volumes.storage import Storage
from afflux.model.disks import DiskReport, DiskRequest, VolumeIO
from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.task import Shape, Task

NODE = "n1"
DISKS = ("a", "b")
CAPACITY = 100
MACHINE = Machine(NODE, resources({"cpu": 1000, "pods": 100}))
OPTIONS = DiskOptions(DiskCounting(None))


@dataclass
class Pod:
    """What a pod takes of the disk that it was given; `is_bound` as the API server knows it."""

    task: Task
    disk: str
    takes: int
    is_bound: bool = False


@dataclass
class Server:
    """The object of the node at the API server."""

    info: objects.NodeDiskIOInfo = field(
        default_factory=lambda: read_info(
            {
                "metadata": {
                    "name": NODE,
                    "namespace": "d",
                    "uid": "u",
                    "generation": 1,
                    "resourceVersion": "1",
                },
                "spec": {"nodeName": NODE},
            }
        )
    )

    def write(self, spec: Any, annotations: dict[str, str], status: Any = None) -> None:
        """A write raises the version if it changes anything, the generation if the spec changes."""
        metadata = self.info.metadata
        merged = (metadata.annotations or {}) | annotations
        status = self.info.status if status is None else status
        if (spec, status, merged) == (self.info.spec, self.info.status, metadata.annotations or {}):
            return
        generation = (metadata.generation or 0) + (spec != self.info.spec)
        version = str(int(metadata.resource_version or "0") + 1)
        self.info = objects.NodeDiskIOInfo(
            metadata=objects.Metadata(
                name=NODE,
                namespace="d",
                uid="u",
                generation=generation,
                resource_version=version,
                annotations=merged,
            ),
            spec=spec,
            status=status,
        )

    def reserve(self, seen: objects.NodeDiskIOInfo, write: ReservedPods) -> bool:
        """The scheduler's patch, made from the version that it has seen; False for a conflict."""
        if seen.metadata.resource_version != self.info.metadata.resource_version:
            return False
        patch: Any = json.loads(json.dumps(write.patch(seen)))
        spec = objects.NodeDiskIOInfoSpec(NODE, tuple(patch["spec"]["reservedPods"]))
        self.write(spec, patch["metadata"]["annotations"])
        return True


class Scheduler:
    """The reader's part, and the state of a cluster, which keeps the account."""

    def __init__(self) -> None:
        self.changes = WorkQueue[Key]()
        self.disks = ClusterDisks(self.changes, Storage(), OPTIONS)
        self.report: DiskReport | None = None
        self.state = State([MACHINE])

    def see(self, info: objects.NodeDiskIOInfo) -> None:
        self.disks.infos.changed(info)
        self.sync()

    def sync(self) -> None:
        names = [name for _, name in self.changes.take()]
        events = self.disks.sync({self.disks.infos.kind: names}, 0.0)
        for event in [*events, *self.disks.finish(0.0)]:
            if isinstance(event, DisksReported):
                self.report = event.report
                self.state.set_disks(event.report)

    def track(self, pod: Pod) -> None:
        self.state.place(pod.task, NODE, disks=(pod.disk,))
        self.disks.track(pod.task, NODE, (pod.disk,), assumed=not pod.is_bound)

    def end(self, pod: Pod) -> None:
        self.state.remove(pod.task.id)
        self.disks.untrack(pod.task, NODE)

    def room(self, disk: str) -> int:
        """What the account has left of a disk."""
        if self.report is None:
            return 0
        index = [each.id for each in self.report.disks].index(disk)
        return int(self.state.view().disks.left[0, index, 2])

    def settle(self, server: Server) -> bool:
        """One write of what the object lacks, as far as it is seen; whether it was accepted."""
        found = self.disks.next_write(NODE)
        if found is None or not server.reserve(*found):
            return False
        self.see(server.info)
        return True


class Generations(RuleBasedStateMachine):
    """`server` is what is stored; scheduler and driver see it when it is delivered to them."""

    @initialize()
    def begin(self) -> None:
        self.server = Server()
        self.scheduler = Scheduler()
        self.driver_sees = self.server.info
        # All pods that exist and have a disk, bound or assumed.
        self.pods: dict[str, Pod] = {}
        # Decided and not reserved yet, reserved and not bound yet.
        self.decided: list[str] = []
        self.reserved: list[str] = []
        self.born = 0
        # By uid the last disk of a pod and what it takes there, also after it has ended: a driver
        # deducts it as long as it is in the list. And the pods that wait after a failed bind.
        self.charges: dict[str, tuple[str, int]] = {}
        self.waiting: list[str] = []
        self.driver_reports()
        self.deliver()

    # --- The scheduler

    @rule(disk=st.sampled_from(DISKS), share=st.sampled_from([0.4, 1.0]))
    def place(self, disk: str, share: float) -> None:
        """A pod takes a share of the room that the scheduler believes in."""
        self.scheduler.sync()
        takes = int(self.scheduler.room(disk) * share)
        if takes > 0:
            self.born += 1
            self.decide(f"u{self.born}", disk, takes)

    @precondition(lambda self: self.waiting)
    @rule(disk=st.sampled_from(DISKS))
    def place_again(self, disk: str) -> None:
        """A pod whose bind has failed takes the same, on any disk that has it."""
        self.scheduler.sync()
        uid = self.waiting[0]
        if (takes := self.charges[uid][1]) <= self.scheduler.room(disk):
            self.waiting.remove(uid)
            self.decide(uid, disk, takes)

    def decide(self, uid: str, disk: str, takes: int) -> None:
        request = DiskRequest((VolumeIO(takes, 0),))
        pod = Pod(Task(uid, f"d/{uid}", Shape((), disks=request)), disk, takes)
        self.charges[uid] = disk, takes
        self.pods[uid] = pod
        self.scheduler.track(pod)
        self.decided.append(uid)

    @precondition(lambda self: self.decided)
    @rule(reads_again=st.booleans())
    def reserve(self, reads_again: bool) -> None:
        if reads_again:
            self.scheduler.see(self.server.info)
        self.scheduler.sync()
        while self.scheduler.settle(self.server):
            pass
        for uid in list(self.decided):
            if self.scheduler.disks.is_reserved(NODE, uid):
                self.decided.remove(uid)
                self.reserved.append(uid)

    @precondition(lambda self: self.reserved)
    @rule()
    def bind(self) -> None:
        uid = self.reserved.pop()
        self.pods[uid].is_bound = True
        self.scheduler.track(self.pods[uid])

    @precondition(lambda self: self.reserved or self.decided)
    @rule()
    def fail_to_bind(self) -> None:
        uid = (self.reserved or self.decided).pop()
        self.scheduler.end(self.pods[uid])
        self.scheduler.disks.not_bound(uid, NODE)
        del self.pods[uid]
        self.waiting.append(uid)

    @precondition(lambda self: self.reserved or self.decided)
    @rule(disk=st.sampled_from(DISKS))
    def fail_to_bind_and_move(self, disk: str) -> None:
        self.fail_to_bind()
        self.place_again(disk)

    @precondition(lambda self: any(pod.is_bound for pod in self.pods.values()))
    @rule(number=st.integers(0, 5))
    def end(self, number: int) -> None:
        bound = [uid for uid, pod in self.pods.items() if pod.is_bound]
        uid = bound[number % len(bound)]
        self.scheduler.end(self.pods[uid])
        del self.pods[uid]

    @rule()
    def write_in_the_background(self) -> None:
        self.scheduler.settle(self.server)

    @rule()
    def deliver(self) -> None:
        self.scheduler.see(self.server.info)

    @rule()
    def restart_scheduler(self) -> None:
        """A new leader knows the objects, and the pods that are bound."""
        self.waiting += [uid for uid, pod in self.pods.items() if not pod.is_bound]
        self.decided, self.reserved = [], []
        self.pods = {uid: pod for uid, pod in self.pods.items() if pod.is_bound}
        self.scheduler = Scheduler()
        self.scheduler.see(self.server.info)
        for pod in self.pods.values():
            self.scheduler.track(pod)
        self.scheduler.sync()

    # --- The driver

    @rule()
    def deliver_to_driver(self) -> None:
        self.driver_sees = self.server.info

    @rule(measured=st.sampled_from([0, 0, 10]))
    def driver_reports(self, measured: int = 0) -> None:
        """What the reserved pods leave, each by its request, less what some do beyond it."""
        seen = self.driver_sees
        noted = reserved_disks(seen.metadata.annotations)
        left = dict.fromkeys(DISKS, CAPACITY - measured)
        for uid in seen.spec.reserved_pods or ():
            if uid in self.charges:
                disk, takes = self.charges[uid]
                (disk,) = noted.get(uid, (disk,))
                left[disk] -= takes
        status = objects.NodeDiskIOInfoStatus(
            seen.metadata.generation,
            {
                disk: objects.DeviceBandwidth(
                    status=objects.BlockIO(*(float(max(amount, 0)) for _ in range(3)))
                )
                for disk, amount in left.items()
            },
        )
        self.server.write(self.server.info.spec, {}, status)

    @rule(disk=st.sampled_from(DISKS))
    def place_and_reserve(self, disk: str) -> None:
        self.place(disk, 1.0)
        if self.decided:
            self.reserve(reads_again=True)

    @rule()
    def the_driver_answers_at_once(self) -> None:
        self.deliver_to_driver()
        self.driver_reports()
        self.deliver()

    @rule(disk=st.sampled_from(DISKS), other=st.sampled_from(DISKS))
    def a_bind_fails_after_the_driver_has_answered(self, disk: str, other: str) -> None:
        """The pod is placed again, perhaps on another disk, where the rest of the room is taken."""
        self.place_and_reserve(disk)
        self.the_driver_answers_at_once()
        if self.reserved:
            self.fail_to_bind_and_move(other)
        if self.decided:
            self.reserve(reads_again=False)
        self.place(other, 1.0)

    # --- Others

    @rule(junk=st.sampled_from(["stranger", "other"]), removes=st.booleans())
    def somebody_else_writes(self, junk: str, removes: bool) -> None:
        now = self.server.info.spec.reserved_pods or ()
        pods = tuple(uid for uid in now if uid != junk) if removes else (*now, junk)
        self.server.write(replace_pods(self.server.info.spec, pods), {"other": junk})

    # --- What must hold

    @invariant()
    def no_disk_is_promised_twice(self) -> None:
        for disk in DISKS:
            taken = sum(pod.takes for pod in self.pods.values() if pod.disk == disk)
            assert taken <= CAPACITY

    @rule()
    def everything_settles(self) -> None:
        """When all writes and deliveries are done, the room is exactly what the pods leave."""
        for _ in range(4):
            self.deliver()
            while self.scheduler.settle(self.server):
                pass
            self.deliver_to_driver()
            self.driver_reports()
        self.deliver()
        wanted = {u for u, pod in self.pods.items()}
        assert set(self.server.info.spec.reserved_pods or ()) == wanted
        noted = reserved_disks(self.server.info.metadata.annotations)
        assert noted == {uid: (pod.disk,) for uid, pod in self.pods.items()}
        report = self.scheduler.report
        assert report is not None
        assert report.acknowledged == wanted
        for disk in DISKS:
            taken = sum(pod.takes for pod in self.pods.values() if pod.disk == disk)
            assert self.scheduler.room(disk) == CAPACITY - taken


def replace_pods(
    spec: objects.NodeDiskIOInfoSpec, pods: tuple[str, ...]
) -> objects.NodeDiskIOInfoSpec:
    return objects.NodeDiskIOInfoSpec(spec.node_name, pods)


TestGenerations = Generations.TestCase
TestGenerations.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
