"""Places in the queue: a group keeps its place, and no other group inherits it."""

from dataclasses import replace

from registered_queue import RULES, Queue, member, queue_with

from afflux.groups.entries import GroupEntry, MemberEntry, RecordedGroup
from afflux.groups.group_id import GroupId
from afflux.groups.member import Hold
from afflux.groups.register import GroupRegister


def test_ready_groups_are_ordered_by_the_time_they_became_ready() -> None:
    queue = queue_with(*(member(f"p{n}-{i}", f"g{n}") for n in range(20) for i in range(2)))
    assert queue.order() == [f"g{n}" for n in range(20)]


def test_a_group_that_is_retried_often_keeps_its_place() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    before = queue.place("g")
    for _ in range(10):
        queue.send(*"ab")
        queue.take()
        queue.reject(*"ab")
        assert queue.place("g") == before


def restored(ready_seconds: float, *members: MemberEntry, size: int, peak_bound: int) -> Queue:
    """A queue after a restart, with one group of the ledger."""
    id_ = GroupId("default", "g", "uid-a")
    entry = GroupEntry(id_, size=size, ready_seconds=ready_seconds, peak_bound=peak_bound)
    register = GroupRegister()
    register.restore([RecordedGroup(entry, members)])
    register.confirm_restored(lambda _: True, 0.0)
    return Queue(register)


def test_a_group_keeps_its_place_over_a_restart() -> None:
    waiting = [MemberEntry(f"uid-{name}", f"default/{name}") for name in "abc"]
    queue = restored(1234.5, *waiting, size=3, peak_bound=0)
    queue.put(*(member(name, "g", 3) for name in "abc"))
    assert queue.place("g") == 1234.5


def test_a_late_member_gets_the_place_of_the_group_only_if_it_replaces_a_member() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    queue.put(member("a", "g", second=1, bound=True), member("b", "g", second=1, bound=True))
    queue.take()
    queue.put(member("more", "g", second=30), member("other", second=20))
    # The group has enough members: the late one queues behind the tasks that came before it.
    assert queue.order() == ["other", "more"]
    queue.end("a")
    queue.put(member("again", "g", second=40), member("again-too", "g", second=41))
    # The group lacks one member: the oldest task replaces it, the others keep their own places.
    assert queue.order() == ["more", "other", "again", "again-too"]


def test_a_late_member_keeps_its_place_when_an_older_one_comes() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    place = queue.place("g")
    queue.put(member("a", "g", second=1, bound=True), member("b", "g", second=1, bound=True))
    queue.end("b")
    queue.put(member("again", "g", second=40))
    assert queue.place("again") == place
    queue.put(member("older", "g", second=30))
    assert queue.place("again") == place
    # The group lacks one member only.
    assert queue.place("older") == 30.0


def test_late_members_do_not_inherit_the_place_one_after_the_other() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    place = queue.place("g")
    queue.put(member("a", "g", second=1, bound=True), member("b", "g", second=1, bound=True))
    queue.end("b")
    # The youngest comes first, so that each is the oldest when it comes: relabelled, or gated.
    for n in reversed(range(5)):
        queue.put(member(f"late{n}", "g", second=10 + n))
        queue.take()
    assert [queue.place(f"late{n}") for n in range(5)] == [10.0, 11.0, 12.0, 13.0, place]


def test_members_that_cannot_be_used_hold_no_place() -> None:
    unusable = Hold("refused", "size: x")
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    queue.put(member("solo", second=10))
    assert queue.order() == ["g", "solo"]
    queue.put(member("a", "g", problem=unusable, second=1))
    queue.put(member("b", "g", problem=unusable, second=1))
    assert queue.order() == ["solo"]
    queue.put(member("c", "g", second=20), member("d", "g", second=20))
    assert queue.order() == ["solo", "g"]


def test_members_that_come_later_do_not_inherit_the_place_of_idle_ones() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    queue.put(member("solo", second=10))
    queue.put(*(member(f"late{n}", "g", second=20 + n) for n in range(4)))
    # The group does not need them: its place is that of the first two.
    assert queue.order() == ["g", "solo"]
    queue.end("a", "b")
    assert queue.order() == ["solo", "g"]


