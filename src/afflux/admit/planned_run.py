"""A group that has a start in the plan of a pass."""

import math
from dataclasses import dataclass, field

from afflux.model.group import Group
from afflux.model.task import Shape

# Nobody holds a machine for no time at all, though today's clocks cannot tell a start from an end a
# billionth of a second later: whoever expects that is planned with as much as they can tell.
LEAST_SECONDS = 1e-3

# Class, machine, devices.
Seat = tuple[Shape, int, tuple[int, ...]]
# From when, until when, machine, class by its number in a pass.
Cell = tuple[float, float, int, int]
# When, and whether at once: what ends now, or should have, ends after that.
Start = tuple[float, bool]


@dataclass(frozen=True, slots=True)
class Commitment:
    """The group holds these seats from its start to its end.

    `cells` are the same for counting, once somebody has asked for them; they hold in one pass.
    """

    group: Group
    start: Start
    end: float
    seats: tuple[Seat, ...]
    cells: list[Cell] = field(default_factory=list[Cell], compare=False, repr=False)


def run_of(group: Group) -> float:
    """How long a group is expected to run, infinity without end."""
    return math.inf if group.run_seconds is None else max(LEAST_SECONDS, group.run_seconds)
