"""Quorum: which tasks of a group may start together, and why the others wait."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.groups.member import GroupTerms
from afflux.groups.quorum import (
    MAX_MEMBER_KINDS,
    Candidate,
    Gathered,
    Presence,
    QuorumRule,
    Starts,
    gather,
    quorum_rule,
    run_seconds_of,
    whole_group,
)
from afflux.model.errors import InputError
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.queue.rules import ONE_QUEUE, QueueRules

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
        GroupTerms(size, queue, "label size"),
        running,
        priority,
        created,
        run,
        limit,
    )


def ready(found: Gathered) -> dict[str, list[str]]:
    """What starts: the group g, and members that start alone by their names."""
    starts = {each.task.name: [each.task.name] for each in found.alone}
    if found.together:
        starts["g"] = [each.task.name for each in found.together]
    return starts


def reasons(found: Gathered, kind: str) -> dict[str, str]:
    return {task.name: hold.why for task, hold in found.held if hold.kind == kind}


def waiting(found: Gathered) -> dict[str, str]:
    return reasons(found, "waits")


def refused(found: Gathered) -> dict[str, str]:
    return reasons(found, "refused")


def test_a_group_below_its_quorum_waits_and_says_how_many_members_it_has() -> None:
    result = gather("g", [one("a", 3), one("b", 3)], ONE_QUEUE)
    assert waiting(result) == dict.fromkeys("ab", "group g has 2 of 3 members")
    assert not ready(result)
    assert not refused(result)


def test_a_group_with_its_quorum_starts_together() -> None:
    assert ready(gather("g", [one("a"), one("b")], ONE_QUEUE)) == {"g": ["a", "b"]}


def test_a_group_of_too_many_kinds_of_members_is_refused() -> None:
    def member(kind: int) -> Candidate:
        shape = Shape(requests=resources({"cpu": kind + 1}))
        task = Task(f"uid-{kind}", str(kind), shape)
        return replace(one(str(kind), MAX_MEMBER_KINDS), task=task)

    kinds = [member(kind) for kind in range(MAX_MEMBER_KINDS + 1)]
    assert len(ready(gather("g", kinds[:-1], ONE_QUEUE))["g"]) == MAX_MEMBER_KINDS
    result = gather("g", kinds, ONE_QUEUE)
    assert not ready(result)
    assert refused(result)["0"] == (
        f"group g has {MAX_MEMBER_KINDS + 1} kinds of members, expected at most {MAX_MEMBER_KINDS}"
    )


def test_running_members_count_and_the_rest_starts_together() -> None:
    members = [one("a", 3, running=True), one("b", 3), one("c", 3)]
    assert ready(gather("g", members, ONE_QUEUE)) == {"g": ["b", "c"]}


def test_a_member_that_comes_after_the_quorum_runs_starts_alone() -> None:
    members = [one("a", running=True), one("b", running=True), one("c"), one("d")]
    assert ready(gather("g", members, ONE_QUEUE)) == {"c": ["c"], "d": ["d"]}


def test_later_members_of_a_group_of_one_have_their_own_names() -> None:
    assert ready(gather("g", [one("a", 1)], ONE_QUEUE)) == {"g": ["a"]}
    members = [one("b", 1, created=2.0), one("a", 1, created=1.0)]
    assert ready(gather("g", members, ONE_QUEUE)) == {"g": ["a"], "b": ["b"]}
    assert ready(gather("g", [one("a", 1, running=True), one("b", 1)], ONE_QUEUE)) == {"b": ["b"]}


def test_a_blocked_member_is_waited_for_only_if_the_quorum_needs_it() -> None:
    held = one("c", blocked="a gate")
    result = gather("g", [one("a"), held], ONE_QUEUE)
    assert waiting(result) == {"a": "group g waits for c: a gate", "c": "a gate"}
    result = gather("g", [one("a"), one("b"), held], ONE_QUEUE)
    assert ready(result) == {"g": ["a", "b"]}
    assert waiting(result) == {"c": "a gate"}


def test_a_group_waits_while_there_is_a_shortage_for_it_as_a_whole() -> None:
    def short(tasks: Sequence[Task]) -> str | None:
        return f"finds 1 volume for {len(tasks)}"

    result = gather("g", [one("a"), one("b")], ONE_QUEUE, shortage=short)
    assert set(waiting(result).values()) == {"group g finds 1 volume for 2"}
    assert not ready(result)
    # A task that starts alone is not checked as a gang.
    members = [one("a", running=True), one("b")]
    assert ready(gather("g", members, ONE_QUEUE, shortage=short)) == {"g": ["b"]}


# --- Contradictions


def test_the_size_that_most_members_state_is_used() -> None:
    members = [one("wrong", 30, created=1.0), one("a", created=2.0), one("b", created=3.0)]
    result = gather("g", members, ONE_QUEUE)
    assert ready(result) == {"g": ["a", "b"]}
    assert refused(result) == {"wrong": "label size: 30 on wrong, but label size: 2 on a"}


def test_on_a_tie_the_terms_of_the_oldest_member_are_used() -> None:
    result = gather("g", [one("b", 3, created=2.0), one("a", 2, created=1.0)], ONE_QUEUE)
    assert refused(result) == {"b": "label size: 3 on b, but label size: 2 on a"}
    assert waiting(result) == {"a": "group g has 1 of 2 members; 1 refused"}


def test_members_of_one_group_wait_in_one_queue() -> None:
    rules = {name: QueueRules(name) for name in ("day", "night")}
    members = [one("a", 3, "day"), one("b", 3, "day"), one("c", 3, "night")]
    result = gather("g", members, rules)
    assert refused(result) == {
        "c": "queue night on c, but queue day on a; expected one queue for the whole group"
    }
    assert waiting(result)["a"] == "group g has 2 of 3 members; 1 refused"


def test_a_running_member_that_contradicts_does_not_count() -> None:
    members = [one("old", 1, running=True), one("a", 2), one("b", 2)]
    assert ready(gather("g", members, ONE_QUEUE)) == {"g": ["a", "b"]}


# --- Limits of a queue


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (one("a", queue="nigth"), "queue 'nigth' is not known, expected one of: day, night"),
        (one("a", 5, "day"), "label size: 5, expected at most 4 in queue day"),
        (one("a", queue="night"), "it may run without end, expected at most 60 s in queue night"),
        (
            one("a", queue="night", run=91, limit=61),
            "it may run 61 s, expected at most 60 s in queue night",
        ),
    ],
)
def test_a_refused_task_gets_the_reason_of_its_queue(candidate: Candidate, why: str) -> None:
    rules = {
        "day": QueueRules("day", max_group_size=4),
        "night": QueueRules("night", max_run_seconds=60.0),
    }
    assert refused(gather("g", [candidate], rules)) == {"a": why}


def test_the_limit_is_about_the_deadline_and_not_about_the_grace_period() -> None:
    rules = {"default": QueueRules(max_run_seconds=60.0)}
    candidate = one("a", 1, run=90.0, limit=60.0)
    assert ready(gather("g", [candidate], rules)) == {"g": ["a"]}
    assert run_seconds_of([candidate], rules["default"]) == 90.0


def test_a_refused_member_does_not_block_the_others() -> None:
    rules = {"default": QueueRules(max_group_size=4)}
    result = gather("g", [one("a"), one("b"), one("huge", 5)], rules)
    assert ready(result) == {"g": ["a", "b"]}
    assert list(refused(result)) == ["huge"]


def test_the_default_run_time_of_the_queue_is_used_for_members_without_one() -> None:
    rules = {"default": QueueRules(default_run_seconds=600.0)}
    members = [one("a", run=10.0), one("b")]
    assert run_seconds_of(members, rules["default"]) == 600.0
    assert run_seconds_of(members, QueueRules()) is None


def test_a_group_is_in_the_queue_of_its_members() -> None:
    rules = {name: QueueRules(name) for name in ("default", "night")}
    found = gather("g", [one("a", queue="night"), one("b", queue="night")], rules)
    assert found.terms == GroupTerms(2, "night")


# --- For any set of candidates

RULES = {"default": QueueRules(max_group_size=4), "night": QueueRules("night", max_group_size=3)}


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
def test_every_pending_task_is_in_one_list_whatever_the_order(
    members: list[Candidate], seed: int
) -> None:
    result = gather("g", members, RULES)
    placed = [name for names in ready(result).values() for name in names]
    held = [task.name for task, _ in result.held]
    assert sorted(placed + held) == sorted(c.task.name for c in members if not c.running)
    shuffled = list(members)
    Random(seed).shuffle(shuffled)
    again = gather("g", shuffled, RULES)
    assert waiting(result).keys() == waiting(again).keys()
    assert refused(result).keys() == refused(again).keys()
    assert ready(result) == ready(again)


@given(candidates())
def test_a_gang_starts_only_with_its_quorum(members: list[Candidate]) -> None:
    found = gather("g", members, RULES)
    if not found.together:
        return
    agreed = found.terms
    assert agreed is not None
    assert {each.terms for each in found.together} == {agreed}
    limit = RULES[agreed.queue].max_group_size
    assert agreed.size <= limit
    running = sum(c.running and c.terms == agreed for c in members)
    assert running + len(found.together) >= agreed.size
    assert running + len(found.together) <= max(limit, running)
    assert all(each.task.blocked is None for each in found.together)


# --- Rules of other packages


def half(group: Presence) -> Starts:
    """Half of the members are enough."""
    if 2 * (group.running + len(group.startable)) >= group.size:
        return Starts(together=group.startable)
    return Starts(why=f"group {group.name} has less than half of its {group.size} members")


def test_a_queue_can_have_another_quorum_rule() -> None:
    rules = {"default": QueueRules(quorum="half"), "day": QueueRules("day")}
    known = {"half": half, "whole-group": whole_group}
    members = [one("a", 4), one("b", 4)]
    assert ready(gather("g", members, rules, known)) == {"g": ["a", "b"]}
    result = gather("g", members[:1], rules, known)
    assert waiting(result) == {"a": "group g has less than half of its 4 members"}
    in_day = [one("a", 4, "day"), one("b", 4, "day")]
    assert not ready(gather("g", in_day, rules, known))


def twice(group: Presence) -> Starts:
    return Starts(together=group.startable, alone=group.startable)


def nothing(group: Presence) -> Starts:
    del group
    return Starts()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [(twice, "each member of `startable` at most once"), (nothing, "`why` for the members")],
)
def test_a_wrong_answer_of_a_quorum_rule_is_an_error(rule: QuorumRule, expected: str) -> None:
    rules = {"default": QueueRules(quorum="wrong")}
    with pytest.raises(ValueError, match=f"quorum rule wrong: expected {expected}"):
        gather("g", [one("a", 1)], rules, {"wrong": rule})


def test_an_unknown_quorum_rule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown quorum rule 'most'; expected one of whole-group"):
        quorum_rule("most", "queues[0].quorum")
