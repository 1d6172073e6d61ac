"""Writes files atomically: a file appears complete or not at all."""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Generator[TextIO]:
    """Opens a text file for writing that replaces `path` once it is complete.

    A temporary file in the same directory is written and renamed at the end. On any exception,
    Ctrl-C included, it is removed and `path` stays as it was. Anything but a regular file
    (`/dev/stdout`, a pipe) cannot be replaced and is written directly. Line ends stay as written.
    """
    target = Path(os.path.realpath(path))
    # A link such as /dev/stdout may lead to a pipe, which has no path to resolve to.
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8", newline="", errors="backslashreplace") as file:
            yield file
        return
    beside = target.with_name(f".afflux-{secrets.token_hex(8)}.tmp")
    try:
        with open(beside, "x", encoding="utf-8", newline="", errors="backslashreplace") as file:
            yield file
        if target.exists():
            os.chmod(beside, stat.S_IMODE(target.stat().st_mode))
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
