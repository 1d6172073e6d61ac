"""The queue: priority, then when a group became ready, then when it was added."""

from dataclasses import replace
from itertools import count
from random import Random

import pytest

from afflux.model.waiting_group import WaitingGroup
from afflux.queue.order import WaitingQueue
from oracles.builders import group, shape, task


def names(queue: WaitingQueue) -> list[str]:
    return [waiting.name for waiting in queue.considered()]


def queue_of(*groups: WaitingGroup) -> WaitingQueue:
    queue = WaitingQueue()
    for waiting in groups:
        queue.add(waiting)
    return queue


def blocked(waiting: WaitingGroup) -> WaitingGroup:
    return replace(waiting, tasks=(task("x", shape(), "spec.field: not supported"),))


def test_by_priority_then_age_then_arrival():
    queue = queue_of(
        group("late", shape(), ready=5.0),
        group("first", shape(), ready=1.0),
        group("second", shape(), ready=1.0),
        group("urgent", shape(), priority=3, ready=9.0),
        group("low", shape(), priority=-1, ready=0.0),
    )
    assert names(queue) == ["urgent", "first", "second", "late", "low"]


def test_a_group_that_is_added_again_keeps_its_place():
    queue = queue_of(group("a", shape()), group("b", shape()))
    queue.add(group("a", shape(cpu=7), shape()))
    assert names(queue) == ["a", "b"]
    assert len(queue.considered()[0].tasks) == 2
    assert len(queue) == 2


def test_a_group_that_is_added_with_another_priority_moves():
    queue = queue_of(group("a", shape()), group("b", shape()))
    queue.add(group("b", shape(), priority=1))
    assert names(queue) == ["b", "a"]


def test_a_blocked_group_waits_without_being_considered():
    waiting = group("a", shape())
    queue = queue_of(blocked(waiting), group("b", shape()))
    assert names(queue) == ["b"]
    assert [g.name for g in queue] == ["b", "a"]
    assert len(queue) == 2


def test_a_group_that_was_blocked_for_a_while_keeps_its_place():
    first = group("a", shape())
    queue = queue_of(first, group("b", shape()))
    queue.add(blocked(first))
    assert names(queue) == ["b"]
    queue.add(first)
    assert names(queue) == ["a", "b"]


def test_one_blocked_member_blocks_the_whole_group():
    gang = group("g", shape(), shape())
    queue = queue_of(replace(gang, tasks=(gang.tasks[0], task("g.1", None, "why"))))
    assert names(queue) == []


def test_discarding_an_unknown_group_is_ignored():
    queue = queue_of(group("a", shape()))
    queue.discard("b")
    queue.discard_all(["c"])
    assert names(queue) == ["a"]


@pytest.mark.parametrize("seed", range(20))
def test_discard_all_equals_single_discards(seed: int):
    rng = Random(seed)
    one, many = WaitingQueue(), WaitingQueue()
    model: dict[str, tuple[float, float, int]] = {}
    numbers: dict[str, int] = {}
    sequence = count()
    for _ in range(6):
        for _ in range(rng.choice((3, 200))):
            name = f"g{rng.randrange(250)}"
            waiting = group(
                name, shape(), priority=rng.randint(0, 2), ready=float(rng.randint(0, 3))
            )
            number = numbers.setdefault(name, next(sequence))
            is_blocked = rng.random() < 0.1
            model[name] = (-waiting.priority, waiting.ready_seconds, number)
            if is_blocked:
                waiting, model[name] = blocked(waiting), None
            one.add(waiting)
            many.add(waiting)
        gone = rng.sample([f"g{i}" for i in range(250)], rng.choice((0, 10, 63, 64, 120)))
        for name in gone:
            one.discard(name)
            model.pop(name, None)
            numbers.pop(name, None)
        many.discard_all(iter(gone))
        expected = sorted((n for n in model if model[n] is not None), key=model.__getitem__)
        assert names(one) == names(many) == expected
        assert sorted(g.name for g in one) == sorted(g.name for g in many) == sorted(model)
        assert len(one) == len(many) == len(model)
