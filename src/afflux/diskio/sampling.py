"""Rates from counters: what each pod, and each disk as a whole, reads and writes per second.

A rate is the mean over a sliding window. The window of a pod begins with its first sample, so that
a new pod is not diluted by the time before. Differences that cannot be right are left out: if a
counter went back (a container was removed, a cgroup was made anew, a disk was reset), nothing is
known about that interval, and the window begins again. Time comes in as an argument and must be
monotonic; after a gap much longer than the window, all windows begin again.

Bytes and requests of each direction are kept apart, so that reads and writes have block sizes of
their own. Within one direction, a mix of block sizes is seen as its mean block size: counters say
no more. `mix_error` bounds what that does to normalised bandwidth.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from afflux.diskio.counters import NO_IO, DeviceNumber, IOCounters
from afflux.model.disks import DEFAULT_BLOCK_BYTES, VolumeIO

# A gap between samples of more than this many windows begins all windows again.
_MAX_GAP_WINDOWS = 3.0

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class IORate:
    """Bytes per second and mean block size of each direction, over so many seconds."""

    read: int
    write: int
    read_block_bytes: int
    write_block_bytes: int
    seconds: float

    def as_reads(self) -> VolumeIO:
        """The reads, as one stream."""
        return VolumeIO(self.read, 0, self.read_block_bytes)

    def as_writes(self) -> VolumeIO:
        """The writes, as one stream."""
        return VolumeIO(0, self.write, self.write_block_bytes)


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    counters: Mapping[DeviceNumber, IOCounters]


class RateSampler(Generic[K]):
    """The rates of whatever has counters by device: pods by uid, or the disks of the machine."""

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._samples: dict[K, deque[_Sample]] = {}
        self._last: float | None = None

    def sample(self, now: float, counters: Mapping[K, Mapping[DeviceNumber, IOCounters]]) -> None:
        """Takes the counters of everything that exists at this time; what is missing has gone."""
        if self._last is not None and not (
            0 < now - self._last <= _MAX_GAP_WINDOWS * self._window_seconds
        ):
            self._samples.clear()
        self._last = now
        for gone in self._samples.keys() - counters.keys():
            del self._samples[gone]
        for key, found in counters.items():
            samples = self._samples.setdefault(key, deque())
            if samples and _went_back(samples[-1].counters, found):
                samples.clear()
            samples.append(_Sample(now, found))
            # The oldest sample is the last one at or before the beginning of the window.
            while len(samples) > 2 and samples[1].at <= now - self._window_seconds:
                samples.popleft()

    def rates(self, key: K) -> dict[DeviceNumber, IORate]:
        """By device; empty before the second sample."""
        samples = self._samples.get(key)
        if samples is None or len(samples) < 2:
            return {}
        first, last = samples[0], samples[-1]
        seconds = last.at - first.at
        # A device appears in a cgroup's counters with its first IO: before, they were 0.
        return {
            device: _rate(counters - first.counters.get(device, NO_IO), seconds)
            for device, counters in last.counters.items()
        }

    def is_measured(self, key: K) -> bool:
        """Whether the samples span a whole window, so that a rate of 0 means idle and not new."""
        samples = self._samples.get(key)
        return bool(samples) and samples[-1].at - samples[0].at >= self._window_seconds


def _went_back(
    before: Mapping[DeviceNumber, IOCounters], after: Mapping[DeviceNumber, IOCounters]
) -> bool:
    return any((after.get(device, NO_IO) - old).went_back for device, old in before.items())


def _rate(difference: IOCounters, seconds: float) -> IORate:
    return IORate(
        _per_second(difference.read_bytes, seconds),
        _per_second(difference.write_bytes, seconds),
        _block_bytes(difference.read_bytes, difference.read_ios),
        _block_bytes(difference.write_bytes, difference.write_ios),
        seconds,
    )


def _per_second(amount: int, seconds: float) -> int:
    return round(amount / seconds)


def _block_bytes(amount: int, requests: int) -> int:
    """The mean block size. Bytes are counted when a request begins or when it ends, depending on
    the file, so that either may be 0 while the other is not."""
    if amount <= 0 or requests <= 0:
        return DEFAULT_BLOCK_BYTES
    return max(1, amount // requests)
