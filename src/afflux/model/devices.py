"""Devices tracked one by one, such as GPUs of which a task may use a share.

A machine's devices are a tuple of free thousandths, one entry per device. Shares of different
devices never add up: two devices that are half free cannot take a task that needs one whole.
"""

from dataclasses import dataclass
from itertools import combinations

WHOLE_MILLI = 1000
MAX_EXACT_REQUESTS = 300


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """`count` different devices, of each of them `milli` thousandths."""

    count: int
    milli: int


def room_on_devices(free: tuple[int, ...], request: DeviceRequest) -> int:
    """How many such requests fit one after the other.

    A device has free // milli shares of this size. t requests need t*count shares, at most t of
    them on one device (the devices of one request differ). They fit exactly if the sum of
    min(t, shares) over the devices reaches t*count.
    """
    shares = [max(0, device) // request.milli for device in free]
    fitting = sum(shares) // request.count
    while fitting and sum(min(fitting, share) for share in shares) < fitting * request.count:
        fitting -= 1
    return fitting


def choose_devices(
    free: tuple[int, ...], request: DeviceRequest, further: int = 0
) -> tuple[int, ...] | None:
    """Indices of the devices to take, the fullest that fit first; None if there are not enough.

    If that leaves no room for `further` such requests, the devices with the most free shares are
    taken instead, which leaves as much room for them as possible.
    """
    usable = sorted((left, index) for index, left in enumerate(free) if left >= request.milli)
    if len(usable) < request.count:
        return None
    chosen = tuple(index for _, index in usable[: request.count])
    if further and room_on_devices(take_devices(free, chosen, request.milli), request) < further:
        usable.sort(key=lambda device: -(device[0] // request.milli))
        chosen = tuple(index for _, index in usable[: request.count])
    return chosen


def take_devices(free: tuple[int, ...], indices: tuple[int, ...], milli: int) -> tuple[int, ...]:
    """What is free after taking `milli` from each of these devices (negative gives back)."""
    left = list(free)
    for index in indices:
        left[index] -= milli
    return tuple(left)


def pack_devices(
    free: tuple[int, ...], requests: list[DeviceRequest]
) -> list[tuple[int, ...]] | None:
    """Devices for several requests at once, or None if they do not fit together.

    An exact search: large shares first, trying every choice of differently filled devices. It is
    short because machines have few devices and groups few members on one machine. For more than
    MAX_EXACT_REQUESTS requests it is greedy, and None may be wrong.
    """
    order = sorted(range(len(requests)), key=lambda i: (-requests[i].milli, -requests[i].count))
    chosen: dict[int, tuple[int, ...]] = {}
    if len(requests) > MAX_EXACT_REQUESTS:
        for i in order:
            indices = choose_devices(free, requests[i])
            if indices is None:
                return None
            chosen[i] = indices
            free = take_devices(free, indices, requests[i].milli)
        return [chosen[i] for i in range(len(requests))]
    infeasible: set[tuple[int, tuple[int, ...]]] = set()

    def search(position: int, left: tuple[int, ...]) -> bool:
        if position == len(order):
            return True
        state = (position, tuple(sorted(left)))
        if state in infeasible:
            return False
        request = requests[order[position]]
        for indices in _choices(left, request):
            chosen[order[position]] = indices
            if search(position + 1, take_devices(left, indices, request.milli)):
                return True
        infeasible.add(state)
        return False

    return [chosen[i] for i in range(len(requests))] if search(0, free) else None


def _choices(free: tuple[int, ...], request: DeviceRequest) -> list[tuple[int, ...]]:
    """Choices of `count` devices with enough left, one per multiset of what they have left."""
    usable = sorted((left, index) for index, left in enumerate(free) if left >= request.milli)
    choices: dict[tuple[int, ...], tuple[int, ...]] = {}
    for combination in combinations(usable, request.count):
        choices.setdefault(
            tuple(left for left, _ in combination), tuple(index for _, index in combination)
        )
    return list(choices.values())
