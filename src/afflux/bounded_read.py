"""Reads files up to a maximum size, so that an endless file cannot exhaust the memory."""

from typing import BinaryIO

from afflux.model.errors import InputError

MAX_FILE_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20


def read_file(path: str) -> bytes:
    """The content of a file; an InputError if it cannot be read or is too large."""
    try:
        with open(path, "rb") as file:
            return read_all(file, path)
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: not a possible file name
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(f"{path!r:.200}: {why}; expected a file that can be read") from None


def read_all(file: BinaryIO, name: str) -> bytes:
    """The content of a file; an InputError if it is larger than MAX_FILE_BYTES."""
    chunks: list[bytes] = []
    size = 0
    while chunk := file.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > MAX_FILE_BYTES:
            raise InputError(
                f"{name}: more than {MAX_FILE_BYTES >> 20} MiB; expected a smaller file"
            )
        chunks.append(chunk)
    return b"".join(chunks)
