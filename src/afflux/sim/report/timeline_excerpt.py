"""A stretch of the queue group by group, one timeline per scheduler on one clock.

Over weeks a group is a dot. Here are a few dozen that came one after the other, where much was
promised or passed: who passed whom, and what was promised, can be followed by eye.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from afflux.sim.columns import Floats
from afflux.sim.report.bars import Bar, bars_of, key_of, tones_of
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.layout import section
from afflux.sim.report.over_time import time_axis, time_scale
from afflux.sim.report.rows import draw_row
from afflux.sim.report.svg import PAGE_WIDTH, Area, label, picture, rule
from afflux.sim.report.text import count, duration, plural, shorten

CAPTION = (
    "{which}, a row each and the same in every timeline, on one clock{begin}: a thin line while a "
    "group waits, a bar while it runs. A promise is kept if the bar begins at its mark or before."
)
MOST = 36
NAMED, GAP = 22.0, 14.0
# A bar is seen well if it takes this share of the width.
_SEEN = 0.03
# How much is shown behind the last start, as a share of the time before.
_TAIL = 0.15


@dataclass(frozen=True)
class Stretch:
    """Groups in the order of submission, and the time to look at."""

    names: list[str]
    begin: float
    end: float


def draw_closeup(comparison: Comparison) -> str:
    """The section; nothing if nobody passed anybody and nothing was promised."""
    stretch = find_stretch(comparison)
    if stretch is None:
        return ""
    near = replace(comparison, begin=stretch.begin, end=stretch.end)
    tones, entries = tones_of(comparison, stretch.names)
    rows = [bars_of(subject, stretch.names, tones) for subject in comparison.subjects]
    body = key_of(rows, entries) + _timelines(near, rows, len(stretch.names))
    total, after = len(comparison.subjects[0].table.groups.names), stretch.begin - comparison.begin
    shown = len(stretch.names)
    which = (
        f"All {count(total)} groups"
        if shown == total
        else f"{count(shown)} of {count(total)} groups that came one after the other"
    )
    begin = f" that begins {duration(after)} after the first submission" if after > 0 else ""
    return section("closeup", "Close-up", CAPTION.format(which=which, begin=begin), body)


def find_stretch(comparison: Comparison, most: int = MOST) -> Stretch | None:
    """The stretch in which most is seen of groups that passed others or were promised a start."""
    tables = [subject.table.groups for subject in comparison.subjects]
    names = tables[0].names
    if not names or any(table.names != names for table in tables):
        return None
    if not any(s.promised or s.backfilled.any() for s in comparison.subjects):
        return None
    size = min(most, len(names))
    order = np.argsort(tables[0].submit, kind="stable")
    submit = tables[0].submit[order]
    start = np.array([table.start[order] for table in tables])
    end = np.array([table.end[order] for table in tables])
    begins = submit[: len(names) - size + 1]
    latest = np.max(np.where(np.isnan(start), submit, start), axis=0)
    # What has no end is seen until the end, whatever that is.
    lasting = np.where(np.isnan(end), np.inf, end - submit)
    windows = np.lib.stride_tricks.sliding_window_view
    stops = windows(latest, size).max(axis=1)
    stops = stops + np.maximum(_TAIL * (stops - begins), 1e-9)
    span = (stops - begins)[:, None]
    score: Floats = np.zeros(begins.size)
    for row, subject in enumerate(comparison.subjects):
        seen = np.minimum(windows(lasting[row], size) / span, _SEEN) / _SEEN
        promised, passing, passed = (
            (windows(weights[order], size) * seen).sum(axis=1) for weights in _weights(subject)
        )
        # Who passes is worth seeing together with those who are passed.
        score += promised + 2 * np.minimum(passing, passed) + 0.01 * passing
    first = int(score.argmax())
    chosen = order[first : first + size].tolist()
    stop = comparison.end if size == len(names) else float(stops[first])
    return Stretch([names[i] for i in chosen], float(begins[first]), stop)


def _weights(subject: Subject) -> tuple[Floats, Floats, Floats]:
    """By group: what was promised, broken promises above all; who passed; who may have been."""
    groups, passing = subject.table.groups, subject.backfilled
    promised = np.zeros(len(groups.names))
    for index, name in enumerate(groups.names):
        if name in subject.promised:
            promised[index] = 300.0 if name in subject.broken else 3.0
    waited = ~passing & (groups.wait > 0)
    return promised, passing.astype(np.float64), waited.astype(np.float64)


def _timelines(near: Comparison, rows: list[dict[int, Bar]], number: int) -> str:
    height = max(5.5, min(14.0, 200.0 / number))
    each = NAMED + height * number + GAP
    named = height >= 10
    area = Area(
        PAGE_WIDTH, each * len(rows) + 26.0, left=84.0 if named else 10.0, top=0.0, bottom=26.0
    )
    scale = time_scale(near, area)
    right = area.width - area.right
    body: list[str] = []
    said: list[str] = []
    for place, (subject, bars) in enumerate(zip(near.subjects, rows, strict=True)):
        top = place * each + NAMED
        floor = top + number * height
        note = _note(bars)
        said.append(f"{subject.name}: {note}")
        body.append(label(area.left, top - 8, shorten(subject.name, 70), "strip", "start"))
        body.append(label(right, top - 8, note, anchor="end"))
        body.append(rule(area.left, floor + 2, right, floor + 2))
        for row, bar in bars.items():
            at = top + row * height
            if named:
                text = shorten(bar.name, 12)
                body.append(label(area.left - 8, at + height / 2 + 3.5, text, anchor="end"))
            body.append(
                draw_row(
                    bar,
                    lambda t: scale.place(t - near.begin),
                    stop=near.end,
                    top=at,
                    height=height,
                )
            )
    body.append(time_axis(near, area))
    return picture(area, "A stretch of the queue, group by group", "; ".join(said) + ".", body)


def _note(bars: dict[int, Bar]) -> str:
    waits = [bar.start - bar.submit for bar in bars.values() if not math.isnan(bar.start)]
    passed = sum(bar.backfilled for bar in bars.values())
    made = sum(bar.promised is not None for bar in bars.values())
    said = [f"mean wait {duration(sum(waits) / len(waits))}"] if waits else []
    said.append(f"{count(passed)} backfilled")
    if made:
        broken = sum(bar.broken is not None for bar in bars.values())
        said += [plural(made, "promise"), f"{count(broken)} not kept"]
    return ", ".join(said)
