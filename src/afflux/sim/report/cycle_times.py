"""The real time that each cycle took, against the virtual clock."""

import numpy as np

from afflux.sim.columns import Floats
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.layout import heading, panels, section
from afflux.sim.report.over_time import time_axis, time_scale
from afflux.sim.report.scale import Log, decades, duration_ticks
from afflux.sim.report.svg import (
    Area,
    dots,
    label,
    nothing,
    panel_width,
    path,
    picture,
    placed,
    rule,
    y_axis,
)
from afflux.sim.report.text import duration, plural

CAPTION = (
    "Each dot is one cycle, the lines mark the median and the 99th percentile; look for dots that "
    "rise with the load, since time spent deciding is time a free machine stands still."
)


def draw_cycles(comparison: Comparison) -> str:
    """The section, one panel per scheduler on common axes."""
    low, high = decades(np.concatenate([_seconds(s) for s in comparison.subjects]))
    body = panels(
        (heading(s, f"{plural(len(s.result.cycles), 'cycle')}"), _scatter(comparison, s, low, high))
        for s in comparison.subjects
    )
    return section("cycles", "Time per cycle", CAPTION, body)


def _seconds(subject: Subject) -> Floats:
    return np.array([cycle.seconds for cycle in subject.result.cycles], dtype=np.float64)


def _scatter(comparison: Comparison, subject: Subject, low: float, high: float) -> str:
    area = Area(panel_width(len(comparison.subjects)), 210.0, left=52.0)
    y = Log(low, high, *area.y_range)
    ticks = duration_ticks(low, high)
    seconds = _seconds(subject)
    body = [y_axis(area, placed(ticks, y.places(np.array([at for at, _ in ticks]))))]
    title = f"Time per cycle under {subject.name}"
    if not seconds.size:
        body += [nothing(area, "no cycles"), time_axis(comparison, area)]
        return picture(area, title, "There were no cycles.", body)
    at = np.array([cycle.at for cycle in subject.result.cycles]) - comparison.begin
    # Dots that would cover each other are drawn once.
    places = np.column_stack([time_scale(comparison, area).places(at), y.places(seconds)])
    places = np.unique(np.round(places / 1.2) * 1.2, axis=0)
    body.append(path(dots(places[:, 0], places[:, 1]), f"dots {subject.style}"))
    for name in ("p50", "p99"):
        value = subject.figure("cycle_seconds", name) or 0.0
        level = y.place(value)
        body.append(rule(area.left, level, area.width - area.right, level, "mark"))
        text = f"{name} {duration(value)}"
        body.append(label(area.width - area.right - 2, level - 4, text, "marked", "end"))
    body.append(time_axis(comparison, area))
    longest = duration(float(seconds.max()))
    middle = duration(float(np.median(seconds)))
    said = f"{plural(seconds.size, 'cycle')}, median {middle}, longest {longest}."
    return picture(area, title, said, body)
