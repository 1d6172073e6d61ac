"""What breaks promises is remembered for each of them, at a price that does not grow with both."""

from dataclasses import replace
from time import perf_counter

from afflux.cycle.promises import Cause, Promises
from afflux.model.group import Group
from afflux.model.promise import Promise
from oracles.building import group, shape


def kept(groups: list[Group], start: float = 10.0) -> Promises:
    """All of these were promised a start."""
    promises = Promises()
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
