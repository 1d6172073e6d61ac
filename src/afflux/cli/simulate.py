"""afflux simulate: a workload under one or more schedulers."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from afflux import app
from afflux.cli.settings import chosen_settings
from afflux.cli.tables import table
from afflux.config import DEFAULT_STRATEGY
from afflux.model.errors import InputError
from afflux.sim.loading import load_workload
from afflux.sim.metrics import measure
from afflux.sim.replay import Contestant, replay
from afflux.sim.report import write_report
from afflux.sim.report.text import duration, figures, percent
from afflux.sim.result import Result
from afflux.sim.starts import write_starts
from afflux.sim.workload import Workload


def run(options: argparse.Namespace) -> int:
    """Simulate, then print and write what was asked for."""
    contestants = _contestants(options)
    for path in filter(None, [options.starts, options.report]):
        _check_writable(path)
    workload = load_workload(options.workload, options.machines)
    results = [_simulate(workload, contestant, options.interval) for contestant in contestants]
    if options.starts:
        for result in results:
            write_starts(result, _starts_path(options.starts, result, len(results)))
    if options.report:
        write_report(results, options.report)
    measured = [measure(result) for result in results]
    if options.json:
        print(msgspec.json.encode(measured).decode())
        return 0
    print(f"{workload.name}: {measured[0]['tasks']} tasks, {measured[0]['machines']} machines\n")
    print(table(["", *(result.scheduler for result in results)], _summary(measured)))
    if options.report:
        print(f"\nreport: {options.report}")
    return 0


def _contestants(options: argparse.Namespace) -> list[Contestant]:
    if not options.compare:
        settings = chosen_settings(options)
        names = "+".join(policy.name for policy in settings.policies)
        if names == app.POD_BY_POD:
            return app.contestants([names])
        return [app.contestant(f"{names}@{settings.strategy}", settings)]
    if options.policy or options.config:
        raise InputError("--compare names the schedulers; drop --policy and --config")
    doubles = {spec for spec in options.compare if options.compare.count(spec) > 1}
    if doubles:
        raise InputError(f"--compare: {min(doubles)!r} is named twice")
    return app.contestants(options.compare, options.strategy or DEFAULT_STRATEGY)


def _check_writable(path: str) -> None:
    """Find out before hours of simulation, not after."""
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise InputError(f"{path}: cannot be written: there is no folder {folder}")
    if Path(path).is_dir():
        raise InputError(f"{path}: cannot be written: it is a folder")


def _simulate(workload: Workload, contestant: Contestant, interval: float) -> Result:
    from tqdm import tqdm

    total = sum(2 - (s.run_seconds is None) for s in workload.submissions)
    with tqdm(
        total=total, desc=contestant.name, unit="event", leave=False, disable=None, file=sys.stderr
    ) as bar:
        return replay(workload, contestant, interval, bar.update)


def _starts_path(path: str, result: Result, count: int) -> Path:
    """With several schedulers each gets a file: starts.csv becomes starts.cpu-memory.csv."""
    target = Path(path)
    if count == 1:
        return target
    return target.with_name(f"{target.stem}.{result.scheduler}{target.suffix}")


# What the table shows: a label, where the figure is in the metrics, how to write it.
_ROWS: list[tuple[str, str, Callable[[float], str]]] = [
    ("mean wait", "wait_seconds.mean", duration),
    ("p95 wait", "wait_seconds.p95", duration),
    ("longest wait", "wait_seconds.max", duration),
    ("mean bounded slowdown", "bounded_slowdown.mean", figures),
    ("p95 bounded slowdown", "bounded_slowdown.p95", figures),
    ("utilisation", "utilisation", percent),
    ("held without working", "stranded_share", percent),
    ("makespan", "makespan_seconds", duration),
    ("tasks not placed", "unplaced", figures),
    ("cycle, median", "cycle_seconds.p50", duration),
    ("cycle, p99", "cycle_seconds.p99", duration),
]


def _summary(measured: list[dict[str, object]]) -> list[list[str]]:
    rows: list[list[str]] = []
    for label, path, write in _ROWS:
        values = [_look_up(metrics, path) for metrics in measured]
        rows.append([label, *("-" if value is None else write(value) for value in values)])
    return rows


def _look_up(metrics: object, path: str) -> float | None:
    for key in path.split("."):
        metrics = cast("dict[str, object]", metrics)[key]
    return cast("float | None", metrics)
