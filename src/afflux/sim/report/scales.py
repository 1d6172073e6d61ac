"""Scales from values to positions on the page, and round values for ticks."""

import math
import re
from dataclasses import dataclass

import numpy as np

from afflux.sim.report.text_format import DAY, HOUR, MINUTE, brief, duration
from afflux.sim.result_columns import Floats

Ticks = list[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class LinearScale:
    """Maps values from `low` to `high` linearly to positions from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def positions(self, values: Floats) -> Floats:
        """The positions of these values; values out of range lie on the edge."""
        share = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def position(self, value: float) -> float:
        return float(self.positions(np.array([value]))[0])


@dataclass(frozen=True, slots=True)
class LogScale:
    """Maps positive values logarithmically to positions from `start` to `stop`.

    Values of zero lie at `zero_at`, outside the scale, if it is set; otherwise on the lower edge.
    """

    low: float
    high: float
    start: float
    stop: float
    zero_at: float | None = None

    def positions(self, values: Floats) -> Floats:
        exponents = np.log10(np.clip(values, self.low, self.high))
        share = (exponents - math.log10(self.low)) / math.log10(self.high / self.low)
        found = self.start + share * (self.stop - self.start)
        return found if self.zero_at is None else np.where(values <= 0, self.zero_at, found)

    def position(self, value: float) -> float:
        return float(self.positions(np.array([value]))[0])


def decades(values: Floats, max_decades: int = 7) -> tuple[float, float]:
    """The powers of ten around these positive values; the lower one is raised if they are more
    than `max_decades` apart."""
    positive = values[values > 0]
    if not positive.size:
        return 1.0, 10.0
    high = math.ceil(math.log10(float(positive.max())) - 1e-9)
    low = math.floor(math.log10(float(positive.min())) + 1e-9)
    return 10.0 ** min(max(low, high - max_decades), high - 1), 10.0**high


def count_ticks(high: float, max_ticks: int = 5) -> Ticks:
    """Round whole numbers from zero to `high`."""
    step = max(1.0, _step(high / max_ticks))
    return [(n * step, _short(n * step)) for n in range(math.floor(high / step + 1e-9) + 1)]


def share_ticks(quarters: int = 4) -> Ticks:
    """0 % to 100 %."""
    return [(n / quarters, f"{100 * n // quarters} %") for n in range(quarters + 1)]


_TIME_STEPS = (
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(HOUR * n for n in (1, 2, 3, 6, 12)),
    *(DAY * n for n in (1, 2, 7, 14, 28, 56, 91, 182, 364)),
)


def time_ticks(seconds: float, max_ticks: int = 6) -> Ticks:
    """Round times from zero on, labelled in one unit."""
    step = next(
        (s for s in _TIME_STEPS if seconds / s <= max_ticks), _step(seconds / max_ticks / DAY) * DAY
    )
    if seconds < 4:
        step = _step(seconds / max_ticks)
    unit, name = next(
        ((u, n) for u, n in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")) if step % u == 0), (1.0, "s")
    )
    if seconds < 1:
        unit, name = 1e-3, "ms"
    times = [n * step for n in range(math.floor(seconds / step + 1e-9) + 1)]
    return [(t, f"{brief(t / unit)} {name}" if t else "0") for t in times]


def duration_ticks(low: float, high: float) -> Ticks:
    """Usual durations, about a factor of ten apart."""
    values = [10.0**n for n in range(-9, 2)]
    values += [MINUTE, 10 * MINUTE, HOUR, 10 * HOUR, 4 * DAY, 40 * DAY, 400 * DAY]
    return [(v, _round_duration(v)) for v in values if low * 0.999 <= v <= high * 1.001]


def _round_duration(seconds: float) -> str:
    return re.sub(r"\.0+ ", " ", duration(seconds))


def magnitude_ticks(low: float, high: float) -> Ticks:
    """Powers of ten."""
    first, last = round(math.log10(low)), round(math.log10(high))
    return [(10.0**n, _short(10.0**n)) for n in range(first, last + 1)]


def _step(rough: float) -> float:
    """The smallest of 1, 2, 5, 10, ... that is at least `rough`."""
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next(power * n for n in (1, 2, 5, 10) if power * n >= rough * (1 - 1e-9))


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 10 * size or (number >= size and number % (size / 10) == 0):
            return f"{number / size:g}{letter}"
    return f"{number:g}"
