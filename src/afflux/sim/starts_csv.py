"""When and where each task ran, as CSV for other tools."""

import csv
import os

from afflux.sim.columns import in_submission_order
from afflux.sim.result import Result
from afflux.sim.writing import replacing

HEADER = ("task", "group", "submit", "start", "end", "machine")


def write_starts(result: Result, path: str | os.PathLike[str]) -> None:
    """One line per task in the order of submission, times in seconds of the virtual clock.

    A cell is empty where there is nothing to say: the start of a task that never started, the end
    of one that was still running. The machine is the one it holds or held, started or not. The file
    appears whole or not at all.
    """
    with replacing(path) as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(HEADER)
        lines.writerows(
            (
                run.task.name,
                run.group,
                _number(run.submit),
                _number(run.start),
                _number(run.end),
                run.machine or "",
            )
            for run in in_submission_order(result)
        )


def _number(value: float | None) -> str:
    """An integer where it is one, otherwise the shortest text that reads back the same."""
    if value is None:
        return ""
    number = float(value)
    return str(int(number)) if number.is_integer() else repr(number)
