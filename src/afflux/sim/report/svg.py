"""The few shapes that the charts are made of."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from afflux.sim.columns import Floats
from afflux.sim.report.scale import Ticks
from afflux.sim.report.text import escape

# The width of the page's column; panels side by side share it.
PAGE_WIDTH = 1120.0
GAP = 28.0
_LETTER = 6.4  # about as wide as a digit of an axis label


@dataclass(frozen=True, slots=True)
class Area:
    """A picture and the part of it where data is drawn."""

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
        """From the bottom of the data to its top: values grow upwards."""
        return self.height - self.bottom, self.top

    @property
    def inner_width(self) -> float:
        """The width of the part with the data."""
        return self.width - self.left - self.right

    @property
    def inner_height(self) -> float:
        """The height of the part with the data."""
        return self.height - self.top - self.bottom


def panels_across(number: int) -> int:
    """How many panels stand side by side: up to three, and no lonely last one."""
    return {1: 1, 2: 2, 4: 2}.get(number, 3)


def panel_width(number: int) -> float:
    """The width of each of so many panels."""
    across = panels_across(number)
    return (PAGE_WIDTH - GAP * (across - 1)) / across


def coordinate(value: float) -> str:
    """A place to a tenth of a pixel, as short as it can be written."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def picture(area: Area, title: str, description: str, body: Iterable[str]) -> str:
    """An SVG that scales with the page and that a screen reader can tell about."""
    size = f"{coordinate(area.width)} {coordinate(area.height)}"
    return (
        f'<svg viewBox="0 0 {size}" role="img" aria-label="{escape(title, 300)}">'
        f"<title>{escape(title, 300)}</title><desc>{escape(description, 600)}</desc>"
        f"{''.join(body)}</svg>"
    )


def steps(x: Floats, y: Floats) -> str:
    """Path data of a line that keeps each value until the next place; x has one place more."""
    parts = [f"M{coordinate(x[0])} {coordinate(y[0])}"]
    height = parts[0].split(" ")[1]
    for place, value in zip(x[1:-1], y[1:], strict=True):
        text = coordinate(value)
        if text != height:
            parts.append(f"H{coordinate(place)}V{text}")
            height = text
    parts.append(f"H{coordinate(x[-1])}")
    return "".join(parts)


def dots(x: Floats, y: Floats) -> str:
    """Path data of dots: lines of no length, drawn by their round ends."""
    return "".join(f"M{coordinate(a)} {coordinate(b)}h0" for a, b in zip(x, y, strict=True))


def path(data: str, style: str, extra: str = "") -> str:
    """A path of a class."""
    return f'<path class="{style}" d="{data}"{extra}/>'


def rule(x1: float, y1: float, x2: float, y2: float, style: str = "grid") -> str:
    """A straight line."""
    return path(f"M{coordinate(x1)} {coordinate(y1)}L{coordinate(x2)} {coordinate(y2)}", style)


def label(x: float, y: float, text: str, style: str = "tick", anchor: str = "middle") -> str:
    """A piece of text, escaped."""
    at = f'x="{coordinate(x)}" y="{coordinate(y)}"'
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{style}" {at}{side}>{escape(text)}</text>'


def x_axis(area: Area, ticks: Sequence[tuple[float, str]], name: str = "") -> str:
    """Ticks below the data at these places; labels that would touch are left out."""
    bottom = area.height - area.bottom
    parts = [rule(area.left, bottom, area.width - area.right, bottom, "axis")]
    free = 0.0
    for place, text in ticks:
        parts.append(rule(place, bottom, place, bottom + 4, "axis"))
        half = len(text) * _LETTER / 2
        middle = min(place, area.width - half)
        if middle - half >= free:
            parts.append(label(middle, bottom + 16, text))
            free = middle + half + 8
    if name:
        parts.append(label(area.width - area.right, bottom + 32, name, "name", "end"))
    return "".join(parts)


def y_axis(area: Area, ticks: Sequence[tuple[float, str]]) -> str:
    """A line across the data at these places, with its label at the left."""
    parts: list[str] = []
    for place, text in ticks:
        parts.append(rule(area.left, place, area.width - area.right, place))
        parts.append(label(area.left - 8, place + 3.5, text, anchor="end"))
    return "".join(parts)


def placed(ticks: Ticks, places: Floats) -> list[tuple[float, str]]:
    """Ticks at their places on the page."""
    return [(float(at), text) for (_, text), at in zip(ticks, places, strict=True)]


def nothing(area: Area, text: str) -> str:
    """What a chart without data says."""
    return label(area.left + area.inner_width / 2, area.top + area.inner_height / 2, text, "none")
