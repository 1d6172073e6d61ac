"""Which promises were kept, judged by when groups really started."""

from collections.abc import Iterator

from afflux.cycle.promises import Cause
from afflux.sim.result import Promised, Result


def broken_promises(result: Result) -> dict[str, str]:
    """Groups that started later than they were first promised, each with what caused it.

    A promise that moved to a later start for a while, and was kept all the same, is not broken but
    moved: see `moved_promises`. So a count can be compared with those of the literature, where a
    job is told once when it will start.
    """
    return {promised.group: promised.broken or Cause.STRATEGY for promised in _late(result)}


def moved_promises(result: Result) -> list[str]:
    """Groups that were at some time promised a later start than before, kept in the end or not."""
    return [promised.group for promised in result.promised if promised.broken is not None]


def _late(result: Result) -> Iterator[Promised]:
    if not result.promised:
        return
    # Who has not started when the simulation ends starts after that, if ever.
    starts = {run.group: result.ended_at if run.start is None else run.start for run in result.runs}
    for promised in result.promised:
        if starts.get(promised.group, result.ended_at) > promised.first:
            yield promised
