"""A placement: the decision that a task runs on a machine."""

from dataclasses import dataclass

from afflux.model.task import Task


@dataclass(frozen=True, slots=True)
class Placement:
    """One task, the name of the machine it goes to, and which of its devices it takes there."""

    task: Task
    machine: str
    devices: tuple[int, ...] = ()
