"""What a simulation replays: machines, and groups that arrive over time."""

from dataclasses import dataclass

from afflux.model.group import Group
from afflux.model.machine import Machine


@dataclass(frozen=True, slots=True)
class Submission:
    """A group that arrives at `group.ready_seconds` and, once started, runs for `run_seconds`.

    `group.run_seconds` is what the scheduler is told; this is what happens. None: without end.
    """

    group: Group
    run_seconds: float | None


@dataclass(frozen=True, slots=True)
class Workload:
    """Submissions are in the order of their arrival.

    With `pass_per_event` the scheduler runs after every single event, as simulators of batch
    systems do; otherwise once for all events of the same instant.
    """

    name: str
    machines: tuple[Machine, ...]
    submissions: tuple[Submission, ...]
    pass_per_event: bool = False
