"""Room over time, class by class, kept from pass to pass: only machines that changed are read."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from afflux._core import Timeline
from afflux.cluster.state import State
from afflux.model.devices import room_on_devices, take_devices
from afflux.model.task import Shape
from afflux.network.pricing import Pricing

# Classes whose timelines are kept.
KEPT_CLASSES = 512


@dataclass(slots=True)
class Kept:
    """The room for a class over time, and how it grows on each machine."""

    timeline: Timeline
    growth: dict[int, list[tuple[float, int]]]
    as_of: int = -1


class Horizon:
    """What runs is expected to end; this is the room that will then be there."""

    def __init__(self, state: State, pricing: Pricing) -> None:
        self._state = state
        self._pricing = pricing
        self._kept: OrderedDict[Shape, Kept] = OrderedDict()

    def begin(self, shape: Shape, now_seconds: float) -> Kept:
        """The room for a class from now on, with nobody started or promised anything yet."""
        state = self._state
        kept = self._kept.get(shape)
        if kept is None:
            kept = self._kept[shape] = Kept(Timeline(), {})
        if kept.as_of < state.version:
            rows = np.flatnonzero(state.changed[: len(state)] > kept.as_of)
            self._read(shape, kept, rows.tolist())
            kept.as_of = state.version
        self._kept.move_to_end(shape)
        while len(self._kept) > KEPT_CLASSES:
            self._kept.popitem(last=False)
        kept.timeline.begin(now_seconds)
        return kept

    def _read(self, shape: Shape, kept: Kept, rows: list[int]) -> None:
        prices = self._pricing.prices(shape)
        requests = self._state.requests(shape)
        asked = np.flatnonzero(requests).tolist()
        amounts = requests[asked].tolist()
        for row in rows:
            room = int(prices.room[row])
            growth: list[tuple[float, int]] = []
            if prices.admitted[row]:
                growth = self._growth(shape, row, room, asked, amounts)
            kept.timeline.set_row(row, room, growth)
            if growth:
                kept.growth[row] = growth
            else:
                kept.growth.pop(row, None)

    def _growth(
        self, shape: Shape, row: int, room: int, asked: list[int], amounts: list[int]
    ) -> list[tuple[float, int]]:
        """When there will be room for how many more on a machine."""
        state = self._state
        ends = [(h.until_seconds, h) for h in state.held_on(row) if h.until_seconds is not None]
        ends.sort(key=lambda end: end[0])
        free: list[int] = (state.capacity[row, asked] - state.used[row, asked]).tolist()
        devices = state.free_devices[row]
        growth: list[tuple[float, int]] = []
        for until, held in ends:
            given = state.requests(held.counted)
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
