"""Ends the testbed's processes when the test process has ended, even by SIGKILL.

It runs as a separate program and reads `+pid` and `-pid` lines from its standard input. When the
test process ends, the pipe closes: the program kills the remaining processes and removes the
folder. A parent-death signal would be shorter, but Linux sends it when the *thread* that started
the process ends, and tests start processes from threads.
"""

import contextlib
import os
import shutil
import signal
import sys


def reap_at_end_of_input(directory: str) -> None:
    """Reads the pipe to its end, then kills the processes and removes the directory."""
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
    reap_at_end_of_input(sys.argv[1])
