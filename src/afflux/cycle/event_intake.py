"""Event intake: applies events to the cluster, the queue and the reservations.

An event that fails concerns one machine or one group, never all. That machine is not used until
the adapter has reported it again, and the other events are applied.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from afflux.cluster.disk_table import DiskChange
from afflux.cluster.state import State
from afflux.cycle.events import (
    BudgetSet,
    DisksGone,
    DisksReported,
    Event,
    EvictionFailed,
    GroupReady,
    GroupWithdrawn,
    MachineGone,
    MachineSet,
    NamespaceSet,
    NormalisersChanged,
    TaskEnded,
    TaskNominated,
    TaskRuns,
)
from afflux.cycle.nominations import Nominations
from afflux.cycle.reservations import DelayCause, Reservations
from afflux.model.machine import Machine
from afflux.model.relations import Labels
from afflux.model.task import Shape, Task
from afflux.queue.order import WaitingQueue

# Pods start some seconds after they were bound, and end as much later: an end that moves by no
# more than this is no reason to plan again.
MIN_REPLAN_DELAY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ResyncRequest:
    """An event about this machine or group failed; the adapter has to report it again in full.

    Until then the cycle knows nothing of it.
    """

    kind: Literal["machine", "group"]
    name: str
    error: Exception


class EventIntake:
    """Keeps the cluster, the queue and the reservations up to date."""

    def __init__(
        self,
        state: State,
        queue: WaitingQueue,
        reservations: Reservations,
        nominations: Nominations,
    ) -> None:
        self._nominations = nominations
        self._state = state
        self._queue = queue
        self._reservations = reservations
        # Whether an event that may help a waiting group has come since the cycle last reset this.
        self.has_unblocking_events = False

    def observe_all(self, events: Iterable[Event], now_seconds: float) -> list[ResyncRequest]:
        """Apply all events; returns what has to be reported again because of errors."""
        requests: dict[tuple[str, str], ResyncRequest] = {}
        for event in events:
            machine = self._machine_of(event)
            if machine is not None and ("machine", machine) in requests:
                # An incomplete picture of a machine would be worse than none.
                continue
            try:
                self.observe(event, now_seconds)
            except Exception as error:
                found = self._drop_unknown(event, machine, error)
                if found is not None:
                    requests[found.kind, found.name] = found
        return list(requests.values())

    def observe(self, event: Event, now_seconds: float) -> None:
        """Apply one event. Events unblock if they bring a group or room, or remove a group."""
        match event:
            case MachineSet(machine):
                self._set_machine(machine)
            case MachineGone(name) if name in self._state.rows:
                self._remove_machine(name)
            case TaskRuns(machine=machine) if machine in self._state.rows:
                self._set_running(event)
            case TaskEnded(task_id):
                held = self._state.remove(task_id)
                self.has_unblocking_events |= held is not None
                if held is not None and held.until_seconds != now_seconds:
                    self._note_moved_end(held.until_seconds, now_seconds)
                    self._note_company_lost(held.task)
            case GroupReady(group):
                self._reservations.note_ready(group, self._queue.get(group.key))
                self._queue.add(group)
                self.has_unblocking_events = True
            case GroupWithdrawn(key):
                self.has_unblocking_events |= key in self._queue
                self._queue.discard(key)
                self._reservations.discard(key)
                self._nominations.discard(key)
                self._note_company_lost()
            case NamespaceSet(name, labels):
                self._set_namespace(name, labels)
            case BudgetSet() | EvictionFailed() | TaskNominated():
                self._observe_for_evictions(event)
            case MachineGone() | TaskRuns():
                # Reports may overtake each other: an unknown machine needs no action.
                pass
            case DisksReported() | DisksGone() | NormalisersChanged():
                self._observe_disks(event)

    def _observe_disks(self, event: DisksReported | DisksGone | NormalisersChanged) -> None:
        match event:
            case DisksReported(report):
                self._note_disks(self._state.set_disks(report))
            case DisksGone(machine):
                self._note_disks(self._state.remove_disks(machine))
            case NormalisersChanged(models, normalise):
                self._note_disks(self._state.set_normalisers(models, normalise))

    def _observe_for_evictions(self, event: BudgetSet | EvictionFailed | TaskNominated) -> None:
        match event:
            case BudgetSet(name, allowed):
                # That other victims may be spared now is no reason to decide again.
                self._state.set_budget(name, allowed)
            case EvictionFailed(task_id):
                self._nominations.note_not_evicted(task_id)
                self.has_unblocking_events = True
            case TaskNominated(task_id, machine):
                self._nominations.note_nominated(task_id, machine)

    def _set_machine(self, machine: Machine) -> None:
        version, row = self._state.version, self._state.rows.get(machine.name)
        before = None if row is None else self._state.machine(row)
        self._state.set_machine(machine)
        if self._state.version == version:
            return
        self.has_unblocking_events = True
        if before is None or _offers_no_less(machine, before):
            self._reservations.note_more_room()
        else:
            self._reservations.note_disturbance(DelayCause.MACHINE)

    def _set_running(self, event: TaskRuns) -> None:
        task, machine, until = event.task, event.machine, event.until_seconds
        before, held = self._state.machine_of(task.id), self._state.placed_task(task.id)
        disks_before = self._state.disks.disks_of(task.id)
        self._state.place(task, machine, until_seconds=until, disks=event.disks, terms=event.terms)
        if held is None or before != machine:
            self.has_unblocking_events |= before is not None
            # Waiting tasks may be waiting for such a task to join its domain.
            self.has_unblocking_events |= self._state.relations.is_selected(task)
            self._note_less_room(DelayCause.FOREIGN)
            return
        if held.task.labels != task.labels:
            self._note_new_labels(held.task, task)
        if disks_before != self._state.disks.disks_of(task.id):
            self._note_disks(DiskChange(more=True, less=True))
        self._note_resize(held.task.shape, task.shape)
        if held.until_seconds != until:
            self._note_moved_end(held.until_seconds, until)

    def _remove_machine(self, name: str) -> None:
        self._state.remove_machine(name)
        self._note_less_room(DelayCause.MACHINE)
        # The tasks on it repel no others any more, and its domains may be gone.
        self.has_unblocking_events |= bool(self._state.relations)

    def _set_namespace(self, name: str, labels: Labels) -> None:
        relations = self._state.relations
        version = relations.selected.namespaces_version
        relations.selected.set_namespace(name, labels)
        if relations and relations.selected.namespaces_version != version:
            # Other tasks than before may be selected now.
            self.has_unblocking_events = True
            self._reservations.note_disturbance(DelayCause.COMPANY)

    def _note_new_labels(self, before: Task, now: Task) -> None:
        """Waiting tasks may be waiting for a task to have these labels, or to lose those that it
        had. Reservations may rest on what it was."""
        relations = self._state.relations
        if relations.is_selected(before) or relations.is_selected(now):
            self.has_unblocking_events = True
            self._reservations.note_disturbance(DelayCause.COMPANY)

    def _note_resize(self, before: Shape, now: Shape) -> None:
        """A running task may ask for other amounts than before."""
        if before.requests_same_as(now):
            return
        if _asks_more(now, before):
            self._note_less_room(DelayCause.FOREIGN)
        if _asks_more(before, now):
            self.has_unblocking_events = True
            self._reservations.note_more_room()

    def _note_disks(self, change: DiskChange) -> None:
        """Reports come often. Only groups that do something on disks wait for bandwidth, or lose it
        from their reservations."""
        if not (change.more or change.less) or not self._queue.uses_disks:
            return
        if change.less:
            self._note_less_room(DelayCause.DISKS)
        if change.more:
            self.has_unblocking_events = True
            self._reservations.note_more_room()

    def _note_less_room(self, cause: DelayCause) -> None:
        """There is less room than was expected. That helps no group, but groups with a reservation
        have to learn whether it still holds."""
        self.has_unblocking_events |= bool(self._reservations)
        self._reservations.note_disturbance(cause)

    def _note_company_lost(self, task: Task | None = None) -> None:
        """A task, or a waiting group, has left before its time. A reservation may rest on it, or on
        its weight in a topology spread."""
        relations = self._state.relations
        if relations and (task is None or relations.is_related(task)):
            self._reservations.note_disturbance(DelayCause.COMPANY)

    def _note_moved_end(self, before: float | None, now: float | None) -> None:
        """A task ends at another time than was expected. That is often known in advance: a pod
        starts after it was bound, and its deadline counts from its start."""
        if now is not None and (before is None or now <= before):
            self._reservations.note_more_room()
            return
        delay = math.inf if now is None or before is None else now - before
        self._reservations.note_overrun(delay)
        self.has_unblocking_events |= delay > MIN_REPLAN_DELAY_SECONDS and bool(self._reservations)

    def _machine_of(self, event: Event) -> str | None:
        match event:
            case MachineSet(machine):
                return machine.name
            case MachineGone(name) | TaskRuns(machine=name) | DisksGone(name):
                return name
            case DisksReported(report):
                return report.machine
            case TaskEnded(task_id) | EvictionFailed(task_id):
                return self._state.machine_of(task_id)
            case BudgetSet() | TaskNominated():
                return None
            case GroupReady() | GroupWithdrawn() | NamespaceSet() | NormalisersChanged():
                return None

    def _drop_unknown(
        self, event: Event, machine: str | None, error: Exception
    ) -> ResyncRequest | None:
        """Forget what the failed event was about, and ask for it again."""
        if machine is not None:
            # No task is placed on a machine whose running tasks are not known.
            if machine in self._state.rows:
                self._remove_machine(machine)
            return ResyncRequest("machine", machine, error)
        match event:
            case GroupReady(group):
                return ResyncRequest("group", group.key, error)
            case GroupWithdrawn(key):
                return ResyncRequest("group", key, error)
            case _:
                # A task without a machine has ended.
                return None


def _offers_no_less(now: Machine, before: Machine) -> bool:
    """Whether every task that fitted before still fits. Images do not matter. Changed labels or
    taints count as less, since only each group could tell."""
    offered = dict(now.capacity)
    return (
        now.devices >= before.devices
        and now.labels == before.labels
        and now.taints == before.taints
        and now.unschedulable <= before.unschedulable
        and all(offered.get(name, 0) >= amount for name, amount in before.capacity)
    )


def _asks_more(one: Shape, other: Shape) -> bool:
    """Whether the first shape asks for more of anything than the other."""
    asked = dict(other.requests)
    if any(amount > asked.get(name, 0) for name, amount in one.requests):
        return True
    if one.disks is not None and one.disks != other.disks:
        return True
    return one.devices is not None and one.devices != other.devices
