"""A group: tasks that start together or not at all. A task on its own is a group of one."""

from collections import Counter
from dataclasses import dataclass, field

from afflux.model.task import Shape, Task

DEFAULT_QUEUE = "default"


@dataclass(frozen=True, slots=True)
class Group:
    """`ready_seconds` is when the group had all its members; it never changes while it waits.

    `run_seconds` is how long its tasks are expected to run, None without end. `queue` is the name
    of the queue in which it waits. `begun`: other members run already, and these are the rest.
    """

    name: str
    tasks: tuple[Task, ...]
    priority: int = 0
    ready_seconds: float = 0.0
    run_seconds: float | None = None
    queue: str = DEFAULT_QUEUE
    begun: bool = False
    # The number of members of each shape; counted once, because every cycle reads it.
    shapes: tuple[tuple[Shape, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        counts = Counter(task.shape for task in self.tasks)
        object.__setattr__(self, "shapes", tuple(counts.items()))

    @property
    def is_gang(self) -> bool:
        """Whether there is more than one member to start at once."""
        return len(self.tasks) > 1
