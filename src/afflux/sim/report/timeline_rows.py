"""One row of a timeline: how long a group waited, its reserved start, and when it ran."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from afflux.sim.report.group_bars import Bar
from afflux.sim.report.svg import coordinate, path
from afflux.sim.report.text_format import duration, escape, plural

# Shorter lines cannot be seen.
_VISIBLE = 0.2


def draw_row(
    bar: Bar, x: Callable[[float], float], *, stop: float, top: float, height: float
) -> str:
    """A group in its row; `x` maps a time to a position, `stop` is the end of the picture."""
    begin = bar.start if bar.started else stop
    thickness = height * (0.94 if bar.size > 1 else 0.58)
    row = _RowDrawing(x, top + height / 2, height * 0.94, thickness, [])
    row.line("wait" if bar.started else "wait never", bar.submit, begin)
    if bar.reservation is not None:
        row.line("wait reserved", bar.reservation.made_at, begin)
        if bar.broken is not None:
            row.line("wait late", bar.reservation.first_start, begin)
    css_class = f"{bar.css_class} back" if bar.backfilled else bar.css_class
    if not math.isnan(bar.bound):
        row.block(f"part {css_class}", bar.bound, begin)
    if bar.started:
        end = stop if math.isnan(bar.end) else bar.end
        row.block(f"run {css_class}", bar.start, end, least=0.7)
    if bar.reservation is not None:
        _mark_reserved_start(row, bar, bar.reservation.first_start, stop)
    return f"<g><title>{escape(_describe(bar), 300)}</title>{''.join(row.parts)}</g>"


def _mark_reserved_start(row: "_RowDrawing", bar: Bar, reserved: float, stop: float) -> None:
    """A thin mark that is visible on a bar and beside it."""
    if bar.broken is not None:
        row.mark("due broken", reserved)
    elif reserved <= stop:
        inside = bar.start < reserved and not reserved >= bar.end
        row.mark("due in" if inside else "due", reserved)


def _describe(bar: Bar) -> str:
    parts: list[str] = []
    if bar.started:
        parts.append(f"waited {duration(bar.start - bar.submit)}")
        still = math.isnan(bar.end)
        parts.append("still running" if still else f"ran {duration(bar.end - bar.start)}")
    else:
        parts.append("never started")
    if bar.backfilled:
        parts.append("backfilled")
    if bar.reservation is not None:
        max_wait = max(0.0, bar.reservation.first_start - bar.submit)
        parts.append(f"reserved a wait of {duration(max_wait)} at most")
    if bar.broken is not None:
        parts.append(f"reservation broken ({bar.broken})")
    return f"{bar.name}, {plural(bar.size, 'task')}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class _RowDrawing:
    """The SVG parts of one group, drawn so far."""

    x: Callable[[float], float]
    middle: float
    height: float
    thickness: float
    parts: list[str]

    def line(self, style: str, begin: float, end: float) -> None:
        left, right = self.x(begin), self.x(end)
        if right - left > _VISIBLE:
            data = f"M{coordinate(left)} {coordinate(self.middle)}H{coordinate(right)}"
            self.parts.append(path(data, style))

    def block(self, style: str, begin: float, end: float, least: float = 0.0) -> None:
        """A line as thick as a bar, at least `least` long."""
        left = self.x(begin)
        width = max(least, self.x(end) - left)
        if width > _VISIBLE:
            data = f"M{coordinate(left)} {coordinate(self.middle)}h{coordinate(width)}"
            thick = f' stroke-width="{coordinate(self.thickness)}"'
            self.parts.append(path(data, style, thick))

    def mark(self, style: str, at: float) -> None:
        top = self.middle - self.height / 2
        data = f"M{coordinate(self.x(at))} {coordinate(top)}v{coordinate(self.height)}"
        self.parts.append(path(data, style))
