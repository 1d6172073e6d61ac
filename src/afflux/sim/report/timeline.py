"""Groups over time: how long each waited and when it ran, one panel per scheduler."""

import math
from dataclasses import dataclass

import numpy as np

from afflux.sim.report.bars import Bar, bars_of, key_of, tones_of
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.layout import heading, panels, section
from afflux.sim.report.over_time import time_axis, time_scale
from afflux.sim.report.rows import draw_row
from afflux.sim.report.svg import Area, nothing, panel_width, picture
from afflux.sim.report.text import count, percent, plural

CAPTION = (
    "Each row is a group, in the order of submission and the same in every panel: a thin line "
    "while it waits, a solid bar while it runs; look for long thin lines. {sample}"
)
MOST = 150
LONGEST = 15
BROKEN = 15


def draw_timeline(comparison: Comparison) -> str:
    """The section, one panel per scheduler with the same groups in the same rows."""
    sample = choose(comparison)
    tones, entries = tones_of(comparison, sample.names)
    rows = [bars_of(subject, sample.names, tones) for subject in comparison.subjects]
    body = key_of(rows, entries) + panels(
        (heading(s, _note(s)), _gantt(comparison, s, bars, len(sample.names)))
        for s, bars in zip(comparison.subjects, rows, strict=True)
    )
    return section("groups", "Groups", CAPTION.format(sample=_said(sample)), body)


@dataclass(frozen=True)
class Sample:
    """The groups to show in the order of submission, of how many, and why some of them."""

    names: list[str]
    total: int
    longest: int = 0
    broken: int = 0


def choose(comparison: Comparison) -> Sample:
    """All groups, or as many as there is room for: the conspicuous ones, the others evenly."""
    order: dict[str, float] = {}
    longest: dict[str, float] = {}
    late: dict[str, float] = {}
    for subject in comparison.subjects:
        groups = subject.table.groups
        waits = np.where(np.isnan(groups.wait), math.inf, groups.wait)
        for name, submit, wait in zip(
            groups.names, groups.submit.tolist(), waits.tolist(), strict=True
        ):
            order.setdefault(name, submit)
            longest[name] = max(longest.get(name, 0.0), wait)
            if name in subject.broken:
                by = submit + wait - subject.promised[name].first
                late[name] = max(late.get(name, 0.0), by)
    names = sorted(order, key=lambda name: order[name])
    if len(names) <= MOST:
        return Sample(names, len(names))
    outliers = set(sorted(names, key=lambda name: -longest[name])[:LONGEST])
    broken = set(sorted(late, key=lambda name: -late[name])[:BROKEN])
    others = [name for name in names if name not in outliers | broken]
    places = np.linspace(0, len(others) - 1, MOST - len(outliers | broken)).round().astype(int)
    chosen: set[str] = outliers | broken | {others[int(place)] for place in places}
    return Sample(
        [name for name in names if name in chosen], len(names), len(outliers), len(broken)
    )


def _said(sample: Sample) -> str:
    if len(sample.names) == sample.total:
        one = sample.total == 1
        return "There is one group." if one else f"All {count(sample.total)} groups are shown."
    why = [f"the {sample.longest} that waited longest under any scheduler"]
    if sample.broken:
        why.append(f"{sample.broken} with a broken promise")
    why.append("the others evenly chosen")
    shown = f"{count(len(sample.names))} of {count(sample.total)} groups are shown"
    return f"{shown}: {', '.join(why)}."


def _note(subject: Subject) -> str:
    waits = subject.table.groups.wait
    if not waits.size:
        return ""
    started = waits[~np.isnan(waits)]
    never = waits.size - started.size
    at_once = percent(float((started <= 0).sum()) / waits.size)
    return f"{at_once} at once" + (f", {count(never)} never" if never else "")


def _gantt(comparison: Comparison, subject: Subject, bars: dict[int, Bar], rows: int) -> str:
    row_height = max(3.2, min(14.0, 300.0 / max(1, rows)))
    tall = max(40.0, row_height * rows)
    width = panel_width(len(comparison.subjects))
    area = Area(width, tall + 32.0, left=10.0, top=4.0, bottom=28.0)
    scale = time_scale(comparison, area)
    body = [
        draw_row(
            bar,
            lambda at: scale.place(at - comparison.begin),
            stop=comparison.end,
            top=area.top + row * row_height,
            height=row_height,
        )
        for row, bar in bars.items()
    ]
    body.append(time_axis(comparison, area))
    if not bars:
        body.append(nothing(area, "no groups"))
    total = len(subject.table.groups.names)
    said = [f"{plural(len(bars), 'group')} of {count(total)}", _note(subject), _promises(subject)]
    told = "; ".join(filter(None, said))
    return picture(area, f"Groups over time under {subject.name}", f"{told}.", body)


def _promises(subject: Subject) -> str:
    made = len(subject.promised)
    if not made:
        return ""
    return f"{count(made)} promised a start, {count(len(subject.broken))} of them not kept"
