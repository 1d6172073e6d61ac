"""Held bindings, against a plain reading of the rule, over random rounds and outcomes."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from afflux.kube.live.held_bindings import HeldBindings, LostAnchor
from afflux.model.placement import Placement
from afflux.model.resources import resources
from afflux.model.task import Shape, Task

SHAPE = Shape(resources({}))


def placement(name: str) -> Placement:
    return Placement(Task(name, f"default/{name}", SHAPE), "m")


class Plain:
    """What became of each placement, and on what it rests."""

    def __init__(self) -> None:
        self.rests_on: dict[str, tuple[str, ...]] = {}
        self.preparing: set[str] = set()
        self.bound: set[str] = set()
        self.failed: set[str] = set()

    def must_fail(self) -> set[str]:
        """Everything that rests on what failed, directly or not."""
        lost = set(self.failed)
        while more := {
            each for each, on in self.rests_on.items() if each not in lost and lost & set(on)
        }:
            lost |= more
        return lost

    def may_be_bound(self) -> set[str]:
        return {
            each
            for each, on in self.rests_on.items()
            if set(on) <= self.bound and each not in self.preparing
        } - self.must_fail()


@given(seed=st.integers(0, 2**40))
def test_each_placement_is_sent_or_fails_exactly_when_it_should(seed: int) -> None:
    rng = Random(seed)
    held, plain = HeldBindings(), Plain()
    placements: dict[str, Placement] = {}
    sent: set[str] = set()
    lost: set[str] = set()

    def note_lost(found: list[LostAnchor]) -> None:
        for each in found:
            task_id = each.placement.task.id
            assert task_id not in sent | lost
            assert each.anchor.id in plain.rests_on[task_id]
            lost.add(task_id)
            note_lost(held.failed(each.placement))

    def check() -> None:
        assert sent - plain.failed == plain.may_be_bound()
        assert lost | plain.failed == plain.must_fail()
        assert len(held) == len(plain.rests_on) - len(sent) - len(lost)

    for cycle in range(rng.randint(1, 4)):
        known = sorted(held.begin_cycle())
        assert set(known) == plain.rests_on.keys() - plain.bound - plain.must_fail()
        # While the cycle decides, some binds end.
        for _ in range(rng.randint(0, 2)):
            end_one(rng, held, plain, placements, sent, note_lost)
        new = [f"{cycle}.{number}" for number in range(rng.randint(1, 8))]
        for name in new:
            placements[name] = placement(name)
            others = [*known, *new[: new.index(name)]]
            plain.rests_on[name] = tuple(
                rng.sample(others, min(len(others), rng.choice((0, 0, 1, 2))))
            )
        preparing = {each for each in new if plain.rests_on[each] and rng.random() < 0.2}
        plain.preparing |= preparing
        rests_on = {each: plain.rests_on[each] for each in new if plain.rests_on[each]}
        free, failed = held.add([placements[each] for each in new], rests_on, preparing)
        sent.update(each.task.id for each in free)
        note_lost(failed)
        check()
        for _ in range(rng.randint(0, 8)):
            end_one(rng, held, plain, placements, sent, note_lost)
            check()
    left = plain.rests_on.keys() - sent - lost
    assert {each.task.id for each in held.clear()} == left
    assert len(held) == 0


def end_one(rng, held, plain, placements, sent, note_lost) -> None:
    """One bind ends, well or not, or one preparation does."""
    under_way = sorted(sent - plain.bound - plain.failed)
    preparing = sorted(plain.preparing - plain.must_fail())
    if preparing and (not under_way or rng.random() < 0.3):
        name = rng.choice(preparing)
        plain.preparing.discard(name)
        if held.prepared(placements[name]):
            sent.add(name)
    elif under_way:
        name = rng.choice(under_way)
        if rng.random() < 0.7:
            plain.bound.add(name)
            sent.update(each.task.id for each in held.bound(placements[name]))
        else:
            plain.failed.add(name)
            note_lost(held.failed(placements[name]))
