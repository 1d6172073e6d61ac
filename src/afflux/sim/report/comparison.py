"""The schedulers that a report compares: on one workload, on a common clock."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from afflux.sim.backfilled_groups import backfilled
from afflux.sim.disk_contention import DiskContention, disk_contention
from afflux.sim.metrics import measure
from afflux.sim.result import ReservationRecord, Result
from afflux.sim.result_columns import Bools, ResultColumns, columns
from afflux.sim.workload import Workload

# The number of colours that every kind of colour vision can tell apart; further schedulers repeat
# them, dashed.
COLOURS = 6

_RESOURCE_ORDER = {"cpu": (0, ""), "memory": (1, ""), "devices": (2, "")}


@dataclass(frozen=True)
class ComparedScheduler:
    """One scheduler of the comparison: its name as shown, its columns and its metrics."""

    index: int
    name: str
    result: Result
    table: ResultColumns
    metrics: dict[str, object]

    @property
    def style(self) -> str:
        """The CSS classes that set its colour."""
        return f"s{self.index % COLOURS}" + (" again" if self.index >= COLOURS else "")

    @cached_property
    def backfilled(self) -> Bools:
        return backfilled(self.table.groups)

    @cached_property
    def disk_contention(self) -> DiskContention | None:
        return disk_contention(self.result)

    @cached_property
    def reservations(self) -> dict[str, ReservationRecord]:
        return {each.group: each for each in self.result.reservations}

    @cached_property
    def broken(self) -> dict[str, str]:
        """The causes of broken reservations, by group."""
        return {each.group: each.broken for each in self.result.reservations if each.broken}

    def metric(self, *keys: str) -> float | None:
        """One of its metrics by its path in the JSON object."""
        value: object = self.metrics
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                return None
            value = value[key]  # pyright: ignore[reportUnknownVariableType]
        return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True)
class Comparison:
    """Schedulers in the order given; times run from `begin`, the first submission, to `end`."""

    schedulers: tuple[ComparedScheduler, ...]
    workload: Workload
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """The length of the common clock."""
        return self.end - self.begin

    @property
    def span(self) -> tuple[float, float]:
        """Begin and end of the common clock."""
        return self.begin, self.end

    @property
    def requested(self) -> list[str]:
        """The resources that tasks ask for, cpu and memory first."""
        amounts, last = self.schedulers[0].table.amounts, len(_RESOURCE_ORDER)
        found = [name for name, column in amounts.items() if column.any()]
        return sorted(found, key=lambda name: _RESOURCE_ORDER.get(name, (last, name)))


def compare(results: Sequence[Result]) -> Comparison:
    """The comparison of these results, which must be of one workload."""
    if not results:
        raise ValueError("a report needs at least one result")
    names = {result.workload.name for result in results}
    if len(names) > 1:
        raise ValueError(f"a report compares schedulers on one workload, not on {sorted(names)}")
    tables = [columns(result) for result in results]
    named = zip(_distinct([r.scheduler for r in results]), results, tables, strict=True)
    schedulers = tuple(
        ComparedScheduler(index, name, result, table, measure(result))
        for index, (name, result, table) in enumerate(named)
    )
    begin = min(table.first_submit for table in tables)
    end = max(t.ended_at if t.last_end is None else t.last_end for t in tables)
    workload = results[0].workload
    return Comparison(schedulers, workload, begin, end if end > begin else begin + 1.0)


def _distinct(names: list[str]) -> list[str]:
    """A number is appended to names that occur more than once."""
    seen: Counter[str] = Counter()
    shown: list[str] = []
    for name in names:
        seen[name] += 1
        shown.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return shown
