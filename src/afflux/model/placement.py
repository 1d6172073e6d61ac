"""A decision: this task goes to that machine."""

from dataclasses import dataclass

from afflux.model.task import Task


@dataclass(frozen=True, slots=True)
class Placement:
    """One task and the name of the machine it goes to."""

    task: Task
    machine: str
