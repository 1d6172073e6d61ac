"""One case in a process of its own, by one solver: what it takes in memory.

`python -m bench.solver.alone '{...}'` is how `measure` calls it. The cluster and the changes of a
round are there before memory is looked at, so that what grows is the solver.
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

from bench.solver import peer
from bench.solver.series import Case, Ours
from bench.solver.tasks import CHURN_SHARE

ROUNDS = 5  # the cold one, one that settles it, three of churn

T = TypeVar("T")

# Freed arrays go back to the system at once: growth must not hide in what Python left over.
_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


@dataclass(frozen=True)
class Alone:
    """Seconds of each round, and the largest memory over all: in all, and by arcs of a round."""

    machines: int
    tasks: int
    arcs: int
    seconds: tuple[float, ...]
    peak_bytes: int
    bytes_per_arc: float


def measure(case: Case, seed: int, *, of_peer: bool = False) -> Alone:
    """Our solver over a few rounds, or OR-Tools on the cold one."""
    question = json.dumps({"case": asdict(case), "seed": seed, "of_peer": of_peer})
    done = subprocess.run(
        [sys.executable, "-m", "bench.solver.alone", question],
        env={**os.environ, **_ENVIRONMENT},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return Alone(**json.loads(done.stdout))


def _ours(case: Case, seed: int) -> Alone:
    cluster = case.cluster(seed)
    columns = cluster.columns
    ours = Ours(columns)
    seconds: list[float] = []
    held = peak = 0
    per_arc = 0.0
    for number in range(ROUNDS):
        if number:
            cluster.place(ours.flow())
            cluster.churn(CHURN_SHARE if number > 1 else 0.0)
        changes = ours.prepare()
        solved, rise, growth = _watch(lambda changes=changes: ours.solve(changes))
        peak = max(peak, held + rise)
        per_arc = max(per_arc, (held + rise) / columns.arcs)
        held += growth
        seconds.append(solved.apply_seconds + solved.solve_seconds)
    return Alone(case.machines, cluster.tasks, columns.arcs, tuple(seconds), peak, per_arc)


def _peer(case: Case, seed: int) -> Alone:
    cluster = case.cluster(seed)
    columns = cluster.columns
    solved, rise, _ = _watch(lambda: peer.solve_cold(columns))
    seconds = (solved.seconds,)
    return Alone(case.machines, cluster.tasks, columns.arcs, seconds, rise, rise / columns.arcs)


def _watch(work: Callable[[], T]) -> tuple[T, int, int]:
    """What the work found, how far memory rose meanwhile, and by how much it grew for good."""
    before = _kept()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew here
    found = work()
    peak = _memory("VmHWM")
    return found, peak - before, _kept() - before


def _kept() -> int:
    """Memory in use, without what was freed and could be had back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return _memory("VmRSS")


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"no {name} in /proc/self/status")


def main() -> None:
    """Answer the question given as JSON."""
    question = json.loads(sys.argv[1])
    case = Case(**question["case"])
    print(json.dumps(asdict((_peer if question["of_peer"] else _ours)(case, question["seed"]))))


if __name__ == "__main__":
    main()
