"""Quorum: who of those that name a group may start together, and what is said to the others."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.queue.quorum import MOST_KINDS, ONE_QUEUE, Candidate, Gathered, Terms, alone, form
from afflux.queue.rules import QueueRules

SHAPE = Shape(requests=resources({"cpu": 1}))


def one(
    name: str,
    size: int = 2,
    queue: str = "default",
    *,
    blocked: str | None = None,
    running: bool = False,
    created: float = 0.0,
    run: float | None = None,
    limit: float | None = None,
    priority: int = 0,
) -> Candidate:
    return Candidate(
        Task(f"uid-{name}", name, SHAPE, blocked),
        Terms(size, queue, "label size"),
        running,
        priority,
        created,
        run,
        limit,
    )


def ready(gathered: Gathered) -> dict[str, list[str]]:
    return {group.name: [task.name for task in group.tasks] for group in gathered.ready}


def words(held: list[tuple[Task, str]]) -> dict[str, str]:
    return {task.name: why for task, why in held}


def test_below_its_quorum_a_group_waits_and_says_how_many_are_there() -> None:
    gathered = form("g", [one("a", 3), one("b", 3)], ONE_QUEUE)
    assert words(gathered.waiting) == dict.fromkeys("ab", "group g has 2 of 3 members")
    assert not gathered.ready
    assert not gathered.refused


def test_with_its_quorum_it_starts_together() -> None:
    assert ready(form("g", [one("a"), one("b")], ONE_QUEUE)) == {"g": ["a", "b"]}


def test_of_too_many_kinds_of_members_a_group_is_refused() -> None:
    def member(kind: int) -> Candidate:
        shape = Shape(requests=resources({"cpu": kind + 1}))
        task = Task(f"uid-{kind}", str(kind), shape)
        return replace(one(str(kind), MOST_KINDS), task=task)

    kinds = [member(kind) for kind in range(MOST_KINDS + 1)]
    assert len(ready(form("g", kinds[:-1], ONE_QUEUE))["g"]) == MOST_KINDS
    gathered = form("g", kinds, ONE_QUEUE)
    assert not gathered.ready
    assert words(gathered.refused)["0"] == (
        f"group g has {MOST_KINDS + 1} kinds of members, expected at most {MOST_KINDS}"
    )


def test_those_who_run_count_and_the_rest_goes_together() -> None:
    members = [one("a", 3, running=True), one("b", 3), one("c", 3)]
    assert ready(form("g", members, ONE_QUEUE)) == {"g": ["b", "c"]}


def test_who_comes_after_the_quorum_runs_starts_alone() -> None:
    members = [one("a", running=True), one("b", running=True), one("c"), one("d")]
    assert ready(form("g", members, ONE_QUEUE)) == {"c": ["c"], "d": ["d"]}


def test_a_group_of_one_has_its_own_name_and_whoever_else_comes_has_theirs() -> None:
    assert ready(form("g", [one("a", 1)], ONE_QUEUE)) == {"g": ["a"]}
    members = [one("b", 1, created=2.0), one("a", 1, created=1.0)]
    assert ready(form("g", members, ONE_QUEUE)) == {"g": ["a"], "b": ["b"]}
    assert ready(form("g", [one("a", 1, running=True), one("b", 1)], ONE_QUEUE)) == {"b": ["b"]}


def test_who_is_held_back_is_waited_for_only_if_it_is_needed() -> None:
    held = one("c", blocked="a gate")
    gathered = form("g", [one("a"), held], ONE_QUEUE)
    assert words(gathered.waiting) == {"a": "group g waits for c: a gate", "c": "a gate"}
    gathered = form("g", [one("a"), one("b"), held], ONE_QUEUE)
    assert ready(gathered) == {"g": ["a", "b"]}
    assert words(gathered.waiting) == {"c": "a gate"}


def test_a_group_waits_if_there_is_too_little_of_something_for_all_of_it() -> None:
    def short(tasks: Sequence[Task]) -> str | None:
        return f"finds 1 volume for {len(tasks)}"

    gathered = form("g", [one("a"), one("b")], ONE_QUEUE, shortage=short)
    assert set(words(gathered.waiting).values()) == {"group g finds 1 volume for 2"}
    assert not gathered.ready
    # Who starts alone has asked for itself.
    members = [one("a", running=True), one("b")]
    assert ready(form("g", members, ONE_QUEUE, shortage=short)) == {"g": ["b"]}


# --- Contradictions


def test_the_size_holds_that_most_members_state() -> None:
    members = [one("wrong", 30, created=1.0), one("a", created=2.0), one("b", created=3.0)]
    gathered = form("g", members, ONE_QUEUE)
    assert ready(gathered) == {"g": ["a", "b"]}
    assert words(gathered.refused) == {"wrong": "label size: 30 on wrong, but label size: 2 on a"}


def test_between_as_many_the_oldest_decides() -> None:
    gathered = form("g", [one("b", 3, created=2.0), one("a", 2, created=1.0)], ONE_QUEUE)
    assert words(gathered.refused) == {"b": "label size: 3 on b, but label size: 2 on a"}
    assert words(gathered.waiting) == {"a": "group g has 1 of 2 members; 1 refused"}


def test_members_of_one_group_wait_in_one_queue() -> None:
    rules = {name: QueueRules(name) for name in ("day", "night")}
    members = [one("a", 3, "day"), one("b", 3, "day"), one("c", 3, "night")]
    gathered = form("g", members, rules)
    assert words(gathered.refused) == {
        "c": "queue night on c, but queue day on a; expected one queue for the whole group"
    }
    assert words(gathered.waiting)["a"] == "group g has 2 of 3 members; 1 refused"


def test_a_running_member_that_contradicts_does_not_count() -> None:
    members = [one("old", 1, running=True), one("a", 2), one("b", 2)]
    assert ready(form("g", members, ONE_QUEUE)) == {"g": ["a", "b"]}


# --- What a queue asks of those who join it


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (one("a", queue="nigth"), "queue 'nigth' is not known, expected one of: day, night"),
        (one("a", 5, "day"), "label size: 5, expected at most 4 in queue day"),
        (
            one("a", queue="night"),
            "it may run without end, expected at most 60 s in queue night",
        ),
        (
            one("a", queue="night", run=91, limit=61),
            "it may run 61 s, expected at most 60 s in queue night",
        ),
    ],
)
def test_whom_a_queue_does_not_take_is_told_why(candidate: Candidate, why: str) -> None:
    rules = {
        "day": QueueRules("day", largest_group=4),
        "night": QueueRules("night", longest_run_seconds=60.0),
    }
    assert words(form("g", [candidate], rules).refused) == {"a": why}
    assert words(alone(candidate, rules).refused) == {"a": why}


def test_the_limit_is_about_the_deadline_and_not_about_the_grace_period() -> None:
    rules = {"default": QueueRules(longest_run_seconds=60.0)}
    (group,) = alone(one("a", run=90.0, limit=60.0), rules).ready
    assert group.run_seconds == 90.0


def test_one_that_its_queue_refuses_does_not_hold_up_the_others() -> None:
    rules = {"default": QueueRules(largest_group=4)}
    gathered = form("g", [one("a"), one("b"), one("huge", 5)], rules)
    assert ready(gathered) == {"g": ["a", "b"]}
    assert list(words(gathered.refused)) == ["huge"]


def test_who_does_not_say_how_long_it_runs_is_expected_to_run_as_its_queue_says() -> None:
    rules = {"default": QueueRules(default_run_seconds=600.0)}
    (group,) = form("g", [one("a", run=10.0), one("b")], rules).ready
    assert group.run_seconds == 600.0
    (endless,) = form("g", [one("a", run=10.0), one("b")], ONE_QUEUE).ready
    assert endless.run_seconds is None


def test_a_group_is_in_the_queue_of_its_members() -> None:
    rules = {name: QueueRules(name) for name in ("default", "night")}
    (group,) = form("g", [one("a", queue="night"), one("b", queue="night")], rules).ready
    assert group.queue == "night"


# --- For any set of candidates

RULES = {"default": QueueRules(largest_group=4), "night": QueueRules("night", largest_group=3)}


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    names = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8))
    return [
        one(
            name,
            draw(st.integers(1, 5)),
            draw(st.sampled_from(["default", "default", "night", "unknown"])),
            blocked=draw(st.sampled_from([None, None, "a gate"])),
            running=draw(st.sampled_from([False, False, True])),
            created=float(draw(st.integers(0, 3))),
        )
        for name in names
    ]


@given(candidates(), st.integers(0, 2**32))
def test_everybody_who_waits_is_somewhere_once_whatever_the_order(
    members: list[Candidate], seed: int
) -> None:
    gathered = form("g", members, RULES)
    placed = [task.name for group in gathered.ready for task in group.tasks]
    held = [task.name for task, _ in (*gathered.waiting, *gathered.refused)]
    assert sorted(placed + held) == sorted(c.task.name for c in members if not c.running)
    shuffled = list(members)
    Random(seed).shuffle(shuffled)
    again = form("g", shuffled, RULES)
    for one_way, other in (
        (gathered.waiting, again.waiting),
        (gathered.refused, again.refused),
    ):
        assert words(one_way).keys() == words(other).keys()
    assert {n: sorted(m) for n, m in ready(gathered).items()} == {
        n: sorted(m) for n, m in ready(again).items()
    }


@given(candidates())
def test_a_gang_starts_with_its_quorum_and_never_without(members: list[Candidate]) -> None:
    by_name = {c.task.name: c for c in members}
    gathered = form("g", members, RULES)
    for group in gathered.ready:
        terms = {by_name[task.name].terms for task in group.tasks}
        assert len(terms) == 1
        (agreed,) = terms
        assert agreed is not None
        assert agreed.size <= RULES[group.queue].largest_group
        running = sum(c.running and c.terms == agreed for c in members)
        assert running + len(group.tasks) >= agreed.size
        assert all(task.blocked is None for task in group.tasks)
