"""ClusterReader: turns changed objects into events for the scheduling cycle.

Watches, or files, fill the stores. `take_events` looks at every object that has changed since the
last call, reports pods to the register of groups, and returns what this means for machines, running
tasks and what may start. The reader also knows which pods are assumed on a machine, and which wait
after a refused bind.

Pure: no clock, no network; the caller passes the time. Not thread-safe: call it from one thread.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from afflux.cycle.event_intake import ResyncRequest
from afflux.cycle.events import (
    Event,
    EvictionFailed,
    GroupReady,
    GroupWithdrawn,
    MachineGone,
    MachineSet,
    NamespaceSet,
    TaskEnded,
    TaskNominated,
    TaskRuns,
)
from afflux.groups.entries import MemberEntry
from afflux.groups.half_bound import HalfBoundGroups
from afflux.groups.quorum import BUILT_IN, QuorumRule
from afflux.groups.register import GroupRegister
from afflux.kube import objects
from afflux.kube.cluster_relations import ClusterRelations, namespace_labels
from afflux.kube.group_claims import (
    NO_POD_GROUPS,
    PodGroups,
    claimed_group,
    expected_run_seconds,
    member,
)
from afflux.kube.group_deadlines import GroupDeadlines
from afflux.kube.images import ImageCensus
from afflux.kube.nodes import machine
from afflux.kube.pods import (
    PodContext,
    deleted_seconds,
    is_finished,
    namespace,
    scheduler_of,
    started_seconds,
    task,
)
from afflux.kube.reader.cluster_disks import ClusterDisks, DiskOptions
from afflux.kube.reader.cluster_storage import ClusterStorage
from afflux.kube.reader.ended_pods import EndedPods
from afflux.kube.reader.evictable_pods import EvictablePods
from afflux.kube.reader.invalid_objects import OnInvalid, log_invalid
from afflux.kube.reader.object_store import Key, ObjectStore, name_of
from afflux.kube.reader.work_queue import WorkQueue
from afflux.kube.run_time import deadline_ends_seconds
from afflux.kube.tenant_limits import TenantLimits, demand_of
from afflux.kube.volumes.claims import claim_references
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.machine import Machine
from afflux.model.placement import Placement
from afflux.model.relations import Labels
from afflux.model.resources import MAX_AMOUNT, PODS, resources
from afflux.model.task import Shape, Task
from afflux.queue.rules import ONE_QUEUE, QueueRules

# A pod that cannot be read takes all pod slots of its node: no node has more than this.
WHOLE_MACHINE = Shape(requests=resources({PODS: MAX_AMOUNT}))
# A namespace that is gone has no labels.
NO_NAMESPACE_LABELS: Labels = {}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrackedPod:
    """A pod as it was reported to the cycle: its task, its node, and when it is expected to end.

    `assumed`: the node is our decision, which no watch has confirmed yet. `disks` are the ids of
    the disks that its disk request takes, empty if they are not known.
    """

    task: Task
    node: str | None = None
    assumed: bool = False
    until_seconds: float | None = None
    terms: EvictionTerms | None = None
    disks: tuple[str, ...] = ()


class ClusterReader:
    """The objects of a cluster, for a scheduler with these names and queues.

    If `deadlines` is given, running pods are reported to it; if `half_bound` is given, half-bound
    groups. `relations` has the default constraints; the reader adds Services and controllers.
    With `takes_all_pending` the waiting pods of every scheduler are ours, under one profile. With
    `evicts` our running pods may be evicted, and the disruption budgets are read. With `disks` disk
    bandwidth counts. `on_invalid` is called for an object that cannot be used, and returns the
    words for it.
    """

    def __init__(
        self,
        scheduler_names: Collection[str],
        rules: Mapping[str, QueueRules] = ONE_QUEUE,
        deadlines: GroupDeadlines | None = None,
        half_bound: HalfBoundGroups | None = None,
        relations: ClusterRelations | None = None,
        *,
        quorum_rules: Mapping[str, QuorumRule] = BUILT_IN,
        takes_all_pending: bool = False,
        evicts: bool = False,
        on_invalid: OnInvalid = log_invalid,
        disks: DiskOptions | None = None,
    ) -> None:
        self.changes: WorkQueue[Key] = WorkQueue()
        self.nodes = ObjectStore[objects.Node]("node", self.changes)
        # Without the pods that have ended.
        self.pods = ObjectStore[objects.Pod]("pod", self.changes, is_over=is_finished)
        self.ended_pods = EndedPods(self.is_ours)
        self.pods.on_departure = self.ended_pods.departed
        self.namespaces = ObjectStore[objects.Namespace]("namespace", self.changes)
        self.member_groups = ObjectStore[objects.CoschedulingPodGroup]("member group", self.changes)
        self.native_groups = ObjectStore[objects.NativePodGroup]("native group", self.changes)
        spec = attrgetter("spec")
        self.services = ObjectStore[objects.Service]("service", self.changes, spec)
        self.replication_controllers = ObjectStore[objects.ReplicationController](
            "replication controller", self.changes, spec
        )
        self.replica_sets = ObjectStore[objects.ReplicaSet]("replica set", self.changes, spec)
        self.stateful_sets = ObjectStore[objects.StatefulSet]("stateful set", self.changes, spec)
        self._selecting_stores: tuple[
            tuple[type[objects.SelectingObject], ObjectStore[Any]], ...
        ] = (
            (objects.Service, self.services),
            (objects.ReplicationController, self.replication_controllers),
            (objects.ReplicaSet, self.replica_sets),
            (objects.StatefulSet, self.stateful_sets),
        )
        self._evictable = EvictablePods(self.changes) if evicts else None
        self.cluster_storage = ClusterStorage(self.changes, on_invalid)
        storage = self.cluster_storage.storage
        self._storage = storage
        self.cluster_disks = ClusterDisks(self.changes, storage, disks)
        self._pod_groups = NO_POD_GROUPS
        self.register = GroupRegister(
            rules, quorum_rules, self._volume_shortfall, half_bound=half_bound
        )
        self._deadlines = deadlines
        self._rules = rules
        self._now_seconds = 0.0
        self._scheduler_names = frozenset(scheduler_names)
        self._takes_all_pending = takes_all_pending
        self._on_invalid = on_invalid
        self._images = ImageCensus()
        self._relations = ClusterRelations() if relations is None else relations
        profiles = frozenset[str]() if takes_all_pending else self._scheduler_names
        counting = self.cluster_disks.counting
        self._pod_context = PodContext(self._images, profiles, storage, self._relations, counting)
        # All stores, by the type of their objects.
        self.stores: dict[type[objects.Object], ObjectStore[Any]] = {
            objects.Node: self.nodes,
            objects.Pod: self.pods,
            objects.Namespace: self.namespaces,
            objects.CoschedulingPodGroup: self.member_groups,
            objects.NativePodGroup: self.native_groups,
            **dict(self._selecting_stores),
            **self.cluster_storage.stores,
            objects.NodeDiskIOInfo: self.cluster_disks.infos,
        }
        if self._evictable is not None:
            self.stores[objects.PodDisruptionBudget] = self._evictable.budgets
        self._machines: set[str] = set()
        self._tracked: dict[str, TrackedPod] = {}
        self._pods_on_node: dict[str, dict[str, None]] = {}
        # By pod name: why its bind was refused, and how often in a row.
        self._refusal_reasons: dict[str, str] = {}
        self._refusal_counts: dict[str, int] = {}
        # Of waiting pods by name.
        self._limits = TenantLimits()
        self._events: list[Event] = []

    # --- Calls of the scheduler

    def assume(self, placements: Sequence[Placement]) -> None:
        """Count these pods on their machines before a watch confirms it."""
        for placement in placements:
            name, before = placement.task.name, self._tracked.get(placement.task.name)
            if before is None or before.task.id != placement.task.id:
                self._events.append(TaskEnded(placement.task.id))
                continue
            # Also if the pod was deleted meanwhile: the next `take_events` removes it.
            pod = self.pods.get(name)
            until = self._expected_end(pod, None) if pod is not None else None
            disks = self.cluster_disks.nodes.disk_ids(placement)
            self._track(name, TrackedPod(before.task, placement.machine, True, until, disks=disks))
            self.register.sent(placement.task.id, placement.machine)

    def forget_assumed(
        self, placement: Placement, why: str = "", *, refusal: str | None = None
    ) -> None:
        """The pod was not bound, and why. With a refusal it waits until `retry` is called."""
        name = placement.task.name
        known = self._tracked.get(name)
        if known is not None and known.assumed and known.task.id == placement.task.id:
            self._track(name, TrackedPod(known.task))
            self.cluster_disks.not_bound(known.task.id, placement.machine)
            self._events.append(TaskEnded(known.task.id))
            # The cycle has removed its group from the queue.
            self.register.not_bound(known.task.id, why)
            if refusal is not None:
                self._refusal_reasons[name] = refusal
                self._refusal_counts[name] = self.bind_refusals(name) + 1
        self.changes.put(("pod", name))

    def eviction_failed(self, task_id: str) -> None:
        """A pod that was to be evicted stays."""
        self._events.append(EvictionFailed(task_id))
        self.changes.put(("cycle", ""))

    def is_assumed(self, name: str) -> bool:
        """Whether the pod counts on a node to which no watch has said that it is bound."""
        known = self._tracked.get(name)
        return known is not None and known.assumed

    def retry(self, name: str) -> None:
        """A pod whose bind was refused may be placed again."""
        if self._refusal_reasons.pop(name, None) is not None:
            self.changes.put(("pod", name))

    def is_bind_refused(self, name: str) -> bool:
        """Whether this pod waits only because its bind was refused."""
        return name in self._refusal_reasons

    def bind_refusals(self, name: str) -> int:
        """How often in a row the bind of this pod was refused."""
        return self._refusal_counts.get(name, 0)

    def pending_pod(self, task: Task) -> objects.Pod | None:
        """The pod of this task, if it exists and has no node."""
        pod = self.pods.get(task.name)
        if pod is None or pod.metadata.uid != task.id or pod.spec.node_name:
            return None
        return pod

    def node_of(self, task: Task) -> str | None:
        """The node of this pod according to the API server."""
        pod = self.pods.get(task.name)
        return pod.spec.node_name if pod is not None and pod.metadata.uid == task.id else None

    def set_observed(self, uid: str, name: str, pod: objects.Pod | None) -> None:
        """The pod was read from the API server, None if it is gone: the watch may be behind.
        Otherwise a pod that does not wait any more would be placed and refused again and again."""
        known = self.pods.get(name)
        if known is None or known.metadata.uid != uid:
            return
        if pod is None:
            self.pods.deleted(known)
        else:
            self.pods.changed(pod)

    def resync(self, requests: Iterable[ResyncRequest]) -> None:
        """Report these machines and groups again in full: the cycle has forgotten them."""
        for each in requests:
            if each.kind == "machine":
                self._machines.discard(each.name)
                self._images.remove(each.name)
                self.cluster_disks.forget_machine(each.name)
            elif (group := self.register.waiting_group(each.name)) is not None:
                self.register.report_again(group.tasks[0].id)

    # --- Changes from the watches

    def take_events(self, now_seconds: float = 0.0) -> list[Event]:
        """The events since the last call."""
        self._now_seconds = now_seconds
        for end in self.ended_pods.take(now_seconds):
            self.register.ended(end.task_id, end.how, end.at_seconds)
        self.register.confirm_restored(self.is_live, now_seconds)
        taken = self.changes.take()
        try:
            return self._sync(taken)
        except Exception:
            # All keys are looked at again: doing that twice is harmless.
            for key in taken:
                self.changes.put(key)
            raise

    def is_live(self, member: MemberEntry) -> bool:
        """Whether the pod of this uid and name is reported to the register: it exists, has not
        ended, and runs or may start."""
        pod = self.pods.get(member.name)
        if pod is None or pod.metadata.uid != member.uid:
            return False
        return bool(pod.spec.node_name) or self._may_start(pod)

    def _may_start(self, pod: objects.Pod) -> bool:
        """Whether a pod without a node is ours to place."""
        is_ours = self._takes_all_pending or self.is_ours(pod)
        return is_ours and not pod.metadata.deletion_timestamp

    def _sync(self, keys: Iterable[Key]) -> list[Event]:
        changed: dict[str, list[str]] = {}
        for kind, name in keys:
            changed.setdefault(kind, []).append(name)
        pods_of_groups = self._sync_groups(changed)
        self._sync_relations(changed)
        pods_of_volumes = self.cluster_storage.sync(changed)
        self._events += self.cluster_disks.sync(changed, self._now_seconds)
        for name in dict.fromkeys((*changed.get("node", ()), *changed.get("CSI node", ()))):
            self._sync_node(name)
        waiting = dict.fromkeys((*changed.get("pod", ()), *pods_of_volumes, *pods_of_groups))
        # Nearly always none: their default constraints may have changed.
        waiting.update(dict.fromkeys(self._relations.take_stale()))
        waiting.update(dict.fromkeys(self._sync_budgets(changed)))
        # Remove all pods that are gone before adding any: a group without pods is finished, and
        # new pods of the same name belong to another group.
        for name in list(waiting):
            waiting.update(dict.fromkeys(self._remove_if_gone(name)))
        while waiting:
            # Take all keys at once: popping the first key of a large dict is slow after many pops.
            names, waiting = waiting, dict[str, None]()
            for name in names:
                waiting.update(dict.fromkeys(self._sync_pod(name)))
            waiting.update(dict.fromkeys(self._limits.take_admissible()))
        for name in self.cluster_storage.take_changed_nodes():
            self._sync_node(name)
        self._events += self.cluster_disks.finish(self._now_seconds)
        withdrawn, ready = self.register.take_starts(self._now_seconds)
        if self._evictable is not None:
            self._events += self._evictable.take_allowed(list(self.pods))
        events, self._events = self._events, []
        # Withdrawals first: what takes the place of a group may be ready.
        return [*events, *map(GroupWithdrawn, withdrawn), *map(GroupReady, ready)]

    def _sync_groups(self, changed: dict[str, list[str]]) -> list[str]:
        """Returns the names of the pods whose PodGroup has changed."""
        names = changed.get("member group", []) + changed.get("native group", [])
        if not names:
            return []
        self._pod_groups = PodGroups(
            {name_of(group): group for group in self.member_groups},
            {name_of(group): group for group in self.native_groups},
        )
        return [pod for name in names for pod in self.register.present(*name.split("/", 1))]

    def _sync_relations(self, changed: dict[str, list[str]]) -> None:
        for name in changed.get("namespace", ()):
            found = self.namespaces.get(name)
            labels = None if found is None else namespace_labels(name, found)
            self._events.append(NamespaceSet(name, labels or NO_NAMESPACE_LABELS))
        for kind, store in self._selecting_stores:
            for name in changed.get(store.kind, ()):
                selecting = store.get(name)
                if selecting is not None:
                    self._relations.set(selecting)
                else:
                    self._relations.remove(kind, name)

    def _sync_budgets(self, changed: dict[str, list[str]]) -> list[str]:
        """Returns the names of the pods that may count towards other budgets than before."""
        if self._evictable is None:
            return []
        spaces = self._evictable.set_budgets(changed.get(self._evictable.budgets.kind, ()))
        return [name_of(pod) for pod in self.pods if namespace(pod) in spaces] if spaces else []

    def _terms(self, pod: objects.Pod) -> EvictionTerms | None:
        if self._evictable is None or not (self._takes_all_pending or self.is_ours(pod)):
            return None
        return self._evictable.terms(pod, self._pod_groups)

    def _sync_node(self, name: str) -> None:
        node = self.nodes.get(name)
        found = self._machine(node) if node is not None else None
        if node is None or found is None:
            self.cluster_storage.remove_node(name)
            if name in self._machines:
                self._machines.remove(name)
                self._images.remove(name)
                self.cluster_disks.forget_machine(name)
                self._events.append(MachineGone(name))
            return
        self._events.append(MachineSet(found))
        self._images.set(found)
        if name not in self._machines:
            self._machines.add(name)
            self._events += self.cluster_disks.remember_machine(name)
            for pod in self._pods_on_node.get(name, ()):
                self._events.append(_runs(self._tracked[pod], name))

    def _machine(self, node: objects.Node) -> Machine | None:
        """The machine; None if the node is invalid, which counts as if it were gone."""
        name, storage = node.metadata.name or "", self.cluster_storage
        try:
            storage.set_node(node)
            return machine(node, storage.csi_nodes.get(name), storage.volumes_on(node))
        except Exception as error:
            _log.error("node %s cannot be used: %s", name, self._on_invalid("node", name, error))
            return None

    def _sync_pod(self, name: str) -> list[str]:
        """Returns the names of other pods that have to be looked at because of this one."""
        concerned = self._remove_if_gone(name)
        pod, known = self.pods.get(name), self._tracked.get(name)
        if pod is None:
            return concerned
        if pod.spec.node_name:
            concerned += self.cluster_storage.set_pod(name, pod)
            self._sync_bound(name, pod, pod.spec.node_name, known)
        elif known is not None and known.assumed:
            # The watch is behind the assumption; the result of the bind decides.
            pass
        elif not self._may_start(pod):
            node = self._node_of_others_nominated(pod)
            if node is not None:
                self._sync_nominated(name, pod, node, known)
            elif known is not None:
                concerned += self._remove(name)
        else:
            concerned += self.cluster_storage.set_pod(name, pod)
            self._sync_pending(name, pod)
        return concerned

    def _remove_if_gone(self, name: str) -> list[str]:
        """Returns the names of other pods that this concerns."""
        known, pod = self._tracked.get(name), self.pods.get(name)
        if known is None or (pod is not None and pod.metadata.uid == known.task.id):
            return []
        return self._remove(name)

    def _sync_bound(self, name: str, pod: objects.Pod, node: str, known: TrackedPod | None) -> None:
        try:
            found = task(pod, self._pod_context)
        except Exception as error:
            why = self._on_invalid("pod", name, error)
            _log.error("pod %s cannot be counted, so %s counts as full: %s", name, node, why)
            found = Task(pod.metadata.uid or name, name, WHOLE_MACHINE)
        disks = self._disks(pod, found, node, known)
        until, terms = self._expected_end(pod, known), self._terms(pod)
        now = TrackedPod(found, node, until_seconds=until, disks=disks, terms=terms)
        if known != now:
            if known is None or replace(known, assumed=False) != now:
                self._events.append(_runs(now, node))
            self._track(name, now)
        self._relations.forget(name)
        self._limits.release(name)
        self._clear_refusals(name)
        self._report_running(pod, now)
        if self._deadlines is None:
            return
        group = self.register.group_of(found.id)
        if group is not None and self.is_ours(pod) and not pod.metadata.deletion_timestamp:
            self._deadlines.set(group, pod, deadline_ends_seconds(pod), self._now_seconds)
        else:
            self._deadlines.remove(found.id, self._now_seconds)

    def _disks(
        self, pod: objects.Pod, found: Task, node: str, known: TrackedPod | None
    ) -> tuple[str, ...]:
        """The disks of a pod on this node. What we have decided is known before any annotation."""
        if found.shape.disks is None:
            return ()
        if known is not None and known.node == node and known.disks:
            before = known.task
            if before.id == found.id and before.shape.disks == found.shape.disks:
                return known.disks
        return self.cluster_disks.given(pod, found, node)

    def _node_of_others_nominated(self, pod: objects.Pod) -> str | None:
        """The node for which another scheduler has nominated a pod: its victims leave there."""
        if self._evictable is None or self.is_ours(pod) or pod.metadata.deletion_timestamp:
            return None
        return (pod.status and pod.status.nominated_node_name) or None

    def _sync_nominated(
        self, name: str, pod: objects.Pod, node: str, known: TrackedPod | None
    ) -> None:
        """The pod counts on its node, so that no other pod takes the place."""
        try:
            now = TrackedPod(task(pod, self._pod_context), node)
        except Exception as error:
            _log.error("pod %s cannot be counted: %s", name, self._on_invalid("pod", name, error))
            return
        if known != now:
            self._events.append(_runs(now, node))
            self._track(name, now)

    def _expected_end(self, pod: objects.Pod, known: TrackedPod | None) -> float | None:
        """When a pod on a node is expected to end. Until its start time is known, the run time
        counts from when the pod was first seen on the node."""
        deleted = deleted_seconds(pod)
        if deleted is not None:
            # The pod has until then to stop, whatever run time it states.
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

    def _sync_pending(self, name: str, pod: objects.Pod) -> None:
        self._relations.watch(name, pod)
        found = self._pending_task(name, pod)
        nominated = pod.status and pod.status.nominated_node_name
        if self._evictable is not None and nominated and name not in self._tracked:
            self._events.append(TaskNominated(found.id, nominated))
        self._track(name, TrackedPod(found))
        self.register.set(member(pod, found, self._pod_groups), self._now_seconds)
        if not found.blocked and claim_references(pod) and (group := claimed_group(pod)):
            # Whether there are enough volumes for the whole group may have changed.
            self.register.reconsider(*group.split("/", 1))

    def _pending_task(self, name: str, pod: objects.Pod) -> Task:
        try:
            found = task(pod, self._pod_context)
        except Exception as error:
            self._limits.release(name)
            shape, why = Shape(requests=resources({})), self._on_invalid("pod", name, error)
            return Task(pod.metadata.uid or name, name, shape, blocked=why)
        if found.blocked:
            self._limits.release(name)
            return found
        if why := self._limits.admit(name, namespace(pod), demand_of(found.shape)):
            # Without a shape, so that what it names takes no memory while it waits.
            return replace(found, shape=Shape(requests=resources({})), blocked=why)
        if why := self._refusal_reasons.get(name):
            found = replace(found, blocked=why)
        return found

    def _report_running(self, pod: objects.Pod, known: TrackedPod) -> None:
        """A pod of another scheduler concerns the groups only if it names one."""
        ours, uid = self.is_ours(pod), known.task.id
        if ours or claimed_group(pod) is not None:
            ends = known.until_seconds
            running = member(pod, known.task, self._pod_groups, ends_seconds=ends, ours=ours)
            self.register.set(running, self._now_seconds)
        else:
            self.register.ended(uid, "deleted", self._now_seconds)

    def _volume_shortfall(self, tasks: Sequence[Task]) -> str | None:
        """Why there are too few volumes for these tasks on any nodes; None if there are enough."""
        pods = (self.pods.get(task.name) for task in tasks)
        return self._storage.volume_shortfall(pod for pod in pods if pod is not None)

    def _remove(self, name: str) -> list[str]:
        """The pod has ended, or is not ours. Returns the names of other pods that this concerns."""
        known = self._tracked[name]
        self._track(name, None)
        self._clear_refusals(name)
        self._relations.forget(name)
        self._limits.release(name)
        self.register.ended(known.task.id, "deleted", self._now_seconds)
        if self._deadlines is not None:
            self._deadlines.remove(known.task.id, self._now_seconds)
        if known.node is not None:
            self._events.append(TaskEnded(known.task.id))
        return self.cluster_storage.remove_pod(known.task.id)

    def _clear_refusals(self, name: str) -> None:
        self._refusal_reasons.pop(name, None)
        self._refusal_counts.pop(name, None)

    def _track(self, name: str, now: TrackedPod | None) -> None:
        before = self._tracked.pop(name, None)
        if before is not None and before.node is not None:
            on_node = self._pods_on_node[before.node]
            del on_node[name]
            if not on_node:
                del self._pods_on_node[before.node]
            self.cluster_disks.untrack(before.task, before.node)
        elif before is not None:
            self.cluster_disks.waits_no_more(before.task)
        if now is not None:
            self._tracked[name] = now
            if now.node is not None:
                self._pods_on_node.setdefault(now.node, {})[name] = None
                self.cluster_disks.track(now.task, now.node, now.disks, assumed=now.assumed)
            else:
                self.cluster_disks.waits(now.task)

    def is_ours(self, pod: objects.Pod) -> bool:
        """Whether the pod names one of our schedulers."""
        return scheduler_of(pod) in self._scheduler_names


def _runs(pod: TrackedPod, node: str) -> TaskRuns:
    return TaskRuns(pod.task, node, pod.until_seconds, pod.disks, pod.terms)
