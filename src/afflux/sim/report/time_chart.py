"""Line charts over virtual time."""

from dataclasses import dataclass

import numpy as np

from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.scales import LinearScale, Ticks, time_ticks
from afflux.sim.report.svg import (
    Area,
    coordinate,
    path,
    picture,
    step_line,
    tick_positions,
    x_axis,
    y_axis,
)
from afflux.sim.report.text_format import count, duration
from afflux.sim.result_columns import Floats


@dataclass(frozen=True)
class Line:
    """A scheduler's value in each of equally long time bins."""

    scheduler: ComparedScheduler
    values: Floats


def time_scale(comparison: Comparison, area: Area) -> LinearScale:
    """Seconds since the first submission, across the picture."""
    return LinearScale(0.0, comparison.seconds, *area.x_range)


def time_axis(comparison: Comparison, area: Area) -> str:
    """The time axis, with as many ticks as fit."""
    ticks = time_ticks(comparison.seconds, max_ticks=max(3, int(area.inner_width // 70)))
    return x_axis(area, tick_positions(ticks, time_scale(comparison, area)))


def draw_over_time(
    comparison: Comparison,
    area: Area,
    *,
    title: str,
    lines: list[Line],
    high: float,
    ticks: Ticks,
    unit: str,
) -> str:
    """The lines, as step functions of their means per time bin.

    The script reads the values from `data-v` (hundredths if the unit is %) for its tooltips.
    """
    x, y = time_scale(comparison, area), LinearScale(0.0, high, *area.y_range)
    body = [y_axis(area, tick_positions(ticks, y))]
    factor = 100.0 if unit == "%" else 1.0
    drawn: list[str] = []
    for line in lines:
        edges = np.linspace(0.0, comparison.seconds, line.values.size + 1)
        values = " ".join(str(round(float(v) * factor)) for v in line.values)
        data = step_line(x.positions(edges), y.positions(line.values))
        extra = f' data-s="{line.scheduler.index}" data-v="{values}"'
        drawn.append(path(data, f"line {line.scheduler.style}", extra))
    # The first scheduler is drawn last, on top of the others.
    clock = f'data-x="{coordinate(area.left)} {coordinate(area.width - area.right)}"'
    seconds = f'data-t="{comparison.seconds:g}" data-u="{unit}"'
    body.append(f'<g class="lines" {clock} {seconds}>{"".join(reversed(drawn))}</g>')
    body.append(time_axis(comparison, area))
    return picture(area, title, _describe(lines, unit, comparison.seconds), body)


def _describe(lines: list[Line], unit: str, seconds: float) -> str:
    factor = 100.0 if unit == "%" else 1.0
    parts = [
        f"{line.scheduler.name}: mean {count(float(line.values.mean()) * factor)} {unit}, "
        f"highest {count(float(line.values.max()) * factor)} {unit}"
        for line in lines
    ]
    return f"Over {duration(seconds)}. " + "; ".join(parts) + "."
