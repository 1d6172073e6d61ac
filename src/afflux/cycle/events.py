"""The events of a cluster, as adapters report them to the cycle."""

from collections.abc import Mapping
from dataclasses import dataclass

from afflux.model.disks import DiskReport, Normalise
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.machine import Machine
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup


@dataclass(frozen=True, slots=True)
class MachineSet:
    """A machine joined, or its description has changed."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class MachineGone:
    """A machine has left."""

    name: str


@dataclass(frozen=True, slots=True)
class TaskRuns:
    """A task runs on a machine, whether this scheduler or another one placed it there.

    `until_seconds` is when it is expected to end, None without end. `disks` has the id of the disk
    that each volume of its disk request was given, empty if that is not known. It is never evicted
    without `terms`.
    """

    task: Task
    machine: str
    until_seconds: float | None = None
    disks: tuple[str, ...] = ()
    terms: EvictionTerms | None = None


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task has finished, failed or been deleted, or its binding has failed."""

    task_id: str


@dataclass(frozen=True, slots=True)
class GroupReady:
    """A group, or a late member, may start and waits; if it waited already, it is replaced."""

    group: WaitingGroup


@dataclass(frozen=True, slots=True)
class GroupWithdrawn:
    """A waiting group no longer has to be placed."""

    key: str


@dataclass(frozen=True, slots=True)
class NamespaceSet:
    """The labels of a namespace, at which the selectors of tasks look; a deleted one has none."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DisksReported:
    """The IO driver of a machine has reported its disks. The machine may not be known yet."""

    report: DiskReport


@dataclass(frozen=True, slots=True)
class DisksGone:
    """The disks of a machine are not known any more."""

    machine: str


@dataclass(frozen=True, slots=True)
class NormalisersChanged:
    """What tasks take of disks of these models has changed; `normalise` says it from now on."""

    models: frozenset[str]
    normalise: Normalise


@dataclass(frozen=True, slots=True)
class BudgetSet:
    """How many of its tasks a disruption budget may lose now; None if the budget is gone."""

    name: str
    allowed: int | None


@dataclass(frozen=True, slots=True)
class TaskNominated:
    """A task that waits was nominated for a machine before this process started."""

    task_id: str
    machine: str


@dataclass(frozen=True, slots=True)
class EvictionFailed:
    """A task that was to be evicted stays."""

    task_id: str


Event = (
    NamespaceSet
    | MachineSet
    | MachineGone
    | TaskRuns
    | TaskEnded
    | GroupReady
    | GroupWithdrawn
    | DisksReported
    | DisksGone
    | NormalisersChanged
    | BudgetSet
    | EvictionFailed
    | TaskNominated
)
