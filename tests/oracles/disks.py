"""Disks in plain arithmetic: random ones, and what tasks leave of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from random import Random

from afflux.model.disks import Bandwidth, Disk, DiskReport, DiskRequest, VolumeIO

MODELS = ("", "acme/slow", "acme/fast", "acme/unknown")


def bandwidth(read: int, write: int, total: int | None = None) -> Bandwidth:
    return Bandwidth(read, write, read + write if total is None else total)


def disk(name: str, read: int, write: int, total: int | None = None, model: str = "") -> Disk:
    return Disk(name, bandwidth(read, write, total), model)


def report(machine: str, *disks: Disk, of: Iterable[str] = (), refused: str = "") -> DiskReport:
    return DiskReport(machine, disks, frozenset(of), refused)


def stated(*volumes: tuple[int, int]) -> DiskRequest:
    return DiskRequest(tuple(VolumeIO(read, write) for read, write in volumes))


def default_charge(read: int, write: int) -> DiskRequest:
    return DiskRequest((VolumeIO(read, write),), is_stated=False)


def doubled(model: str, volume: VolumeIO) -> Bandwidth | None:
    """A normaliser: slow disks pay double, small blocks double once more."""
    if model == "acme/unknown":
        return None
    factor = (2 if model == "acme/slow" else 1) * (2 if volume.block_bytes < 8192 else 1)
    return bandwidth(factor * volume.read, factor * volume.write)


@dataclass(frozen=True)
class Prices:
    """What volumes take of disks, by the rules: as stated where no model is named."""

    factor: int = 1

    def __call__(self, model: str, volume: VolumeIO) -> Bandwidth | None:
        found = doubled(model, volume)
        if found is None:
            return None
        return Bandwidth(*(self.factor * each for each in kinds(found)))


def kinds(amounts: Bandwidth) -> tuple[int, int, int]:
    return amounts.read, amounts.write, amounts.total


def taken_of(prices: Prices, of: Disk, volume: VolumeIO, request: DiskRequest) -> Bandwidth | None:
    """What a volume takes of a disk, None if it cannot be there."""
    as_it_says = bandwidth(volume.read, volume.write)
    if not of.model:
        return as_it_says
    found = prices(of.model, volume)
    return as_it_says if found is None and not request.is_stated else found


def charge_of(prices: Prices, of: Disk, volume: VolumeIO) -> tuple[int, int, int]:
    """What a volume that is on a disk counts for."""
    found = taken_of(prices, of, volume, DiskRequest((), is_stated=False))
    return (0, 0, 0) if found is None else kinds(found)


Lefts = dict[str, list[int]]


@dataclass
class DiskRoom:
    """The disks of one machine, and what they have left now."""

    report: DiskReport | None = None
    left: Lefts = field(default_factory=dict[str, list[int]])
    prices: Prices = field(default_factory=Prices)

    @property
    def is_known(self) -> bool:
        return self.report is not None and not self.report.refused and bool(self.report.disks)

    def fits(self, request: DiskRequest | None) -> bool:
        return request is None or bool(self.choices(request))

    def choices(self, request: DiskRequest) -> list[tuple[int, ...]]:
        """Every choice of a disk for each volume that fits, as indices."""
        if not self.is_known or self.report is None:
            return [] if request.is_stated else [()]
        every = product(range(len(self.report.disks)), repeat=len(request.volumes))
        return [chosen for chosen in every if self._fits_on(request, chosen)]

    def _fits_on(self, request: DiskRequest, chosen: tuple[int, ...]) -> bool:
        assert self.report is not None
        left = {name: list(amounts) for name, amounts in self.left.items()}
        for volume, index in zip(request.volumes, chosen, strict=True):
            of = self.report.disks[index]
            taken = taken_of(self.prices, of, volume, request)
            if taken is None:
                return False
            for kind, amount in enumerate(kinds(taken)):
                left[of.id][kind] -= amount
                if amount and left[of.id][kind] < 0:
                    return False
        return True

    def take(self, request: DiskRequest | None, chosen: tuple[int, ...], times: int = 1) -> None:
        if request is None or self.report is None:
            return
        for volume, index in zip(request.volumes, chosen, strict=False):
            of = self.report.disks[index]
            for kind, amount in enumerate(charge_of(self.prices, of, volume)):
                self.left[of.id][kind] -= times * amount


def random_volume(rng: Random, most: int = 8) -> VolumeIO:
    return VolumeIO(rng.randint(0, most), rng.randint(0, most), rng.choice((4096, 32768)))


def random_request(rng: Random) -> DiskRequest:
    if rng.random() < 0.3:
        return DiskRequest((random_volume(rng, 4),), is_stated=False)
    return DiskRequest(tuple(random_volume(rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))))


def random_disks(rng: Random, most: int = 30) -> tuple[Disk, ...]:
    count = rng.choice((0, 1, 1, 2, 2, 3))
    return tuple(
        disk(
            f"nvme{number}",
            rng.randint(0, most),
            rng.randint(0, most),
            rng.randint(0, 2 * most),
            rng.choice(MODELS),
        )
        for number in rng.sample(range(4), count)
    )
