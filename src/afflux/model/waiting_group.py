"""A waiting group: tasks that start together or not at all. A task on its own is a group of one."""

from collections import Counter
from dataclasses import dataclass, field

from afflux.model.task import Shape, Task

DEFAULT_QUEUE = "default"


@dataclass(frozen=True, slots=True)
class WaitingGroup:
    """The tasks of a group that wait to start together: at first all, later each late member alone.

    `key` identifies it and is opaque; `name` is what people see, and the same as the key where
    names are unique, as in simulations. `ready_seconds` is when it had all its tasks; it never
    changes while it waits. `run_seconds` is how long its tasks are expected to run, None without
    end. `queue` is the name of the queue in which it waits. `begun`: other members of its group run
    already, and these are the rest. Unless it `may_preempt`, no running task is evicted for it.
    """

    key: str
    tasks: tuple[Task, ...]
    priority: int = 0
    ready_seconds: float = 0.0
    run_seconds: float | None = None
    queue: str = DEFAULT_QUEUE
    begun: bool = False
    name: str = ""
    may_preempt: bool = True
    # The number of members of each shape; counted once, because every cycle reads it.
    shapes: tuple[tuple[Shape, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tasks = self.tasks
        # Nearly all groups are of one, and thousands of late members may be made at once.
        alone = len(tasks) == 1
        counts = {tasks[0].shape: 1} if alone else Counter(task.shape for task in tasks)
        object.__setattr__(self, "shapes", tuple(counts.items()))
        object.__setattr__(self, "name", self.name or self.key)

    @property
    def is_gang(self) -> bool:
        """Whether there is more than one member to start at once."""
        return len(self.tasks) > 1
