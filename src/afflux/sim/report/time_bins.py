"""Exact means of held amounts over time bins of equal width."""

import numpy as np

from afflux.sim.result_columns import Bools, Floats, Ints, ResultColumns


def share_over_time(
    table: ResultColumns, resource: str, chosen: Bools, *, span: tuple[float, float], bins: int
) -> Floats:
    """Per bin the share of a resource of all machines that the chosen tasks hold."""
    held = table.held & chosen & (table.amounts[resource] > 0)
    capacity = table.total(resource)
    if not capacity or not held.any():
        return np.zeros(bins)
    shares = table.amounts[resource][held] / capacity
    return mean_over_time(table.bound[held], table.until[held], shares, span=span, bins=bins)[0]


def mean_over_time(
    starts: Floats,
    stops: Floats,
    weights: Floats,
    *,
    span: tuple[float, float],
    bins: int,
    rows: Ints | None = None,
    row_count: int = 1,
) -> Floats:
    """Per row and bin the mean of the weights held; each is held from its start to its stop.

    With time counted in bins, the integral of one weight up to edge j is w*(j - start) from its
    start on, minus w*(j - stop) from its stop on. So cumulative sums of slopes and of offsets give
    the integral at all edges in one pass over the intervals.
    """
    low, high = span
    scale = bins / (high - low)
    row = np.zeros(starts.size, dtype=np.int64) if rows is None else rows
    slopes = np.zeros(row_count * (bins + 1))
    offsets = np.zeros(row_count * (bins + 1))
    for times, sign in ((starts, 1.0), (stops, -1.0)):
        at = np.clip((times - low) * scale, 0.0, bins)
        edge = row * (bins + 1) + np.ceil(at).astype(np.int64)
        slopes += np.bincount(edge, sign * weights, slopes.size)
        offsets += np.bincount(edge, sign * weights * at, offsets.size)
    shape = (row_count, bins + 1)
    edges = np.arange(bins + 1, dtype=np.float64)
    integral = edges * slopes.reshape(shape).cumsum(1) - offsets.reshape(shape).cumsum(1)
    return np.maximum(np.diff(integral, axis=1), 0.0)
