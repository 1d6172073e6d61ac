"""Files that are read, and paths at which something will be written later on."""

import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence

from afflux.files import read_all
from afflux.model.errors import InputError


def read_source(path: str) -> tuple[str, bytes]:
    """The name to use in messages, and the content; `-` is standard input."""
    if path == "-":
        return "<stdin>", read_all(sys.stdin.buffer, "<stdin>")
    try:
        with open(path, "rb") as file:
            return path, read_all(file, path)
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name that no file system can hold
        raise InputError(
            f"{path!r:.200}: {_why(error)}; expected a file that can be read"
        ) from None


def check_writable(outputs: Sequence[str], inputs: Iterable[str]) -> None:
    """Find out before hours of simulation, not after, that a file cannot be written."""
    read = {_identity(path) for path in inputs} - {None}
    taken: set[str] = set()
    for path in outputs:
        if not path:
            raise InputError("'': cannot be written; expected the name of a file")
        if _identity(path) in read:
            raise InputError(f"{path!r:.200}: cannot be written: it is also an input")
        target = os.path.realpath(path)
        if target in taken:
            raise InputError(f"{path!r:.200}: cannot be written: two outputs would go there")
        taken.add(target)
        try:
            _try_writing(path)
        except (OSError, ValueError) as error:
            raise InputError(f"{path!r:.200}: cannot be written: {_why(error)}") from None


def _try_writing(path: str) -> None:
    """Raise OSError unless a file can be put there; leaves nothing behind."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode) or path.endswith(os.sep):
        raise IsADirectoryError("it is a folder; expected the name of a file")
    if not stat.S_ISREG(mode):
        # A terminal or a pipe is written to as it is, and writing is the only way to try.
        return
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"there is no folder {folder!r}")
    with tempfile.TemporaryFile(dir=folder):
        pass


def _identity(path: str) -> tuple[int, int] | None:
    """What makes two paths name one regular file; None where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
