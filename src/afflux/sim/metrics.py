"""The metrics of one simulation, as the JSON object that `afflux simulate` prints.

Definitions, all times in seconds of the virtual clock unless said otherwise:

- A group waits from its submission to its start; it has started when all its members have. A
  single task is a group of one. Groups that never started have no wait: read `wait_seconds`
  together with `unplaced`.
- Bounded slowdown is max(1, (wait + run) / max(run, 10)), run being the time the group really ran.
  Groups that started but did not end (services, or cut off by the end of the simulation) have no
  run time and are left out.
- Utilisation of a resource is the amount that tasks held of it, from bind to release, over capacity
  times makespan. `utilisation` is that of the dominant resource, the one with the largest share.
- `stranded_share` is the part of `utilisation` held without working: by members of a group whose
  other members were placed later or never. `utilisation - stranded_share` did work.
- Makespan runs from the first submission to the last end; a task without end counts until the
  simulation stopped.
- `backfilled` is the share of the started groups that started while a group ahead of them in their
  queue still waited. Ahead is a group of higher priority, or of the same priority and submitted
  earlier. Groups that never started are never ahead.
- `disk_io` exists if machines of the workload have disks: how many bytes tasks wanted to read and
  write on them, the share of these that they could not because other tasks kept the same disk busy,
  and how many tasks that slowed (sim/disk_contention.py has the model).
- `promises` counts the groups that had a reservation before they started. A reservation is broken
  if the group starts later than its first reserved start; `broken_by` counts the causes.
- `preemptions` counts the tasks that were evicted, `work_lost_seconds` the time that they had run
  until then. All other figures are about the last run of a task.
- `cycle_seconds` is real time spent deciding.
- Percentiles are by linear interpolation between the two nearest values.

A metric that does not exist (the mean of no waits, a share of no time) is null, never NaN.
"""

import math
from collections import Counter

import numpy as np

from afflux.sim.backfilled_groups import backfilled
from afflux.sim.disk_contention import disk_contention
from afflux.sim.result import Result
from afflux.sim.result_columns import Floats, ResultColumns, columns

VERSION = 1


def measure(result: Result) -> dict[str, object]:
    """The metrics of one scheduler on one workload; every value is JSON."""
    table = columns(result)
    makespan = _makespan(table)
    shares = {name: _share(table, name, makespan, table.until) for name in table.capacities}
    dominant = dominant_resource(shares)
    stranded = None
    if dominant is not None:
        stranded = _share(table, dominant, makespan, table.working_from)
    seconds = np.array([cycle.seconds for cycle in result.cycles], dtype=np.float64)
    return {
        "version": VERSION,
        "scheduler": result.scheduler,
        "workload": result.workload.name,
        "machines": len(result.workload.machines),
        "tasks": int(table.submit.size),
        "groups": len(table.groups.names),
        "wait_seconds": _statistics(table.groups.wait, "mean", "p50", "p95", "max"),
        "bounded_slowdown": _statistics(table.groups.slowdown, "mean", "p95", "max"),
        "utilisation": None if dominant is None else shares[dominant],
        "utilisation_by_resource": shares,
        "stranded_share": stranded,
        "disk_io": _disk_io(result),
        "makespan_seconds": makespan,
        "unplaced": int(np.isnan(table.start).sum()),
        "backfilled": _backfilled_share(table),
        "promises": _reservations(result),
        "preemptions": result.preemptions,
        "work_lost_seconds": result.work_lost_seconds,
        "migrations": result.migrations,
        "cycle_seconds": _statistics(seconds, "p50", "p99", "max")
        | {"total": float(seconds.sum())},
        "cycles": len(result.cycles),
    }


def _backfilled_share(table: ResultColumns) -> float | None:
    started = ~np.isnan(table.groups.start)
    return float(backfilled(table.groups)[started].mean()) if started.any() else None


def _disk_io(result: Result) -> dict[str, object] | None:
    found = disk_contention(result)
    if found is None:
        return None
    return {
        "tasks": found.tasks,
        "wanted_bytes": found.wanted_bytes,
        "lost_share": found.lost_share,
        "slowed_tasks": found.slowed_tasks,
    }


def _reservations(result: Result) -> dict[str, object]:
    """How many groups had a reservation, how many of these were broken, and by which causes."""
    causes = Counter(each.broken for each in result.reservations if each.broken)
    return {
        "made": len(result.reservations),
        "unknown": len(result.start_unknown),
        "broken": causes.total(),
        "broken_by": dict(sorted(causes.items())),
    }


def dominant_resource(shares: dict[str, float | None]) -> str | None:
    """The resource with the largest share; of equal shares the first, cpu before memory."""
    known = {name: share for name, share in shares.items() if share is not None}
    return max(known, key=lambda name: known[name]) if known else None


def _makespan(table: ResultColumns) -> float | None:
    last_end = table.last_end
    return None if last_end is None else last_end - table.first_submit


def _share(table: ResultColumns, name: str, makespan: float | None, until: Floats) -> float | None:
    """The amount that tasks held of a resource from bind to `until`, over capacity x makespan."""
    capacity = table.total(name)
    if not makespan or not capacity:
        return None
    held = table.held
    seconds = (until - table.bound)[held]
    return float(seconds @ (table.amounts[name][held] / capacity)) / makespan


def _statistics(values: Floats, *names: str) -> dict[str, float | None]:
    """The mean, the maximum and percentiles (`p95`) of the values that exist."""
    known = values[~np.isnan(values)]
    return {name: _statistic(known, name) if known.size else None for name in names}


def _statistic(values: Floats, name: str) -> float | None:
    match name:
        case "mean":
            value = float(values.mean())
        case "max":
            value = float(values.max())
        case _:
            value = float(np.percentile(values, float(name.removeprefix("p"))))
    return value if math.isfinite(value) else None
