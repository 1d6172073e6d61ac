"""The mirror: what the API server says about the cluster, told to the cycle as events.

Watches fill the shelves; `drain` looks at every object that has changed since the last time and
says what that means for machines, running tasks and groups. It also knows what the watches cannot:
which pods have been assumed on a machine, and which have to wait because a binding was refused.

Pure: no clock, no network; who drains it says what time it is. Whoever owns it calls it from one
thread.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from afflux.cycle.events import Event, MachineGone, MachineSet, TaskEnded, TaskRuns
from afflux.cycle.observing import Unheard
from afflux.kube import objects
from afflux.kube.decoding import (
    Surroundings,
    created_seconds,
    deleted_seconds,
    is_finished,
    machine,
    scheduler_of,
    started_seconds,
    task,
)
from afflux.kube.grouping import Member, PodGroups, claimed_group, expected_run_seconds
from afflux.kube.images import ImageCensus
from afflux.kube.lasting import over_seconds
from afflux.kube.live.apart import Apart
from afflux.kube.live.deadlines import Deadlines
from afflux.kube.live.disks import Disks
from afflux.kube.live.gathering import Gathering
from afflux.kube.live.halves import Halves
from afflux.kube.live.queueing import KeyedQueue
from afflux.kube.live.shelves import Key, Shelf, name_of
from afflux.kube.volumes.claims import pod_references
from afflux.model.errors import InputError
from afflux.model.machine import Machine
from afflux.model.placement import Placement
from afflux.model.resources import LARGEST_AMOUNT, PODS, resources
from afflux.model.task import Shape, Task
from afflux.queue.quorum import ONE_QUEUE
from afflux.queue.rules import QueueRules

# No machine has room for more pods than this, and every pod takes one such place.
WHOLE_MACHINE = Shape(requests=resources({PODS: LARGEST_AMOUNT}))

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tracked:
    """A pod as the cycle knows it: its task, the node it is on, whether only we say so, and when it
    is expected to end there."""

    task: Task
    node: str | None = None
    assumed: bool = False
    until_seconds: float | None = None


class Mirror:
    """The objects of a cluster, for the scheduler of these names, whose queues have these rules.

    `deadlines` are told who runs, if anybody wants to know whose time is over, and `halves` which
    groups are half-bound.
    """

    def __init__(
        self,
        scheduler_names: Collection[str],
        rules: Mapping[str, QueueRules] = ONE_QUEUE,
        deadlines: Deadlines | None = None,
        halves: Halves | None = None,
    ) -> None:
        self.changes: KeyedQueue[Key] = KeyedQueue()
        self.nodes: Shelf[objects.Node] = Shelf("node", self.changes)
        self.pods: Shelf[objects.Pod] = Shelf("pod", self.changes)
        self.namespaces: Shelf[objects.Namespace] = Shelf("namespace", self.changes)
        self.member_groups: Shelf[objects.MemberGroup] = Shelf("member group", self.changes)
        self.native_groups: Shelf[objects.NativeGroup] = Shelf("native group", self.changes)
        self.disks = Disks(self.changes)
        self.gathering = Gathering(rules, self.disks.storage.shortage, halves)
        self._deadlines = deadlines
        self._rules = rules
        self._now_seconds = 0.0
        self._scheduler_names = frozenset(scheduler_names)
        self._images = ImageCensus()
        self._around = Surroundings(self._images, self._scheduler_names, self.disks.storage)
        self._machines: set[str] = set()
        self._tracked: dict[str, Tracked] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._refused: dict[str, str] = {}
        self._refusals: dict[str, int] = {}
        self._apart = Apart()
        self._events: list[Event] = []

    # --- What the scheduler does

    def assume(self, placements: Sequence[Placement]) -> None:
        """These pods have a place from now on, whatever the watch still says."""
        for placement in placements:
            name, before = placement.task.name, self._tracked.get(placement.task.name)
            if before is None or before.task.id != placement.task.id:
                self._events.append(TaskEnded(placement.task.id))
                continue
            # Also if it was deleted meanwhile: who looks at that next gives the place back.
            pod = self.pods.get(name)
            until = self._until(pod, None) if pod is not None else None
            self._track(name, Tracked(before.task, placement.machine, True, until))
            if pod is not None:
                # Its place in the queue is kept among the groups until the watch confirms it.
                self.gathering.set(_member(pod, before.task, running=True))

    def unplaced(self, placement: Placement, refusal: str | None = None) -> None:
        """A placement came to nothing. With a refusal the pod waits until it is tried again."""
        name = placement.task.name
        known = self._tracked.get(name)
        if known is not None and known.assumed and known.task.id == placement.task.id:
            self._track(name, Tracked(known.task))
            self._events.append(TaskEnded(known.task.id))
            # It has left the queue, even if nobody has noticed yet that it had been placed.
            self.gathering.tell_again(known.task.id)
            if refusal is not None:
                self._refused[name] = refusal
                self._refusals[name] = self.refusals(name) + 1
        self.changes.put(("pod", name))

    def try_again(self, name: str) -> None:
        """The time that a refused pod had to wait is over."""
        if self._refused.pop(name, None) is not None:
            self.changes.put(("pod", name))

    def is_refused(self, name: str) -> bool:
        """Whether this pod waits because a binding was refused, and for no other reason."""
        return name in self._refused

    def refusals(self, name: str) -> int:
        """How often in a row the binding of this pod was refused."""
        return self._refusals.get(name, 0)

    def pending(self, task: Task) -> objects.Pod | None:
        """The pod of this task, if it is there and has no node."""
        pod = self.pods.get(task.name)
        if pod is None or pod.metadata.uid != task.id or pod.spec.node_name:
            return None
        return pod

    def node_of(self, task: Task) -> str | None:
        """The node on which the API server says this pod is."""
        pod = self.pods.get(task.name)
        return pod.spec.node_name if pod is not None and pod.metadata.uid == task.id else None

    def read_back(self, task: Task, pod: objects.Pod | None) -> None:
        """What the API server says of this pod now, None if it is gone: the watch may be behind.

        Without that a pod that waits no longer would be placed, and refused, again and again.
        """
        known = self.pods.get(task.name)
        if known is None or known.metadata.uid != task.id:
            return
        if pod is None:
            self.pods.deleted(known)
        else:
            self.pods.changed(pod)

    def tell_again(self, unheard: Iterable[Unheard]) -> None:
        """The cycle has forgotten these: when they are next looked at, it is told everything."""
        for each in unheard:
            if each.what == "machine":
                self._machines.discard(each.name)
                self._images.remove(each.name)
            elif (group := self.gathering.waiting(each.name)) is not None:
                self.gathering.tell_again(group.tasks[0].id)

    # --- What the watches say

    def drain(self, now_seconds: float = 0.0) -> list[Event]:
        """What has happened since the last time."""
        self._now_seconds = now_seconds
        taken = self.changes.take()
        try:
            return self._look_at(taken)
        except Exception:
            # Nothing is forgotten: to look twice does no harm.
            for key in taken:
                self.changes.put(key)
            raise

    def _look_at(self, keys: Iterable[Key]) -> list[Event]:
        changed: dict[str, list[str]] = {}
        for kind, name in keys:
            changed.setdefault(kind, []).append(name)
        self._look_at_groups(changed)
        by_disks = self.disks.look_again(changed)
        for name in dict.fromkeys((*changed.get("node", ()), *changed.get("CSI node", ()))):
            self._look_at_node(name)
        if "namespace" in changed:
            self._apart.namespaces_changed()
        waiting = dict.fromkeys((*changed.get("pod", ()), *by_disks))
        # Who is gone leaves before anybody joins: a group of which nobody is left is finished, and
        # those who come under its name are another one.
        for name in list(waiting):
            waiting.update(dict.fromkeys(self._depart(name)))
        while waiting:
            # All at once: taking the first of a hundred thousand is slow when many were taken.
            names, waiting = waiting, dict[str, None]()
            for name in names:
                waiting.update(dict.fromkeys(self._look_at_pod(name)))
        if self._apart.is_stale:
            self._look_at_all_who_wait()
        for name in self.disks.take_touched_nodes():
            self._look_at_node(name)
        events = self._events + self.gathering.drain(self._now_seconds)
        self._events = []
        return events

    def _look_at_groups(self, changed: dict[str, list[str]]) -> None:
        names = changed.get("member group", []) + changed.get("native group", [])
        if names:
            self.gathering.pod_groups = PodGroups(
                {name_of(group): group for group in self.member_groups},
                {name_of(group): group for group in self.native_groups},
            )
        for name in names:
            self.gathering.touch(name)

    def _look_at_node(self, name: str) -> None:
        node = self.nodes.get(name)
        found = self._usable(node) if node is not None else None
        if node is None or found is None:
            self.disks.remove_node(name)
            self._apart.machine(name, None)
            if name in self._machines:
                self._machines.remove(name)
                self._images.remove(name)
                self._events.append(MachineGone(name))
            return
        self._events.append(MachineSet(found))
        self._images.set(found)
        self._apart.machine(name, node.metadata.labels or {})
        if name not in self._machines:
            self._machines.add(name)
            for pod in self._on_node.get(name, ()):
                tracked = self._tracked[pod]
                self._events.append(TaskRuns(tracked.task, name, tracked.until_seconds))

    def _usable(self, node: objects.Node) -> Machine | None:
        """The machine; None if it makes no sense, which is as good as none."""
        name = node.metadata.name or ""
        try:
            self.disks.set_node(node)
            return machine(node, self.disks.csi_nodes.get(name), self.disks.volumes_on(node))
        except Exception as error:
            _log.error("node %s cannot be used: %s", name, _complaint(error, "node", name))
            return None

    def _look_at_pod(self, name: str) -> list[str]:
        """Look at one pod; the names of others that have to be looked at because of it."""
        concerned = self._depart(name)
        pod, known = self._alive(name), self._tracked.get(name)
        if pod is None:
            return concerned
        if pod.spec.node_name:
            concerned += self.disks.set_pod(name, pod)
            self._runs(name, pod, pod.spec.node_name, known)
        elif known is not None and known.assumed:
            # The watch is behind what we know; whether the binding succeeds decides.
            pass
        elif pod.metadata.deletion_timestamp or not self.is_ours(pod):
            if known is not None:
                concerned += self._leave(name)
        else:
            concerned += self.disks.set_pod(name, pod)
            self._waits(name, pod)
        return concerned

    def _depart(self, name: str) -> list[str]:
        """If the pod we knew is gone it leaves; the names of others this concerns."""
        known, pod = self._tracked.get(name), self._alive(name)
        if known is None or (pod is not None and pod.metadata.uid == known.task.id):
            return []
        return self._leave(name)

    def _alive(self, name: str) -> objects.Pod | None:
        """The pod of this name, None if it has ended."""
        pod = self.pods.get(name)
        return None if pod is None or is_finished(pod) else pod

    def _runs(self, name: str, pod: objects.Pod, node: str, known: Tracked | None) -> None:
        try:
            found = task(pod, self._around)
        except Exception as error:
            why = _complaint(error, "pod", name)
            _log.error("pod %s cannot be counted, so %s counts as full: %s", name, node, why)
            found = Task(pod.metadata.uid or name, name, WHOLE_MACHINE)
        now = Tracked(found, node, until_seconds=self._until(pod, known))
        if known != now:
            if known is None or replace(known, assumed=False) != now:
                self._events.append(TaskRuns(found, node, now.until_seconds))
            self._track(name, now)
        self._apart.runs(name, pod)
        self._clear_refusals(name)
        self._join(pod, found, running=True)
        if self._deadlines is None:
            return
        if self.is_ours(pod) and not pod.metadata.deletion_timestamp:
            self._deadlines.runs(pod, over_seconds(pod), self._now_seconds)
        else:
            self._deadlines.left(found.id, self._now_seconds)

    def _until(self, pod: objects.Pod, known: Tracked | None) -> float | None:
        """When a pod that has a node is expected to end. Until its start is known we count from
        when we first saw it there."""
        deleted = deleted_seconds(pod)
        if deleted is not None:
            # Whatever it said, it takes until then to stop: neither an overrun nor without end.
            return deleted
        seconds = expected_run_seconds(pod, self._rules if self.is_ours(pod) else {})
        if seconds is None:
            return None
        started = started_seconds(pod)
        if started is not None:
            return started + seconds
        if known is not None and known.node and known.until_seconds is not None:
            return known.until_seconds
        return self._now_seconds + seconds

    def _waits(self, name: str, pod: objects.Pod) -> None:
        found = self._pending_task(name, pod)
        self._track(name, Tracked(found))
        self._join(pod, found, running=False)
        if not found.blocked and pod_references(pod) and (group := claimed_group(pod)):
            # There may be enough volumes for all of them now, or too few.
            self.gathering.touch(group)

    def _pending_task(self, name: str, pod: objects.Pod) -> Task:
        try:
            found = task(pod, self._around)
        except Exception as error:
            shape, why = Shape(requests=resources({})), _complaint(error, "pod", name)
            return Task(pod.metadata.uid or name, name, shape, blocked=why)
        if not found.blocked and (why := self._refused.get(name)):
            found = replace(found, blocked=why)
        return self._apart.kept(found, pod)

    def _join(self, pod: objects.Pod, found: Task, *, running: bool) -> None:
        """Tell the groups; a running pod that names none is of no interest to them."""
        if running and (claimed_group(pod) is None or pod.metadata.deletion_timestamp):
            self.gathering.remove(found.id)
            return
        self.gathering.set(_member(pod, found, running=running))

    def _leave(self, name: str) -> list[str]:
        """The pod is over, or no business of ours; the names of others this concerns."""
        known = self._tracked[name]
        self._track(name, None)
        self._clear_refusals(name)
        self._apart.left(name)
        self.gathering.remove(known.task.id)
        if self._deadlines is not None:
            self._deadlines.left(known.task.id, self._now_seconds)
        if known.node is not None:
            self._events.append(TaskEnded(known.task.id))
        return self.disks.remove_pod(known.task.id)

    def _clear_refusals(self, name: str) -> None:
        self._refused.pop(name, None)
        self._refusals.pop(name, None)

    def _track(self, name: str, now: Tracked | None) -> None:
        before = self._tracked.pop(name, None)
        if before is not None and before.node is not None:
            there = self._on_node[before.node]
            del there[name]
            if not there:
                del self._on_node[before.node]
        if now is not None:
            self._tracked[name] = now
            if now.node is not None:
                self._on_node.setdefault(now.node, {})[name] = None

    def _look_at_all_who_wait(self) -> None:
        """Running pods that keep others away came or went, or the machines they are on."""
        self._apart.renew(
            {name_of(space): space.metadata.labels or {} for space in self.namespaces}
        )
        for name, known in list(self._tracked.items()):
            if known.node is None:
                self._look_at_pod(name)

    def is_ours(self, pod: objects.Pod) -> bool:
        """Whether the pod asks for a scheduler of ours."""
        return scheduler_of(pod) in self._scheduler_names


def _complaint(error: Exception, kind: str, name: str) -> str:
    """What is wrong with an object; if it is rather with us, the log says more."""
    if isinstance(error, InputError):
        return str(error)
    _log.error("%s %s could not be looked at", kind, name, exc_info=error)
    return f"an error of the scheduler ({type(error).__name__}), of which its log says more"


def _member(pod: objects.Pod, found: Task, *, running: bool) -> Member:
    return Member(
        task=found,
        pod=pod,
        running=running,
        priority=pod.spec.priority or 0,
        created_seconds=created_seconds(pod),
    )
