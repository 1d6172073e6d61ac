"""What ran in order and what was backfilled, one strip per scheduler on one clock."""

from collections import Counter

import numpy as np

from afflux.sim.columns import Bools, Floats
from afflux.sim.metrics import dominant_resource
from afflux.sim.report.binning import held_over_time
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.layout import marks, section
from afflux.sim.report.over_time import time_axis, time_scale
from afflux.sim.report.scale import Linear
from afflux.sim.report.svg import (
    PAGE_WIDTH,
    Area,
    coordinate,
    label,
    path,
    picture,
    rule,
    steps,
)
from afflux.sim.report.text import count, escape, listing, percent, plural, shorten

CAPTION = (
    "The share of {resource} that is held, by groups that came in order and, on top, by those that "
    "were backfilled; all strips have the same clock. Look for gaps that one scheduler leaves and "
    "another fills, and for promises that it costs."
)
STRIP = 62.0
NAMED = 25.0  # above a strip, where its scheduler is named
GAP = 12.0
# Broken promises that lie within so many pixels are one mark.
TOGETHER = 6.0


def draw_backfilling(comparison: Comparison) -> str:
    """The section; nothing if nobody passed anybody and nothing was promised."""
    subjects = comparison.subjects
    resource = _resource(comparison)
    passed = any(s.backfilled.any() for s in subjects)
    if resource is None or not (passed or any(s.promised for s in subjects)):
        return ""
    key = marks(
        [
            ("box t1", "in order", True),
            ("box t1 back", "backfilled: one ahead of it still waited", passed),
            ("flag", "promises not kept, at the promised start", any(s.broken for s in subjects)),
        ]
    )
    body = key + _strips(comparison, resource)
    return section("backfilling", "Backfilling", CAPTION.format(resource=escape(resource)), body)


def _resource(comparison: Comparison) -> str | None:
    """The resource that is fullest under any scheduler."""
    fullest: dict[str, float | None] = {}
    for subject in comparison.subjects:
        for name in subject.table.capacities:
            share = subject.figure("utilisation_by_resource", name)
            fullest[name] = max(share or 0.0, fullest.get(name) or 0.0)
    return dominant_resource(fullest)


def _strips(comparison: Comparison, resource: str) -> str:
    each = NAMED + STRIP + GAP
    area = Area(PAGE_WIDTH, each * len(comparison.subjects) + 26.0, top=0.0, bottom=26.0)
    body: list[str] = []
    lines: list[str] = []
    for number, subject in enumerate(comparison.subjects):
        top = number * each + NAMED
        body.append(_frame(area, subject, top))
        lines.append(_areas(comparison, area, subject, resource, top))
        body.append(_flags(comparison, area, subject, top))
    across = f"{coordinate(area.left)} {coordinate(area.width - area.right)}"
    clock = f'data-x="{across}" data-t="{comparison.seconds:g}" data-u="%"'
    body.insert(0, f'<g class="lines" {clock}>{"".join(lines)}</g>')
    body.append(time_axis(comparison, area))
    said = "; ".join(f"{s.name}: {_note(s)}" for s in comparison.subjects)
    return picture(area, f"Backfilled share of {resource} over time", f"{said}.", body)


def _held(
    comparison: Comparison, subject: Subject, resource: str, chosen: Bools, bins: int
) -> Floats:
    table = subject.table
    held = table.held & chosen & (table.amounts[resource] > 0)
    capacity = table.total(resource)
    if not capacity or not held.any():
        return np.zeros(bins)
    return held_over_time(
        table.bound[held],
        table.until[held],
        table.amounts[resource][held] / capacity,
        span=comparison.span,
        bins=bins,
    )[0]


def _frame(area: Area, subject: Subject, top: float) -> str:
    """Its name, what was promised, and two lines for nothing and everything."""
    right = area.width - area.right
    return "".join(
        [
            label(area.left, top - 10, shorten(subject.name, 70), "strip", "start"),
            label(right, top - 11, _note(subject), anchor="end"),
            rule(area.left, top, right, top),
            rule(area.left, top + STRIP, right, top + STRIP, "axis"),
            label(area.left - 8, top + 4, "100 %", anchor="end"),
            label(area.left - 8, top + STRIP, "0", anchor="end"),
        ]
    )


def _areas(comparison: Comparison, area: Area, subject: Subject, resource: str, top: float) -> str:
    """Both shares, one on the other; the script reads the numbers back for its tooltips."""
    bins = int(area.inner_width // 3)
    passed = subject.backfilled[subject.table.group]
    ordered = _held(comparison, subject, resource, ~passed, bins)
    added = _held(comparison, subject, resource, passed, bins)
    x, y = time_scale(comparison, area), Linear(0.0, 1.0, top + STRIP, top)
    edges = x.places(np.linspace(0.0, comparison.seconds, ordered.size + 1))
    floor = coordinate(top + STRIP)
    parts: list[str] = []
    for values, style in ((ordered + added, "fill t1 back"), (ordered, "fill t1")):
        line = steps(edges, y.places(values))
        data = f"M{coordinate(edges[0])} {floor}L{line.removeprefix('M')}V{floor}Z"
        parts.append(path(data, style))
    whole, of_it = (
        " ".join(str(round(100 * float(value))) for value in values)
        for values in (ordered + added, added)
    )
    told = f'data-s="{subject.index}" data-v="{whole}" data-w="{of_it}" data-p="backfilled"'
    return f"<g {told}>{''.join(parts)}</g>"


def _flags(comparison: Comparison, area: Area, subject: Subject, top: float) -> str:
    """Broken promises at the start that was promised; neighbours share a flag."""
    scale = time_scale(comparison, area)
    at: dict[int, Counter[str]] = {}
    for name, cause in subject.broken.items():
        place = scale.place(subject.promised[name].first - comparison.begin)
        at.setdefault(round(place / TOGETHER), Counter())[cause] += 1
    flags: list[str] = []
    for step, causes in sorted(at.items()):
        x = min(step * TOGETHER, area.width - area.right)
        number = f"{plural(causes.total(), 'promise')} not kept"
        why = listing([f"{count(n)} by: {cause}" for cause, n in sorted(causes.items())])
        data = f"M{coordinate(x - 2.5)} {coordinate(top - 5)}h5l-2.5 5Z"
        flags.append(
            f"<g><title>{escape(f'{subject.name}: {number}, {why}', 300)}</title>"
            f"{path(data, 'flagged')}</g>"
        )
    return "".join(flags)


def _note(subject: Subject) -> str:
    """In a few words what a strip shows."""
    share = subject.figure("backfilled")
    said = [f"{percent(share or 0.0)} of groups backfilled"]
    made = len(subject.promised)
    if made:
        said.append(plural(made, "promise"))
        said.append(f"{count(len(subject.broken))} not kept")
    return ", ".join(said)
