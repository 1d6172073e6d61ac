"""A group: tasks that start together or not at all. A task on its own is a group of one."""

from dataclasses import dataclass

from afflux.model.task import Task


@dataclass(frozen=True, slots=True)
class Group:
    """`ready_seconds` is when the group had all its members; it never changes while it waits.

    `run_seconds` is how long its tasks are expected to run, None without end.
    """

    name: str
    tasks: tuple[Task, ...]
    priority: int = 0
    ready_seconds: float = 0.0
    run_seconds: float | None = None

    @property
    def is_gang(self) -> bool:
        """Whether there is more than one member to start at once."""
        return len(self.tasks) > 1
