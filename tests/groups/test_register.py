"""The register: which tasks wait together, what holds others back, and when a queue is full."""

from dataclasses import replace

import pytest
from registered_queue import RULES, Queue, member, queue_with

from afflux.groups.entries import GroupEntry, MemberEntry, RecordedGroup
from afflux.groups.group_id import GroupId
from afflux.groups.member import Hold
from afflux.groups.quorum import Presence, Starts, whole_group
from afflux.groups.register import GroupRegister
from afflux.queue.rules import DEFAULT_QUORUM

TWO_NARROW = {**RULES, "other": replace(RULES["narrow"], name="other")}


def test_a_group_below_its_quorum_waits_again_when_a_task_is_deleted() -> None:
    queue = queue_with(member("a", "g", 3), member("b", "g", 3))
    queue.end("a")
    queue.put(member("c", "g", 3))
    assert not queue.names()
    assert queue.hold("b") == Hold("waits", "group default/g has 2 of 3 members")


def test_the_unbound_rest_of_a_placed_group_is_marked_as_begun() -> None:
    queue = queue_with(*(member(name, "g", 3) for name in "abc"))
    assert not queue.waiting["default/g"].begun
    queue.send(*"abc")
    queue.take()
    queue.reject(*"bc")
    assert queue.names() == {"default/g": ["default/b", "default/c"]}
    assert queue.waiting["default/g"].begun
    # The same holds after a restart.
    again = queue_with(member("a", "g", 3, bound=True), member("b", "g", 3), member("c", "g", 3))
    assert again.waiting["default/g"].begun


def test_the_rest_of_a_group_that_was_being_bound_at_a_restart_is_marked_as_begun() -> None:
    sent = tuple(MemberEntry(f"uid-{name}", f"default/{name}", sent_to="n") for name in "abc")
    entry = GroupEntry(GroupId("default", "g", "uid-a"), size=3, ready_seconds=0.0)
    register = GroupRegister()
    register.restore([RecordedGroup(entry, sent)])
    register.confirm_restored(lambda _: True, 0.0)
    queue = Queue(register)
    queue.put(*(member(name, "g", 3) for name in "abc"))
    queue.take()
    queue.bind("a")
    queue.reject(*"bc")
    assert queue.names() == {"default/g": ["default/b", "default/c"]}
    assert queue.waiting["default/g"].begun


def test_a_running_task_that_was_not_scheduled_with_the_group_does_not_mark_it_as_begun() -> None:
    queue = queue_with(member("small"), member("single", "h", 1))
    queue.put(member("single", "h", 1, bound=True))
    queue.end("small")
    queue.take()
    # A task that ran alone and one that its user bound: both now name group g.
    queue.put(member("small", "g", 3, bound=True), member("put", "g", 3, bound=True))
    queue.put(member("a", "g", 3))
    # A group of one grows.
    queue.put(*(member(name, "h", 3) for name in "bcd"))
    assert queue.names() == {
        "default/g": ["default/a"],
        "default/h": ["default/b", "default/c", "default/d"],
    }
    assert not any(group.begun for group in queue.waiting.values())


def test_a_late_task_is_scheduled_alone_even_if_other_members_have_ended() -> None:
    queue = queue_with(*(member(name, "g", 3, bound=True) for name in "abc"))
    queue.end(*"ab")
    queue.put(member("again", "g", 3))
    assert queue.names() == {"default/again": ["default/again"]}


def test_the_unbound_members_of_a_half_bound_group_wait_as_one_group() -> None:
    queue = queue_with(*(member(name, "g", 3) for name in "abc"))
    queue.send(*"abc")
    queue.take()
    queue.bind("a")
    queue.reject(*"bc")
    assert queue.names() == {"default/g": ["default/b", "default/c"]}


def test_a_group_name_can_be_reused_when_all_its_tasks_are_gone() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    first = queue.waiting["default/g"]
    queue.end(*"ab")
    queue.put(member("c", "g", second=50), member("d", "g", second=50))
    queue.take()
    second = queue.waiting["default/g"]
    assert [t.name for t in second.tasks] == ["default/c", "default/d"]
    assert second.ready_seconds > first.ready_seconds + 40
    assert second.key != first.key


