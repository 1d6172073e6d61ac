"""The cluster that clients describe: its machines, its tasks, and what was decided about them.

All clients share it, and it keeps in order what has to be reported to control. What a client may
say again, after either side was restarted, is understood:

- a task that is submitted again as before keeps its place, which is told again;
- a task with a known uid and another name is another task. The uid means it from then on; the task
  before keeps its place until its end is told, its machine leaves, or the client begins anew.

Not here: messages, and the steps of control.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from time import time

from afflux.cycle.events import Event, EvictionFailed, MachineGone, MachineSet, TaskEnded
from afflux.groups.member import Member
from afflux.groups.states import EndReason
from afflux.model.placement import Placement
from afflux.model.resources import Resources
from afflux.rpc.cluster_entries import (
    DEFAULT_LIMITS,
    ClusterLimits,
    Delta,
    ForeignTask,
    KnownMachine,
    KnownTask,
    foreign_record,
    task_record,
)
from afflux.rpc.machine_messages import DescribedMachine
from afflux.rpc.message_errors import LimitError
from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.slot_tree import SlotTree
from afflux.rpc.state_file import (
    AnyRecord,
    EndedRecord,
    ForeignRecord,
    GoneRecord,
    MachineRecord,
    PlaceRecord,
    TaskRecord,
    latest_records,
)
from afflux.rpc.task_messages import DescribedTask, described_task


class ServiceCluster:
    """Machines and tasks. Not thread-safe: all calls come from one event loop.

    `on_report` is called when there is something to report, `on_record` with every change that has
    to survive the process.
    """

    def __init__(self, limits: ClusterLimits = DEFAULT_LIMITS) -> None:
        self.on_report: Callable[[], None] = lambda: None
        self.on_record: Callable[[AnyRecord], None] = lambda _: None
        self._limits = limits
        self.machines: dict[str, KnownMachine] = {}
        self._machine_of_uuid: dict[str, str] = {}
        self._uuid_of_name: dict[str, str] = {}
        # By uid, the tasks that have not ended, the oldest first; and those of them by id.
        self._of_uid: dict[int, list[KnownTask]] = {}
        self.tasks: dict[str, KnownTask] = {}
        # Which uids are those of ended tasks, with how many, the oldest first.
        self._ended: dict[int, int] = {}
        self._foreign: dict[str, ForeignTask] = {}
        # To be told to clients, by task id, and to control.
        self._untold: dict[str, Delta] = {}
        self._events: list[Event] = []
        self._changed: dict[str, None] = {}
        self._ends: list[tuple[str, EndReason, float]] = []

    # --- Machines

    def add_machines(self, described: Iterable[DescribedMachine]) -> bool:
        """Whether these machines are new. A client that adds a machine again has begun anew: what
        it says now holds, and the tasks whose uid means another one are forgotten."""
        added = list(described)
        if any(uuid in self._machine_of_uuid for each in added for uuid in each.uuids):
            for each in added:
                if self._is_same_tree(each):
                    self._forget_replaced(self.machines[each.uuid])
                    self._set_machine(each)
            return False
        if len(self.machines) + len(added) > self._limits.machines:
            raise LimitError(f"{self._limits.machines} machines are known, which is the limit")
        for each in added:
            self._set_machine(each)
        return True

    def update_machines(self, described: Iterable[DescribedMachine]) -> bool:
        """Whether these machines are known; then what is said now holds."""
        updates = list(described)
        if not all(each.uuid in self.machines for each in updates):
            return False
        owners = [
            self._machine_of_uuid.get(uuid, each.uuid) == each.uuid
            for each in updates
            for uuid in each.uuids
        ]
        if not all(owners):
            return False
        for each in updates:
            self._set_machine(each)
        return True

    def remove_machine(self, uuid: str) -> bool:
        """Whether there was a machine with this uuid, or with this part. Its tasks wait again."""
        machine = self.machine_with(uuid)
        if machine is None:
            return False
        for known in list(machine.tasks.values()):
            self._displace(known)
        for each in machine.described.uuids:
            del self._machine_of_uuid[each]
        del self._uuid_of_name[machine.name]
        del self.machines[machine.described.uuid]
        self.on_record(GoneRecord("machine", machine.described.uuid))
        self._report(MachineGone(machine.name))
        return True

    def machine_with(self, uuid: str) -> KnownMachine | None:
        """The machine with this uuid, or with a part of this uuid."""
        return self.machines.get(self._machine_of_uuid.get(uuid, ""))

    def _is_same_tree(self, described: DescribedMachine) -> bool:
        known = self.machines.get(described.uuid)
        return known is not None and set(known.described.uuids) == set(described.uuids)

    def _set_machine(self, described: DescribedMachine) -> None:
        uuid, known = described.uuid, self.machines.get(described.uuid)
        if known is None:
            name = described.machine.name
            while name in self._uuid_of_name:
                # Names may be the same; uuids are not.
                name = f"{name}.{uuid}"
            described = described.named(name)
        else:
            described = _completed(described, known.described)
            for each in known.described.uuids:
                del self._machine_of_uuid[each]
        tree = SlotTree(described.parts)
        machine = KnownMachine(described, tree, tree.slots())
        if known is not None:
            machine.tasks, machine.foreign = known.tasks, known.foreign
        else:
            machine.foreign = {n: it for n, it in self._foreign.items() if it.machine == uuid}
        tree.take_all(each.unit for each in machine.tasks.values())
        tree.take_all(each.unit for each in machine.foreign.values())
        self._machine_of_uuid.update(dict.fromkeys(described.uuids, uuid))
        self._uuid_of_name[described.machine.name] = uuid
        self.machines[uuid] = machine
        self.on_record(MachineRecord(described))
        self._report(MachineSet(described.with_slots(machine.slots)))
        if known is None:
            self._report_tasks_on(machine)

    def report_machine(self, name: str) -> None:
        """Report a machine in full again, unless it has left."""
        machine = self.machines.get(self._uuid_of_name.get(name, ""))
        if machine is not None:
            self._report(MachineSet(machine.described.with_slots(machine.slots)))
            self._report_tasks_on(machine)

    def _report_tasks_on(self, machine: KnownMachine) -> None:
        for each in (*machine.tasks.values(), *machine.foreign.values()):
            self._report(each.runs_on(machine.name))

    def _forget_replaced(self, machine: KnownMachine) -> None:
        for known in list(machine.tasks.values()):
            if self._of_uid[known.uid][-1] is not known:
                self._end(known, "deleted")

    # --- Tasks

    def submit(self, described: DescribedTask, message: bytes) -> None:
        """A task waits to be placed, or is known."""
        same_uid = self._of_uid.get(described.uid, [])
        if same_uid and same_uid[-1].described == described.following(same_uid[-1].described):
            self._tell_again(same_uid[-1])
            return
        if not same_uid and len(self.tasks) >= self._limits.tasks:
            raise LimitError(f"{self._limits.tasks} tasks are known, which is the limit")
        for before in list(same_uid):
            # A name has one task at a time. A task that has no place, or one of whose place no
            # client knows, would never be heard of again.
            is_untold = not before.machine or before.task.id in self._untold
            if is_untold or before.task.name == described.task.name:
                self._end(before, "deleted")
        self._add(KnownTask(described, message))

    def update(self, known: KnownTask, described: DescribedTask, message: bytes) -> None:
        """A task is described anew; it keeps its place, or its turn."""
        known.described, known.message = described.following(known.described), message
        self.on_record(task_record(known))
        self._changed[known.task.id] = None
        if known.machine:
            self._events.append(known.runs_on(self.machines[known.machine].name))

    def newest(self, uid: int) -> KnownTask | None:
        """The task that this uid means, None if it has ended or is not known."""
        found = self._of_uid.get(uid)
        return found[-1] if found else None

    def is_known(self, uid: int) -> bool:
        return uid in self._of_uid or uid in self._ended

    def end(self, uid: int, how: EndReason) -> bool:
        """Whether the uid is known. Of several tasks the newest that has a place has ended."""
        found = self._of_uid.get(uid)
        if found:
            placed = [each for each in found if each.machine]
            self._end((placed or found)[-1], how)
            self._note_ended(uid)
        return bool(found) or uid in self._ended

    def remove(self, uid: int) -> bool:
        """Whether the uid is known. One that has ended is forgotten first, then the newest."""
        if uid in self._ended:
            self._ended[uid] -= 1
            self.on_record(EndedRecord(uid, self._ended[uid]))
            if not self._ended[uid]:
                del self._ended[uid]
            return True
        found = self._of_uid.get(uid)
        if not found:
            return False
        self._end(found[-1], "deleted")
        return True

    def _tell_again(self, known: KnownTask) -> None:
        machine = self.machines.get(known.machine)
        if machine is not None:
            # The unit may have left the machine.
            uuid = known.unit if known.unit in machine.described.uuids else known.machine
            kind = "preempt" if known.is_evicted else "place"
            self._untold[known.task.id] = Delta(kind, known.uid, uuid)

    def _add(self, known: KnownTask) -> None:
        self._of_uid.setdefault(known.uid, []).append(known)
        self._index(known)

    def _index(self, known: KnownTask) -> None:
        self.tasks[known.task.id] = known
        self._changed[known.task.id] = None
        self.on_record(task_record(known))
        self.on_report()

    def _note_ended(self, uid: int) -> None:
        # The last one to be forgotten.
        self._ended[uid] = self._ended.pop(uid, 0) + 1
        self.on_record(EndedRecord(uid, self._ended[uid]))
        if len(self._ended) > self._limits.ended_tasks:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self.on_record(EndedRecord(oldest, 0))

    def _end(self, known: KnownTask, how: EndReason) -> None:
        task_id = known.task.id
        self._release(known)
        self._untold.pop(task_id, None)
        del self.tasks[task_id]
        same_uid = self._of_uid[known.uid]
        same_uid.remove(known)
        if not same_uid:
            del self._of_uid[known.uid]
        self._changed.pop(task_id, None)
        self._ends.append((task_id, how, time()))
        self.on_record(GoneRecord("task", task_id))
        self._report(TaskEnded(task_id))

    def _displace(self, known: KnownTask) -> None:
        """The task has lost its machine. It waits again, for a further run."""
        same_uid = self._of_uid[known.uid]
        position = same_uid.index(known)
        again = KnownTask(known.described.anew(), known.message)
        self._end(known, "failed")
        self._of_uid[known.uid] = same_uid
        same_uid.insert(position, again)
        self._index(again)

    def _release(self, known: KnownTask) -> None:
        machine = self.machines.get(known.machine)
        if machine is not None:
            del machine.tasks[known.task.id]
            machine.tree.give_back(known.unit)
        known.machine = known.unit = ""

    # --- Tasks of other schedulers

    def add_foreign(self, name: str, uuid: str, requests: Resources) -> bool:
        """Whether the machine, or part, is known. A name has one task: a later one replaces it."""
        machine = self.machine_with(uuid)
        if machine is None:
            return False
        if name not in self._foreign and len(self._foreign) >= self._limits.foreign_tasks:
            limit = self._limits.foreign_tasks
            raise LimitError(f"{limit} tasks of other schedulers are known, which is the limit")
        self.remove_foreign(name)
        foreign = ForeignTask(name, machine.described.uuid, uuid, requests)
        self._foreign[name] = machine.foreign[name] = foreign
        machine.tree.take(uuid)
        self.on_record(foreign_record(foreign))
        self._report(foreign.runs_on(machine.name))
        return True

    def remove_foreign(self, name: str) -> bool:
        """Whether there was such a task."""
        foreign = self._foreign.pop(name, None)
        if foreign is None:
            return False
        machine = self.machines.get(foreign.machine)
        if machine is not None:
            del machine.foreign[name]
            machine.tree.give_back(foreign.unit)
        self.on_record(GoneRecord("foreign", name))
        self._report(TaskEnded(foreign.task.id))
        return True

    # --- Placements

    def place(self, placement: Placement) -> bool:
        """Whether the task starts there: it and the machine are as they were when that was decided,
        and a slot is free."""
        known = self.tasks.get(placement.task.id)
        machine = self.machines.get(self._uuid_of_name.get(placement.machine, ""))
        if known is None or machine is None or known.task != placement.task or known.machine:
            return False
        unit = machine.tree.free_unit()
        if unit is None:
            return False
        known.machine, known.unit, known.status = machine.described.uuid, unit, ""
        machine.tasks[known.task.id] = known
        machine.tree.take(unit)
        known.started_seconds = time()
        self._untold[known.task.id] = Delta("place", known.uid, unit)
        self.on_record(PlaceRecord(known.task.id, known.machine, unit))
        self._report(known.runs_on(machine.name))
        return True

    def not_placed(self, placement: Placement) -> None:
        """The placement is void."""
        self._report(TaskEnded(placement.task.id))

    def evict(self, task_id: str) -> None:
        """The task has to end, if it still runs. Its place is free when a client tells its end."""
        known = self.tasks.get(task_id)
        if known is not None and known.machine:
            known.is_evicted = True
            self._tell_again(known)

    def not_evicted(self, task_id: str) -> None:
        """The eviction is void."""
        self._report(EvictionFailed(task_id))

    def take_untold(self) -> list[Delta]:
        """The decisions that no client was told since they were made; tasks that end come first."""
        untold, self._untold = self._untold, {}
        return sorted(untold.values(), key=lambda each: each.kind != "preempt")

    def waiting_uids(self) -> list[int]:
        """The uids of the tasks that wait."""
        return [each.uid for each in self.tasks.values() if not each.machine]

    # --- What survives the process

    def records(self) -> Iterator[AnyRecord]:
        """One record for each thing that exists."""
        yield from (MachineRecord(each.described) for each in self.machines.values())
        # In this order uids mean the same tasks again.
        yield from (task_record(each) for found in self._of_uid.values() for each in found)
        yield from map(foreign_record, self._foreign.values())
        yield from (EndedRecord(uid, tasks) for uid, tasks in self._ended.items())

    def restore(self, records: Iterable[AnyRecord]) -> None:
        """Continue, before the first call of a client, where an earlier process stopped."""
        latest = latest_records(records)
        for each in latest:
            if isinstance(each, MachineRecord):
                self._set_machine(each.described)
        for each in latest:
            match each:
                case TaskRecord():
                    self._restore_task(each)
                case ForeignRecord():
                    self._restore_foreign(each)
                case EndedRecord(uid, tasks):
                    self._ended[uid] = tasks
                case _:
                    pass

    def _restore_task(self, record: TaskRecord) -> None:
        message = pb.TaskDescription.FromString(record.message)
        described = described_task(message, record.created_seconds).run_as(record.id)
        known = KnownTask(described, record.message)
        machine = self.machines.get(record.machine)
        if machine is not None:
            known.machine, known.unit = record.machine, record.unit
            known.started_seconds = record.created_seconds
            machine.tasks[record.id] = known
            machine.tree.take(record.unit)
            self._report(known.runs_on(machine.name))
        self._add(known)

    def _restore_foreign(self, record: ForeignRecord) -> None:
        foreign = ForeignTask(record.name, record.machine, record.unit, record.requests)
        self._foreign[record.name] = foreign
        machine = self.machines.get(record.machine)
        if machine is not None:
            machine.foreign[record.name] = foreign
            machine.tree.take(record.unit)
            self._report(foreign.runs_on(machine.name))

    # --- Reports

    def take_ends(self) -> list[tuple[str, EndReason, float]]:
        """The tasks that have ended since the last call, or have lost their machine."""
        ends, self._ends = self._ends, []
        return ends

    def take_members(self) -> Iterator[Member]:
        """The tasks that are new or have changed since the last call."""
        changed, self._changed = self._changed, {}
        for task_id in changed:
            known = self.tasks[task_id]
            machine = self.machines[known.machine].name if known.machine else ""
            yield replace(known.described.member, machine=machine)

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def machine_of(self, task_id: str) -> str | None:
        """The name of the machine of a task, None while it waits."""
        known = self.tasks[task_id]
        return self.machines[known.machine].name if known.machine else None

    def _report(self, event: Event) -> None:
        self._events.append(event)
        self.on_report()


def _completed(described: DescribedMachine, before: DescribedMachine) -> DescribedMachine:
    """An update of a known machine: what it does not state stays, and so does the name."""
    capacity = before.machine.capacity
    if described.states_capacity:
        capacity = described.machine.capacity
    parts = described.parts if described.states_slots else before.parts
    uuids = described.uuids if described.states_slots else before.uuids
    machine = replace(described.machine, name=before.machine.name, capacity=capacity)
    return replace(described, machine=machine, parts=parts, uuids=uuids)
