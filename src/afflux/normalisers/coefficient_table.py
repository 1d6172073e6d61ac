"""Tables of coefficients: by which factor a byte in small blocks costs a disk more.

{"kind": "DiskCoefficients", "name": "...", "read": {"512": 9.85, "4k": 5.0, ...}, "write": {...}}

Between two block sizes of the table the factor is interpolated on logarithmic scales. Below the
smallest block size it grows in inverse proportion: there the disk does a whole block for each
request. Above the largest one it stays. Factors are kept in millionths and results are integers,
so that every replica computes the same.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar

from afflux.model.disks import Bandwidth, VolumeIO
from afflux.normalisers.block_size import parse_block_size
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.normaliser import MAX_BANDWIDTH, Estimate, Kind
from afflux.normalisers.strict_json import as_object, fields, parse_json, printable_text, shown

KIND = "DiskCoefficients"
MAX_TABLE_BYTES = 64 * 1024
MAX_BLOCK_SIZES = 64
MAX_NAME_LENGTH = 100
# No disk has smaller sectors, and none gains from larger blocks.
SMALLEST_BLOCK_BYTES = 512
LARGEST_BLOCK_BYTES = 64 * 1024 * 1024
MIN_FACTOR = 0.001
MAX_FACTOR = 1_000_000.0

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors in millionths by block size, in ascending order of block sizes."""

    block_bytes: tuple[int, ...]
    millionths: tuple[int, ...]

    def at(self, block_bytes: int) -> int:
        """The factor at this block size, in millionths."""
        place = bisect_left(self.block_bytes, block_bytes)
        if place == len(self.block_bytes):
            return self.millionths[-1]
        above, factor = self.block_bytes[place], self.millionths[place]
        if above == block_bytes:
            return factor
        if place == 0:
            return -(-factor * above // block_bytes)
        below, before = self.block_bytes[place - 1], self.millionths[place - 1]
        share = math.log(block_bytes / below) / math.log(above / below)
        between = round(before * math.exp(share * math.log(factor / before)))
        return max(min(before, factor), min(between, max(before, factor)))


@dataclass(frozen=True, slots=True)
class CoefficientTable:
    """The normaliser that a table describes."""

    name: str
    read: Factors
    write: Factors
    kind: ClassVar[Kind] = "coefficients"

    def estimate(self, volume: VolumeIO) -> Estimate:
        """Rounded up; never refused. What no disk has is cut at MAX_BANDWIDTH."""
        read = _normalised(volume.read, self.read.at(volume.block_bytes))
        write = _normalised(volume.write, self.write.at(volume.block_bytes))
        return Estimate(Bandwidth(read, write, min(read + write, MAX_BANDWIDTH)))


def parse_table(content: bytes) -> CoefficientTable:
    """The table in this JSON; NormaliserRefusedError names field, value and expectation."""
    found = fields(parse_json(content, MAX_TABLE_BYTES), ("kind", "name", "read", "write"))
    if found["kind"] != KIND:
        raise NormaliserRefusedError(f'kind: {shown(found["kind"])}, expected "{KIND}"')
    return CoefficientTable(
        printable_text(found["name"], "name", MAX_NAME_LENGTH),
        _factors("read", found["read"]),
        _factors("write", found["write"]),
    )


def _factors(name: str, value: object) -> Factors:
    try:
        entries = as_object(value, "expected an object of factors by block size")
    except NormaliserRefusedError as error:
        raise NormaliserRefusedError(f"{name}: {error}") from None
    if len(entries) > MAX_BLOCK_SIZES:
        expected = f"expected at most {MAX_BLOCK_SIZES}"
        raise NormaliserRefusedError(f"{name}: {len(entries)} block sizes, {expected}")
    factors: dict[int, int] = {}
    for written, factor in entries.items():
        block_bytes = _block_bytes(name, written)
        if block_bytes in factors:
            problem = f"{written!r:.40}: {block_bytes} bytes are given twice, expected once"
            raise NormaliserRefusedError(f"{name}: {problem}")
        factors[block_bytes] = _millionths(f"{name}: {written!r:.40}", factor)
    ordered = sorted(factors.items())
    return Factors(tuple(size for size, _ in ordered), tuple(factor for _, factor in ordered))


def _block_bytes(name: str, written: str) -> int:
    try:
        block_bytes = parse_block_size(written)
    except NormaliserRefusedError as error:
        raise NormaliserRefusedError(f"{name}: {error}") from None
    if not SMALLEST_BLOCK_BYTES <= block_bytes <= LARGEST_BLOCK_BYTES:
        raise NormaliserRefusedError(
            f"{name}: {written!r:.40}, expected a block size from 512 to 64Mi"
        )
    return block_bytes


def _millionths(place: str, factor: object) -> int:
    if (
        isinstance(factor, bool)
        or not isinstance(factor, int | float)
        or not MIN_FACTOR <= factor <= MAX_FACTOR
    ):
        expected = f"expected a factor from {MIN_FACTOR:g} to {MAX_FACTOR:g}"
        raise NormaliserRefusedError(f"{place}: {shown(factor)}, {expected}")
    return round(factor * _MILLION)


def _normalised(bytes_per_second: int, millionths: int) -> int:
    return min(-(-bytes_per_second * millionths // _MILLION), MAX_BANDWIDTH)
