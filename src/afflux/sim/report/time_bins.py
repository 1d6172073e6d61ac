"""What was held over time, averaged exactly over columns of equal width."""

import numpy as np

from afflux.sim.columns import Floats, Ints


def held_over_time(
    starts: Floats,
    stops: Floats,
    weights: Floats,
    *,
    span: tuple[float, float],
    bins: int,
    rows: Ints | None = None,
    row_count: int = 1,
) -> Floats:
    """Per row and bin the mean of the weights held, each from its start to its stop.

    With time counted in bins, the integral of one weight up to edge j is w*(j - start) from its
    start on, less w*(j - stop) from its stop on. So a running sum of slopes and one of offsets give
    the integral at all edges, in one pass over the intervals, however long they are.
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
