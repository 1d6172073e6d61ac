"""The account of one class on many machines: how many tasks fit, what refuses one, which devices.

The account in Rust (crates/afflux-account) answers. Only requested resources count: a machine that
is overcommitted in another resource still takes the task. A task that needs exactly what is free
fits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afflux import _core
from afflux.cluster.disk_columns import DiskColumns
from afflux.model.devices import DeviceRequest
from afflux.model.disks import DiskRequest
from afflux.model.task import Shape

Column = NDArray[np.int64]
Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """What is free on machines: amounts by resource, the thousandths of each device, and disks.

    Devices and disks are needed only for tasks that ask for them.
    """

    amounts: Table
    devices: Sequence[tuple[int, ...]] = ()
    disks: DiskColumns | None = None


def room_of(requests: Column, shape: Shape, free: FreeCapacity) -> Column:
    """How many tasks of a shape, with these requests, fit into each row of `free`."""
    return _core.room(*_arguments(requests, shape, free))


def refusals(requests: Column, shape: Shape, free: FreeCapacity) -> NDArray[np.bool_]:
    """What refuses one more task, by row of `free`: a column per resource, then one for devices and
    one for disks."""
    return _core.refusals(*_arguments(requests, shape, free))


def _arguments(requests: Column, shape: Shape, free: FreeCapacity) -> tuple[Any, ...]:
    devices = disks = None
    if shape.devices is not None:
        devices = shape.devices.count, shape.devices.milli
    if shape.disks is not None and free.disks is not None:
        disks = free.disks.table, free.disks.taken(shape.disks)
    amounts = np.ascontiguousarray(free.amounts), np.ascontiguousarray(requests)
    return *amounts, free.devices or None, devices, disks


def choose_devices(free: Sequence[int], request: DeviceRequest) -> tuple[int, ...] | None:
    """Indices of the devices to take, the fullest that fit; None if there are not enough."""
    chosen = _core.choose_devices(free, request.count, request.milli)
    return None if chosen is None else tuple(chosen)


def choose_disks(free: DiskColumns, request: DiskRequest) -> tuple[int, ...] | None:
    """Indices of the disks to take, one for each volume, on the only machine of `free`; none where
    the request takes nothing. None if it does not fit."""
    chosen = _core.choose_disks(free.table, free.taken(request))
    return None if chosen is None else tuple(chosen)
