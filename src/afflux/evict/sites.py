"""What the search for victims knows of a machine, of a class of tasks, and of a group that waits.

Amounts are tuples with an entry for each resource that a waiting class requests.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from afflux.evict.budgets import NO_USAGE, Usage
from afflux.model.devices import DeviceRequest

Amounts = tuple[int, ...]
# How many tasks of each class.
Counts = tuple[int, ...]

# Priorities are shifted to be positive: fewer victims come first among equals, also if their
# priorities are negative. kube-scheduler shifts them as well.
PRIORITY_SHIFT = 1 << 31
# Sums of start times in milliseconds stay below this.
_START_RANGE = 1 << 64
# More than all victims weigh together: what a victim weighs more for each budget that allows none.
BEYOND = 1 << 128


@dataclass(frozen=True, slots=True)
class Victim:
    """A running task that may be evicted.

    `weight` orders sets of victims: by the sum of their shifted priorities, then those that started
    last. `leaves_with` is the key of the group that has to leave as a whole, empty if the task may
    leave alone.
    """

    id: str
    use: Amounts
    devices: tuple[int, ...]
    milli: int
    priority: int
    weight: int
    budgets: tuple[str, ...] = ()
    leaves_with: str = ""

    def is_like(self, other: "Victim") -> bool:
        """Whether both free the same and differ at most in when they started."""
        return (
            self.use == other.use
            and self.priority == other.priority
            and self.budgets == other.budgets
            and not self.devices
            and not other.devices
        )


def weight_of(priority: int, started_seconds: float) -> int:
    """The weight of a victim."""
    return (priority + PRIORITY_SHIFT) * _START_RANGE - int(started_seconds * 1000)


@dataclass(frozen=True, slots=True)
class Site:
    """A machine: what is free, and the tasks that may be evicted, the lightest first. `admits` says
    of each class whether the machine may take it."""

    row: int
    free: Amounts
    devices: tuple[int, ...]
    victims: tuple[Victim, ...]
    admits: tuple[bool, ...]

    def without(self, gone: Sequence[Victim]) -> "Site":
        """The site after these of its victims have left."""
        if not gone:
            return self
        free, devices = freed(self.free, self.devices, gone)
        left = tuple(each for each in self.victims if each not in gone)
        return Site(self.row, free, devices, left, self.admits)


@dataclass(frozen=True, slots=True)
class Need:
    """What one task of a class requests."""

    amounts: Amounts
    devices: DeviceRequest | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A group that waits: all of its tasks get a place, or none."""

    counts: Counts

    @property
    def size(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class VictimSet:
    """Victims, what they use of budgets, and their weight together."""

    victims: tuple[Victim, ...] = ()
    usage: Usage = NO_USAGE
    weight: int = 0


NO_VICTIMS = VictimSet()


def freed(
    free: Amounts, devices: tuple[int, ...], gone: Iterable[Victim]
) -> tuple[Amounts, tuple[int, ...]]:
    """What is free once these victims have left."""
    amounts, left = list(free), list(devices)
    for victim in gone:
        for column, amount in enumerate(victim.use):
            amounts[column] += amount
        for index in victim.devices:
            left[index] += victim.milli
    return tuple(amounts), tuple(left)


def devices_fit(devices: Sequence[int], requests: Sequence[DeviceRequest]) -> bool:
    """Whether these requests find devices, the largest first, each on the fullest that fit."""
    left = list(devices)
    for request in sorted(requests, key=lambda r: (-r.milli, -r.count)):
        fitting = [index for index, free in enumerate(left) if free >= request.milli]
        if len(fitting) < request.count:
            return False
        for index in sorted(fitting, key=lambda index: left[index])[: request.count]:
            left[index] -= request.milli
    return True
