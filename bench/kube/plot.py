"""Draws speed and CPU of the schedulers side by side, a column for each cluster size."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from afflux.sim.report.svg import Area, coordinate, label, path, rule
from bench.kube.results import BACKLOG, SCHEDULER, STREAM, Key, Median
from bench.kube.schedulers import AFFLUX, NULL, PEER
from bench.kube.workloads import TRICKLE

_WIDTH, _HEIGHT, _GAP, _TOP = 460.0, 190.0, 16.0, 34.0
_BARS = ((AFFLUX, "ours"), (PEER, "peer"))
_STYLE = """
svg{font-family:system-ui,sans-serif;font-size:12px}
.t{fill:#1d2733;font-size:14px}.tick,.s{fill:#51606f}
.grid{stroke:#51606f;stroke-opacity:.15}
.ours{fill:#3b6ea5}.peer{fill:#a5803b}.ceiling{fill:none;stroke:#b4533c;stroke-width:3}
@media (prefers-color-scheme: dark){.t{fill:#e8eef5}.tick,.s{fill:#aebac6}.grid{stroke:#aebac6}
.ours{fill:#7fb0e6}.peer{fill:#d9b36c}.ceiling{stroke:#e8866f}}
"""


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of panels: one figure of all workloads in one mode."""

    title: str
    mode: str
    figure: Callable[[Median], float | None]
    leaves_out: str = ""


_ROWS = (
    # At a trickle all schedulers are as fast as the pods arrive.
    _Row("pods per second, stream", STREAM, lambda one: one.pods_per_second, TRICKLE),
    _Row("pods per second, backlog", BACKLOG, lambda one: one.pods_per_second),
    _Row("CPU seconds for 1,000 pods, stream", STREAM, lambda one: one.cpu_of(SCHEDULER)),
)


def draw(found: Mapping[Key, Median]) -> str:
    """The SVG text. Rows without measurements are left out."""
    sizes = sorted({nodes for nodes, *_ in found})
    there = [row for row in _ROWS if _workloads(found, row)]
    width = max(1, len(sizes)) * (_WIDTH + _GAP)
    title = "afflux and kube-scheduler on a real API server"
    body = [label(10, 20, title, "t", "start"), *_legend(width)]
    for down, row in enumerate(there):
        # The same scale for all sizes, so that they can be compared.
        top = round_up(
            max((row.figure(one) or 0.0 for one in _of(found, row).values()), default=0.0)
        )
        for across, nodes in enumerate(sizes):
            x, y = across * (_WIDTH + _GAP), _TOP + down * (_HEIGHT + _GAP)
            body.append(f'<g transform="translate({coordinate(x)} {coordinate(y)})">')
            body += [*_panel(found, row, nodes, top), "</g>"]
    size = f"{coordinate(width)} {coordinate(_TOP + len(there) * (_HEIGHT + _GAP))}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" '
        f'aria-label="{title}"><title>{title}</title><style>{_STYLE}</style>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def round_up(value: float) -> float:
    """The next round number: 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value)


def _of(found: Mapping[Key, Median], row: _Row) -> dict[Key, Median]:
    drawn = {AFFLUX, PEER, NULL}
    return {
        key: one
        for key, one in found.items()
        if key[2] == row.mode and key[1] != row.leaves_out and key[3] in drawn
    }


def _workloads(found: Mapping[Key, Median], row: _Row) -> list[str]:
    return list(dict.fromkeys(workload for _, workload, _, _ in _of(found, row)))


def _legend(width: float) -> list[str]:
    parts: list[str] = []
    for place, (name, style) in enumerate((*_BARS, (NULL, "ceiling"))):
        x = width - 330 + (0, 80, 210)[place]
        shape = _bar(x, 10, 10, 10, style) if style != "ceiling" else rule(x, 15, x + 12, 15, style)
        text = "null binder" if name == NULL else name
        parts += [shape, label(x + 16, 20, text, "s", "start")]
    return parts


def _panel(found: Mapping[Key, Median], row: _Row, nodes: int, top: float) -> list[str]:
    area = Area(_WIDTH, _HEIGHT, top=30.0, bottom=24.0)
    bottom, right = area.height - area.bottom, area.width - area.right

    def height(value: float) -> float:
        return area.inner_height * value / top

    body = [label(area.left, 16, f"{nodes:,} nodes: {row.title}", "s", "start")]
    for part in range(5):
        level = top * part / 4
        at = bottom - height(level)
        body.append(rule(area.left, at, right, at))
        body.append(label(area.left - 6, at + 4, f"{level:g}", "tick", "end"))
    workloads: Sequence[str] = _workloads(found, row)
    step = area.inner_width / max(1, len(workloads))
    for place, workload in enumerate(workloads):
        middle = area.left + (place + 0.5) * step
        body.append(label(middle, bottom + 16, workload))
        for side, (name, style) in enumerate(_BARS):
            value = _figure(found, row, (nodes, workload, row.mode, name))
            if value is not None:
                x = middle + (side - 1) * 0.3 * step
                body.append(_bar(x, bottom - height(value), 0.28 * step, height(value), style))
        ceiling = _figure(found, row, (nodes, workload, row.mode, NULL))
        if ceiling is not None:
            at = bottom - height(ceiling)
            body.append(rule(middle - 0.36 * step, at, middle + 0.36 * step, at, "ceiling"))
    return body


def _figure(found: Mapping[Key, Median], row: _Row, key: Key) -> float | None:
    one = found.get(key)
    return None if one is None else row.figure(one)


def _bar(x: float, y: float, width: float, height: float, style: str) -> str:
    across, down = coordinate(width), coordinate(height)
    return path(f"M{coordinate(x)} {coordinate(y)}h{across}v{down}h-{across}z", style)