def test_a_group_name_can_be_reused_while_all_its_tasks_are_being_deleted() -> None:
    queue = queue_with(member("a", "g"), member("b", "g"))
    queue.bind(*"ab")
    queue.put(replace(member("a", "g", bound=True), leaving=True), member("c", "g"))
    # One of its tasks is not being deleted: the new one is a late member.
    assert queue.names() == {"default/c": ["default/c"]}
    queue.end("c")
    queue.put(replace(member("b", "g", bound=True), leaving=True), member("d", "g"))
    assert queue.names() == {}
    queue.put(member("e", "g"))
    assert queue.names() == {"default/g": ["default/d", "default/e"]}
    # The end of the old tasks changes nothing for the new group.
    queue.end(*"ab")
    queue.put(member("f", "g"))
    assert queue.names() == {"default/g": ["default/d", "default/e", "default/f"]}


def test_members_may_differ_in_shape() -> None:
    queue = queue_with(member("leader", "g", cpu=4), member("worker", "g", cpu=1))
    (group,) = queue.waiting.values()
    assert len(group.shapes) == 2


def test_a_task_and_a_group_of_the_same_name_are_two_groups() -> None:
    queue = queue_with(member("g"), member("a", "g"), member("b", "g"))
    assert sorted(len(group.tasks) for group in queue.by_key.values()) == [1, 2]
    # The task that has come with the name of a waiting group does not move that group.
    queue.end("g")
    queue.take()
    before = dict(queue.by_key)
    queue.put(member("g"))
    assert queue.take() == 1
    assert before.items() <= queue.by_key.items()


@pytest.mark.parametrize("answer", ["lost", "refused", "late"])
def test_an_answer_about_a_bind_that_was_seen_to_happen_changes_nothing(answer: str) -> None:
    queue = queue_with(member("a", "g"), member("b", "g"))
    queue.send("a", "b")
    queue.take()
    queue.put(member("a", "g", bound=True), member("b", "g", bound=True))
    match answer:
        case "lost":
            queue.register.doubtful("uid-a", "no answer")
        case "refused":
            queue.reject("a")
        case _:
            queue.send("a")
    assert not queue.names()
    (change,) = queue.register.changes.take(0.0)[0]
    assert change.entry.state == "running"
    assert {each.machine for each in change.members} == {"n"}


# --- Refusals


def test_a_refused_task_does_not_affect_other_tasks() -> None:
    wrong = member("bad", "g", problem=Hold("refused", "no number"))
    queue = queue_with(wrong, member("solo"), member("c", "h"), member("d", "h"))
    assert list(queue.names()) == ["default/h", "default/solo"]
    assert queue.refused("bad", "solo", "c", "d") == ["bad"]


def test_a_refused_task_is_accepted_when_its_claim_is_corrected() -> None:
    wrong = member("b", "g", problem=Hold("refused", "no number"))
    queue = queue_with(member("a", "g"), wrong)
    assert queue.refused("a", "b") == ["b"]
    queue.put(member("b", "g"))
    assert list(queue.names()) == ["default/g"]
    assert queue.hold("a") is queue.hold("b") is None


def test_tasks_that_wait_for_members_or_gates_are_not_refused() -> None:
    queue = queue_with(member("a", "g"), member("gated", blocked="a gate"))
    assert queue.hold("a")
    assert queue.hold("gated") == Hold("waits", "a gate")
    assert not queue.refused("a", "gated")


def test_members_beyond_the_limit_of_the_queue_are_refused() -> None:
    queue = queue_with(*(member(f"p{n}", "g", 2, second=n) for n in range(5)), rules=RULES)
    assert queue.names() == {"default/g": ["default/p0", "default/p1", "default/p2"]}
    why = "its group has 5 members, expected at most 3 in queue default"
    assert queue.hold("p3") == queue.hold("p4") == Hold("refused", why)


def test_a_full_queue_takes_the_next_group_in_order_of_readiness() -> None:
    tasks = [f"p{n}" for n in range(5)]
    queue = queue_with(*(member(name, queue="narrow") for name in tasks), rules=RULES)
    assert list(queue.names()) == ["default/p0", "default/p1"]
    assert queue.refused(*tasks) == ["p2", "p3", "p4"]
    assert queue.hold("p2") == Hold("refused", "queue narrow is full: 2 groups wait in it")
    # The groups that were turned away come before a task that has just arrived.
    queue.send("p0")
    queue.put(member("late", queue="narrow"))
    assert list(queue.names()) == ["default/p1", "default/p2"]
    queue.end("p3", "p1")
    assert list(queue.names()) == ["default/p2", "default/p4"]


