"""afflux simulate: a workload under one or more schedulers."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from tqdm import tqdm

from afflux import app
from afflux.cli.arguments import SimulateOptions
from afflux.cli.chosen_settings import chosen_settings
from afflux.cli.data_output import print_data
from afflux.cli.exit_codes import ExitCode
from afflux.cli.file_arguments import check_writable
from afflux.cli.output_option import is_data
from afflux.cli.safe_output import printable
from afflux.cli.text_table import format_table
from afflux.model.errors import InputError
from afflux.sim.metrics import measure
from afflux.sim.replay import SimulatedScheduler, replay
from afflux.sim.report import write_report
from afflux.sim.report.text_format import count, duration, percent, significant_figures
from afflux.sim.result import Result
from afflux.sim.starts_csv import write_starts
from afflux.sim.workload import Workload
from afflux.sim.workload_loader import load_workload


def run(options: SimulateOptions) -> ExitCode:
    """Simulates, then writes the requested files and prints the metrics."""
    schedulers = _schedulers_to_simulate(options)
    starts = _starts_paths(options.starts, schedulers)
    reports = [] if options.report is None else [options.report]
    inputs = [*options.workload, *([] if options.config is None else [options.config])]
    check_writable([*starts, *reports], inputs)
    workload = load_workload(options.workload, options.machines)
    results = [_simulate(workload, scheduler, options.interval) for scheduler in schedulers]
    for path, result in zip(starts, results, strict=False):
        write_starts(result, path)
    for path in reports:
        write_report(results, path)
    measured = [measure(result) for result in results]
    if is_data(options.output):
        print_data(measured, options.output)
    else:
        _print_table(workload, measured, reports, wide=options.output == "wide")
    return ExitCode.DONE


def _schedulers_to_simulate(options: SimulateOptions) -> list[SimulatedScheduler]:
    if options.compare is None:
        return [app.simulated_scheduler(chosen_settings(options))]
    for flag, value in (("--policy", options.policy), ("--config", options.config)):
        if value is not None:
            raise InputError(f"{flag}: {value!r:.80}, but --compare names the schedulers; drop one")
    return app.simulated_schedulers(options.compare, options.strategy)


def _starts_paths(path: str | None, schedulers: Sequence[SimulatedScheduler]) -> list[str]:
    """One path per scheduler: with several, starts.csv becomes starts.cpu-memory.csv."""
    if path is None:
        return []
    target = Path(path)
    if len(schedulers) == 1 or not target.name:
        return [path]
    names = [f"{target.stem}.{scheduler.name}{target.suffix}" for scheduler in schedulers]
    return [str(target.with_name(name)) for name in names]


def _simulate(workload: Workload, scheduler: SimulatedScheduler, interval_seconds: float) -> Result:
    total = sum(1 if s.run_seconds is None else 2 for s in workload.submissions)
    with tqdm(
        total=total,
        desc=scheduler.name,
        unit="event",
        leave=False,
        disable=None,  # shown on a terminal, not in a pipe
        file=sys.stderr,
        ncols=_columns(),
        nrows=24,  # unknown height: the bar needs one line
    ) as bar:
        return replay(workload, scheduler, interval_seconds, bar.update)


def _columns() -> int:
    """The width of the terminal, 80 if it is unknown."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


# A row of the table: its label, the path of its metric, how to format it.
_TableRow = tuple[str, str, Callable[[float], str]]
_METRIC_ROWS: list[_TableRow] = [
    ("mean wait", "wait_seconds.mean", duration),
    ("p95 wait", "wait_seconds.p95", duration),
    ("longest wait", "wait_seconds.max", duration),
    ("mean bounded slowdown", "bounded_slowdown.mean", significant_figures),
    ("p95 bounded slowdown", "bounded_slowdown.p95", significant_figures),
    ("utilisation", "utilisation", percent),
    ("held without working", "stranded_share", percent),
    ("makespan", "makespan_seconds", duration),
    ("tasks not placed", "unplaced", count),
    ("backfilled", "backfilled", percent),
    ("reservations", "promises.made", count),
    ("reservations broken", "promises.broken", count),
]
_CYCLE_ROWS: list[_TableRow] = [
    ("cycle, median", "cycle_seconds.p50", duration),
    ("cycle, p99", "cycle_seconds.p99", duration),
]
# Only if machines of the workload have disks.
_DISK_ROWS: list[_TableRow] = [
    ("disk throughput lost", "disk_io.lost_share", percent),
    ("tasks slowed on disks", "disk_io.slowed_tasks", count),
]
# Only if tasks were evicted.
_PREEMPTION_ROWS: list[_TableRow] = [
    ("preemptions", "preemptions", count),
    ("work lost by them", "work_lost_seconds", duration),
]
# Only in the wide table.
_WIDE_ROWS: list[_TableRow] = [
    ("groups", "groups", count),
    ("median wait", "wait_seconds.p50", duration),
    ("largest bounded slowdown", "bounded_slowdown.max", significant_figures),
    ("cycles", "cycles", count),
    ("longest cycle", "cycle_seconds.max", duration),
    ("all cycles", "cycle_seconds.total", duration),
]


def _print_table(
    workload: Workload,
    measured: Sequence[Mapping[str, object]],
    reports: Sequence[str],
    *,
    wide: bool,
) -> None:
    tasks, machines = measured[0]["tasks"], measured[0]["machines"]
    print(printable(f"{workload.name}: {tasks} tasks, {machines} machines"), end="\n\n")
    header = ["", *(str(metrics["scheduler"]) for metrics in measured)]
    optional = [
        *_broken_rows(measured),
        *_start_unknown_rows(measured),
        *(_PREEMPTION_ROWS if any(metrics["preemptions"] for metrics in measured) else ()),
        *(_DISK_ROWS if measured[0]["disk_io"] is not None else ()),
    ]
    shown = [*_METRIC_ROWS, *optional, *_CYCLE_ROWS]
    if wide:
        shown += [*_utilisation_rows(measured), *_WIDE_ROWS]
    rows = [
        [label, *(_cell(metrics, path, write) for metrics in measured)]
        for label, path, write in shown
    ]
    print(format_table(header, rows))
    for path in reports:
        print("\n" + printable(f"report: {path}"))


def _start_unknown_rows(measured: Sequence[Mapping[str, object]]) -> list[_TableRow]:
    """The row for groups whose start is unknown, if there are any."""
    some = any(cast("Mapping[str, int]", m["promises"])["unknown"] for m in measured)
    return [("start unknown", "promises.unknown", count)] if some else []


def _broken_rows(measured: Sequence[Mapping[str, object]]) -> list[_TableRow]:
    """A row for each cause of broken reservations that occurs."""
    broken = (cast("Mapping[str, Mapping[str, int]]", m["promises"])["broken_by"] for m in measured)
    causes = sorted({cause for by in broken for cause in by})
    return [(f"- {cause}", f"promises.broken_by.{cause}", count) for cause in causes]


def _utilisation_rows(measured: Sequence[Mapping[str, object]]) -> list[_TableRow]:
    """A row for each resource of the machines."""
    shares = cast("Mapping[str, object]", measured[0]["utilisation_by_resource"])
    return [
        (f"utilisation of {name}", f"utilisation_by_resource.{name}", percent) for name in shares
    ]


def _cell(metrics: object, path: str, write: Callable[[float], str]) -> str:
    for key in path.split("."):
        metrics = cast("Mapping[str, object]", metrics).get(key)
    return "-" if metrics is None else write(cast("float", metrics))
