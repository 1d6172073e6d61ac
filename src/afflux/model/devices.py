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


def take_devices(free: tuple[int, ...], indices: tuple[int, ...], milli: int) -> tuple[int, ...]:
    """What is free after taking `milli` from each of these devices (negative gives back)."""
    left = list(free)
    for index in indices:
        left[index] -= milli
    return tuple(left)
