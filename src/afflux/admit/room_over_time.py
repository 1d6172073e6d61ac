"""Room over time for each class of tasks, if running tasks end when expected.

Timelines are cached from pass to pass; only machines that changed are read again.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from afflux._core import Timeline
from afflux.cluster.state import State
from afflux.model.devices import room_on_devices, take_devices
from afflux.model.task import Shape
from afflux.network.pricing import Pricing

MAX_CACHED_CLASSES = 512


@dataclass(slots=True)
class RoomOfClass:
    """The room for one class over time, and how it grows on each machine.

    `growth` has for each row the times at which there is room for more tasks, and for how many.
    """

    timeline: Timeline
    growth: dict[int, list[tuple[float, int]]]
    as_of: int = -1


class RoomOverTime:
    """A cache of timelines by class."""

    def __init__(self, state: State, pricing: Pricing) -> None:
        self._state = state
        self._pricing = pricing
        self._cache: OrderedDict[Shape, RoomOfClass] = OrderedDict()

    def begin_pass(self, shape: Shape, now_seconds: float) -> RoomOfClass:
        """The room for a class from now on; nothing has been started or reserved in this pass."""
        state = self._state
        room = self._cache.get(shape)
        if room is None:
            room = self._cache[shape] = RoomOfClass(Timeline(), {})
        if room.as_of < state.version:
            rows = np.flatnonzero(state.changed[: len(state)] > room.as_of)
            self._update(shape, room, rows.tolist())
            room.as_of = state.version
        self._cache.move_to_end(shape)
        while len(self._cache) > MAX_CACHED_CLASSES:
            self._cache.popitem(last=False)
        room.timeline.begin(now_seconds)
        return room

    def _update(self, shape: Shape, known: RoomOfClass, rows: list[int]) -> None:
        prices = self._pricing.prices(shape)
        requests = self._state.requests(shape)
        asked = np.flatnonzero(requests).tolist()
        amounts = requests[asked].tolist()
        for row in rows:
            room = int(prices.room[row])
            growth: list[tuple[float, int]] = []
            if prices.admitted[row]:
                growth = self._growth(shape, row, room, asked, amounts)
            known.timeline.set_row(row, room, growth)
            if growth:
                known.growth[row] = growth
            else:
                known.growth.pop(row, None)

    def _growth(
        self, shape: Shape, row: int, room: int, asked: list[int], amounts: list[int]
    ) -> list[tuple[float, int]]:
        """When there will be room for more tasks on a machine, and for how many more."""
        state = self._state
        ends = [(h.until_seconds, h) for h in state.placed_on(row) if h.until_seconds is not None]
        ends.sort(key=lambda end: end[0])
        free: list[int] = (state.capacity[row, asked] - state.used[row, asked]).tolist()
        devices = state.free_devices[row]
        growth: list[tuple[float, int]] = []
        for until, held in ends:
            given = state.requests(held.counted_shape)
            free = [left + int(given[column]) for left, column in zip(free, asked, strict=True)]
            more = min((left // a for left, a in zip(free, amounts, strict=True)), default=room)
            if held.task.shape.devices is not None:
                devices = take_devices(devices, held.devices, -held.task.shape.devices.milli)
            if shape.devices is not None:
                more = min(more, room_on_devices(devices, shape.devices))
            if more > room:
                growth.append((until, more - room))
                room = more
        return growth
