"""Groups as the bars of a timeline: what is known of each, its colour, and what the marks mean."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from afflux.sim.columns import Floats
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.layout import marks
from afflux.sim.result import Promised

TONES = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """Submission, first member placed, start and end of a group, NaN where there was none.

    `tone` is the class that gives it its colour. `broken` is why its promise was not kept, None
    if it was.
    """

    name: str
    size: int
    tone: str
    submit: float
    bound: float
    start: float
    end: float
    backfilled: bool = False
    promised: Promised | None = None
    broken: str | None = None

    @property
    def started(self) -> bool:
        """Whether it ever ran."""
        return not math.isnan(self.start)

    @property
    def partial(self) -> bool:
        """Whether some of its members held machines while others had none."""
        return self.bound < self.start if self.started else not math.isnan(self.bound)


def tones_of(
    comparison: Comparison, chosen: list[str]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The class of each group's bar, and what the classes mean.

    Bars are told apart by priority if there are several, otherwise by kind.
    """
    known = {s.group.name: s.group for s in comparison.workload.submissions}
    shown = {name: known[name] for name in chosen if name in known}
    priorities = sorted({group.priority for group in shown.values()}, reverse=True)
    if len(priorities) <= 1:
        kinds = {name: "t0" if group.is_gang else "t2" for name, group in shown.items()}
        entries = [("t0", "gang"), ("t2", "single task")]
        entries = [entry for entry in entries if entry[0] in kinds.values()]
        return kinds, entries
    # The highest priority has the strongest tone; beyond four, neighbours share one.
    tone = {p: rank * TONES // max(TONES, len(priorities)) for rank, p in enumerate(priorities)}
    entries: list[tuple[str, str]] = []
    for step in sorted(set(tone.values())):
        within = [p for p in priorities if tone[p] == step]
        text = str(within[0]) if len(within) == 1 else f"{within[-1]} to {within[0]}"
        entries.append((f"t{step}", f"priority {text}"))
    return {name: f"t{tone[group.priority]}" for name, group in shown.items()}, entries


def bars_of(subject: Subject, chosen: list[str], tones: dict[str, str]) -> dict[int, Bar]:
    """By row what is known of the group in it."""
    groups = subject.table.groups
    place = {name: index for index, name in enumerate(groups.names)}
    first_bound = _first_bound(subject)
    return {
        row: Bar(
            name=name,
            size=int(groups.size[index]),
            tone=tones.get(name, "t2"),
            submit=float(groups.submit[index]),
            bound=float(first_bound[index]),
            start=float(groups.start[index]),
            end=float(groups.end[index]),
            backfilled=bool(subject.backfilled[index]),
            promised=subject.promised.get(name),
            broken=subject.broken.get(name),
        )
        for row, name in enumerate(chosen)
        if (index := place.get(name)) is not None
    }


def key_of(rows: Iterable[dict[int, Bar]], entries: list[tuple[str, str]]) -> str:
    """What the marks mean, of those that occur."""
    bars = [bar for row in rows for bar in row.values()]
    gangs = {bar.size > 1 for bar in bars}
    backs = f"back {entries[0][0]}" if len(entries) == 1 else "backs"
    return marks(
        [
            *((f"box {tone}", text, True) for tone, text in entries),
            (
                f"box {backs}",
                "backfilled: one ahead of it still waited",
                any(bar.backfilled for bar in bars),
            ),
            ("box wait", "waits", True),
            ("box told", "waits with a promise", any(bar.promised for bar in bars)),
            (
                "tick due",
                "start it was first promised",
                any(bar.promised and not bar.broken for bar in bars),
            ),
            ("tick broken", "promised start, not kept", any(bar.broken for bar in bars)),
            ("box unstarted", "never started", any(not bar.started for bar in bars)),
            (
                "box part",
                "holds machines, still waits for its rest",
                any(bar.partial for bar in bars),
            ),
            ("gang-mark", "gangs are taller than single tasks", len(gangs) > 1),
        ]
    )


def _first_bound(subject: Subject) -> Floats:
    """Per group when its first member was placed, NaN if none was."""
    table = subject.table
    found = np.full(len(table.groups.names), np.inf)
    np.minimum.at(found, table.group, np.where(np.isnan(table.bound), np.inf, table.bound))
    return np.where(np.isinf(found), np.nan, found)
