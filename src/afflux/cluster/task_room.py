"""Resources: how many tasks of one class a machine still takes, and what it lacks.

A resource that is not asked for is never lacking, not even on an overcommitted machine; what fits
exactly fits.
"""

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.machines import Column
from afflux.model.devices import DeviceRequest, room_on_devices

# More tasks than any machine ever holds: the room of a class that asks for nothing.
UNLIMITED = 1 << 31


def room(free: NDArray[np.int64], requests: NDArray[np.int64]) -> Column:
    """How many tasks that ask for `requests` fit into each row of `free`."""
    asked = np.flatnonzero(requests)
    if not len(asked):
        return np.full(len(free), UNLIMITED, np.int64)
    fitting = free[:, asked[0]] // requests[asked[0]]
    for resource in asked[1:]:
        np.minimum(fitting, free[:, resource] // requests[resource], out=fitting)
    return np.maximum(fitting, 0, out=fitting)


def rooms(free: NDArray[np.int64], requests: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same for several classes at once: a row per class, a column per machine."""
    fitting = np.full((len(requests), len(free)), UNLIMITED, np.int64)
    for resource in range(requests.shape[1]):
        asking = np.flatnonzero(requests[:, resource])
        if len(asking):
            counts = free[None, :, resource] // requests[asking, resource, None]
            fitting[asking] = np.minimum(fitting[asking], counts)
    return np.maximum(fitting, 0, out=fitting)


def device_room(free: list[tuple[int, ...]], request: DeviceRequest) -> Column:
    """How many requests for devices fit on each machine."""
    known: dict[tuple[int, ...], int] = {}
    column = np.empty(len(free), np.int64)
    for row, devices in enumerate(free):
        count = known.get(devices)
        if count is None:
            count = known[devices] = room_on_devices(devices, request)
        column[row] = count
    return column


def lacking(free: NDArray[np.int64], requests: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Per machine and resource: whether less is free than one task asks for."""
    return (requests > 0) & (free < requests)
