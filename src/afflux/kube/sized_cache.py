"""A cache of a pure function that is bounded by the size of its answers, not by their number.

Pods differ a lot in size: a thousand common ones take as much memory as one that names a thousand
values.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import ParamSpec, TypeVar

from afflux.model.task import Shape

# What the shapes in one cache name together: about 60 MB in 50,000 common shapes.
MAX_CACHED_SHAPES = 600_000

P = ParamSpec("P")
V = TypeVar("V")


def sized_cache(
    size: Callable[[V], int], max_size: int
) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Caches answers up to `max_size` in total. Arguments are positional and hashable.

    Recent answers are half of it. When they are more, they become the older half, and the older
    half that was not used meanwhile is dropped. So a hit is one lookup.
    """

    def decorate(compute: Callable[P, V]) -> Callable[P, V]:
        recent: dict[Hashable, V] = {}
        older: dict[Hashable, V] = {}
        recent_size = 0

        @wraps(compute)
        def cached(*args: P.args, **kwargs: P.kwargs) -> V:
            nonlocal recent, older, recent_size
            try:
                return recent[args]
            except KeyError:
                pass
            answer = older.pop(args) if args in older else compute(*args, **kwargs)
            added = size(answer)
            if 2 * (recent_size + added) > max_size:
                recent, older, recent_size = {}, recent, 0
            if 2 * added <= max_size:
                recent[args] = answer
                recent_size += added
            return answer

        return cached

    return decorate


def shape_size(shape: Shape) -> int:
    """The size of a shape in a cache: what it names, and 8 for the shape itself."""
    return shape.parts + 8
