"""One row of a timeline: how long a group waited, what it was promised, and when it ran."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from afflux.sim.report.bars import Bar
from afflux.sim.report.svg import coordinate, path
from afflux.sim.report.text import duration, escape, plural

# Shorter stretches cannot be seen.
_VISIBLE = 0.2


def draw_row(
    bar: Bar, x: Callable[[float], float], *, stop: float, top: float, height: float
) -> str:
    """A group in its row; `x` is where a time lies, `stop` when the picture ends."""
    begin = bar.start if bar.started else stop
    row = _Row(x, top + height / 2, height * 0.94, height * (0.94 if bar.size > 1 else 0.58), [])
    row.line("wait" if bar.started else "wait never", bar.submit, begin)
    if bar.promised is not None:
        row.line("wait told", bar.promised.at, begin)
        if bar.broken is not None:
            row.line("wait late", bar.promised.first, begin)
    tone = f"{bar.tone} back" if bar.backfilled else bar.tone
    if not math.isnan(bar.bound):
        row.block(f"part {tone}", bar.bound, begin)
    if bar.started:
        end = stop if math.isnan(bar.end) else bar.end
        row.block(f"run {tone}", bar.start, end, least=0.7)
    if bar.promised is not None:
        _mark_promised_start(row, bar, bar.promised.first, stop)
    return f"<g><title>{escape(_said(bar), 300)}</title>{''.join(row.parts)}</g>"


def _mark_promised_start(row: "_Row", bar: Bar, promised: float, stop: float) -> None:
    """A thin mark that is seen on a bar as well as beside it."""
    if bar.broken is not None:
        row.mark("due broken", promised)
    elif promised <= stop:
        inside = bar.start < promised and not promised >= bar.end
        row.mark("due in" if inside else "due", promised)


def _said(bar: Bar) -> str:
    said: list[str] = []
    if bar.started:
        said.append(f"waited {duration(bar.start - bar.submit)}")
        still = math.isnan(bar.end)
        said.append("still running" if still else f"ran {duration(bar.end - bar.start)}")
    else:
        said.append("never started")
    if bar.backfilled:
        said.append("backfilled")
    if bar.promised is not None:
        most = max(0.0, bar.promised.first - bar.submit)
        said.append(f"promised to wait {duration(most)} at most")
    if bar.broken is not None:
        said.append(f"not kept ({bar.broken})")
    return f"{bar.name}, {plural(bar.size, 'task')}: {', '.join(said)}"


@dataclass(frozen=True, slots=True)
class _Row:
    """What is drawn of one group, so far."""

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
        """A line as thick as a bar, at least so long."""
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
