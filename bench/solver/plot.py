"""The picture: how many times faster than OR-Tools, at the largest size, a panel for each shape."""

import numpy as np

from afflux.sim.report.scales import LogScale
from afflux.sim.report.svg import Area, coordinate, dots, label, path, rule
from bench.solver.churn_rounds import NAMES, Series
from bench.solver.results import Figures, times_faster

_WIDTH, _HEIGHT, _GAP = 300.0, 300.0, 16.0
_LEVELS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_GOALS = (1.0, 5.0, 20.0)
_STYLE = """
svg{font-family:system-ui,sans-serif;font-size:12px}
.t{fill:#1d2733;font-size:14px}.tick,.s{fill:#51606f}
.grid{stroke:#51606f;stroke-opacity:.15}.goal{stroke:#a5803b;stroke-dasharray:5 4}
.free,.pinned,.cold{fill:none;stroke-linecap:round;stroke-width:6;stroke-opacity:.55}
.free{stroke:#3b6ea5}.pinned{stroke:#3b8f5f}.cold{stroke:#b4533c;stroke-width:9;stroke-opacity:1}
@media (prefers-color-scheme: dark){.t{fill:#e8eef5}.tick,.s{fill:#aebac6}.grid{stroke:#aebac6}
.goal{stroke:#d9b36c}.free{stroke:#7fb0e6}.pinned{stroke:#79cf9d}.cold{stroke:#e8866f}}
"""


def draw(figures: Figures) -> str:
    """An SVG file; empty panels are left out."""
    largest = max(s.case.machines for s in figures.series)
    here = [s for s in figures.series if s.case.machines == largest and s.cold.peer_seconds]
    values = [v for s in here for v in times_faster((s.cold, *s.churn))] or [1.0]
    low = max((level for level in _LEVELS if level <= min(values)), default=_LEVELS[0])
    high = min((level for level in _LEVELS if level >= max(values)), default=_LEVELS[-1])
    low, high = min(low, 0.5), max(high, 50)
    shapes = sorted({s.case.shape for s in here})
    width = max(2, len(shapes)) * (_WIDTH + _GAP)
    title = f"Times faster than OR-Tools, {largest:,} machines"
    body = [label(10, 20, title, "t", "start"), *_legend(width)]
    for place, shape in enumerate(shapes):
        panel = _panel(shape, [s for s in here if s.case.shape == shape], low, high)
        body.append(f'<g transform="translate({coordinate(place * (_WIDTH + _GAP))} 34)">')
        body += [*panel, "</g>"]
    size = f"{coordinate(width)} {coordinate(_HEIGHT + 40)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" '
        f'aria-label="{title}"><title>{title}</title><style>{_STYLE}</style>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _legend(width: float) -> list[str]:
    found: list[str] = []
    words = [("cold", "cold"), ("free", "churn, free"), ("pinned", "churn, pinned")]
    for place, (style, text) in enumerate(words):
        x = width - 300 + place * 90
        found += [path(dots(np.array([x]), np.array([16.0])), style)]
        found += [label(x + 8, 20, text, "s", "start")]
    return found


def _panel(shape: str, series: list[Series], low: float, high: float) -> list[str]:
    """A column for each form and load: a dot per round of churn, a large one for the cold solve."""
    area = Area(_WIDTH, _HEIGHT, top=30.0, bottom=44.0)
    y = LogScale(low, high, *area.y_range)
    body = [label(area.left, 16, f"({shape}) {NAMES[shape]}", "s", "start")]
    right = area.width - area.right
    for level in _LEVELS:
        if low <= level <= high:
            at = y.position(level)
            body.append(rule(area.left, at, right, at, "goal" if level in _GOALS else "grid"))
            body.append(label(area.left - 6, at + 4, f"{level:g}", "tick", "end"))
    step = area.inner_width / max(1, len(series))
    bottom = area.height - area.bottom
    for place, one in enumerate(series):
        middle = area.left + (place + 0.5) * step
        faster = np.array(times_faster(one.churn))
        # Rounds one after the other, from left to right.
        x = middle + np.linspace(-0.3, 0.3, faster.size) * step
        body.append(path(dots(x, y.positions(faster)), one.case.form))
        cold = np.array(times_faster([one.cold]))
        body.append(path(dots(np.array([middle]), y.positions(cold)), "cold"))
        body.append(label(middle, bottom + 16, f"{one.case.load:g}"))
    for form in dict.fromkeys(s.case.form for s in series):
        places = [place for place, one in enumerate(series) if one.case.form == form]
        middle = area.left + (sum(places) / len(places) + 0.5) * step
        body.append(label(middle, bottom + 34, form, "s"))
    return body