def test_members_that_are_replaced_at_once_do_not_leave_their_place_behind() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    queue.put(member("solo", second=10))
    queue.end("a")
    queue.put(member("c", "g", second=20))
    assert queue.order() == ["solo", "g"]
    place = queue.place("g")
    queue.put(member("d", "g", second=30))
    assert queue.place("g") == place


def test_a_gated_member_holds_no_place_of_a_group_that_has_run() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    queue.bind("a", "b")
    queue.take()
    queue.put(member("idle", "g", second=5, blocked="gate"), member("solo", second=10))
    queue.take()
    queue.end("a", "b")
    queue.put(member("c", "g", second=20), member("d", "g", second=21))
    assert queue.order() == ["solo", "c", "d"]


def test_a_member_that_is_being_deleted_lets_no_other_into_a_full_queue() -> None:
    rules = {"narrow": replace(RULES["narrow"], max_groups=1)}
    queue = queue_with(*(member(n, "g", 2, queue="narrow") for n in "ab"), rules=rules)
    queue.send(*"ab")
    queue.take()
    queue.bind("a")
    queue.reject("b")
    queue.put(member("solo", queue="narrow", second=1))
    assert list(queue.names()) == ["default/g"]
    queue.end("b")
    assert list(queue.names()) == ["default/solo"]
    leaving = replace(member("a", "g", 2, queue="narrow", bound=True), leaving=True)
    queue.put(member("c", "g", 2, queue="narrow", blocked="gate"), leaving)
    queue.put(*(member(n, "g", 2, queue="narrow", second=9) for n in "de"))
    assert list(queue.names()) == ["default/solo"]


def test_later_tasks_do_not_get_the_place_of_one_idle_member() -> None:
    queue = queue_with(member("idle", "g", 1, bound=True, second=1))
    queue.put(member("solo", second=10))
    queue.put(*(member(f"p{n}", "g", 1, second=20 + n) for n in range(3)))
    assert queue.order()[0] == "solo"


def test_other_terms_give_another_place() -> None:
    queue = queue_with(member("idle", "g", 1, second=1, blocked=None))
    queue.put(member("solo", second=10))
    assert queue.order() == ["g", "solo"]
    queue.put(*(member(f"p{n}", "g", 3, second=20 + n) for n in range(3)))
    assert queue.order() == ["solo", "g"]


def test_other_terms_give_late_members_other_places() -> None:
    queue = queue_with(member("a", "g", 1, bound=True, second=1), rules=RULES)
    queue.put(member("late", "g", 1, second=5), member("solo", second=10))
    assert queue.order() == ["late", "solo"]
    other = member("a", "g", 1, queue="narrow", bound=True, second=1)
    queue.put(other, member("late", "g", 1, queue="narrow", second=5))
    queue.put(member("new", "g", 1, queue="narrow", second=20))
    assert queue.order() == ["solo", "late", "new"]


def test_a_group_that_lacked_a_member_is_ready_anew() -> None:
    queue = queue_with(member("idle", "g", second=1), member("b", "g", second=1))
    queue.put(member("solo", second=10))
    queue.end("b")
    assert queue.order() == ["solo"]
    queue.put(member("c", "g", second=20))
    assert queue.order() == ["solo", "g"]


def test_a_late_member_after_a_restart_gets_the_place_that_the_group_had() -> None:
    ran = [MemberEntry(f"uid-{name}", f"default/{name}", machine="n") for name in "ab"]
    queue = restored(100.0, *ran, size=2, peak_bound=2)
    queue.put(member("a", "g", bound=True))
    queue.end("b")
    queue.put(member("again", "g", second=400))
    assert queue.place("again") == 100.0


def test_history_knows_when_a_deleted_group_was_ready() -> None:
    queue = queue_with(member("a", second=100))
    place = queue.place("a")
    queue.put(member("a", second=100, bound=True))
    queue.take()
    queue.put(replace(member("a", second=100, bound=True), leaving=True))
    queue.take()
    queue.register.changes.take(0.0)
    queue.end("a")
    (ended,) = queue.register.changes.take(0.0)[1]
    assert ended.entry.ready_seconds == place
