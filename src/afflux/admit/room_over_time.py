"""Room over time for each class of tasks, if running tasks end when expected.

Timelines are cached from pass to pass; only machines that changed are read again.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from afflux._core import Timeline
from afflux.cluster.state import State
from afflux.cluster.task_room import FreeCapacity, room_of
from afflux.model.devices import take_devices
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
        places = np.searchsorted(prices.rows, rows)
        for row, place in zip(rows, places.tolist(), strict=True):
            room, growth = 0, list[tuple[float, int]]()
            if place < len(prices.rows) and prices.rows[place] == row:
                room = int(prices.room[place])
                growth = self._growth(shape, row, room)
            known.timeline.set_row(row, room, growth)
            if growth:
                known.growth[row] = growth
            else:
                known.growth.pop(row, None)

    def _growth(self, shape: Shape, row: int, room: int) -> list[tuple[float, int]]:
        """When there will be room for more tasks on a machine, and for how many more."""
        state = self._state
        ends = [(h.until_seconds, h) for h in state.placed_on(row) if h.until_seconds is not None]
        if not ends:
            return []
        ends.sort(key=lambda end: end[0])
        requests = state.requests(shape)
        asked = np.flatnonzero(requests)
        returned = np.array([state.use(held.counted_shape)[asked] for _, held in ends])
        free = state.capacity[row, asked] - state.used[row, asked] + np.cumsum(returned, axis=0)
        devices = [state.free_devices[row]]
        for _, held in ends:
            of = held.task.shape.devices
            left = devices[-1]
            devices.append(left if of is None else take_devices(left, held.devices, -of.milli))
        disks = None
        if shape.disks is not None:
            disks = state.view().disks.of_row(row, len(ends))
            for moment, (_, held) in enumerate(ends):
                charges = state.disks.charges_of(held.task.id)
                disks.give_back(slice(moment, None), charges)
        growth: list[tuple[float, int]] = []
        rooms = room_of(requests[asked], shape, FreeCapacity(free, devices[1:], disks))
        for (until, _), more in zip(ends, rooms.tolist(), strict=True):
            if more > room:
                growth.append((until, more - room))
                room = more
        return growth
