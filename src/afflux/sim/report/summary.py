"""The figures side by side, the best of each row marked."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from afflux.sim.metrics import dominant_resource
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.layout import section, swatch
from afflux.sim.report.text import count, duration, escape, figures, listing, percent, plural

CAPTION = (
    "The best value of a row is marked and the others say how far they are from it; look at the "
    "columns as a whole, few schedulers win every row."
)


# Values that differ by less are as good as each other: no reader should see a winner there.
_SAME = 2e-3


@dataclass(frozen=True)
class Row:
    """One figure of every scheduler.

    `best` says which end is better, None if neither is. Rows `of_started` speak only of what
    started, so only schedulers that started as much as any other compete.
    """

    name: str
    explained: str
    value: Callable[[Subject], float | None]
    shown: Callable[[float], str]
    best: Callable[[list[float]], float] | None = min
    of_started: bool = True


def draw_summary(comparison: Comparison) -> str:
    """The section: a verdict, the table and what to keep in mind when reading it."""
    rows = _rows(comparison)
    winners = [_winners(row, comparison) for row in rows]
    head = "".join(
        f'<th scope="col" class="{s.style}" data-s="{s.index}">{swatch(s)}{_breaking(s.name)}</th>'
        for s in comparison.subjects
    )
    lines = "".join(
        _line(row, won, comparison.subjects) for row, won in zip(rows, winners, strict=True)
    )
    table = (
        f'<div class="scroll"><table style="min-width:{250 + 160 * len(comparison.subjects)}px">'
        '<thead><tr><th scope="col"><span class="aside">Figure</span>'
        f"</th>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
    body = f"{_verdict(winners, comparison)}{table}{_remarks(comparison)}"
    return section("summary", "Summary", CAPTION if len(comparison.subjects) > 1 else "", body)


def _rows(comparison: Comparison) -> list[Row]:
    def of(*keys: str) -> Callable[[Subject], float | None]:
        return lambda subject: subject.figure(*keys)

    subjects = comparison.subjects
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
        *_promises(comparison),
    ]
    rows.extend(
        Row(name.capitalize(), "", of(name), count, of_started=False)
        for name in ("preemptions", "migrations")
        if any(s.figure(name) for s in subjects)
    )
    for key, name in (("p50", "Median cycle"), ("p99", "99th percentile cycle")):
        rows.append(Row(name, "real time", of("cycle_seconds", key), duration, of_started=False))
    total = of("cycle_seconds", "total")
    rows.append(Row("Deciding in all", "all cycles", total, duration, of_started=False))
    return rows


def _utilisation(comparison: Comparison) -> list[Row]:
    """One row, or three where groups held machines without working: holding is no merit."""
    subjects = comparison.subjects
    dominant = {dominant_resource(_shares(s)) for s in subjects} - {None}
    resource = next(iter(dominant)) if len(dominant) == 1 else "the fullest resource"

    def held(subject: Subject) -> float | None:
        return subject.figure("utilisation")

    def stranded(subject: Subject) -> float | None:
        return subject.figure("stranded_share")

    def working(subject: Subject) -> float | None:
        share, idle = held(subject), stranded(subject)
        return None if share is None or idle is None else share - idle

    if not any(stranded(s) for s in subjects):
        return [Row("Utilisation", f"share of {resource}, mean over time", held, percent, max)]
    return [
        Row("Utilisation", f"share of {resource} that was held", held, percent, None),
        Row("of it at work", "by groups that had all members", working, percent, max),
        Row("of it stranded", "by groups still waiting for members", stranded, percent, min),
    ]


# What the causes of a broken promise mean.
_CAUSES = {
    "machine lost": "a machine was lost or offers less",
    "foreign pod": "another scheduler took the room",
    "higher priority": "a group of a higher priority came",
    "queue served first": "a group of an earlier queue went first",
    "group changed": "a waiting group changed",
    "ran longer than expected": "work took longer than it said",
    "strategy": "the strategy moved it",
}


def _promises(comparison: Comparison) -> list[Row]:
    """Who passed whom, what was promised, and what became of it, where any of it happened."""
    subjects = comparison.subjects

    def passed(subject: Subject) -> float | None:
        return subject.figure("backfilled")

    def made(subject: Subject) -> float | None:
        return subject.figure("promises", "made")

    def broken(*keys: str) -> Callable[[Subject], float | None]:
        # Who promises nothing keeps nothing either.
        return lambda s: (s.figure("promises", *keys) or 0.0) if made(s) else None

    rows: list[Row] = []
    if any(passed(s) for s in subjects):
        told = "groups that started before one ahead of them"
        rows.append(Row("Backfilled", told, passed, percent, None))
    if any(made(s) for s in subjects):
        told = "groups told in advance when they start at the latest"
        rows.append(Row("Promised a start", told, made, count, None))
        told = "those that started later than first told"
        rows.append(Row("Promises broken", told, broken("broken"), count, of_started=False))
    rows.extend(
        Row(f"of them: {cause}", _CAUSES.get(cause, ""), broken("broken_by", cause), count, None)
        for cause in sorted({str(cause) for s in subjects for cause in s.broken.values()})
    )
    return rows


def _breaking(name: str) -> str:
    """A name that breaks before its strategy, if it has to."""
    return escape(name).replace("@", "<wbr>@")


def _shares(subject: Subject) -> dict[str, float | None]:
    names = subject.table.capacities
    return {name: subject.figure("utilisation_by_resource", name) for name in names}


def _times(value: float) -> str:
    return f"{figures(value)}×"


def _competing(row: Row, comparison: Comparison) -> list[Subject]:
    """Who may win a row: short waits do not count if they come from leaving tasks out."""
    subjects = [s for s in comparison.subjects if row.value(s) is not None]
    if not row.of_started:
        return subjects
    fewest = min((s.figure("unplaced") or 0.0 for s in comparison.subjects), default=0.0)
    return [s for s in subjects if (s.figure("unplaced") or 0.0) <= fewest]


def _winners(row: Row, comparison: Comparison) -> set[int]:
    """The schedulers with the best value; none where all are the same or nobody competes."""
    competing = _competing(row, comparison)
    values = {s.index: v for s in competing if (v := row.value(s)) is not None}
    if row.best is None or len(comparison.subjects) == 1 or not values:
        return set()
    best = row.best(list(values.values()))
    won = {index for index, value in values.items() if math.isclose(value, best, rel_tol=_SAME)}
    rivals = comparison.subjects if row.of_started else competing
    return set() if len(won) == len(rivals) else won


def _line(row: Row, won: set[int], subjects: tuple[Subject, ...]) -> str:
    values = [row.value(s) for s in subjects]
    largest = max((v for v in values if v is not None), default=0.0)
    whole = 1.0 if row.shown is percent else largest
    best = next((values[index] for index in sorted(won)), None)
    cells = "".join(
        _cell(row, s, value, whole=whole, best=best, won=s.index in won)
        for s, value in zip(subjects, values, strict=True)
    )
    explained = f"<small>{escape(row.explained)}</small>" if row.explained else ""
    return f'<tr><th scope="row">{escape(row.name)}{explained}</th>{cells}</tr>'


def _cell(
    row: Row,
    subject: Subject,
    value: float | None,
    *,
    whole: float,
    best: float | None,
    won: bool,
) -> str:
    if value is None:
        return '<td class="absent">–</td>'
    width = min(100.0, 100 * value / whole) if whole > 0 else 0.0
    bar = f'<i class="meter {subject.style}" style="width:{width:.1f}%"></i>'
    mark = '<b class="best" title="best of the row">best</b>' if won else ""
    apart = "" if won or best is None else f"<small>{_apart(value, best)}</small>"
    style = ' class="won"' if won else ""
    return f"<td{style}><span>{row.shown(value)}{mark}{apart}</span>{bar}</td>"


def _apart(value: float, best: float) -> str:
    """How far a value is from the best: by a share if it is near, by a factor if not."""
    if 0.0 in (best, value) or value == best:
        return ""
    ratio = value / best
    if 0.8 <= ratio <= 1.25:
        return f"{100 * (ratio - 1):+.1f} %".replace("-", "−")
    return f"{figures(ratio, 2)}×"


def _verdict(winners: list[set[int]], comparison: Comparison) -> str:
    if len(comparison.subjects) == 1:
        return ""
    judged = sum(bool(won) for won in winners)
    wins = Counter(index for won in winners for index in won)
    said = [
        f"<b>{escape(comparison.subjects[index].name)}</b> in {number}"
        for index, number in wins.most_common()
    ]
    if not said:
        return '<p class="verdict">No scheduler is better than another in any row.</p>'
    rows = f"{plural(judged, 'row')} with a difference"
    return f'<p class="verdict">Of {rows}, best: {listing(said)}.</p>'


def _remarks(comparison: Comparison) -> str:
    """What would mislead if it were not said."""
    unplaced = [(s, int(s.figure("unplaced") or 0)) for s in comparison.subjects]
    fewest = min(number for _, number in unplaced)
    remarks = [
        f"{escape(s.name)} left {plural(number, 'task')} unplaced; its waits and slowdowns speak "
        f"only of what started{', and do not compete' if number > fewest else ''}."
        for s, number in unplaced
        if number
    ]
    return f'<p class="remark">{" ".join(remarks)}</p>' if remarks else ""
