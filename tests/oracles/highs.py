"""Integer programs, and the client of the process that solves them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

Terms = list[tuple[int, float]]


@dataclass
class Program:
    """Minimise the cost of integer columns under rows `low <= terms <= high`."""

    columns: list[tuple[float, float, float]] = field(default_factory=list)
    rows: list[tuple[float | None, float | None, Terms]] = field(default_factory=list)

    def variable(self, low: float, high: float, cost: float = 0.0) -> int:
        self.columns.append((low, high, cost))
        return len(self.columns) - 1

    def row(self, low: float | None, high: float | None, terms: Terms) -> None:
        if terms:
            self.rows.append((low, high, terms))

    def set_objective(self, costs: Terms) -> None:
        """Replace the objective."""
        by_column = dict(costs)
        self.columns = [
            (low, high, by_column.get(i, 0.0)) for i, (low, high, _) in enumerate(self.columns)
        ]


@dataclass(frozen=True)
class Answer:
    """`value` is None where no assignment satisfies every row."""

    value: float | None
    solution: tuple[int, ...] = ()


class Highs:
    def __init__(self, process: subprocess.Popen) -> None:
        self._process = process

    def solve(self, program: Program, seconds: float = 20.0) -> Answer:
        if not program.columns:
            return Answer(0.0)
        line = {"columns": program.columns, "rows": program.rows, "seconds": seconds}
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer["status"] == "infeasible":
            return Answer(None)
        if answer["status"] != "optimal":
            raise TimeoutError(answer["status"])
        return Answer(answer["value"], tuple(round(value) for value in answer["solution"]))


@contextmanager
def running_highs() -> Iterator[Highs]:
    worker = Path(__file__).with_name("highs_worker.py")
    with subprocess.Popen(
        [sys.executable, str(worker)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Highs(process)
        process.stdin.close()
