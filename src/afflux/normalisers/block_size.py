"""Block sizes as people write them: 512, 4k, 4Ki, 1M. Here k is 1024, with or without an i."""

import re

from afflux.normalisers.errors import NormaliserRefusedError

MAX_BLOCK_BYTES = 1 << 30

_PATTERN = re.compile(r"(?P<number>[0-9]{1,10})(?:(?P<unit>[km])i?)?", re.IGNORECASE | re.ASCII)
_SHIFT = {"": 0, "k": 10, "m": 20}


def parse_block_size(written: str | int) -> int:
    """The size in bytes; refused if it is no block size, zero, or larger than 1 GiB."""
    match = _PATTERN.fullmatch(str(written)) if not isinstance(written, bool) else None
    if match is None:
        raise NormaliserRefusedError(f"{str(written)!r:.40}, expected a block size such as 4k")
    size = int(match["number"]) << _SHIFT[(match["unit"] or "").lower()]
    if not 0 < size <= MAX_BLOCK_BYTES:
        raise NormaliserRefusedError(f"{written!r:.40}, expected a block size from 1 to 1024Mi")
    return size
