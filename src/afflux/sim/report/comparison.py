"""What the page compares: schedulers on one workload, on one common clock."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from afflux.sim.backfilling import backfilled
from afflux.sim.columns import Bools, Columns, columns
from afflux.sim.metrics import measure
from afflux.sim.result import Promised, Result
from afflux.sim.workload import Workload

# Colours told apart by every kind of colour vision; further schedulers repeat them, dashed.
COLOURS = 6

_FIRST = {"cpu": (0, ""), "memory": (1, ""), "devices": (2, "")}


@dataclass(frozen=True)
class Subject:
    """One scheduler: its name as shown, its columns and its figures."""

    index: int
    name: str
    result: Result
    table: Columns
    figures: dict[str, object]

    @property
    def style(self) -> str:
        """The CSS classes that give it its colour."""
        return f"s{self.index % COLOURS}" + (" again" if self.index >= COLOURS else "")

    @cached_property
    def backfilled(self) -> Bools:
        """Which groups passed another."""
        return backfilled(self.table.groups)

    @cached_property
    def promised(self) -> dict[str, Promised]:
        """What was promised, by group."""
        return {promised.group: promised for promised in self.result.promised}

    @cached_property
    def broken(self) -> dict[str, str]:
        """What was promised and not kept: by group the cause."""
        return {each.group: each.broken for each in self.result.promised if each.broken}

    def figure(self, *keys: str) -> float | None:
        """One of its figures by its path in the JSON object."""
        value: object = self.figures
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                return None
            value = value[key]  # pyright: ignore[reportUnknownVariableType]
        return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True)
class Comparison:
    """Subjects in the order given; times run from `begin`, the first submission, to `end`."""

    subjects: tuple[Subject, ...]
    workload: Workload
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it all took."""
        return self.end - self.begin

    @property
    def span(self) -> tuple[float, float]:
        """The common clock."""
        return self.begin, self.end

    @property
    def requested(self) -> list[str]:
        """The resources that tasks ask for, cpu and memory first."""
        first = self.subjects[0].table
        found = [name for name, column in first.amounts.items() if column.any()]
        return sorted(found, key=lambda name: _FIRST.get(name, (len(_FIRST), name)))


def compare(results: Sequence[Result]) -> Comparison:
    """The results side by side; they must be of one workload."""
    if not results:
        raise ValueError("a report needs at least one result")
    names = {result.workload.name for result in results}
    if len(names) > 1:
        raise ValueError(f"a report compares schedulers on one workload, not on {sorted(names)}")
    tables = [columns(result) for result in results]
    subjects = tuple(
        Subject(index, name, result, table, measure(result))
        for index, (name, result, table) in enumerate(
            zip(_distinct([r.scheduler for r in results]), results, tables, strict=True)
        )
    )
    begin = min(table.first_submit for table in tables)
    ends = [t.ended_at if t.last_end is None else t.last_end for t in tables]
    end = max(ends)
    workload = results[0].workload
    return Comparison(subjects, workload, begin, end if end > begin else begin + 1.0)


def _distinct(names: list[str]) -> list[str]:
    """The same scheduler twice is told apart by a number."""
    seen: Counter[str] = Counter()
    shown: list[str] = []
    for name in names:
        seen[name] += 1
        shown.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return shown
