"""Bytes from files and from standard input."""

import sys
from pathlib import Path

from afflux.model.errors import InputError


def read_source(path: str) -> tuple[str, bytes]:
    """The name to use in messages, and the content; `-` is standard input."""
    if path == "-":
        return "<stdin>", sys.stdin.buffer.read()
    try:
        return path, Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
