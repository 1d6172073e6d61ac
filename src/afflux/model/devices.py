"""Devices tracked one by one, such as GPUs of which a task may use a share.

A machine's devices are a tuple of free thousandths, one entry per device. Shares of different
devices never add up: two devices that are half free cannot take a task that needs one whole.
"""

from dataclasses import dataclass

WHOLE_MILLI = 1000


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """`count` different devices, of each of them `milli` thousandths."""

    count: int
    milli: int


def room_on_devices(free: tuple[int, ...], request: DeviceRequest) -> int:
    """How many such requests fit one after the other.

    A device takes free // milli of them; t requests need t*count places with at most t on any one
    device (the devices of one request differ), which is possible exactly when the sum of
    min(t, places) reaches t*count.
    """
    places = [device // request.milli for device in free]
    fitting = sum(places) // request.count
    while fitting and sum(min(fitting, place) for place in places) < fitting * request.count:
        fitting -= 1
    return fitting


def choose_devices(free: tuple[int, ...], request: DeviceRequest) -> tuple[int, ...] | None:
    """Indices of the devices to take, the tightest first; None if there are not enough."""
    usable = sorted((left, index) for index, left in enumerate(free) if left >= request.milli)
    if len(usable) < request.count:
        return None
    return tuple(index for _, index in usable[: request.count])


def take_devices(
    free: tuple[int, ...], indices: tuple[int, ...], milli: int
) -> tuple[int, ...]:
    """What is free after taking `milli` from each of these devices (negative gives back)."""
    left = list(free)
    for index in indices:
        left[index] -= milli
    return tuple(left)
