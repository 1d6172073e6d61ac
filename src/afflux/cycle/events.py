"""What can happen to a cluster, as the doors report it."""

from dataclasses import dataclass

from afflux.model.group import Group
from afflux.model.machine import Machine
from afflux.model.task import Task


@dataclass(frozen=True, slots=True)
class MachineSet:
    """A machine joined, or what it offers has changed."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class MachineGone:
    """A machine has left."""

    name: str


@dataclass(frozen=True, slots=True)
class TaskRuns:
    """A task was found running on a machine, whoever placed it there.

    `until_seconds` is when it is expected to end, None without end.
    """

    task: Task
    machine: str
    until_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task has finished, failed or been deleted, or its binding did not succeed."""

    task_id: str


@dataclass(frozen=True, slots=True)
class GroupReady:
    """A group has all its members and waits; told again, it is replaced in its place."""

    group: Group


@dataclass(frozen=True, slots=True)
class GroupWithdrawn:
    """A waiting group is no longer wanted."""

    name: str


Event = MachineSet | MachineGone | TaskRuns | TaskEnded | GroupReady | GroupWithdrawn
