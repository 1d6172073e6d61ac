"""The table of metrics side by side, with the best value of each row marked."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from afflux.sim.metrics import dominant_resource
from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.page_sections import line_sample, section
from afflux.sim.report.text_format import (
    count,
    duration,
    escape,
    listing,
    percent,
    plural,
    significant_figures,
)

CAPTION = (
    "The best value of each row is marked, the other values show their distance to it; compare "
    "whole columns, since few schedulers win every row."
)


# Values that differ relatively by less count as equal.
_SAME = 2e-3


@dataclass(frozen=True)
class Row:
    """One metric of every scheduler.

    `best` chooses the best value, None if no value is better. A row with `of_started` measures only
    started tasks, so only the schedulers that started the most tasks can win it.
    """

    name: str
    explained: str
    value: Callable[[ComparedScheduler], float | None]
    shown: Callable[[float], str]
    best: Callable[[list[float]], float] | None = min
    of_started: bool = True


def draw_summary(comparison: Comparison) -> str:
    """The section: a verdict, the table, and remarks on how to read it."""
    rows = _rows(comparison)
    winners = [_winners(row, comparison) for row in rows]
    head = "".join(
        f'<th scope="col" class="{s.style}" data-s="{s.index}">'
        f"{line_sample(s)}{_breakable(s.name)}</th>"
        for s in comparison.schedulers
    )
    lines = "".join(
        _line(row, won, comparison.schedulers) for row, won in zip(rows, winners, strict=True)
    )
    table = (
        f'<div class="scroll"><table style="min-width:{250 + 160 * len(comparison.schedulers)}px">'
        '<thead><tr><th scope="col"><span class="visually-hidden">Metric</span>'
        f"</th>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
    body = f"{_verdict(winners, comparison)}{table}{_remarks(comparison)}"
    return section("summary", "Summary", CAPTION if len(comparison.schedulers) > 1 else "", body)


def _metric(*keys: str) -> Callable[[ComparedScheduler], float | None]:
    return lambda scheduler: scheduler.metric(*keys)


def _rows(comparison: Comparison) -> list[Row]:
    of = _metric
    schedulers = comparison.schedulers
    rows = [
        Row("Mean wait", "submission to start, per group", of("wait_seconds", "mean"), duration),
        Row("Median wait", "half of the groups wait less", of("wait_seconds", "p50"), duration),
        Row("95th percentile wait", "1 in 20 waits longer", of("wait_seconds", "p95"), duration),
        Row("Longest wait", "", of("wait_seconds", "max"), duration),
        Row("Mean slowdown", "(wait + run) ÷ run, bounded", of("bounded_slowdown", "mean"), _times),
        Row("95th percentile slowdown", "", of("bounded_slowdown", "p95"), _times),
        *_utilisation(comparison),
        Row("Makespan", "first submission to last end", of("makespan_seconds"), duration),
        Row("Unplaced", "tasks that never started", of("unplaced"), count, of_started=False),
        *_reservations(comparison),
    ]
    rows.extend(
        Row(name.capitalize(), "", of(name), count, of_started=False)
        for name in ("preemptions", "migrations")
        if any(s.metric(name) for s in schedulers)
    )
    for key, name in (("p50", "Median cycle"), ("p99", "99th percentile cycle")):
        rows.append(Row(name, "real time", of("cycle_seconds", key), duration, of_started=False))
    total = of("cycle_seconds", "total")
    rows.append(Row("Deciding in all", "all cycles", total, duration, of_started=False))
    return rows


def _utilisation(comparison: Comparison) -> list[Row]:
    """One row; three if groups held machines without working, which is not an advantage."""
    schedulers = comparison.schedulers
    dominant = {dominant_resource(_shares(s)) for s in schedulers} - {None}
    resource = next(iter(dominant)) if len(dominant) == 1 else "the fullest resource"
    held, stranded = _metric("utilisation"), _metric("stranded_share")

    def working(scheduler: ComparedScheduler) -> float | None:
        share, idle = held(scheduler), stranded(scheduler)
        return None if share is None or idle is None else share - idle

    if not any(stranded(s) for s in schedulers):
        return [Row("Utilisation", f"share of {resource}, mean over time", held, percent, max)]
    return [
        Row("Utilisation", f"share of {resource} that was held", held, percent, None),
        Row("of it at work", "by groups with all members placed", working, percent, max),
        Row("of it stranded", "by groups with members not placed yet", stranded, percent, min),
    ]


# Explanations of the causes of broken reservations.
_CAUSES = {
    "machine lost": "a machine was lost or offers less",
    "foreign pod": "another scheduler took the room",
    "disk bandwidth lost": "a disk has less bandwidth left",
    "higher priority": "a group of a higher priority came",
    "queue served first": "a group of an earlier queue went first",
    "group changed": "a waiting group changed",
    "ran longer than expected": "work took longer than it said",
    "strategy": "the strategy moved it",
}


def _reservations(comparison: Comparison) -> list[Row]:
    """The rows on backfilling and reservations, where either occurred."""
    schedulers = comparison.schedulers
    passed, made = _metric("backfilled"), _metric("promises", "made")

    def broken(*keys: str) -> Callable[[ComparedScheduler], float | None]:
        # A scheduler without reservations has no value here.
        return lambda s: (s.metric("promises", *keys) or 0.0) if made(s) else None

    rows: list[Row] = []
    if any(passed(s) for s in schedulers):
        explained = "groups that started before a group ahead of them"
        rows.append(Row("Backfilled", explained, passed, percent, None))
    if any(made(s) for s in schedulers):
        explained = "groups with a latest start before they started"
        rows.append(Row("Reservations", explained, made, count, None))
        explained = "groups that started later than first reserved"
        rows.append(
            Row("Reservations broken", explained, broken("broken"), count, of_started=False)
        )
    rows.extend(
        Row(f"of them: {cause}", _CAUSES.get(cause, ""), broken("broken_by", cause), count, None)
        for cause in sorted({str(cause) for s in schedulers for cause in s.broken.values()})
    )
    return rows


def _breakable(name: str) -> str:
    """A name with a possible line break before its strategy."""
    return escape(name).replace("@", "<wbr>@")


def _shares(scheduler: ComparedScheduler) -> dict[str, float | None]:
    names = scheduler.table.capacities
    return {name: scheduler.metric("utilisation_by_resource", name) for name in names}


def _times(value: float) -> str:
    return f"{significant_figures(value)}×"


def _competing(row: Row, comparison: Comparison) -> list[ComparedScheduler]:
    """The schedulers that can win a row: not those with short waits and more unplaced tasks."""
    schedulers = [s for s in comparison.schedulers if row.value(s) is not None]
    if not row.of_started:
        return schedulers
    fewest = min((s.metric("unplaced") or 0.0 for s in comparison.schedulers), default=0.0)
    return [s for s in schedulers if (s.metric("unplaced") or 0.0) <= fewest]


def _winners(row: Row, comparison: Comparison) -> set[int]:
    """The schedulers with the best value; none if all values are equal."""
    competing = _competing(row, comparison)
    values = {s.index: v for s in competing if (v := row.value(s)) is not None}
    if row.best is None or len(comparison.schedulers) == 1 or not values:
        return set()
    best = row.best(list(values.values()))
    won = {index for index, value in values.items() if math.isclose(value, best, rel_tol=_SAME)}
    rivals = comparison.schedulers if row.of_started else competing
    return set() if len(won) == len(rivals) else won


def _line(row: Row, won: set[int], schedulers: tuple[ComparedScheduler, ...]) -> str:
    values = [row.value(s) for s in schedulers]
    largest = max((v for v in values if v is not None), default=0.0)
    whole = 1.0 if row.shown is percent else largest
    best = next((values[index] for index in sorted(won)), None)
    cells = "".join(
        _cell(row, s, value, whole=whole, best=best, won=s.index in won)
        for s, value in zip(schedulers, values, strict=True)
    )
    explained = f"<small>{escape(row.explained)}</small>" if row.explained else ""
    return f'<tr><th scope="row">{escape(row.name)}{explained}</th>{cells}</tr>'


def _cell(
    row: Row,
    scheduler: ComparedScheduler,
    value: float | None,
    *,
    whole: float,
    best: float | None,
    won: bool,
) -> str:
    if value is None:
        return '<td class="absent">–</td>'
    width = min(100.0, 100 * value / whole) if whole > 0 else 0.0
    bar = f'<i class="meter {scheduler.style}" style="width:{width:.1f}%"></i>'
    mark = '<b class="best" title="best of the row">best</b>' if won else ""
    apart = "" if won or best is None else f"<small>{_apart(value, best)}</small>"
    style = ' class="won"' if won else ""
    return f"<td{style}><span>{row.shown(value)}{mark}{apart}</span>{bar}</td>"


def _apart(value: float, best: float) -> str:
    """The distance of a value from the best: in per cent if it is near, else as a factor."""
    if 0.0 in (best, value) or value == best:
        return ""
    ratio = value / best
    if 0.8 <= ratio <= 1.25:
        return f"{100 * (ratio - 1):+.1f} %".replace("-", "−")
    return f"{significant_figures(ratio, 2)}×"


def _verdict(winners: list[set[int]], comparison: Comparison) -> str:
    if len(comparison.schedulers) == 1:
        return ""
    judged = sum(bool(won) for won in winners)
    wins = Counter(index for won in winners for index in won)
    parts = [
        f"<b>{escape(comparison.schedulers[index].name)}</b> in {number}"
        for index, number in wins.most_common()
    ]
    if not parts:
        return '<p class="verdict">No scheduler is better than another in any row.</p>'
    rows = f"{plural(judged, 'row')} with a difference"
    return f'<p class="verdict">Of {rows}, best: {listing(parts)}.</p>'


def _remarks(comparison: Comparison) -> str:
    """Remarks on schedulers that left tasks unplaced."""
    unplaced = [(s, int(s.metric("unplaced") or 0)) for s in comparison.schedulers]
    fewest = min(number for _, number in unplaced)
    remarks = [
        f"{escape(s.name)} left {plural(number, 'task')} unplaced; its waits and slowdowns cover "
        f"only started tasks{', and cannot win a row' if number > fewest else ''}."
        for s, number in unplaced
        if number
    ]
    return f'<p class="remark">{" ".join(remarks)}</p>' if remarks else ""
