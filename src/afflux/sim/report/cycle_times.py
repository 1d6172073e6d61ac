"""The real time that each cycle took, against the virtual clock."""

import numpy as np

from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.page_sections import heading, panels, section
from afflux.sim.report.scales import LogScale, decades, duration_ticks
from afflux.sim.report.svg import (
    Area,
    dots,
    empty_note,
    label,
    panel_width,
    path,
    picture,
    rule,
    tick_positions,
    y_axis,
)
from afflux.sim.report.text_format import duration, plural
from afflux.sim.report.time_chart import time_axis, time_scale
from afflux.sim.result_columns import Floats

CAPTION = (
    "Each dot is one cycle, the lines mark the median and the 99th percentile; look for dots that "
    "rise with the load: free machines stay idle while a cycle runs."
)


def draw_cycles(comparison: Comparison) -> str:
    """The section, one panel per scheduler on common axes."""
    low, high = decades(np.concatenate([_seconds(s) for s in comparison.schedulers]))
    body = panels(
        (heading(s, f"{plural(len(s.result.cycles), 'cycle')}"), _scatter(comparison, s, low, high))
        for s in comparison.schedulers
    )
    return section("cycles", "Time per cycle", CAPTION, body)


def _seconds(scheduler: ComparedScheduler) -> Floats:
    return np.array([cycle.seconds for cycle in scheduler.result.cycles], dtype=np.float64)


def _scatter(comparison: Comparison, scheduler: ComparedScheduler, low: float, high: float) -> str:
    area = Area(panel_width(len(comparison.schedulers)), 210.0, left=52.0)
    y = LogScale(low, high, *area.y_range)
    seconds = _seconds(scheduler)
    body = [y_axis(area, tick_positions(duration_ticks(low, high), y))]
    title = f"Time per cycle under {scheduler.name}"
    if not seconds.size:
        body += [empty_note(area, "no cycles"), time_axis(comparison, area)]
        return picture(area, title, "There were no cycles.", body)
    at = np.array([cycle.at for cycle in scheduler.result.cycles]) - comparison.begin
    # Dots that would cover each other are drawn once.
    positions = np.column_stack([time_scale(comparison, area).positions(at), y.positions(seconds)])
    positions = np.unique(np.round(positions / 1.2) * 1.2, axis=0)
    body.append(path(dots(positions[:, 0], positions[:, 1]), f"dots {scheduler.style}"))
    for name in ("p50", "p99"):
        value = scheduler.metric("cycle_seconds", name) or 0.0
        level = y.position(value)
        body.append(rule(area.left, level, area.width - area.right, level, "mark"))
        text = f"{name} {duration(value)}"
        body.append(label(area.width - area.right - 2, level - 4, text, "marked", "end"))
    body.append(time_axis(comparison, area))
    longest, middle = duration(float(seconds.max())), duration(float(np.median(seconds)))
    parts = f"{plural(seconds.size, 'cycle')}, median {middle}, longest {longest}."
    return picture(area, title, parts, body)
