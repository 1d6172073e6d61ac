"""The cumulative distributions of waiting time and bounded slowdown over the groups."""

import numpy as np

from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.page_sections import legend, panels, section
from afflux.sim.report.scales import (
    LinearScale,
    LogScale,
    Ticks,
    decades,
    duration_ticks,
    magnitude_ticks,
    share_ticks,
)
from afflux.sim.report.svg import (
    Area,
    coordinate,
    dots,
    empty_note,
    panel_width,
    path,
    picture,
    rule,
    step_line,
    tick_positions,
    x_axis,
    y_axis,
)
from afflux.sim.report.text_format import duration, percent, significant_figures
from afflux.sim.result_columns import Floats

CAPTION = (
    "The share of groups whose wait or slowdown is at most the value on the axis; a line further "
    "left is better, and a line that ends below 100 % left groups unserved."
)
ZERO_BAND = 34.0


def draw_distributions(comparison: Comparison) -> str:
    """The section: waiting times at the left, bounded slowdown at the right."""
    area = Area(panel_width(2), 260.0)
    slowdown = 'Bounded slowdown <span class="note">(wait + run) ÷ max(run, 10 s)</span>'
    pictures = [
        ('Waiting time <span class="note">submission to start</span>', _waits(comparison, area)),
        (slowdown, _slowdowns(comparison, area)),
    ]
    return section("waiting", "Waiting", CAPTION, legend(comparison) + panels(pictures))


def _waits(comparison: Comparison, area: Area) -> str:
    """A logarithmic axis has no zero: waits of zero lie left of an axis break."""
    values = [(s, s.table.groups.wait) for s in comparison.schedulers]
    low, high = decades(_known(values))
    left, right = area.x_range
    scale = LogScale(low, high, left + ZERO_BAND, right, zero_at=left + ZERO_BAND / 3)
    ticks = duration_ticks(low, high)
    return _draw(area, values, scale, ticks, title="Distribution of waiting times", unit="s")


def _slowdowns(comparison: Comparison, area: Area) -> str:
    """Groups that run without end are left out: they have no slowdown."""
    values = [(s, s.table.groups.slowdown[~s.table.groups.endless]) for s in comparison.schedulers]
    known = _known(values)
    high = decades(known)[1] if known.size else 10.0
    scale = LogScale(1.0, max(high, 10.0), *area.x_range)
    ticks = [(at, f"{text}×") for at, text in magnitude_ticks(1.0, max(high, 10.0))]
    return _draw(area, values, scale, ticks, title="Distribution of bounded slowdown", unit="×")


def _known(values: list[tuple[ComparedScheduler, Floats]]) -> Floats:
    every = np.concatenate([column for _, column in values])
    return every[~np.isnan(every)]


def _draw(
    area: Area,
    values: list[tuple[ComparedScheduler, Floats]],
    scale: LogScale,
    ticks: Ticks,
    *,
    title: str,
    unit: str,
) -> str:
    y = LinearScale(0.0, 1.0, *area.y_range)
    body = [y_axis(area, tick_positions(share_ticks(), y))]
    positions = tick_positions(ticks, scale)
    if scale.zero_at is not None:
        positions.insert(0, (scale.zero_at, "0"))
        body.append(_axis_break(area))
    body.append(x_axis(area, positions))
    drawn = [_curve(scheduler, column, scale, y) for scheduler, column in values]
    body.extend(reversed(drawn))
    if not any(drawn):
        body.append(empty_note(area, "no group to show"))
    parts = "; ".join(_describe(scheduler, column, unit) for scheduler, column in values)
    return picture(area, title, parts + ".", body)


def _curve(scheduler: ComparedScheduler, values: Floats, scale: LogScale, y: LinearScale) -> str:
    known = np.sort(values[~np.isnan(values)])
    if not known.size:
        return ""
    share = np.arange(1, known.size + 1) / values.size
    x = np.round(scale.positions(known) * 2) / 2
    last = np.append(np.nonzero(np.diff(x))[0], x.size - 1)
    x, share = x[last], share[last]
    parts: list[str] = []
    mark = scheduler.style
    if scale.zero_at is not None and known[0] <= 0:
        # Groups that did not wait: a level line left of the scale, joined to it at the break.
        level = coordinate(y.position(float(share[0])))
        half = scale.start - scale.zero_at - 4
        from_x, to_x = coordinate(scale.zero_at - half / 2), coordinate(scale.start)
        parts.append(path(f"M{from_x} {level}H{to_x}", f"line {mark}"))
        begin, first = float(share[0]), 1
    else:
        begin, first = 0.0, 0
    edges = np.concatenate([[scale.start], x[first:], [scale.stop]])
    levels = np.concatenate([[begin], share[first:]])
    parts.append(path(step_line(edges, y.positions(levels)), f"line {mark}"))
    if share[-1] < 1 - 1e-9:
        parts.append(path(dots(edges[-1:], y.positions(share[-1:])), f"dots big {mark}"))
    return f'<g data-s="{scheduler.index}">{"".join(parts)}</g>'


def _axis_break(area: Area) -> str:
    """Two short slanted strokes where the axis jumps from zero to its first decade."""
    x, bottom = area.left + ZERO_BAND * 0.72, area.height - area.bottom
    return "".join(rule(x + d - 2, bottom + 4, x + d + 2, bottom - 4, "axis") for d in (0, 4))


def _describe(scheduler: ComparedScheduler, values: Floats, unit: str) -> str:
    known = values[~np.isnan(values)]
    if not known.size:
        return f"{scheduler.name}: none"
    median, p95 = (float(np.percentile(known, p)) for p in (50, 95))
    text = duration if unit == "s" else significant_figures
    served = percent(known.size / values.size)
    return f"{scheduler.name}: half within {text(median)}, 95 % within {text(p95)}, {served} served"
