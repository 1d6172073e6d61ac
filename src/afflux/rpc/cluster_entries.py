"""What the service keeps of each machine and task, and how much of it there may be."""

from dataclasses import dataclass, field
from typing import Literal

from afflux.cycle.events import TaskRuns
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.resources import Resources
from afflux.model.task import Shape, Task
from afflux.rpc.machine_messages import DescribedMachine
from afflux.rpc.slot_tree import SlotTree
from afflux.rpc.state_file import ForeignRecord, TaskRecord
from afflux.rpc.task_messages import DescribedTask


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """How much clients may describe. Ended tasks beyond their number are forgotten, the oldest
    first; all else beyond a limit is refused."""

    machines: int = 100_000
    tasks: int = 1_000_000
    foreign_tasks: int = 1_000_000
    ended_tasks: int = 200_000


DEFAULT_LIMITS = ClusterLimits()


@dataclass(frozen=True, slots=True)
class Delta:
    """A decision to be told: a task starts on the part of a machine with this uuid, or has to end
    there."""

    kind: Literal["preempt", "place"]
    task_uid: int
    resource: str


@dataclass(slots=True)
class KnownTask:
    """A task that a client has submitted, with its message. `machine` and `unit` are uuids, empty
    while it waits. `status` is why it waits. One that `is_evicted` has to end, and keeps its place
    until its end is told."""

    described: DescribedTask
    message: bytes
    machine: str = ""
    unit: str = ""
    status: str = ""
    started_seconds: float = 0.0
    is_evicted: bool = False

    def runs_on(self, machine: str) -> TaskRuns:
        """The report that it runs on the machine of this name. The tasks of a gang can only be
        evicted together."""
        member = self.described.member
        terms = EvictionTerms(
            member.claim.group or member.task.id,
            member.priority,
            started_seconds=self.started_seconds,
            whole_group=bool(member.claim.group),
        )
        return TaskRuns(member.task, machine, terms=terms)

    @property
    def uid(self) -> int:
        return self.described.uid

    @property
    def task(self) -> Task:
        return self.described.member.task


@dataclass(slots=True)
class ForeignTask:
    """A task of another scheduler. It counts on its machine whenever that is there."""

    name: str
    machine: str
    unit: str
    requests: Resources

    def runs_on(self, machine: str) -> TaskRuns:
        """The report that it runs on the machine of this name. It is never evicted."""
        return TaskRuns(self.task, machine)

    @property
    def task(self) -> Task:
        return Task(f"foreign:{self.name}", self.name, Shape(self.requests))


@dataclass(slots=True)
class KnownMachine:
    described: DescribedMachine
    tree: SlotTree
    slots: int
    tasks: dict[str, KnownTask] = field(default_factory=dict[str, KnownTask])
    foreign: dict[str, ForeignTask] = field(default_factory=dict[str, ForeignTask])

    @property
    def name(self) -> str:
        return self.described.machine.name


def task_record(known: KnownTask) -> TaskRecord:
    created_seconds = known.described.member.created_seconds
    return TaskRecord(known.task.id, created_seconds, known.message, known.machine, known.unit)


def foreign_record(foreign: ForeignTask) -> ForeignRecord:
    return ForeignRecord(foreign.name, foreign.machine, foreign.unit, foreign.requests)
