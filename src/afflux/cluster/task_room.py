"""Resource fit: how many tasks of a class still fit on a machine, and which resources it lacks.

Only requested resources count: a machine overcommitted in another resource still takes the task.
A task that needs exactly what is free fits.
"""

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.machines import Column
from afflux.model.devices import DeviceRequest, room_on_devices

# More tasks than any machine holds: the room of a class without requests.
UNLIMITED = 1 << 31


def room(free: NDArray[np.int64], requests: NDArray[np.int64]) -> Column:
    """How many tasks with these `requests` fit into each row of `free`."""
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
    """How many times a device request fits on each machine."""
    known: dict[tuple[int, ...], int] = {}
    column = np.empty(len(free), np.int64)
    for row, devices in enumerate(free):
        count = known.get(devices)
        if count is None:
            count = known[devices] = room_on_devices(devices, request)
        column[row] = count
    return column


def lacking(free: NDArray[np.int64], requests: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Per machine and resource: whether less is free than one task requests."""
    return (requests > 0) & (free < requests)
