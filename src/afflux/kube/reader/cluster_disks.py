"""ClusterDisks: the store of NodeDiskIOInfo objects, and which pods each of them has to reserve.

Without `counting` no profile counts disk bandwidth, and everything here costs nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from afflux.cycle.events import Event, NormalisersChanged
from afflux.kube import objects
from afflux.kube.disks.disk_devices import given_disks
from afflux.kube.disks.disk_reports import node_name
from afflux.kube.disks.disk_requests import DiskCounting, disk_volume_names
from afflux.kube.disks.reserved_pods import ReservedPods, next_reserved_pods
from afflux.kube.reader.node_disks import NodeDisks, SilenceRules
from afflux.kube.reader.object_store import Key, ObjectStore
from afflux.kube.reader.work_queue import WorkQueue
from afflux.kube.volumes.storage import Storage
from afflux.model.disks import Normalise
from afflux.model.task import Task

DEFAULT_SILENCE = SilenceRules()


@dataclass(frozen=True, slots=True)
class DiskOptions:
    """For which pods disk bandwidth counts, and what follows from a silent driver."""

    counting: DiskCounting
    silence: SilenceRules = DEFAULT_SILENCE


class ClusterDisks:
    """The disks of the cluster, and the pods on its nodes."""

    def __init__(
        self, changes: WorkQueue[Key], storage: Storage, options: DiskOptions | None
    ) -> None:
        self.counting = options.counting if options is not None else None
        # Statuses come all the time, and wake the cycle at once only if a pod waits for disks.
        self.infos = ObjectStore[objects.NodeDiskIOInfo](
            "node disk IO info", changes, is_patient=lambda _: not self._waiting
        )
        silence = options.silence if options is not None else DEFAULT_SILENCE
        self.nodes = NodeDisks(self.infos, self._tracked_disks, silence)
        self._storage = storage
        self._changes = changes
        # By node and uid, the disks of a pod that has to be reserved; None for other pods.
        self._pods: dict[str, dict[str, tuple[str, ...] | None]] = {}
        # The uids of the pods that wait, and state what they do on disks.
        self._waiting: set[str] = set()
        # Nodes whose object may have to be written, and those whose report may have changed.
        self._unsettled: dict[str, None] = {}
        self._touched: dict[str, None] = {}
        # Machines that the cycle does not know any more.
        self._forgotten: set[str] = set()
        # The models whose normaliser has changed since the last events, and the function.
        self._changed_models: frozenset[str] = frozenset()
        self._normalise: Normalise | None = None

    # --- Changes

    def sync(self, changed: Mapping[str, Iterable[str]], now_seconds: float) -> list[Event]:
        """The events for changed objects."""
        if self.counting is None:
            return []
        names = changed.get(self.infos.kind, ())
        events = self._take_normalisers() + self.nodes.sync(names, now_seconds)
        for name in names:
            info = self.infos.get(name)
            if info is not None:
                self._unsettled[node_name(info)] = None
        return events

    def set_normalisers(self, models: frozenset[str], normalise: Normalise) -> None:
        """The normalisers of these models have changed."""
        self._changed_models |= models
        self._normalise = normalise
        self._changes.put((self.infos.kind, ""))

    def finish(self, now_seconds: float) -> list[Event]:
        """The events for what has changed because of pods, or of the time."""
        if self.counting is None:
            return []
        touched, self._touched = self._touched, {}
        self._unsettled.update(touched)
        return [*self.nodes.report_again(touched), *self.nodes.check_silence(now_seconds)]

    def waits(self, task: Task) -> None:
        """A pod has no node yet."""
        if task.shape.disks is not None and task.shape.disks.is_stated and not task.blocked:
            self._waiting.add(task.id)

    def waits_no_more(self, task: Task) -> None:
        self._waiting.discard(task.id)

    def track(self, task: Task, node: str, disks: tuple[str, ...], *, assumed: bool) -> None:
        """A pod is on this node, or is assumed there. A pod that states what it does on disks is
        reserved before it is bound, others only when they are."""
        if self.counting is None:
            return
        request = task.shape.disks
        is_reserved = request is not None and (request.is_stated or not assumed)
        self._pods.setdefault(node, {})[task.id] = disks if is_reserved else None
        self._touched[node] = None

    def untrack(self, task: Task, node: str) -> None:
        """The pod is not on this node any more."""
        on_node = self._pods.get(node)
        if on_node is None or task.id not in on_node:
            return
        del on_node[task.id]
        if not on_node:
            del self._pods[node]
        self._touched[node] = None

    def not_bound(self, uid: str, node: str) -> None:
        """A pod that was assumed on this node waits again."""
        if self.counting is not None:
            self.nodes.not_bound(node, uid)
            self._touched[node] = None

    def forget_machine(self, node: str) -> None:
        self._forgotten.add(node)

    def remember_machine(self, node: str) -> list[Event]:
        """The cycle learns of this machine; the events that it lacks."""
        if node not in self._forgotten:
            return []
        self._forgotten.remove(node)
        return self.nodes.resync(node)

    # --- Questions

    def given(self, pod: objects.Pod, task: Task, node: str) -> tuple[str, ...]:
        """The disks of a pod on this node by its annotation, or by the object of the node; empty if
        they are not known."""
        request = task.shape.disks
        if request is None:
            return ()
        names = disk_volume_names(pod, self._storage) if request.is_stated else ()
        found = given_disks(pod.metadata.annotations, names)
        found = found or self.nodes.noted_disks(node, task.id)
        return found if len(found) == len(request.volumes) else ()

    def _take_normalisers(self) -> list[Event]:
        models, self._changed_models = self._changed_models, frozenset()
        if self._normalise is None or not models:
            return []
        return [NormalisersChanged(models, self._normalise)]

    def disks_of(self, node: str, uid: str) -> tuple[str, ...]:
        """The disks of a pod that has to be reserved on this node, empty if they are not known."""
        return self._pods.get(node, {}).get(uid) or ()

    def is_reserved(self, node: str, uid: str) -> bool:
        """Whether the object of the node has this pod, with the disks that it was given."""
        info, disks = self.nodes.info(node), self.disks_of(node, uid)
        if info is None or uid not in (info.spec.reserved_pods or ()):
            return False
        return not disks or self.nodes.noted_disks(node, uid) == disks

    def next_write(self, node: str) -> tuple[objects.NodeDiskIOInfo, ReservedPods] | None:
        """What to write next into the object of the node; None if it has none or is up to date."""
        info = self.nodes.info(node)
        if info is None:
            return None
        pods = self._pods.get(node, {})
        # An annotation of a pod may name anything, in any length: only disks of the node are noted.
        ids = info.status.allocatable_bandwidth or {} if info.status is not None else {}
        wanted = {
            uid: disks if all(each in ids for each in disks) else ()
            for uid, disks in pods.items()
            if disks is not None
        }
        found = next_reserved_pods(info, wanted, pods)
        return None if found is None else (info, found)

    def take_unsettled(self) -> list[str]:
        """The nodes whose object may have to be written since the last call."""
        unsettled, self._unsettled = self._unsettled, {}
        return [node for node in unsettled if self.next_write(node) is not None]

    def _tracked_disks(self, node: str, uid: str) -> tuple[str, ...] | None:
        """The disks of a pod on this node, None if it is not there."""
        on_node = self._pods.get(node, {})
        return on_node[uid] or () if uid in on_node else None
