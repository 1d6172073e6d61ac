"""The bars of a timeline: the data of each group, its colour, and the legend of the marks."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.page_sections import mark_legend
from afflux.sim.result import ReservationRecord
from afflux.sim.result_columns import Floats

TONES = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """Submission, first bind of a member, start and end of a group; NaN for missing times.

    `css_class` sets the colour. `broken` is the cause if its reservation was broken.
    """

    name: str
    size: int
    css_class: str
    submit: float
    bound: float
    start: float
    end: float
    backfilled: bool = False
    reservation: ReservationRecord | None = None
    broken: str | None = None

    @property
    def started(self) -> bool:
        return not math.isnan(self.start)

    @property
    def partial(self) -> bool:
        """Whether some members held machines while others had none."""
        return self.bound < self.start if self.started else not math.isnan(self.bound)


def bar_classes(
    comparison: Comparison, chosen: list[str]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The CSS class of each group's bar, and the legend of the classes.

    Bars are coloured by priority if there are several priorities, otherwise by kind.
    """
    known = {s.group.key: s.group for s in comparison.workload.submissions}
    shown = {name: known[name] for name in chosen if name in known}
    priorities = sorted({group.priority for group in shown.values()}, reverse=True)
    if len(priorities) <= 1:
        kinds = {name: "t0" if group.is_gang else "t2" for name, group in shown.items()}
        entries = [("t0", "gang"), ("t2", "single task")]
        entries = [entry for entry in entries if entry[0] in kinds.values()]
        return kinds, entries
    # The highest priority has the strongest tone; beyond TONES, neighbours share a tone.
    tone = {p: rank * TONES // max(TONES, len(priorities)) for rank, p in enumerate(priorities)}
    entries: list[tuple[str, str]] = []
    for step in sorted(set(tone.values())):
        within = [p for p in priorities if tone[p] == step]
        text = str(within[0]) if len(within) == 1 else f"{within[-1]} to {within[0]}"
        entries.append((f"t{step}", f"priority {text}"))
    return {name: f"t{tone[group.priority]}" for name, group in shown.items()}, entries


def group_bars(
    scheduler: ComparedScheduler, chosen: list[str], classes: dict[str, str]
) -> dict[int, Bar]:
    """By row number the bar of its group."""
    groups = scheduler.table.groups
    position = {name: index for index, name in enumerate(groups.names)}
    first_bound = _first_bound(scheduler)
    return {
        row: Bar(
            name=name,
            size=int(groups.size[index]),
            css_class=classes.get(name, "t2"),
            submit=float(groups.submit[index]),
            bound=float(first_bound[index]),
            start=float(groups.start[index]),
            end=float(groups.end[index]),
            backfilled=bool(scheduler.backfilled[index]),
            reservation=scheduler.reservations.get(name),
            broken=scheduler.broken.get(name),
        )
        for row, name in enumerate(chosen)
        if (index := position.get(name)) is not None
    }


def bar_legend(rows: Iterable[dict[int, Bar]], entries: list[tuple[str, str]]) -> str:
    """The legend of the marks that occur."""
    bars = [bar for row in rows for bar in row.values()]
    gangs = {bar.size > 1 for bar in bars}
    backs = f"back {entries[0][0]}" if len(entries) == 1 else "backs"
    backfilled = any(bar.backfilled for bar in bars)
    kept = any(bar.reservation and not bar.broken for bar in bars)
    partial = any(bar.partial for bar in bars)
    marks = [
        *((f"box {css_class}", text, True) for css_class, text in entries),
        (f"box {backs}", "backfilled: a group ahead of it still waited", backfilled),
        ("box wait", "waits", True),
        ("box reserved", "waits with a reservation", any(bar.reservation for bar in bars)),
        ("tick due", "first reserved start", kept),
        ("tick broken", "reserved start, broken", any(bar.broken for bar in bars)),
        ("box unstarted", "never started", any(not bar.started for bar in bars)),
        ("box part", "holds machines, waits for its other members", partial),
        ("gang-mark", "gangs are taller than single tasks", len(gangs) > 1),
    ]
    return mark_legend(marks)


def _first_bound(scheduler: ComparedScheduler) -> Floats:
    """Per group when its first member was bound, NaN if none was."""
    table = scheduler.table
    found = np.full(len(table.groups.names), np.inf)
    np.minimum.at(found, table.group, np.where(np.isnan(table.bound), np.inf, table.bound))
    return np.where(np.isinf(found), np.nan, found)
