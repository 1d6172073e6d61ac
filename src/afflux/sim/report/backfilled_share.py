"""Backfilled and ordinary groups over time, one strip per scheduler on a common clock."""

from collections import Counter

import numpy as np

from afflux.sim.metrics import dominant_resource
from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.page_sections import mark_legend, section
from afflux.sim.report.scales import LinearScale
from afflux.sim.report.svg import (
    PAGE_WIDTH,
    Area,
    coordinate,
    label,
    path,
    picture,
    rule,
    step_line,
)
from afflux.sim.report.text_format import count, escape, listing, percent, plural, shorten
from afflux.sim.report.time_bins import share_over_time
from afflux.sim.report.time_chart import time_axis, time_scale

CAPTION = (
    "The share of {resource} held by groups that started in order and, on top, by backfilled "
    "groups; all strips have the same clock. Look for gaps that one scheduler leaves and another "
    "fills, and for the reservations that were broken for it."
)
STRIP_HEIGHT = 62.0
LABEL_HEIGHT = 25.0  # above each strip, for the scheduler's name
STRIP_GAP = 12.0
# Broken reservations within this distance share one mark.
FLAG_MERGE_PIXELS = 6.0


def draw_backfilling(comparison: Comparison) -> str:
    """The section; empty without backfilled groups and reservations."""
    schedulers = comparison.schedulers
    resource = _resource(comparison)
    passed = any(s.backfilled.any() for s in schedulers)
    if resource is None or not (passed or any(s.reservations for s in schedulers)):
        return ""
    broken = any(s.broken for s in schedulers)
    marks = [
        ("box t1", "in order", True),
        ("box t1 back", "backfilled: a group ahead of it still waited", passed),
        ("flag", "broken reservations, at the reserved start", broken),
    ]
    body = mark_legend(marks) + _strips(comparison, resource)
    return section("backfilling", "Backfilling", CAPTION.format(resource=escape(resource)), body)


def _resource(comparison: Comparison) -> str | None:
    """The resource with the highest utilisation under any scheduler."""
    fullest: dict[str, float | None] = {}
    for scheduler in comparison.schedulers:
        for name in scheduler.table.capacities:
            share = scheduler.metric("utilisation_by_resource", name)
            fullest[name] = max(share or 0.0, fullest.get(name) or 0.0)
    return dominant_resource(fullest)


def _strips(comparison: Comparison, resource: str) -> str:
    each = LABEL_HEIGHT + STRIP_HEIGHT + STRIP_GAP
    area = Area(PAGE_WIDTH, each * len(comparison.schedulers) + 26.0, top=0.0, bottom=26.0)
    body: list[str] = []
    lines: list[str] = []
    for number, scheduler in enumerate(comparison.schedulers):
        top = number * each + LABEL_HEIGHT
        body.append(_frame(area, scheduler, top))
        lines.append(_areas(comparison, area, scheduler, resource, top))
        body.append(_flags(comparison, area, scheduler, top))
    across = f"{coordinate(area.left)} {coordinate(area.width - area.right)}"
    clock = f'data-x="{across}" data-t="{comparison.seconds:g}" data-u="%"'
    body.insert(0, f'<g class="lines" {clock}>{"".join(lines)}</g>')
    body.append(time_axis(comparison, area))
    parts = "; ".join(f"{s.name}: {_note(s)}" for s in comparison.schedulers)
    return picture(area, f"Backfilled share of {resource} over time", f"{parts}.", body)


def _frame(area: Area, scheduler: ComparedScheduler, top: float) -> str:
    """The scheduler's name and note, and lines at 0 % and 100 %."""
    right = area.width - area.right
    parts = [
        label(area.left, top - 10, shorten(scheduler.name, 70), "strip", "start"),
        label(right, top - 11, _note(scheduler), anchor="end"),
        rule(area.left, top, right, top),
        rule(area.left, top + STRIP_HEIGHT, right, top + STRIP_HEIGHT, "axis"),
        label(area.left - 8, top + 4, "100 %", anchor="end"),
        label(area.left - 8, top + STRIP_HEIGHT, "0", anchor="end"),
    ]
    return "".join(parts)


def _areas(
    comparison: Comparison, area: Area, scheduler: ComparedScheduler, resource: str, top: float
) -> str:
    """Both shares, stacked; the script reads the numbers in `data-` attributes for tooltips."""
    table, span, bins = scheduler.table, comparison.span, int(area.inner_width // 3)
    passed = scheduler.backfilled[table.group]
    ordered = share_over_time(table, resource, ~passed, span=span, bins=bins)
    added = share_over_time(table, resource, passed, span=span, bins=bins)
    x, y = time_scale(comparison, area), LinearScale(0.0, 1.0, top + STRIP_HEIGHT, top)
    edges = x.positions(np.linspace(0.0, comparison.seconds, ordered.size + 1))
    floor = coordinate(top + STRIP_HEIGHT)
    parts: list[str] = []
    for values, style in ((ordered + added, "fill t1 back"), (ordered, "fill t1")):
        line = step_line(edges, y.positions(values))
        data = f"M{coordinate(edges[0])} {floor}L{line.removeprefix('M')}V{floor}Z"
        parts.append(path(data, style))
    whole, of_it = (
        " ".join(str(round(100 * float(value))) for value in values)
        for values in (ordered + added, added)
    )
    attributes = f'data-s="{scheduler.index}" data-v="{whole}" data-w="{of_it}" data-p="backfilled"'
    return f"<g {attributes}>{''.join(parts)}</g>"


def _flags(comparison: Comparison, area: Area, scheduler: ComparedScheduler, top: float) -> str:
    """A flag at each reserved start that was missed; neighbours share a flag."""
    scale = time_scale(comparison, area)
    at: dict[int, Counter[str]] = {}
    for name, cause in scheduler.broken.items():
        position = scale.position(scheduler.reservations[name].first_start - comparison.begin)
        at.setdefault(round(position / FLAG_MERGE_PIXELS), Counter())[cause] += 1
    flags: list[str] = []
    for step, causes in sorted(at.items()):
        x = min(step * FLAG_MERGE_PIXELS, area.width - area.right)
        number = plural(causes.total(), "broken reservation")
        why = listing([f"{count(n)} by: {cause}" for cause, n in sorted(causes.items())])
        data = f"M{coordinate(x - 2.5)} {coordinate(top - 5)}h5l-2.5 5Z"
        flags.append(
            f"<g><title>{escape(f'{scheduler.name}: {number}, {why}', 300)}</title>"
            f"{path(data, 'flagged')}</g>"
        )
    return "".join(flags)


def _note(scheduler: ComparedScheduler) -> str:
    share = scheduler.metric("backfilled")
    parts = [f"{percent(share or 0.0)} of groups backfilled"]
    made = len(scheduler.reservations)
    if made:
        parts.append(plural(made, "reservation"))
        parts.append(f"{count(len(scheduler.broken))} broken")
    return ", ".join(parts)
