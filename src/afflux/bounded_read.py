"""Reading files with a bound: an endless one must not take the machine with it."""

from typing import BinaryIO

from afflux.model.errors import InputError

LARGEST_FILE = 1 << 30
_PIECE = 1 << 20


def read_all(file: BinaryIO, name: str) -> bytes:
    """All of a file; an InputError if it is larger than anything that could be meant."""
    pieces: list[bytes] = []
    size = 0
    while piece := file.read(_PIECE):
        size += len(piece)
        if size > LARGEST_FILE:
            raise InputError(f"{name}: more than {LARGEST_FILE >> 20} MiB; expected a smaller file")
        pieces.append(piece)
    return b"".join(pieces)
