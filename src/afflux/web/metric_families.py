"""Metric families: counters, gauges and histograms, one cell per combination of label values.

prometheus_client keeps the registry and writes the text. The cells are our own for two reasons: a
cycle places thousands of pods and wants to observe all of them at once, and kube-scheduler's
metrics have no `_created` series beside them. A family may be written from any thread.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

# Up to so many values a loop is faster than NumPy.
_MAX_LOOP = 32


class Cell:
    """One number that goes up, or up and down."""

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self._lock = Lock()
        self.value = 0.0

    def add(self, amount: float = 1.0) -> None:
        """Increase the value; a gauge also accepts a negative amount."""
        with self._lock:
            self.value += amount

    def put(self, value: float) -> None:
        """Set the value of a gauge."""
        self.value = value


class Distribution:
    """Counts of values, in buckets with these upper bounds."""

    __slots__ = ("_lock", "bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._lock = Lock()
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """One value, seen so many times."""
        bucket = bisect_left(self.bounds, value)
        with self._lock:
            self.counts[bucket] += times
            self.total += value * times

    def observe_all(self, values: Sequence[float]) -> None:
        """Many values at once."""
        if len(values) <= _MAX_LOOP:
            for value in values:
                self.observe(value)
            return
        column = np.asarray(values, dtype=np.float64)
        buckets = np.searchsorted(self.bounds, column, side="left")
        counts = np.bincount(buckets, minlength=len(self.counts)).tolist()
        with self._lock:
            self.counts = [old + new for old, new in zip(self.counts, counts, strict=True)]
            self.total += float(column.sum())

    def snapshot(self) -> tuple[list[tuple[str, float]], float]:
        """Cumulated counts by upper bound, and the sum of all values."""
        with self._lock:
            counts, total = list(self.counts), self.total
        names = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
        seen = 0
        buckets: list[tuple[str, float]] = []
        for name, count in zip(names, counts, strict=True):
            seen += count
            buckets.append((name, seen))
        return buckets, total


_Of = TypeVar("_Of", Cell, Distribution)
_Cells = Iterable[tuple[tuple[str, ...], _Of]]


class MetricFamily(Collector, Generic[_Of]):
    """The cells of one metric. Without labels there is one cell from the start."""

    def __init__(
        self, labels: Sequence[str], new: Callable[[], _Of], show: Callable[[_Cells[_Of]], Metric]
    ) -> None:
        self._labels = tuple(labels)
        self._new = new
        self._show = show
        self._cells: dict[tuple[str, ...], _Of] = {}
        if not labels:
            self.of()

    def of(self, *values: str) -> _Of:
        """The cell with these label values; they come in the order of the labels."""
        cell = self._cells.get(values)
        if cell is None:
            if len(values) != len(self._labels):
                raise ValueError(f"labels {values}, expected values of {self._labels}")
            # If two threads get here together, both use the first cell.
            cell = self._cells.setdefault(values, self._new())
        return cell

    def collect(self) -> Iterable[Metric]:
        """The family in the form of the registry."""
        yield self._show(list(self._cells.items()))

    def describe(self) -> Iterable[Metric]:
        """The family without its cells; the registry uses it to refuse a duplicate name."""
        yield self._show([])


def counters(
    registry: CollectorRegistry, name: str, text: str, labels: Sequence[str] = ()
) -> MetricFamily[Cell]:
    """Numbers that only go up. The name ends in `_total`."""

    def show(cells: _Cells[Cell]) -> Metric:
        family = CounterMetricFamily(name, text, labels=labels)
        for values, cell in cells:
            family.add_metric(values, cell.value)
        return family

    return _registered(registry, MetricFamily(labels, Cell, show))


def gauges(
    registry: CollectorRegistry, name: str, text: str, labels: Sequence[str] = ()
) -> MetricFamily[Cell]:
    """Numbers that go up and down."""

    def show(cells: _Cells[Cell]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=labels)
        for values, cell in cells:
            family.add_metric(values, cell.value)
        return family

    return _registered(registry, MetricFamily(labels, Cell, show))


def histograms(
    registry: CollectorRegistry,
    name: str,
    text: str,
    bounds: Sequence[float],
    labels: Sequence[str] = (),
) -> MetricFamily[Distribution]:
    """Distributions over the same buckets."""

    def show(cells: _Cells[Distribution]) -> Metric:
        family = HistogramMetricFamily(name, text, labels=labels)
        for values, cell in cells:
            family.add_metric(values, *cell.snapshot())
        return family

    return _registered(registry, MetricFamily(labels, lambda: Distribution(bounds), show))


def _registered(registry: CollectorRegistry, family: MetricFamily[_Of]) -> MetricFamily[_Of]:
    registry.register(family)
    return family


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Upper bounds that grow by a factor, as kube-scheduler's do."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)
