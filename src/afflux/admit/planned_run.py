"""A planned run: a group with its start, its expected end and its machines in one pass."""

import math
from dataclasses import dataclass, field

from afflux.cluster.task_class import TaskClass
from afflux.model.waiting_group import WaitingGroup

# Every run is planned with at least this duration. Around today's Unix time a float cannot tell a
# start from an end much closer than this, and a run without duration would take no room.
MIN_RUN_SECONDS = 1e-3

# A member of this class on this machine, with these devices.
Assignment = tuple[TaskClass, int, tuple[int, ...]]
# From when, until when, machine, class by its number in a pass.
Occupancy = tuple[float, float, int, int]
# When, and whether at once. A start at once comes before all ends of the same time.
Start = tuple[float, bool]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A group that holds these assignments from its start to its end.

    `occupancies` are the assignments as the core takes them, cached; they are valid in one pass.
    """

    group: WaitingGroup
    start: Start
    end: float
    assignments: tuple[Assignment, ...]
    occupancies: list[Occupancy] = field(default_factory=list[Occupancy], compare=False, repr=False)


def has_begun(run: PlannedRun, start: Start) -> bool:
    """Whether a run has begun at this time; runs that start at once begin before all others."""
    return run.start[1] or (not start[1] and run.start[0] <= start[0])


def expected_run_seconds(group: WaitingGroup) -> float:
    """How long a group is expected to run, infinity without end."""
    return math.inf if group.run_seconds is None else max(MIN_RUN_SECONDS, group.run_seconds)
