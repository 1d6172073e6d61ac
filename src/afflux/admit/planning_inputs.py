"""What a planning pass reads: the state, prices, rooms over time, and what can never start."""

from dataclasses import dataclass

from afflux.admit.expected_ends import ExpectedEndsReader
from afflux.admit.feasibility import Feasibility
from afflux.admit.room_over_time import RoomOverTime
from afflux.cluster.state import State
from afflux.network.pricing import Pricing


@dataclass(frozen=True, slots=True)
class PlanningInputs:
    """The inputs of one planning pass. `max_classes` bounds the search."""

    state: State
    pricing: Pricing
    room_over_time: RoomOverTime
    expected_ends: ExpectedEndsReader
    feasibility: Feasibility
    max_classes: int
