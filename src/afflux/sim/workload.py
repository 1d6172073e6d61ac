"""The input of a simulation: machines, and groups that arrive over time."""

from dataclasses import dataclass, field

from afflux.model.disks import DiskReport, Normalise, as_stated
from afflux.model.machine import Machine
from afflux.model.waiting_group import WaitingGroup


@dataclass(frozen=True, slots=True)
class Submission:
    """A group that arrives at `group.ready_seconds` and, once started, runs for `run_seconds`.

    `run_seconds` is the true run time, None if it has no end; `group.run_seconds` is the estimate
    that the scheduler gets.
    """

    group: WaitingGroup
    run_seconds: float | None


@dataclass(frozen=True, slots=True)
class Disks:
    """The idle disks of the machines that have any, and what requests take of them."""

    reports: tuple[DiskReport, ...] = ()
    normalise: Normalise = field(default=as_stated, repr=False)


NO_DISKS = Disks()


@dataclass(frozen=True, slots=True)
class Workload:
    """Machines, and submissions in the order of their arrival.

    With `cycle_per_event` the scheduler runs after every single event, as simulators of batch
    systems do; otherwise once for all events of the same instant.
    """

    name: str
    machines: tuple[Machine, ...]
    submissions: tuple[Submission, ...]
    cycle_per_event: bool = False
    disks: Disks = NO_DISKS
