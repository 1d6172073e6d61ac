"""Replay of the openb trace, end to end, in a process of its own."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

# The folders that may contain the traces; they are not part of this project.
FOLDERS = (Path("../shared/data/openb"), Path("data/openb"))
FILES = ("openb_node_list_all_node.csv", "openb_pod_list_default.csv")

_PROGRAM = """
import resource, sys
from afflux.cli import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


@dataclass(frozen=True)
class Replay:
    """One scheduler over the trace: seconds from start to exit, and the largest memory."""

    scheduler: str
    seconds: float
    memory_mib: float
    unplaced: int
    cycle_p50_seconds: float
    cycle_p99_seconds: float


def measure() -> list[Replay] | None:
    """The replays of our scheduler and of the peer, None if there is no trace."""
    folder = next((f for f in FOLDERS if all((f / name).is_file() for name in FILES)), None)
    if folder is None:
        return None
    found: list[Replay] = []
    for scheduler in ("cpu-memory", "pod-by-pod"):
        files = [str(folder / name) for name in FILES]
        arguments = ["simulate", *files, "--compare", scheduler, "--json"]
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, check=True, text=True
        )
        seconds = time.perf_counter() - began
        (metrics,) = json.loads(done.stdout)
        found.append(
            Replay(
                scheduler,
                seconds,
                int(done.stderr.split()[-1]) / 1024,
                metrics["unplaced"],
                metrics["cycle_seconds"]["p50"],
                metrics["cycle_seconds"]["p99"],
            )
        )
    return found
