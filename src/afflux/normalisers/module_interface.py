"""What is written into a module and read out of it: requests and answers as JSON.

In: {"rbps": "31457280", "wbps": "20971520", "blocksize": "4096"}. Out: {"rbps": "...",
"wbps": "...", "total": "..."} with numbers that are not negative, as texts or as numbers. Without
a total it is the sum. A block size in the answer is ignored, as the interface of the Kubernetes
proposal answers with the type of the request.
"""

import json
import math
import re
from decimal import Decimal

from afflux.model.disks import Bandwidth, VolumeIO
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.normaliser import MAX_BANDWIDTH
from afflux.normalisers.strict_json import fields, parse_json, shown

MAX_ANSWER_BYTES = 4096

_NUMBER = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?", re.ASCII)


def encode_request(volume: VolumeIO) -> bytes:
    """The request for one volume."""
    request = {"rbps": volume.read, "wbps": volume.write, "blocksize": volume.block_bytes}
    return json.dumps({field: str(value) for field, value in request.items()}).encode()


def decode_answer(answer: bytes) -> Bandwidth:
    """What the request takes, rounded up; NormaliserRefusedError if the answer is not valid."""
    try:
        found = fields(
            parse_json(answer, MAX_ANSWER_BYTES),
            ("rbps", "wbps"),
            ("total", "blocksize", "blockSize"),
        )
        read = _bandwidth("rbps", found["rbps"])
        write = _bandwidth("wbps", found["wbps"])
        total = _bandwidth("total", found["total"]) if "total" in found else read + write
        if not max(read, write) <= total <= MAX_BANDWIDTH:
            expected = f"expected at least {max(read, write)}, at most {MAX_BANDWIDTH}"
            raise NormaliserRefusedError(f"total: {total}, {expected}")
    except NormaliserRefusedError as error:
        raise NormaliserRefusedError(f"the answer of estimate_request: {error}") from None
    return Bandwidth(read, write, total)


def _bandwidth(name: str, value: object) -> int:
    if isinstance(value, str):
        number = Decimal(value) if _NUMBER.fullmatch(value) else None
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = Decimal(value)
    else:
        number = None
    if number is None or not 0 <= number <= MAX_BANDWIDTH:
        expected = f"expected a number of bytes per second from 0 to {MAX_BANDWIDTH}"
        raise NormaliserRefusedError(f"{name}: {shown(value)}, {expected}")
    return math.ceil(number)
