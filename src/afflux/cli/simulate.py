"""afflux simulate: a workload under one or more schedulers."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from tqdm import tqdm

from afflux import app
from afflux.cli.arguments import SimulateOptions
from afflux.cli.files import check_writable
from afflux.cli.settings import chosen_settings
from afflux.cli.tables import table
from afflux.cli.terminal import plain, to_json
from afflux.model.errors import InputError
from afflux.sim.loading import load_workload
from afflux.sim.metrics import measure
from afflux.sim.replay import Contestant, replay
from afflux.sim.report import write_report
from afflux.sim.report.text import count, duration, figures, percent
from afflux.sim.result import Result
from afflux.sim.starts import write_starts
from afflux.sim.workload import Workload


def run(options: SimulateOptions) -> int:
    """Simulate, then write and print what was asked for."""
    contestants = _contestants(options)
    starts = _starts_paths(options.starts, contestants)
    reports = [] if options.report is None else [options.report]
    inputs = [*options.workload, *([] if options.config is None else [options.config])]
    check_writable([*starts, *reports], inputs)
    workload = load_workload(options.workload, options.machines)
    results = [_simulate(workload, contestant, options.interval) for contestant in contestants]
    for path, result in zip(starts, results, strict=False):
        write_starts(result, path)
    for path in reports:
        write_report(results, path)
    measured = [measure(result) for result in results]
    if options.json:
        print(to_json(measured))
    else:
        _print_table(workload, measured, reports)
    return 0


def _contestants(options: SimulateOptions) -> list[Contestant]:
    if options.compare is None:
        return [app.contestant(chosen_settings(options))]
    for flag, value in (("--policy", options.policy), ("--config", options.config)):
        if value is not None:
            raise InputError(f"{flag}: {value!r:.80}, but --compare names the schedulers; drop one")
    return app.contestants(options.compare, options.strategy)


def _starts_paths(path: str | None, contestants: Sequence[Contestant]) -> list[str]:
    """With several schedulers each gets a file: starts.csv becomes starts.cpu-memory.csv."""
    if path is None:
        return []
    target = Path(path)
    if len(contestants) == 1 or not target.name:
        return [path]
    return [str(target.with_name(f"{target.stem}.{c.name}{target.suffix}")) for c in contestants]


def _simulate(workload: Workload, contestant: Contestant, interval_seconds: float) -> Result:
    total = sum(1 if s.run_seconds is None else 2 for s in workload.submissions)
    with tqdm(
        total=total,
        desc=contestant.name,
        unit="event",
        leave=False,
        disable=None,  # shown on a terminal, not in a pipe
        file=sys.stderr,
        ncols=_columns(),
        nrows=24,  # likewise: one line is all it takes
    ) as bar:
        return replay(workload, contestant, interval_seconds, bar.update)


def _columns() -> int:
    """The width of the terminal; one that does not know its own (0) gets a bar all the same."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


# What the table shows: a label, where the figure is in the metrics, how to write it.
_Row = tuple[str, str, Callable[[float], str]]
_ROWS: list[_Row] = [
    ("mean wait", "wait_seconds.mean", duration),
    ("p95 wait", "wait_seconds.p95", duration),
    ("longest wait", "wait_seconds.max", duration),
    ("mean bounded slowdown", "bounded_slowdown.mean", figures),
    ("p95 bounded slowdown", "bounded_slowdown.p95", figures),
    ("utilisation", "utilisation", percent),
    ("held without working", "stranded_share", percent),
    ("makespan", "makespan_seconds", duration),
    ("tasks not placed", "unplaced", count),
    ("backfilled", "backfilled", percent),
    ("promised a start", "promises.made", count),
    ("promises broken", "promises.broken", count),
]
_CYCLES: list[_Row] = [
    ("cycle, median", "cycle_seconds.p50", duration),
    ("cycle, p99", "cycle_seconds.p99", duration),
]


def _print_table(
    workload: Workload, measured: Sequence[Mapping[str, object]], reports: Sequence[str]
) -> None:
    tasks, machines = measured[0]["tasks"], measured[0]["machines"]
    print(plain(f"{workload.name}: {tasks} tasks, {machines} machines"), end="\n\n")
    header = ["", *(str(metrics["scheduler"]) for metrics in measured)]
    rows = [
        [label, *(_cell(metrics, path, write) for metrics in measured)]
        for label, path, write in [*_ROWS, *_causes(measured), *_unknown(measured), *_CYCLES]
    ]
    print(table(header, rows))
    for path in reports:
        print("\n" + plain(f"report: {path}"))


def _unknown(measured: Sequence[Mapping[str, object]]) -> list[_Row]:
    """Whom nobody could tell when they start, if there are any."""
    some = any(cast("Mapping[str, int]", m["promises"])["unknown"] for m in measured)
    return [("start unknown", "promises.unknown", count)] if some else []


def _causes(measured: Sequence[Mapping[str, object]]) -> list[_Row]:
    """By what promises were broken, of those causes that occur."""
    broken = (cast("Mapping[str, Mapping[str, int]]", m["promises"])["broken_by"] for m in measured)
    causes = sorted({cause for by in broken for cause in by})
    return [(f"- {cause}", f"promises.broken_by.{cause}", count) for cause in causes]


def _cell(metrics: object, path: str, write: Callable[[float], str]) -> str:
    for key in path.split("."):
        metrics = cast("Mapping[str, object]", metrics).get(key)
    return "-" if metrics is None else write(cast("float", metrics))
