"""Files that are either whole or not there."""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[TextIO]:
    """A text file that takes the place of `path` once all of it has been written.

    It is written beside the target and moved there at the end. On any exception, Ctrl-C included,
    it is removed and whatever stood at `path` stays. What is not a regular file (`/dev/stdout`, a
    pipe) cannot be replaced and is written to directly. Lines end as they are written.
    """
    target = Path(os.path.realpath(path))
    # A link such as /dev/stdout may lead to a pipe, which has no name of its own to resolve to.
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
