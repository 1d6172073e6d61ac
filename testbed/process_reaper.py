"""Ends the testbed's processes when whoever started them is gone, however it went.

Run as a program of its own, by path: it reads `+pid` and `-pid` lines from its standard input. When
the other end of that pipe closes, by a clean stop or because the test process was killed, it kills
what is left and removes the folder. A parent-death signal would be shorter, but Linux sends that
one when the *thread* ends that started the process, and tests do start processes from threads.
"""

import contextlib
import os
import shutil
import signal
import sys


def keep(directory: str) -> None:
    """Follow the pipe to its end, then clean up."""
    pids: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        if line.startswith("+"):
            pids.add(pid)
        else:
            pids.discard(pid)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    keep(sys.argv[1])
