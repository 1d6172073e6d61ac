"""What breaks promises is remembered for each of them, at a price that does not grow with both."""

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import pytest

from afflux.cycle.promises import Cause, Promises
from afflux.model.group import Group
from afflux.model.promise import Promise
from oracles.building import group, shape


def kept(groups: list[Group], start: float = 10.0, tolerance: float = 0.0) -> Promises:
    """All of these were promised a start."""
    promises = Promises(tolerance)
    promises.replace([Promise(each.name, start) for each in groups], by_name(groups))
    return promises


def by_name(groups: list[Group]):
    return {each.name: each for each in groups}.get


def causes(promises: Promises, *names: str) -> list[tuple[str, Cause]]:
    return [(each.group, each.cause) for each in promises.started(names, 11.0)]


def test_what_happens_after_a_decision_is_told_to_those_who_were_promised_something_in_it():
    old, new = group("old", shape()), group("new", shape())
    promises = kept([old])
    promises.disturb(Cause.FOREIGN)
    promises.disturb(Cause.FOREIGN)
    both = [Promise("old", 10.0), Promise("new", 10.0)]
    promises.replace(both, by_name([old, new]))
    assert causes(promises, "new") == [("new", Cause.STRATEGY)]
    promises.replace(both, by_name([old, new]))
    promises.disturb(Cause.FOREIGN)
    assert causes(promises, "old", "new") == [("old", Cause.FOREIGN), ("new", Cause.FOREIGN)]


def test_all_who_wait_may_change_at_once():
    groups = [group(f"g{number}", shape(cpu=1)) for number in range(10_000)]
    promises = kept(groups)
    began = perf_counter()
    for each in groups:
        promises.joined(replace(each, run_seconds=5.0), each)
    # Telling everybody of everybody would take a hundred times as long.
    assert perf_counter() - began < 1.0
    assert causes(promises, "g7") == [("g7", Cause.CHANGED)]


def both_wait(tolerance: float) -> tuple[Promises, Callable[..., None]]:
    """Two who were promised a start at 10, and how to promise them another one each."""
    groups = [group("one", shape()), group("other", shape())]
    promises = kept(groups, tolerance=tolerance)

    def promise(one: float | None, other: float | None) -> None:
        again = [Promise("one", one), Promise("other", other)]
        promises.replace(again, by_name(groups))

    return promises, promise


@pytest.mark.parametrize(("tolerance", "cause"), [(0.0, Cause.OVERRUN), (1.0, Cause.STRATEGY)])
def test_a_cycle_that_is_hardly_late_is_no_cause_of_what_the_strategy_does_later(
    tolerance: float, cause: Cause
):
    promises, promise = both_wait(tolerance)
    assert not promises.standing(10.005).as_expected
    promise(10.005, 10.005)
    promise(10.005, 50.0)
    assert [(each.group, each.cause) for each in promises.started(["other"], 50.0)] == [
        ("other", cause)
    ]


def test_but_of_what_it_moves_back_at_once():
    promises, promise = both_wait(1.0)
    promises.overrun(0.005)
    promise(10.005, 50.0)
    promise(60.0, None)
    assert [each.cause for each in promises.started(["one", "other"], 60.0)] == [
        Cause.STRATEGY,
        Cause.OVERRUN,
    ]


def test_and_little_by_little():
    promises, promise = both_wait(1.0)
    for start in (10.4, 10.8):
        promises.overrun(0.4)
        promise(start, 10.0)
    promises.overrun(0.4)
    (broken,) = promises.started(["one"], 11.2)
    assert (broken.promised_seconds, broken.cause) == (10.0, Cause.OVERRUN)
