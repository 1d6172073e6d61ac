"""An eviction: the decision that a running task ends, so that other tasks get its place."""

from dataclasses import dataclass
from enum import StrEnum

from afflux.model.task import Task


class EvictionCause(StrEnum):
    """Why a task is evicted. Each cause has a rule of its own, which the checker knows."""

    PREEMPT = "preempt"


@dataclass(frozen=True, slots=True)
class Eviction:
    """A task leaves its machine. `needed_by` are the tasks whose places need that."""

    task: Task
    machine: str
    cause: EvictionCause
    needed_by: tuple[Task, ...]
    grace_seconds: float = 0.0
