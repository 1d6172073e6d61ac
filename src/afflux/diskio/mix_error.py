"""How wrong the mean block size can be about a mix of block sizes.

Counters tell the bytes and the number of requests, so that a mix is seen as its mean block size.
The cost of a request is a curve over its size; a mix costs the mean of points on the curve, which
lies in the convex hull of the curve, while the mean block size costs a point of the curve itself.
Where the cost is a fixed part and a part for each byte, both are the same. The distance between the
curve and its hull bounds the error in both directions, whatever the mix is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

# Points between two block sizes of a table, as the curve is not straight between them.
_POINTS = 16

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class MixError:
    """The true cost of a mix is `at_least` to `at_most` times what its mean block size says."""

    at_least: float
    at_most: float


def mix_error(factor: Callable[[int], float], block_sizes: Sequence[int]) -> MixError:
    """The bound for mixes of sizes between the smallest and the largest of these.

    `factor` is the cost of a byte in blocks of a size, relative to large blocks.
    """
    sizes = sorted(set(block_sizes))
    grid = {float(size) for size in sizes}
    for small, large in pairwise(sizes):
        grid |= {round(small * (large / small) ** (step / _POINTS)) for step in range(_POINTS)}
    curve = [(size, size * factor(int(size))) for size in sorted(grid)]
    lower = _hull(curve)
    upper = [(size, -cost) for size, cost in _hull([(size, -cost) for size, cost in curve])]
    return MixError(
        min(_at(lower, size) / cost for size, cost in curve),
        max(_at(upper, size) / cost for size, cost in curve),
    )


def _hull(curve: Sequence[Point]) -> list[Point]:
    """The lower convex hull of points in ascending order."""
    hull: list[Point] = []
    for x, y in curve:
        while len(hull) >= 2:
            (x1, y1), (x2, y2) = hull[-2:]
            if (x2 - x1) * (y - y1) > (y2 - y1) * (x - x1):
                break
            hull.pop()
        hull.append((x, y))
    return hull


def _at(line: Sequence[Point], x: float) -> float:
    for (x1, y1), (x2, y2) in pairwise(line):
        if x1 <= x <= x2:
            return y1 + (y2 - y1) * (x - x1) / (x2 - x1)
    return line[-1][1]
