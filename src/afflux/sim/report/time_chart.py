"""A chart of lines against virtual time."""

from dataclasses import dataclass

import numpy as np

from afflux.sim.columns import Floats
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.scale import Linear, Ticks, time_ticks
from afflux.sim.report.svg import Area, coordinate, path, picture, placed, steps, x_axis, y_axis
from afflux.sim.report.text import count, duration


@dataclass(frozen=True)
class Line:
    """A scheduler's value in each of equally long stretches of the whole time."""

    subject: Subject
    values: Floats


def time_scale(comparison: Comparison, area: Area) -> Linear:
    """Seconds since the first submission, across the picture."""
    return Linear(0.0, comparison.seconds, *area.x_range)


def time_axis(comparison: Comparison, area: Area) -> str:
    """Its axis, with as many ticks as there is room for."""
    scale = time_scale(comparison, area)
    ticks = time_ticks(comparison.seconds, most=max(3, int(area.inner_width // 70)))
    return x_axis(area, placed(ticks, scale.places(np.array([at for at, _ in ticks]))))


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
    """The lines, each keeping its mean within a stretch of time.

    The script reads the values back from `data-v` (hundredths if the unit is %) for its tooltips.
    """
    x, y = time_scale(comparison, area), Linear(0.0, high, *area.y_range)
    body = [y_axis(area, placed(ticks, y.places(np.array([at for at, _ in ticks]))))]
    factor = 100.0 if unit == "%" else 1.0
    drawn: list[str] = []
    for line in lines:
        edges = np.linspace(0.0, comparison.seconds, line.values.size + 1)
        values = " ".join(str(round(float(v) * factor)) for v in line.values)
        data = steps(x.places(edges), y.places(line.values))
        extra = f' data-s="{line.subject.index}" data-v="{values}"'
        drawn.append(path(data, f"line {line.subject.style}", extra))
    # The first scheduler is drawn last, on top of those it is compared with.
    clock = f'data-x="{coordinate(area.left)} {coordinate(area.width - area.right)}"'
    seconds = f'data-t="{comparison.seconds:g}" data-u="{unit}"'
    body.append(f'<g class="lines" {clock} {seconds}>{"".join(reversed(drawn))}</g>')
    body.append(time_axis(comparison, area))
    return picture(area, title, _describe(lines, unit, comparison.seconds), body)


def _describe(lines: list[Line], unit: str, seconds: float) -> str:
    factor = 100.0 if unit == "%" else 1.0
    said = [
        f"{line.subject.name}: mean {count(float(line.values.mean()) * factor)} {unit}, "
        f"highest {count(float(line.values.max()) * factor)} {unit}"
        for line in lines
    ]
    return f"Over {duration(seconds)}. " + "; ".join(said) + "."
