"""The account of one class on many machines: how many tasks fit, what refuses one, which devices.

The account in Rust (crates/afflux-account) answers. Only requested resources count: a machine that
is overcommitted in another resource still takes the task. A task that needs exactly what is free
fits.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from afflux import _core
from afflux.model.devices import DeviceRequest

Column = NDArray[np.int64]
Table = NDArray[np.int64]


def room_of(
    requests: Column,
    devices: DeviceRequest | None,
    free: Table,
    free_devices: Sequence[tuple[int, ...]],
) -> Column:
    """How many tasks with these requests fit into each row of `free`."""
    requests, free = np.ascontiguousarray(requests), np.ascontiguousarray(free)
    if devices is None:
        return _core.room(free, requests)
    return _core.room(free, requests, free_devices, (devices.count, devices.milli))


def refusals(
    requests: Column,
    devices: DeviceRequest | None,
    free: Table,
    free_devices: Sequence[tuple[int, ...]],
) -> NDArray[np.bool_]:
    """What refuses one more task, by row of `free`: a column per resource, then one for devices."""
    requests, free = np.ascontiguousarray(requests), np.ascontiguousarray(free)
    if devices is None:
        return _core.refusals(free, requests)
    return _core.refusals(free, requests, free_devices, (devices.count, devices.milli))


def choose_devices(free: Sequence[int], request: DeviceRequest) -> tuple[int, ...] | None:
    """Indices of the devices to take, the fullest that fit; None if there are not enough."""
    chosen = _core.choose_devices(free, request.count, request.milli)
    return None if chosen is None else tuple(chosen)
