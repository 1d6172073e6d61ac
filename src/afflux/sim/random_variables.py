"""The random variables synthetic workloads are made of; each draws from a generator it is given."""

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Table = Sequence[tuple[T, float]]  # values and their weights

DAY_SECONDS = 86_400.0
QUIET_SECONDS = 2 * 3600.0  # when a day's arrivals are fewest
SWING = 0.6
BURST_SHARE = 0.25
BURST_JOBS = 10
BURST_SECONDS = 60.0


def bounded_pareto(rng: np.random.Generator, alpha: float, low: float, high: float) -> float:
    """Density proportional to x^-(alpha + 1) between low and high, by its inverse."""
    left = (low / high) ** alpha
    return low * (1 - rng.random() * (1 - left)) ** (-1 / alpha)


def log_normal(rng: np.random.Generator, median: float, sigma: float) -> float:
    """exp of a normal variable; half of the values are below the median."""
    return median * math.exp(sigma * rng.standard_normal())


def pick(rng: np.random.Generator, table: Table[T]) -> T:
    """One value, as often as its weight says."""
    left = rng.random() * math.fsum(weight for _, weight in table)
    for value, weight in table:
        left -= weight
        if left < 0:
            return value
    return table[-1][0]


def even_arrivals(rng: np.random.Generator, count: int, span_seconds: float) -> list[float]:
    """Arrivals of a Poisson process of constant rate, given their number."""
    return (rng.random(count) * span_seconds).tolist()


def daily_arrivals(rng: np.random.Generator, count: int, span_seconds: float) -> list[float]:
    """Arrivals of a Poisson process that follows the day, given their number; some in bursts.

    The rate is 1 - SWING cos(2 pi (t - 2 h) / 24 h), highest at 14:00. Its integral, inverted,
    turns even numbers into such arrivals. A burst is a moment that some ten jobs share, each
    following it after an exponential minute.
    """
    times: NDArray[np.float64] = np.linspace(0.0, span_seconds, int(span_seconds / 300) + 2)
    turns = 2 * np.pi * (times - QUIET_SECONDS) / DAY_SECONDS
    integral = times - SWING * DAY_SECONDS / (2 * np.pi) * (np.sin(turns) - np.sin(turns[0]))
    positions = rng.random(count) * integral[-1]
    arrivals = np.array(np.interp(positions, integral, times), dtype=np.float64)
    bursting = rng.random(count) < BURST_SHARE
    moments = max(1, round(count * BURST_SHARE / BURST_JOBS))
    shared = arrivals[rng.integers(moments, size=count)]
    delayed = shared + rng.exponential(BURST_SECONDS, count)
    return np.minimum(np.where(bursting, delayed, arrivals), span_seconds).tolist()
