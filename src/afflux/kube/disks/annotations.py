"""The annotation in which a pod states what it does on disks.

For the pod as a whole, as in the KEP, or for each volume by its name:

    {"rbps": "20M", "wbps": "30M", "blocksize": "4k"}
    {"data": {"requests": {"rbps": "50Mi/4k", "wiops": "2000/4k"}, "limits": {...}}}

An InputError names the annotation, the field, the value and what was expected. Limits are not
looked at: a limit reserves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import msgspec

from afflux.kube.input_errors import json_error, shown
from afflux.kube.quantities import NANO_PER_ONE, nano
from afflux.model.disks import DEFAULT_BLOCK_BYTES, VolumeIO
from afflux.model.errors import InputError

# The KEP's name, and the later one.
THROUGHPUT = "blockio.kubernetes.io/throughput"
RESOURCES = "blockio.kubernetes.io/resources"

# Far above common use: a pod has a few volumes, and a disk some GB/s. With these limits a request
# that is normalised by a factor of thousands still fits into 64 bits.
MAX_CHARACTERS = 8_192
MAX_VOLUMES = 16
MAX_BYTES_PER_SECOND = 10**13
MIN_BLOCK_BYTES = 512
MAX_BLOCK_BYTES = 64 * 1024 * 1024

_BYTES = ("rbps", "wbps")
_OPERATIONS = ("riops", "wiops")
_BLOCK_SIZE = "blocksize"
_REQUEST = frozenset({*_BYTES, *_OPERATIONS, _BLOCK_SIZE})
_VOLUME = frozenset({"requests", "limits"})
_EXPECTED_BYTES = f"bytes per second such as 20M or 20Mi, at most {MAX_BYTES_PER_SECOND}"
_EXPECTED_OPERATIONS = "operations per second such as 2000 or 2k"
_EXPECTED_BLOCK = f"bytes such as 4k, from {MIN_BLOCK_BYTES} to {MAX_BLOCK_BYTES}"
_EXPECTED_REQUEST = "at least one of rbps, wbps, riops, wiops"


@dataclass(frozen=True, slots=True)
class StatedVolume:
    """What a pod states for one of its volumes; without a name, for all of them together."""

    name: str | None
    io: VolumeIO


@dataclass(frozen=True, slots=True)
class StatedDiskIO:
    """What a pod states in this annotation, in the order of the names of its volumes."""

    annotation: str
    volumes: tuple[StatedVolume, ...]


def stated_disk_io(annotations: Mapping[str, str] | None) -> StatedDiskIO | None:
    """What a pod with these annotations states; None if it states nothing.

    Both annotations may be there if they say the same.
    """
    if annotations is None:
        return None
    found: StatedDiskIO | None = None
    for name in (RESOURCES, THROUGHPUT):
        text = annotations.get(name)
        if text is None:
            continue
        stated = _stated(name, text)
        if found is not None and stated.volumes != found.volumes:
            raise InputError(
                f"annotation {THROUGHPUT}: {shown(text)}, expected the same as in {RESOURCES}"
            )
        found = stated
    return found


def _stated(name: str, text: str) -> StatedDiskIO:
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f"annotation {name}: {len(text)} characters, expected at most {MAX_CHARACTERS}"
        )
    try:
        return StatedDiskIO(name, _parse(text))
    except InputError as error:
        raise InputError(f"annotation {name}: {error}") from None


@lru_cache(maxsize=2048)
def _parse(text: str) -> tuple[StatedVolume, ...]:
    try:
        value = cast("object", msgspec.json.decode(text))
    except (msgspec.DecodeError, ValueError) as error:
        raise InputError(f"{shown(text)}, expected JSON: {json_error(error)}") from None
    except RecursionError:
        raise InputError(f"{shown(text)}, expected JSON that is not nested so deeply") from None
    fields = _mapping(value, "")
    if not any(isinstance(inner, dict) for inner in fields.values()):
        return (StatedVolume(None, _request(fields, "")),)
    if len(fields) > MAX_VOLUMES:
        raise InputError(f"{len(fields)} volumes, expected at most {MAX_VOLUMES}")
    return tuple(StatedVolume(each, _volume(fields[each], each)) for each in sorted(fields))


def _volume(value: object, name: str) -> VolumeIO:
    where = f"{_shown_name(name)}."
    fields = _folded(_mapping(value, where), where, _VOLUME)
    if "requests" not in fields:
        raise InputError(f"{where}requests: missing, expected {_EXPECTED_REQUEST}")
    where = f"{where}requests."
    return _request(_mapping(fields["requests"], where), where)


def _request(value: Mapping[str, object], where: str) -> VolumeIO:
    fields = _folded(value, where, _REQUEST)
    if fields.keys() <= {_BLOCK_SIZE}:
        given = "only blocksize" if fields else "{}"
        place = f"{where.removesuffix('.')}: " if where else ""
        raise InputError(f"{place}{given}, expected {_EXPECTED_REQUEST}")
    block = DEFAULT_BLOCK_BYTES
    if _BLOCK_SIZE in fields:
        block = block_size(fields[_BLOCK_SIZE], f"{where}{_BLOCK_SIZE}")
    rates = {key: _rate(key, fields[key], where, block) for key in fields if key != _BLOCK_SIZE}
    # Reading and writing have one block size: the smaller one, which costs a disk more.
    block = min(rate.block_bytes for rate in rates.values())
    read, write = (
        max(rates[key].bytes_per_second if key in rates else 0 for key in keys)
        for keys in zip(_BYTES, _OPERATIONS, strict=True)
    )
    return VolumeIO(read, write, block)


@dataclass(frozen=True, slots=True)
class _Rate:
    bytes_per_second: int
    block_bytes: int


def _rate(key: str, stated: object, where: str, block: int) -> _Rate:
    """A quantity per second, of bytes or of operations in blocks of this size; a block size behind
    a slash counts instead."""
    where = f"{where}{key}"
    value = stated
    if isinstance(stated, str) and "/" in stated:
        value, _, own_block = stated.partition("/")
        block = block_size(own_block, where)
    if key in _BYTES:
        amount = _quantity(value, where, _EXPECTED_BYTES)
    else:
        amount = _quantity(value, where, _EXPECTED_OPERATIONS) * block
    if amount > MAX_BYTES_PER_SECOND:
        raise InputError(f"{where}: {shown(stated)}, expected {_EXPECTED_BYTES}")
    return _Rate(amount, block)


def bandwidth(value: object, where: str) -> int:
    """Bytes per second; an InputError that begins with `where`."""
    amount = _quantity(value, where, _EXPECTED_BYTES)
    if amount > MAX_BYTES_PER_SECOND:
        raise InputError(f"{where}: {shown(value)}, expected {_EXPECTED_BYTES}")
    return amount


def block_size(value: object, where: str) -> int:
    """A block size in bytes: as for disks in general, 4k is 4096."""
    written = value
    if isinstance(value, str) and value[-1:] in {"k", "K", "m", "M"}:
        written = f"{value[:-1]}{value[-1].upper()}i"
    amount = _quantity(written, where, _EXPECTED_BLOCK, value)
    if not MIN_BLOCK_BYTES <= amount <= MAX_BLOCK_BYTES:
        raise InputError(f"{where}: {shown(value)}, expected {_EXPECTED_BLOCK}")
    return amount


def _quantity(value: object, where: str, expected: str, stated: object = None) -> int:
    """The quantity, rounded up to a whole number."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return -(-nano(value) // NANO_PER_ONE)
        except InputError:
            pass
    said = shown(value if stated is None else stated)
    raise InputError(f"{where}: {said}, expected {expected}")


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        place = f"{where.removesuffix('.')}: " if where else ""
        raise InputError(f"{place}{shown(value)}, expected a mapping")
    return cast("dict[str, object]", value)


def _folded(
    fields: Mapping[str, object], where: str, known: frozenset[str]
) -> Mapping[str, object]:
    """The fields by their names in small letters: block sizes are written blockSize, too."""
    found: dict[str, object] = {}
    for name in fields:
        folded = name.lower()
        if folded not in known:
            names = ", ".join(sorted(known))
            raise InputError(f"{where}{_shown_name(name)}: unknown field, expected one of {names}")
        if folded in found:
            raise InputError(f"{where}{folded}: given twice, expected once")
        found[folded] = fields[name]
    return found


def _shown_name(name: str) -> str:
    plain = name.isprintable() and name and len(name) <= 63
    return name if plain else shown(name)
