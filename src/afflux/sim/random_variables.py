"""The random variables of synthetic workloads; each draws from the generator it is given."""

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
WeightedValues = Sequence[tuple[T, float]]  # values and their weights

DAY_SECONDS = 86_400.0
QUIETEST_SECONDS = 2 * 3600.0  # time of day with the fewest arrivals
DAILY_SWING = 0.6
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


def weighted_choice(rng: np.random.Generator, table: WeightedValues[T]) -> T:
    """One value, with a probability proportional to its weight."""
    left = rng.random() * math.fsum(weight for _, weight in table)
    for value, weight in table:
        left -= weight
        if left < 0:
            return value
    return table[-1][0]


def uniform_arrivals(rng: np.random.Generator, count: int, span_seconds: float) -> list[float]:
    """`count` arrivals of a Poisson process of constant rate."""
    return (rng.random(count) * span_seconds).tolist()


def daily_arrivals(rng: np.random.Generator, count: int, span_seconds: float) -> list[float]:
    """`count` arrivals of a Poisson process with a daily rhythm; some of them in bursts.

    The rate is 1 - DAILY_SWING cos(2 pi (t - 2 h) / 24 h), highest at 14:00; arrivals are drawn by
    inverting its integral. About ten jobs share each burst; each arrives after the burst's time by
    an exponential delay with a mean of one minute.
    """
    times: NDArray[np.float64] = np.linspace(0.0, span_seconds, int(span_seconds / 300) + 2)
    turns = 2 * np.pi * (times - QUIETEST_SECONDS) / DAY_SECONDS
    integral = times - DAILY_SWING * DAY_SECONDS / (2 * np.pi) * (np.sin(turns) - np.sin(turns[0]))
    positions = rng.random(count) * integral[-1]
    arrivals = np.array(np.interp(positions, integral, times), dtype=np.float64)
    bursting = rng.random(count) < BURST_SHARE
    moments = max(1, round(count * BURST_SHARE / BURST_JOBS))
    shared = arrivals[rng.integers(moments, size=count)]
    delayed = shared + rng.exponential(BURST_SECONDS, count)
    return np.minimum(np.where(bursting, delayed, arrivals), span_seconds).tolist()
