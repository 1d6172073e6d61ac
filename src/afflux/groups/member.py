"""A member of a group: what an adapter reports of one task, and what the task says of its group."""

from dataclasses import dataclass, field
from typing import Literal

from afflux.model.task import Task
from afflux.model.waiting_group import DEFAULT_QUEUE


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """What a task says about its group: the members it needs, and the queue it waits in.

    `source` is where the size is written.
    """

    size: int = 1
    queue: str = DEFAULT_QUEUE
    source: str = field(default="size", compare=False)


NO_TERMS = GroupTerms()


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a task may not be considered. A task that `waits` waits for an event; one that is
    `refused` waits for a change of what it says."""

    kind: Literal["waits", "refused"]
    why: str


@dataclass(frozen=True, slots=True)
class Claim:
    """The group that a task names, empty if it names none, and its terms.

    `terms` is None if they are not known: with `problem` because they cannot be used, without it
    because the task runs and they are lost.
    """

    group: str = ""
    terms: GroupTerms | None = NO_TERMS
    problem: Hold | None = None


ALONE = Claim()


@dataclass(frozen=True, slots=True)
class Member:
    """A task as its adapter reports it. `name` is that of the task within its namespace.

    `machine` is where it is bound, empty while it waits. `run_seconds` is how long it is expected
    to hold its machine, `limit_seconds` how long it may run as its queue counts it; None if it does
    not say. `ends_seconds` is when it is expected to end.
    Unless it `may_preempt`, no running task is evicted for it.
    A task that is `leaving` is being deleted and counts for its group no more. A task that is not
    `ours` belongs to another scheduler: it counts for the group that it names, and is not recorded.
    """

    task: Task
    namespace: str = ""
    name: str = ""
    claim: Claim = ALONE
    machine: str = ""
    priority: int = 0
    created_seconds: float = 0.0
    started_seconds: float | None = None
    run_seconds: float | None = None
    limit_seconds: float | None = None
    ends_seconds: float | None = None
    leaving: bool = False
    ours: bool = True
    may_preempt: bool = True

    def decides_as(self, other: "Member") -> bool:
        """Whether the same may start with either: they differ only in the times of a run."""
        return self._deciding() == other._deciding()

    def _deciding(self) -> tuple[object, ...]:
        return (
            self.task,
            self.claim,
            self.machine,
            self.priority,
            self.created_seconds,
            self.run_seconds,
            self.limit_seconds,
            self.leaving,
            self.ours,
            self.may_preempt,
        )
