"""A group that has a start in the plan of a pass."""

import math
from dataclasses import dataclass

from afflux.model.group import Group
from afflux.model.task import Shape

# Class, machine, devices.
Seat = tuple[Shape, int, tuple[int, ...]]
# When, and whether at once: what ends now, or should have, ends after that.
Start = tuple[float, bool]


@dataclass(frozen=True, slots=True)
class Commitment:
    """The group holds these seats from its start to its end."""

    group: Group
    start: Start
    end: float
    seats: tuple[Seat, ...]


def run_of(group: Group) -> float:
    """How long a group is expected to run, infinity without end."""
    return math.inf if group.run_seconds is None else group.run_seconds
