"""Groups over time: how long each waited and when it ran, one panel per scheduler."""

import math
from dataclasses import dataclass

import numpy as np

from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.group_bars import Bar, bar_classes, bar_legend, group_bars
from afflux.sim.report.page_sections import heading, panels, section
from afflux.sim.report.scales import LinearScale
from afflux.sim.report.svg import Area, empty_note, panel_width, picture
from afflux.sim.report.text_format import count, percent, plural
from afflux.sim.report.time_chart import time_axis
from afflux.sim.report.timeline_rows import draw_row

CAPTION = (
    "Each row is a group, in the order of submission and the same in every panel: a thin line "
    "while it waits, a solid bar while it runs; look for long thin lines. {sample}"
)
MAX_GROUPS = 150
SAMPLED_LONGEST_WAITS = 15
SAMPLED_BROKEN = 15


def draw_timeline(comparison: Comparison) -> str:
    """The section, one panel per scheduler with the same groups in the same rows."""
    sample = choose_sample(comparison)
    classes, entries = bar_classes(comparison, sample.names)
    rows = [group_bars(scheduler, sample.names, classes) for scheduler in comparison.schedulers]
    body = bar_legend(rows, entries) + panels(
        (heading(s, _note(s)), _panel(comparison, s, bars, len(sample.names)))
        for s, bars in zip(comparison.schedulers, rows, strict=True)
    )
    return section("groups", "Groups", CAPTION.format(sample=_sample_note(sample)), body)


@dataclass(frozen=True)
class Sample:
    """The groups to show, in the order of submission; their total; how many were chosen why."""

    names: list[str]
    total: int
    longest: int = 0
    broken: int = 0


def choose_sample(comparison: Comparison) -> Sample:
    """All groups, or a sample: the longest waits, the latest broken reservations, others evenly."""
    order: dict[str, float] = {}
    longest: dict[str, float] = {}
    late: dict[str, float] = {}
    for scheduler in comparison.schedulers:
        groups = scheduler.table.groups
        waits = np.where(np.isnan(groups.wait), math.inf, groups.wait)
        submits = groups.submit.tolist()
        for name, submit, wait in zip(groups.names, submits, waits.tolist(), strict=True):
            order.setdefault(name, submit)
            longest[name] = max(longest.get(name, 0.0), wait)
            if name in scheduler.broken:
                by = submit + wait - scheduler.reservations[name].first_start
                late[name] = max(late.get(name, 0.0), by)
    names = sorted(order, key=lambda name: order[name])
    if len(names) <= MAX_GROUPS:
        return Sample(names, len(names))
    outliers = set(sorted(names, key=lambda name: -longest[name])[:SAMPLED_LONGEST_WAITS])
    broken = set(sorted(late, key=lambda name: -late[name])[:SAMPLED_BROKEN])
    chosen = outliers | broken
    others = [name for name in names if name not in chosen]
    positions = np.linspace(0, len(others) - 1, MAX_GROUPS - len(chosen)).round().astype(int)
    chosen |= {others[int(position)] for position in positions}
    shown = [name for name in names if name in chosen]
    return Sample(shown, len(names), len(outliers), len(broken))


def _sample_note(sample: Sample) -> str:
    if len(sample.names) == sample.total:
        one = sample.total == 1
        return "There is one group." if one else f"All {count(sample.total)} groups are shown."
    why = [f"the {sample.longest} that waited longest under any scheduler"]
    if sample.broken:
        why.append(f"{sample.broken} with a broken reservation")
    why.append("the others chosen evenly")
    shown = f"{count(len(sample.names))} of {count(sample.total)} groups are shown"
    return f"{shown}: {', '.join(why)}."


def _note(scheduler: ComparedScheduler) -> str:
    waits = scheduler.table.groups.wait
    if not waits.size:
        return ""
    started = waits[~np.isnan(waits)]
    never = waits.size - started.size
    at_once = percent(float((started <= 0).sum()) / waits.size)
    return f"{at_once} at once" + (f", {count(never)} never" if never else "")


def _panel(
    comparison: Comparison, scheduler: ComparedScheduler, bars: dict[int, Bar], rows: int
) -> str:
    height = max(3.2, min(14.0, 300.0 / max(1, rows)))
    tall = max(40.0, height * rows)
    width = panel_width(len(comparison.schedulers))
    area = Area(width, tall + 32.0, left=10.0, top=4.0, bottom=28.0)
    x = LinearScale(*comparison.span, *area.x_range).position
    body = [
        draw_row(bar, x, stop=comparison.end, top=area.top + row * height, height=height)
        for row, bar in bars.items()
    ]
    body.append(time_axis(comparison, area))
    if not bars:
        body.append(empty_note(area, "no groups"))
    shown = f"{plural(len(bars), 'group')} of {count(len(scheduler.table.groups.names))}"
    description = "; ".join(filter(None, [shown, _note(scheduler), _reservations(scheduler)]))
    return picture(area, f"Groups over time under {scheduler.name}", f"{description}.", body)


def _reservations(scheduler: ComparedScheduler) -> str:
    made = len(scheduler.reservations)
    if not made:
        return ""
    return f"{plural(made, 'reservation')}, {count(len(scheduler.broken))} broken"
