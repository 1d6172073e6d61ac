"""Writes when and where each task ran, as CSV for other tools."""

import csv
import os

from afflux.atomic_write import atomic_write
from afflux.sim.result import Result
from afflux.sim.result_columns import in_submission_order

HEADER = ("task", "group", "submit", "start", "end", "machine")


def write_starts(result: Result, path: str | os.PathLike[str]) -> None:
    """One line per task in the order of submission, times in seconds of the virtual clock.

    The start of a task that never started and the end of a running task are empty. `machine` is
    the machine the task holds or held, started or not. The file is written atomically.
    """
    with atomic_write(path) as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(HEADER)
        for run in in_submission_order(result):
            times = map(_number, (run.submit, run.start, run.end))
            lines.writerow((run.task.name, run.group, *times, run.machine or ""))


def _number(value: float | None) -> str:
    """An integer if the value is one, otherwise the shortest text that reads back the same."""
    if value is None:
        return ""
    number = float(value)
    return str(int(number)) if number.is_integer() else repr(number)
