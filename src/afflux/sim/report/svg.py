"""SVG shapes, axes and labels of the charts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from afflux.sim.report.scales import LinearScale, LogScale, Ticks
from afflux.sim.report.text_format import escape
from afflux.sim.result_columns import Floats

# The width of the page's column; panels side by side share it.
PAGE_WIDTH = 1120.0
PANEL_GAP = 28.0
_LETTER_WIDTH = 6.4  # about the width of a digit of an axis label


@dataclass(frozen=True, slots=True)
class Area:
    """A picture and the inner part of it where data is drawn."""

    width: float
    height: float
    left: float = 44.0
    right: float = 10.0
    top: float = 10.0
    bottom: float = 24.0

    @property
    def x_range(self) -> tuple[float, float]:
        """From the left edge of the data to its right edge."""
        return self.left, self.width - self.right

    @property
    def y_range(self) -> tuple[float, float]:
        """From the bottom of the data to its top."""
        return self.height - self.bottom, self.top

    @property
    def inner_width(self) -> float:
        return self.width - self.left - self.right

    @property
    def inner_height(self) -> float:
        return self.height - self.top - self.bottom


def panels_across(number: int) -> int:
    """How many panels stand side by side: up to three; four panels make two rows of two."""
    return {1: 1, 2: 2, 4: 2}.get(number, 3)


def panel_width(number: int) -> float:
    across = panels_across(number)
    return (PAGE_WIDTH - PANEL_GAP * (across - 1)) / across


def coordinate(value: float) -> str:
    """A coordinate rounded to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def picture(area: Area, title: str, description: str, body: Iterable[str]) -> str:
    """An SVG that scales with the page, with title and description for screen readers."""
    size = f"{coordinate(area.width)} {coordinate(area.height)}"
    return (
        f'<svg viewBox="0 0 {size}" role="img" aria-label="{escape(title, 300)}">'
        f"<title>{escape(title, 300)}</title><desc>{escape(description, 600)}</desc>"
        f"{''.join(body)}</svg>"
    )


def step_line(x: Floats, y: Floats) -> str:
    """Path data of a step function; `x` has one position more than `y`."""
    parts = [f"M{coordinate(x[0])} {coordinate(y[0])}"]
    height = parts[0].split(" ")[1]
    for position, value in zip(x[1:-1], y[1:], strict=True):
        text = coordinate(value)
        if text != height:
            parts.append(f"H{coordinate(position)}V{text}")
            height = text
    parts.append(f"H{coordinate(x[-1])}")
    return "".join(parts)


def dots(x: Floats, y: Floats) -> str:
    """Path data of dots: lines of no length, drawn by their round ends."""
    return "".join(f"M{coordinate(a)} {coordinate(b)}h0" for a, b in zip(x, y, strict=True))


def path(data: str, style: str, extra: str = "") -> str:
    return f'<path class="{style}" d="{data}"{extra}/>'


def rule(x1: float, y1: float, x2: float, y2: float, style: str = "grid") -> str:
    """A straight line."""
    return path(f"M{coordinate(x1)} {coordinate(y1)}L{coordinate(x2)} {coordinate(y2)}", style)


def label(x: float, y: float, text: str, style: str = "tick", anchor: str = "middle") -> str:
    """A text, escaped."""
    at = f'x="{coordinate(x)}" y="{coordinate(y)}"'
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{style}" {at}{side}>{escape(text)}</text>'


def x_axis(area: Area, ticks: Sequence[tuple[float, str]]) -> str:
    """Ticks below the data at these positions; labels that would overlap are left out."""
    bottom = area.height - area.bottom
    parts = [rule(area.left, bottom, area.width - area.right, bottom, "axis")]
    free = 0.0
    for position, text in ticks:
        parts.append(rule(position, bottom, position, bottom + 4, "axis"))
        half = len(text) * _LETTER_WIDTH / 2
        middle = min(position, area.width - half)
        if middle - half >= free:
            parts.append(label(middle, bottom + 16, text))
            free = middle + half + 8
    return "".join(parts)


def y_axis(area: Area, ticks: Sequence[tuple[float, str]]) -> str:
    """Horizontal lines across the data at these positions, each with its label at the left."""
    parts: list[str] = []
    for position, text in ticks:
        parts.append(rule(area.left, position, area.width - area.right, position))
        parts.append(label(area.left - 8, position + 3.5, text, anchor="end"))
    return "".join(parts)


def tick_positions(ticks: Ticks, scale: LinearScale | LogScale) -> list[tuple[float, str]]:
    """Pairs of position and label."""
    positions = scale.positions(np.array([at for at, _ in ticks]))
    return [(float(at), text) for (_, text), at in zip(ticks, positions, strict=True)]


def empty_note(area: Area, text: str) -> str:
    """The text in a chart without data."""
    return label(area.left + area.inner_width / 2, area.top + area.inner_height / 2, text, "none")
