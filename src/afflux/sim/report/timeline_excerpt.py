"""A consecutive part of the queue, group by group: one timeline per scheduler on a common clock.

In the full timeline of a long simulation a group is a dot. The excerpt shows a few dozen groups
that were submitted one after the other, where many reservations or much backfilling occurred.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.group_bars import Bar, bar_classes, bar_legend, group_bars
from afflux.sim.report.page_sections import section
from afflux.sim.report.scales import LinearScale
from afflux.sim.report.svg import PAGE_WIDTH, Area, label, picture, rule
from afflux.sim.report.text_format import count, duration, plural, shorten
from afflux.sim.report.time_chart import time_axis
from afflux.sim.report.timeline_rows import draw_row
from afflux.sim.result_columns import Floats

CAPTION = (
    "{which}, a row each and the same in every timeline, on one clock{begin}: a thin line while a "
    "group waits, a bar while it runs. A reservation is kept if the bar begins by its mark."
)
MAX_GROUPS = 36
LABEL_HEIGHT, PANEL_GAP = 22.0, 14.0
# A bar is clearly visible from this share of the width on.
_VISIBLE_SHARE = 0.03
# The time shown after the last start, as a share of the time before.
_TAIL_SHARE = 0.15


@dataclass(frozen=True)
class Excerpt:
    """Groups in the order of submission, and the time span to show."""

    names: list[str]
    begin: float
    end: float


def draw_excerpt(comparison: Comparison) -> str:
    """The section; empty without backfilled groups and reservations."""
    excerpt = choose_excerpt(comparison)
    if excerpt is None:
        return ""
    near = replace(comparison, begin=excerpt.begin, end=excerpt.end)
    classes, entries = bar_classes(comparison, excerpt.names)
    rows = [group_bars(scheduler, excerpt.names, classes) for scheduler in comparison.schedulers]
    body = bar_legend(rows, entries) + _timelines(near, rows, len(excerpt.names))
    total, shown = len(comparison.schedulers[0].table.groups.names), len(excerpt.names)
    after = excerpt.begin - comparison.begin
    which = f"All {count(total)} groups"
    if shown < total:
        which = f"{count(shown)} of {count(total)} groups submitted one after the other"
    begin = f" that begins {duration(after)} after the first submission" if after > 0 else ""
    return section("excerpt", "Queue excerpt", CAPTION.format(which=which, begin=begin), body)


def choose_excerpt(comparison: Comparison, max_groups: int = MAX_GROUPS) -> Excerpt | None:
    """The excerpt that shows most backfilled groups and reservations."""
    tables = [scheduler.table.groups for scheduler in comparison.schedulers]
    names = tables[0].names
    if not names or any(table.names != names for table in tables):
        return None
    if not any(s.reservations or s.backfilled.any() for s in comparison.schedulers):
        return None
    size = min(max_groups, len(names))
    order = np.argsort(tables[0].submit, kind="stable")
    submit = tables[0].submit[order]
    start = np.array([table.start[order] for table in tables])
    end = np.array([table.end[order] for table in tables])
    begins = submit[: len(names) - size + 1]
    latest = np.max(np.where(np.isnan(start), submit, start), axis=0)
    # A group without end is visible until the end of any excerpt.
    lasting = np.where(np.isnan(end), np.inf, end - submit)
    windows = np.lib.stride_tricks.sliding_window_view
    stops = windows(latest, size).max(axis=1)
    stops = stops + np.maximum(_TAIL_SHARE * (stops - begins), 1e-9)
    span = (stops - begins)[:, None]
    score: Floats = np.zeros(begins.size)
    for row, scheduler in enumerate(comparison.schedulers):
        seen = np.minimum(windows(lasting[row], size) / span, _VISIBLE_SHARE) / _VISIBLE_SHARE
        reservations, passing, passed = (
            (windows(weights[order], size) * seen).sum(axis=1) for weights in _weights(scheduler)
        )
        # Backfilled groups are worth showing together with the groups they passed.
        score += reservations + 2 * np.minimum(passing, passed) + 0.01 * passing
    first = int(score.argmax())
    chosen = order[first : first + size].tolist()
    stop = comparison.end if size == len(names) else float(stops[first])
    return Excerpt([names[i] for i in chosen], float(begins[first]), stop)


def _weights(scheduler: ComparedScheduler) -> tuple[Floats, Floats, Floats]:
    """Per group the weight of its reservation (broken ones weigh most), whether it was backfilled,
    and whether it may have been passed."""
    groups, passing = scheduler.table.groups, scheduler.backfilled
    reservations = np.zeros(len(groups.names))
    for index, name in enumerate(groups.names):
        if name in scheduler.reservations:
            reservations[index] = 300.0 if name in scheduler.broken else 3.0
    waited = ~passing & (groups.wait > 0)
    return reservations, passing.astype(np.float64), waited.astype(np.float64)


def _timelines(near: Comparison, rows: list[dict[int, Bar]], number: int) -> str:
    height = max(5.5, min(14.0, 200.0 / number))
    each = LABEL_HEIGHT + height * number + PANEL_GAP
    named = height >= 10
    left, tall = 84.0 if named else 10.0, each * len(rows) + 26.0
    area = Area(PAGE_WIDTH, tall, left=left, top=0.0, bottom=26.0)
    x = LinearScale(*near.span, *area.x_range).position
    right = area.width - area.right
    body: list[str] = []
    parts: list[str] = []
    for position, (scheduler, bars) in enumerate(zip(near.schedulers, rows, strict=True)):
        top = position * each + LABEL_HEIGHT
        floor = top + number * height
        note = _note(bars)
        parts.append(f"{scheduler.name}: {note}")
        body.append(label(area.left, top - 8, shorten(scheduler.name, 70), "strip", "start"))
        body.append(label(right, top - 8, note, anchor="end"))
        body.append(rule(area.left, floor + 2, right, floor + 2))
        for row, bar in bars.items():
            at = top + row * height
            if named:
                text = shorten(bar.name, 12)
                body.append(label(area.left - 8, at + height / 2 + 3.5, text, anchor="end"))
            body.append(draw_row(bar, x, stop=near.end, top=at, height=height))
    body.append(time_axis(near, area))
    return picture(area, "Part of the queue, group by group", "; ".join(parts) + ".", body)


def _note(bars: dict[int, Bar]) -> str:
    waits = [bar.start - bar.submit for bar in bars.values() if not math.isnan(bar.start)]
    passed = sum(bar.backfilled for bar in bars.values())
    made = sum(bar.reservation is not None for bar in bars.values())
    parts = [f"mean wait {duration(sum(waits) / len(waits))}"] if waits else []
    parts.append(f"{count(passed)} backfilled")
    if made:
        broken = sum(bar.broken is not None for bar in bars.values())
        parts += [plural(made, "reservation"), f"{count(broken)} broken"]
    return ", ".join(parts)
