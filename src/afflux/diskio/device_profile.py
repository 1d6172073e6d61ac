"""The profile of a disk: the bandwidth it reaches by block size, for reads and for writes.

A profile is measured (`fio_benchmark`) or given as a file. It yields what the driver reports: the
capacity of the disk, which is its bandwidth in the largest blocks of the profile, and the table of
coefficients with which the scheduler and the driver normalise. Not here: how coefficients are
interpolated and signed (`afflux.normalisers`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import msgspec

from afflux.kube.input_errors import field_error, json_error
from afflux.model.disks import Bandwidth
from afflux.model.errors import InputError
from afflux.model.resources import MAX_AMOUNT
from afflux.normalisers import coefficient_table
from afflux.normalisers.block_size import parse_block_size
from afflux.normalisers.coefficient_table import (
    LARGEST_BLOCK_BYTES,
    MAX_BLOCK_SIZES,
    MAX_FACTOR,
    MAX_NAME_LENGTH,
    SMALLEST_BLOCK_BYTES,
)
from afflux.normalisers.errors import NormaliserRefusedError

T = TypeVar("T")

KIND = "DiskProfile"
MAX_MODEL_LENGTH = MAX_NAME_LENGTH

# Coefficients are rounded up to thousandths.
_STEPS = 1000

ByBlockBytes = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """Bytes per second by block size. `total` is what half reads and half writes reach together in
    the largest blocks; many disks reach less than with reads alone, and then it bounds reads too.
    Without `devices`, ids of disks, the profile is for every disk of its model; with them the model
    may be empty, and then requests count as they are stated.

    `is_direct`: measured past the page cache. `origin` says in messages where it is from.
    """

    model: str
    read: ByBlockBytes
    write: ByBlockBytes
    total: int
    devices: tuple[str, ...] = ()
    is_direct: bool = True
    origin: str = ""

    @property
    def capacity(self) -> Bandwidth:
        """What the disk offers, normalised: one byte in the largest blocks counts as one."""
        return Bandwidth(self.read[max(self.read)], self.write[max(self.write)], self.total)

    def coefficients(self) -> dict[str, object]:
        """The content of the normaliser of this model: by how much a byte in smaller blocks costs
        more than one in the largest."""
        return {
            "kind": coefficient_table.KIND,
            "name": self.model,
            "read": _factors(self.read),
            "write": _factors(self.write),
        }

    def is_for(self, device_id: str, model: str) -> bool:
        """Whether this is the profile of a disk."""
        return device_id in self.devices if self.devices else bool(model) and model == self.model


def _factors(measured: ByBlockBytes) -> dict[str, float]:
    """Factors never grow with the block size: where a measurement says otherwise it is noise, and
    the larger factor of the larger block size counts for the smaller one too."""
    reference = measured[max(measured)]
    factor = Fraction(1)
    found: dict[str, float] = {}
    for block_bytes in sorted(measured, reverse=True):
        factor = max(factor, Fraction(reference, measured[block_bytes]))
        thousandths = -(-factor.numerator * _STEPS // factor.denominator)
        found[str(block_bytes)] = min(thousandths / _STEPS, MAX_FACTOR)
    return dict(reversed(found.items()))


# --- The written form


class _WrittenProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    model: str
    read: dict[str, float]
    write: dict[str, float]
    total: float | None = None
    devices: tuple[str, ...] = ()
    direct: bool = True


class _Header(msgspec.Struct, frozen=True):
    kind: str


_decoder = msgspec.json.Decoder(_WrittenProfile)
_header = msgspec.json.Decoder(_Header)


def decode_profile(content: bytes, origin: str) -> DeviceProfile:
    """The profile in a JSON file; an InputError that names the field and what was expected."""
    # First, so that another kind of file is not refused for one of its fields.
    kind = _decoded(_header, content, origin).kind
    if kind != KIND:
        raise InputError(f"{origin}: kind: {kind!r:.80}, expected {KIND}")
    written = _decoded(_decoder, content, origin)
    if written.model or not written.devices:
        check_model(written.model, f"{origin}: model")
    read = _by_block_bytes(written.read, f"{origin}: read")
    write = _by_block_bytes(written.write, f"{origin}: write")
    total = max(read[max(read)], write[max(write)])
    if written.total is not None:
        total = _bandwidth(written.total, f"{origin}: total")
    return DeviceProfile(written.model, read, write, total, written.devices, written.direct, origin)


def _decoded(decoder: msgspec.json.Decoder[T], content: bytes, origin: str) -> T:
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise InputError(f"{origin}: {field_error(error, content)}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        why = json_error(error)
        raise InputError(f"{origin}: not valid JSON: {why}; expected a profile") from None


def encode_profile(profile: DeviceProfile) -> bytes:
    """The profile as a JSON file that `decode_profile` reads."""
    written = {
        "kind": KIND,
        "model": profile.model,
        "read": {str(size): profile.read[size] for size in sorted(profile.read)},
        "write": {str(size): profile.write[size] for size in sorted(profile.write)},
        "total": profile.total,
        "devices": profile.devices,
        "direct": profile.is_direct,
    }
    return msgspec.json.format(msgspec.json.encode(written), indent=2) + b"\n"


def check_model(model: str, origin: str) -> None:
    """An InputError unless this is vendor/model."""
    vendor, slash, name = model.partition("/")
    if not (slash and vendor and name) or len(model) > MAX_MODEL_LENGTH or not model.isprintable():
        raise InputError(f"{origin}: {model!r:.80}, expected vendor/model")


def _block_bytes(text: str, origin: str) -> int:
    try:
        size = parse_block_size(text)
    except NormaliserRefusedError as error:
        raise InputError(f"{origin}: {error}") from None
    if not SMALLEST_BLOCK_BYTES <= size <= LARGEST_BLOCK_BYTES:
        raise InputError(f"{origin}: {text!r:.40}, expected a block size from 512 to 64Mi")
    return size


def _by_block_bytes(written: Mapping[str, float], origin: str) -> dict[int, int]:
    if not 0 < len(written) <= MAX_BLOCK_SIZES:
        raise InputError(
            f"{origin}: {len(written)} block sizes, expected from 1 to {MAX_BLOCK_SIZES}"
        )
    found: dict[int, int] = {}
    for text, amount in written.items():
        size = _block_bytes(text, origin)
        if size in found:
            raise InputError(f"{origin}: {text!r}: the block size is there twice, expected it once")
        found[size] = _bandwidth(amount, f"{origin}[{text}]")
    return found


def _bandwidth(amount: float, origin: str) -> int:
    # NaN fails the comparison too.
    if not 1 <= amount <= MAX_AMOUNT:
        raise InputError(f"{origin}: {amount}, expected bytes per second, at least 1")
    return int(amount)


def find_profile(
    profiles: Sequence[DeviceProfile], device_id: str, model: str
) -> DeviceProfile | None:
    """The profile of a disk: one that names the disk before one that names its model."""
    fitting = [each for each in profiles if each.is_for(device_id, model)]
    return min(fitting, key=lambda each: not each.devices, default=None)