def test_of_groups_seen_at_once_the_one_that_was_ready_first_enters_a_queue() -> None:
    tasks = [member(f"p{n}", queue="narrow", second=9 - n) for n in range(5)]
    queue = queue_with(*tasks, rules=RULES)
    assert list(queue.names()) == ["default/p3", "default/p4"]


def test_a_group_that_names_another_queue_makes_room_in_the_old_one() -> None:
    queue = queue_with(*(member(f"p{n}", queue="narrow") for n in range(3)), rules=RULES)
    assert list(queue.names()) == ["default/p0", "default/p1"]
    queue.put(member("p0", queue="default"))
    assert list(queue.names()) == ["default/p0", "default/p1", "default/p2"]
    # Also if the other queue is full.
    queue = queue_with(*(member(f"p{n}", queue="narrow") for n in range(3)), rules=TWO_NARROW)
    queue.put(member("other0", queue="other"), member("other1", queue="other"))
    assert list(queue.names()) == [f"default/{n}" for n in ("other0", "other1", "p0", "p1")]
    queue.put(member("p0", queue="other"))
    assert list(queue.names()) == [f"default/{n}" for n in ("other0", "other1", "p1", "p2")]


def test_a_group_that_cannot_be_evaluated_waits_outside_of_its_queue() -> None:
    broken: list[str] = []

    def rule(group: Presence) -> Starts:
        if group.name in broken:
            raise ValueError(group.name)
        return whole_group(group)

    register = GroupRegister(RULES, {DEFAULT_QUORUM: rule})
    queue = Queue(register)
    queue.put(*(member(f"p{n}", queue="narrow") for n in range(4)))
    assert list(queue.names()) == ["default/p0", "default/p1"]
    broken.append("default/p2")
    queue.put(member("p2", queue="narrow", cpu=2))
    queue.end("p0")
    assert list(queue.names()) == ["default/p1", "default/p3"]
    error = "an error of the scheduler (ValueError), see its log"
    assert queue.hold("p2") == Hold("waits", error)


def test_unsatisfiable_groups_do_not_count_against_the_limit_of_a_queue() -> None:
    queue = queue_with(*(member(f"p{n}", queue="narrow") for n in range(5)), rules=RULES)
    register, key = queue.register, queue.waiting["default/p0"].key
    assert register.set_reasons({}, {key: "too large", "gone": "too large"})
    assert list(queue.names()) == ["default/p0", "default/p1", "default/p2"]
    # No more groups are accepted until the set of unsatisfiable groups grows.
    assert not register.set_reasons({}, {key: "too large"})
    assert queue.take() == 0
    # p0 can start again: it stays in the queue, and so do the others.
    assert not register.set_reasons({}, {})
    assert list(queue.names()) == ["default/p0", "default/p1", "default/p2"]
    queue.send("p1", "p2")
    assert list(queue.names()) == ["default/p0", "default/p3"]


def test_the_rest_of_a_running_group_is_accepted_by_a_full_queue() -> None:
    queue = queue_with(
        member("a", "g", queue="narrow", bound=True),
        member("b", "h", 1, queue="narrow"),
        member("c", "i", 1, queue="narrow"),
        rules=RULES,
    )
    assert list(queue.names()) == ["default/h", "default/i"]
    queue.put(member("d", "g", queue="narrow"))
    assert list(queue.names()) == ["default/g", "default/h", "default/i"]


def test_a_task_that_leaves_a_group_with_its_own_default_name_is_alone() -> None:
    """A user may give a group the default name of a group of one."""
    name = "fluxnetes-group-default-a"
    queue = queue_with(member("a", name, 1, bound=True), member("b", name, 1, bound=True))
    for _ in range(2):
        queue.put(member("a", bound=True))
        queue.take()
        own, named = queue.register.group_of("uid-a"), queue.register.group_of("uid-b")
        assert own is not None
        assert named is not None
        assert (own.alone, named.alone) == ("a", "")
        assert list(queue.register.members_of(own.key)) == ["uid-a"]
        assert list(queue.register.members_of(named.key)) == ["uid-b"]
    queue.end("a", "b")
    assert queue.register.group_of("uid-a") is None
