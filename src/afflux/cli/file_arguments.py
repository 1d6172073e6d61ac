"""Reads input files, and checks early that output files can be written."""

import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence

from afflux.bounded_read import read_all, read_file
from afflux.model.errors import InputError


def read_source(path: str) -> tuple[str, bytes]:
    """The name to use in messages, and the content; `-` is standard input."""
    if path == "-":
        return "<stdin>", read_all(sys.stdin.buffer, "<stdin>")
    return path, read_file(path)


def check_writable(outputs: Sequence[str], inputs: Iterable[str]) -> None:
    """Raises InputError if an output cannot be written, before hours of simulation."""
    read = {_file_id(path) for path in inputs} - {None}
    taken: set[str] = set()
    for path in outputs:
        if not path:
            raise InputError("'': cannot be written; expected the name of a file")
        if _file_id(path) in read:
            raise InputError(f"{path!r:.200}: cannot be written: it is also an input")
        target = os.path.realpath(path)
        if target in taken:
            raise InputError(f"{path!r:.200}: cannot be written: two outputs would go there")
        taken.add(target)
        try:
            _try_writing(path)
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise InputError(f"{path!r:.200}: cannot be written: {why}") from None


def _try_writing(path: str) -> None:
    """Raises OSError if no file can be written there; leaves no file behind."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode) or path.endswith(os.sep):
        raise IsADirectoryError("it is a folder; expected the name of a file")
    if not stat.S_ISREG(mode):
        # A terminal or a pipe cannot be tried without writing to it.
        return
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"there is no folder {folder!r}")
    with tempfile.TemporaryFile(dir=folder):
        pass


def _file_id(path: str) -> tuple[int, int] | None:
    """Device and inode of a regular file, None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
