"""The figures of one simulation, as the JSON object that `afflux simulate` prints.

Definitions, all times in seconds of the virtual clock unless said otherwise:

- A group waits from its submission to its start; it has started when all its members have. A task
  on its own is a group of one. Groups that never started have no wait: read `wait_seconds` together
  with `unplaced`.
- Bounded slowdown is max(1, (wait + run) / max(run, 10)), run being the time the group really ran.
  Groups that started but did not end (services, or cut off by the end of the simulation) have no
  run time and are left out.
- Utilisation of a resource is what tasks held of it, from being bound to letting go, over capacity
  times makespan. `utilisation` is that of the dominant resource, the one with the largest.
- `stranded_share` is the part of it that was held without working: by members of a group that
  waited for the rest, or never got it. `utilisation - stranded_share` did work.
- Makespan runs from the first submission to the last end; what has no end counts until the
  simulation stopped.
- `backfilled` is the share of the groups that started which did so while one ahead of them in their
  queue still waited, ahead being of a higher priority, or of the same one and submitted earlier.
  Groups that never started are not counted as ahead of anybody.
- `promises` are groups that were promised a start before they had one; one is broken if the group
  starts later than it was first promised, `broken_by` says why.
- `cycle_seconds` is real time spent deciding.
- Percentiles are by linear interpolation between the two nearest values.

A figure that does not exist (the mean of no waits, a share of no time) is null, never NaN.
"""

import math
from collections import Counter

import numpy as np

from afflux.sim.backfilling import backfilled
from afflux.sim.columns import Columns, Floats, columns
from afflux.sim.result import Result

VERSION = 1


def measure(result: Result) -> dict[str, object]:
    """The figures of one scheduler on one workload; every value is JSON."""
    table = columns(result)
    makespan = _makespan(table)
    shares = {name: _share(table, name, makespan, table.until) for name in table.capacities}
    dominant = dominant_resource(shares)
    slowdown = table.groups.slowdown
    seconds = np.array([cycle.seconds for cycle in result.cycles], dtype=np.float64)
    return {
        "version": VERSION,
        "scheduler": result.scheduler,
        "workload": result.workload.name,
        "machines": len(result.workload.machines),
        "tasks": int(table.submit.size),
        "groups": len(table.groups.names),
        "wait_seconds": _figures(table.groups.wait, "mean", "p50", "p95", "max"),
        "bounded_slowdown": _figures(slowdown, "mean", "p95", "max"),
        "utilisation": None if dominant is None else shares[dominant],
        "utilisation_by_resource": shares,
        "stranded_share": (
            None if dominant is None else _share(table, dominant, makespan, table.working_from)
        ),
        "makespan_seconds": makespan,
        "unplaced": int(np.isnan(table.start).sum()),
        "backfilled": _backfilled_share(table),
        "promises": _promises(result),
        "preemptions": result.preemptions,
        "migrations": result.migrations,
        "cycle_seconds": _figures(seconds, "p50", "p99", "max") | {"total": float(seconds.sum())},
        "cycles": len(result.cycles),
    }


def _backfilled_share(table: Columns) -> float | None:
    started = ~np.isnan(table.groups.start)
    return float(backfilled(table.groups)[started].mean()) if started.any() else None


def _promises(result: Result) -> dict[str, object]:
    """How many groups were promised a start, and how many did not start by then, and why."""
    causes = Counter(promised.broken for promised in result.promised if promised.broken)
    return {
        "made": len(result.promised),
        "unknown": len(result.unknown),
        "broken": causes.total(),
        "broken_by": dict(sorted(causes.items())),
    }


def dominant_resource(shares: dict[str, float | None]) -> str | None:
    """The resource with the largest share; of equal ones the first, cpu before memory."""
    known = {name: share for name, share in shares.items() if share is not None}
    return max(known, key=lambda name: known[name]) if known else None


def _makespan(table: Columns) -> float | None:
    last_end = table.last_end
    return None if last_end is None else last_end - table.first_submit


def _share(table: Columns, name: str, makespan: float | None, until: Floats) -> float | None:
    """What tasks held of a resource from being bound to `until`, over capacity times makespan."""
    capacity = table.total(name)
    if not makespan or not capacity:
        return None
    held = table.held
    seconds = (until - table.bound)[held]
    return float(seconds @ (table.amounts[name][held] / capacity)) / makespan


def _figures(values: Floats, *names: str) -> dict[str, float | None]:
    """The mean, the maximum and percentiles (`p95`) of the values that exist."""
    known = values[~np.isnan(values)]
    return {name: _figure(known, name) if known.size else None for name in names}


def _figure(values: Floats, name: str) -> float | None:
    match name:
        case "mean":
            figure = float(values.mean())
        case "max":
            figure = float(values.max())
        case _:
            figure = float(np.percentile(values, float(name.removeprefix("p"))))
    return figure if math.isfinite(figure) else None
