"""The memory that one solver uses for one case, measured in a separate process.

`python -m bench.solver.memory_measurement '{...}'` is how `measure` calls it. The cluster and
the changes of a round exist before memory is measured, so that only the growth of the solver
counts.
"""

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from bench.solver import ortools_solver
from bench.solver.churn_rounds import Case, Ours
from bench.solver.shapes import CHURN_SHARE

ROUNDS = 5  # the cold solve, the settling round, three rounds of churn

T = TypeVar("T")

# Freed arrays are returned to the system at once, so that growth is not hidden in free memory.
_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


@dataclass(frozen=True)
class MemoryRun:
    """Seconds of each round, and the peak memory: in total, and per arc of a round."""

    machines: int
    tasks: int
    arcs: int
    seconds: tuple[float, ...]
    peak_bytes: int
    bytes_per_arc: float


def measure(case: Case, seed: int, *, of_peer: bool = False) -> MemoryRun:
    """Our solver over a few rounds, or OR-Tools on the cold one."""
    question = json.dumps({"case": asdict(case), "seed": seed, "of_peer": of_peer})
    done = subprocess.run(
        [sys.executable, "-m", "bench.solver.memory_measurement", question],
        env={**os.environ, **_ENVIRONMENT},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return MemoryRun(**json.loads(done.stdout))


def _ours(case: Case, seed: int) -> MemoryRun:
    cluster = case.cluster(seed)
    columns = cluster.columns
    ours = Ours(columns)
    seconds: list[float] = []
    before = peak = 0
    per_arc = 0.0
    for number in range(ROUNDS):
        if number:
            cluster.place(ours.flow())
            cluster.churn(CHURN_SHARE if number > 1 else 0.0)
        changes = ours.prepare()
        solved, rise, growth = _watch(lambda changes=changes: ours.solve(changes))
        peak = max(peak, before + rise)
        per_arc = max(per_arc, (before + rise) / columns.arcs)
        before += growth
        seconds.append(solved.apply_seconds + solved.solve_seconds)
    return MemoryRun(case.machines, cluster.tasks, columns.arcs, tuple(seconds), peak, per_arc)


def _peer(case: Case, seed: int) -> MemoryRun:
    cluster = case.cluster(seed)
    columns = cluster.columns
    solved, rise, _ = _watch(lambda: ortools_solver.solve_cold(columns))
    seconds = (solved.seconds,)
    return MemoryRun(case.machines, cluster.tasks, columns.arcs, seconds, rise, rise / columns.arcs)


def _watch(work: Callable[[], T]) -> tuple[T, int, int]:
    """The result of `work`, the increase of memory at its peak, and afterwards."""
    before = _used_memory()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # reset the peak
    found = work()
    peak = _memory("VmHWM")
    return found, peak - before, _used_memory() - before


def _used_memory() -> int:
    """Memory in use, without freed memory that can be returned to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return _memory("VmRSS")


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"no {name} in /proc/self/status")


def main() -> None:
    """Measure the case given as JSON and print the result."""
    question = json.loads(sys.argv[1])
    case = Case(**question["case"])
    print(json.dumps(asdict((_peer if question["of_peer"] else _ours)(case, question["seed"]))))


if __name__ == "__main__":
    main()
