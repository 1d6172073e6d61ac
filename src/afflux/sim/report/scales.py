"""From values to places on the page, and the round values worth a tick."""

import math
import re
from dataclasses import dataclass

import numpy as np

from afflux.sim.columns import Floats
from afflux.sim.report.text import DAY, HOUR, MINUTE, brief, duration

Ticks = list[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Linear:
    """Values from `low` to `high` laid out evenly between two places."""

    low: float
    high: float
    start: float
    stop: float

    def places(self, values: Floats) -> Floats:
        """Where these values lie; what is out of range lies on the edge."""
        share = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def place(self, value: float) -> float:
        """Where one value lies."""
        return float(self.places(np.array([value]))[0])


@dataclass(frozen=True, slots=True)
class Log:
    """Positive values laid out by their magnitude.

    A logarithm has no zero. With `zero_at` set, values of zero stand there, apart from the scale;
    otherwise they lie on its lower edge.
    """

    low: float
    high: float
    start: float
    stop: float
    zero_at: float | None = None

    def places(self, values: Floats) -> Floats:
        """Where these values lie."""
        exponents = np.log10(np.clip(values, self.low, self.high))
        share = (exponents - math.log10(self.low)) / math.log10(self.high / self.low)
        found = self.start + share * (self.stop - self.start)
        return found if self.zero_at is None else np.where(values <= 0, self.zero_at, found)

    def place(self, value: float) -> float:
        """Where one value lies."""
        return float(self.places(np.array([value]))[0])


def decades(values: Floats, most: int = 7) -> tuple[float, float]:
    """Powers of ten around these positive values, at most so many apart, counted from above."""
    positive = values[values > 0]
    if not positive.size:
        return 1.0, 10.0
    high = math.ceil(math.log10(float(positive.max())) - 1e-9)
    low = math.floor(math.log10(float(positive.min())) + 1e-9)
    return 10.0 ** min(max(low, high - most), high - 1), 10.0**high


def count_ticks(high: float, most: int = 5) -> Ticks:
    """Round whole numbers from zero to `high`."""
    step = max(1.0, _step(high / most))
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


def time_ticks(seconds: float, most: int = 6) -> Ticks:
    """Round moments from zero on, labelled in one unit."""
    step = next((s for s in _TIME_STEPS if seconds / s <= most), _step(seconds / most / DAY) * DAY)
    if seconds < 4:
        step = _step(seconds / most)
    unit, name = next(
        ((u, n) for u, n in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")) if step % u == 0),
        (1.0, "s"),
    )
    if seconds < 1:
        unit, name = 1e-3, "ms"
    times = [n * step for n in range(math.floor(seconds / step + 1e-9) + 1)]
    return [(t, f"{brief(t / unit)} {name}" if t else "0") for t in times]


def duration_ticks(low: float, high: float) -> Ticks:
    """Durations that people count in, a factor of about ten apart."""
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
    """The next of 1, 2, 5, 10, ... at or above."""
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next(power * n for n in (1, 2, 5, 10) if power * n >= rough * (1 - 1e-9))


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 10 * size or (number >= size and number % (size / 10) == 0):
            return f"{number / size:g}{letter}"
    return f"{number:g}"
