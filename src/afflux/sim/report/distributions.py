"""How waiting and slowdown are distributed over the groups, as cumulative shares."""

import numpy as np

from afflux.sim.columns import Floats
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.layout import legend, panels, section
from afflux.sim.report.scale import (
    Linear,
    Log,
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
    nothing,
    panel_width,
    path,
    picture,
    placed,
    rule,
    steps,
    x_axis,
    y_axis,
)
from afflux.sim.report.text import duration, figures, percent

CAPTION = (
    "The share of groups that waited, or were slowed down, no more than the value below; a line "
    "further left is better, and one that ends below 100 % left groups unserved."
)
ZERO_BAND = 34.0


def draw_distributions(comparison: Comparison) -> str:
    """The section: waiting times at the left, bounded slowdown at the right."""
    area = Area(panel_width(2), 260.0)
    pictures = [
        ('Waiting time <span class="note">submission to start</span>', _waits(comparison, area)),
        (
            'Bounded slowdown <span class="note">(wait + run) ÷ max(run, 10 s)</span>',
            _slowdowns(comparison, area),
        ),
    ]
    return section("waiting", "Waiting", CAPTION, legend(comparison) + panels(pictures))


def _waits(comparison: Comparison, area: Area) -> str:
    """Zero has no place on a logarithmic axis: it stands apart, at the left of the break."""
    values = [(s, s.table.groups.wait) for s in comparison.subjects]
    low, high = decades(_known(values))
    left, right = area.x_range
    scale = Log(low, high, left + ZERO_BAND, right, zero_at=left + ZERO_BAND / 3)
    ticks = duration_ticks(low, high)
    return _draw(area, values, scale, ticks, title="Distribution of waiting times", unit="s")


def _slowdowns(comparison: Comparison, area: Area) -> str:
    """Groups that run without end have no slowdown; those that should have ended count."""
    values = [(s, s.table.groups.slowdown[~s.table.groups.endless]) for s in comparison.subjects]
    known = _known(values)
    high = decades(known)[1] if known.size else 10.0
    scale = Log(1.0, max(high, 10.0), *area.x_range)
    ticks = magnitude_ticks(1.0, max(high, 10.0))
    ticks = [(at, f"{text}×") for at, text in ticks]
    return _draw(area, values, scale, ticks, title="Distribution of bounded slowdown", unit="×")


def _known(values: list[tuple[Subject, Floats]]) -> Floats:
    every = np.concatenate([column for _, column in values])
    return every[~np.isnan(every)]


def _draw(
    area: Area,
    values: list[tuple[Subject, Floats]],
    scale: Log,
    ticks: Ticks,
    *,
    title: str,
    unit: str,
) -> str:
    y = Linear(0.0, 1.0, *area.y_range)
    shares = share_ticks()
    body = [y_axis(area, placed(shares, y.places(np.array([at for at, _ in shares]))))]
    places = placed(ticks, scale.places(np.array([at for at, _ in ticks])))
    if scale.zero_at is not None:
        places.insert(0, (scale.zero_at, "0"))
        body.append(_axis_break(area))
    body.append(x_axis(area, places))
    drawn = [_curve(subject, column, scale, y) for subject, column in values]
    body.extend(reversed(drawn))
    if not any(drawn):
        body.append(nothing(area, "no group to show"))
    said = "; ".join(_describe(subject, column, unit) for subject, column in values)
    return picture(area, title, said + ".", body)


def _curve(subject: Subject, values: Floats, scale: Log, y: Linear) -> str:
    known = np.sort(values[~np.isnan(values)])
    if not known.size:
        return ""
    share = np.arange(1, known.size + 1) / values.size
    x = np.round(scale.places(known) * 2) / 2
    last = np.append(np.nonzero(np.diff(x))[0], x.size - 1)
    x, share = x[last], share[last]
    parts: list[str] = []
    mark = f"{subject.style}"
    if scale.zero_at is not None and known[0] <= 0:
        # What did not wait at all: a level stroke beside the scale, joined to it below the break.
        level = coordinate(y.place(float(share[0])))
        half = scale.start - scale.zero_at - 4
        from_x, to_x = coordinate(scale.zero_at - half / 2), coordinate(scale.start)
        parts.append(path(f"M{from_x} {level}H{to_x}", f"line {mark}"))
        begin, first = float(share[0]), 1
    else:
        begin, first = 0.0, 0
    edges = np.concatenate([[scale.start], x[first:], [scale.stop]])
    levels = np.concatenate([[begin], share[first:]])
    parts.append(path(steps(edges, y.places(levels)), f"line {mark}"))
    if share[-1] < 1 - 1e-9:
        parts.append(path(dots(edges[-1:], y.places(share[-1:])), f"dots big {mark}"))
    return f'<g data-s="{subject.index}">{"".join(parts)}</g>'


def _axis_break(area: Area) -> str:
    """Two short slanted strokes where the axis jumps from zero to its first decade."""
    x, bottom = area.left + ZERO_BAND * 0.72, area.height - area.bottom
    slants = [rule(x + d - 2, bottom + 4, x + d + 2, bottom - 4, "axis") for d in (0, 4)]
    return "".join(slants)


def _describe(subject: Subject, values: Floats, unit: str) -> str:
    known = values[~np.isnan(values)]
    if not known.size:
        return f"{subject.name}: none"
    half, most = (float(np.percentile(known, p)) for p in (50, 95))
    text = duration if unit == "s" else figures
    served = percent(known.size / values.size)
    return f"{subject.name}: half within {text(half)}, 95 % within {text(most)}, {served} served"
