"""The life of a group in the register: its members, its end, and what the ledger gets of it."""

from dataclasses import replace

import msgspec
import pytest
from registered_queue import MACHINE, Queue, member, queue_with

from afflux.groups.entries import EndedGroup, GroupChange, GroupEntry, MemberEntry, RecordedGroup
from afflux.groups.group_id import GroupId
from afflux.groups.half_bound import HalfBoundGroups
from afflux.groups.member import Hold, Member
from afflux.groups.register import GroupRegister
from afflux.groups.states import EndReason

BORN_A = GroupId("default", "g", "uid-a")


def changes(queue: Queue) -> dict[str, GroupChange]:
    """What has changed, by the names that people see."""
    queue.take()
    changed, _, _ = queue.register.changes.take(10.0)
    found = {each.entry.id.shown: each for each in changed}
    assert len(found) == len(changed)
    return found


def ended(queue: Queue) -> list[EndedGroup]:
    queue.take()
    _, found, _ = queue.register.changes.take(10.0)
    return found


def members(change: GroupChange) -> list[str]:
    return [each.name for each in change.members]


def gang(name: str, *tasks: str, size: int, bound: bool = False) -> list[Member]:
    return [member(task, name, size, bound=bound) for task in tasks]


# --- Groups and tasks of the same name


def test_a_task_that_has_the_name_of_a_group_is_not_its_member() -> None:
    queue = queue_with(member("simx", bound=True), *gang("simx", "x0", "x1", size=2, bound=True))
    by_key = {each.entry.id: each for each in queue.register.changes.take(0.0)[0]}
    (bystander,) = (each for id_, each in by_key.items() if id_.alone)
    (simx,) = (each for id_, each in by_key.items() if not id_.alone)
    assert members(bystander) == ["default/simx"]
    assert members(simx) == ["default/x0", "default/x1"]
    assert queue.register.present("default", "simx") == ["default/x0", "default/x1"]


def test_a_group_is_finished_when_its_members_are_gone_though_a_task_has_its_name() -> None:
    queue = queue_with(member("simx", bound=True), *gang("simx", "x0", "x1", size=2, bound=True))
    queue.register.changes.take(0.0)
    queue.register.ended("uid-x0", "deadline", 5.0)
    assert not ended(queue)
    queue.register.ended("uid-x1", "deadline", 6.0)
    (found,) = ended(queue)
    assert not found.entry.id.alone
    assert (found.entry.state, found.how, found.ended_seconds) == ("finished", "deadline", 6.0)
    assert [(each.name, each.how) for each in found.members] == [
        ("default/x0", "deadline"),
        ("default/x1", "deadline"),
    ]


def test_an_incomplete_group_is_one_group_beside_a_running_task_of_its_name() -> None:
    queue = queue_with(member("mpi", bound=True), *gang("mpi", "m0", "m1", size=3))
    queue.take()
    changed, _, _ = queue.register.changes.take(0.0)
    (found,) = (each for each in changed if not each.entry.id.alone)
    assert (found.entry.state, members(found)) == ("provisional", ["default/m0", "default/m1"])
    assert len(changed) == 2


def test_a_task_with_the_name_of_a_waiting_group_does_not_move_the_group() -> None:
    queue = queue_with(*gang("g", "a", "b", size=2))
    queue.register.changes.take(0.0)
    queue.put(member("g"))
    withdrawn, ready = queue.register.take_starts()
    assert not withdrawn
    assert [[task.name for task in each.tasks] for each in ready] == [["default/g"]]
    changed, _, _ = queue.register.changes.take(0.0)
    assert [members(each) for each in changed] == [["default/g"]]


# --- One group over time


def test_a_rolling_restart_is_one_running_group() -> None:
    old, new = ("a0", "a1", "a2", "a3"), ("b0", "b1", "b2", "b3")
    queue = queue_with(*gang("web", *old, size=2, bound=True))
    (first,) = changes(queue).values()
    for gone, comes in zip(old, new, strict=True):
        queue.put(replace(member(gone, "web", bound=True), leaving=True), member(comes, "web"))
        assert queue.names() == {f"default/{comes}": [f"default/{comes}"]}
        queue.send(comes)
        queue.bind(comes)
        queue.put(member(comes, "web", bound=True))
        queue.end(gone)
        queue.take()
        changed, finished, _ = queue.register.changes.take(10.0)
        assert not finished
        assert [each.entry.id for each in changed] == [first.entry.id]
        assert changed[0].entry.state == "running"
    assert queue.register.present("default", "web") == [f"default/{name}" for name in new]


@pytest.mark.parametrize("is_live", [True, False])
def test_a_task_that_the_ledger_has_in_two_groups_is_in_one(is_live: bool) -> None:
    register = GroupRegister()
    register.restore(
        RecordedGroup(GroupEntry(GroupId("default", name, "uid-a")), (MemberEntry("uid-a", "a"),))
        for name in ("g", "h")
    )
    register.confirm_restored(lambda _: is_live, 7.0)
    queue = Queue(register)
    assert [each.entry.id.name for each in ended(queue)] == (["h"] if is_live else ["g", "h"])
    queue.put(member("a", "h"))
    group = register.group_of("uid-a")
    assert group is not None
    assert group.name == "h"


@pytest.mark.parametrize(
    ("how", "told"), [("deleted", "deadline"), ("succeeded", "succeeded"), ("failed", "failed")]
)
def test_only_a_member_that_is_deleted_after_the_deadline_ended_at_it(
    how: EndReason, told: EndReason
) -> None:
    """A member whose controller may not be deleted stays, and ends by itself."""
    queue = queue_with(*gang("g", "a", size=1, bound=True))
    queue.register.overdue(["uid-a"])
    queue.register.ended("uid-a", how, 5.0)
    (found,) = ended(queue)
    assert found.how == told


def test_a_group_of_members_that_are_gone_after_a_restart_is_finished() -> None:
    register = GroupRegister()
    ran = (MemberEntry("uid-a", "default/a", machine=MACHINE),)
    register.restore([RecordedGroup(GroupEntry(BORN_A), ran)])
    register.confirm_restored(lambda _: False, 7.0)
    queue = Queue(register)
    (found,) = ended(queue)
    assert (found.entry.id, found.how, found.ended_seconds) == (BORN_A, "deleted", 7.0)
    queue.put(member("b", "g", 1))
    assert queue.waiting.keys() == set()
    assert changes(queue)["default/g"].entry.id.born == "uid-b"


def test_a_member_that_is_being_deleted_does_not_start() -> None:
    queue = queue_with(member("a"), *gang("g", "b", "c", size=2))
    queue.put(replace(member("a"), leaving=True), replace(member("b", "g"), leaving=True))
    assert queue.names() == {}


def test_a_task_keeps_its_bind_when_it_names_another_group() -> None:
    queue = queue_with(member("a"), member("b", "g", 1))
    queue.send("a", "b")
    queue.bind("b")
    queue.put(member("a", "h", 1), member("b", "h", 1))
    assert queue.names() == {}
    (found,) = changes(queue).values()
    assert found.entry.id.shown == "default/h"
    assert [(each.sent_to, each.machine) for each in found.members] == [
        (MACHINE, ""),
        ("", MACHINE),
    ]


def test_a_task_that_comes_back_to_its_group_is_not_dropped() -> None:
    queue = queue_with(*gang("g", "a", "b", size=2))
    changes(queue)
    queue.put(member("b", "h"))
    queue.put(member("b", "g"))
    found = changes(queue)["default/g"]
    assert (members(found), found.dropped) == (["default/b"], ())


def test_a_task_that_comes_back_to_a_group_that_is_being_deleted_is_its_member_again() -> None:
    queue = queue_with(*gang("g", "a", "b", size=2))
    queue.put(replace(member("b", "g"), leaving=True))
    queue.put(member("a", "h"))
    queue.put(member("a", "g"))
    queue.end("b", "a")
    queue.take()


def test_after_a_restart_tasks_join_the_latest_group_of_their_name() -> None:
    register = GroupRegister()
    latest = GroupEntry(GroupId("default", "g", "uid-c"), size=2, created_seconds=50.0)
    register.restore(
        [
            RecordedGroup(latest, (MemberEntry("uid-c", "default/c"),)),
            RecordedGroup(GroupEntry(BORN_A), (MemberEntry("uid-a", "default/a", MACHINE),)),
        ]
    )
    register.confirm_restored(lambda _: True, 60.0)
    queue = Queue(register)
    queue.put(member("d", "g"), member("c", "g"))
    queue.put(replace(member("a", "g", 1, bound=True), leaving=True))
    assert sorted(queue.names()["default/g"]) == ["default/c", "default/d"]


# --- Tasks of other schedulers


def test_tasks_of_other_schedulers_are_not_recorded_when_they_end() -> None:
    queue = queue_with(
        *gang("g", "a", "b", size=2, bound=True),
        replace(member("other", "g", bound=True), ours=False),
        replace(member("another", "h", bound=True), ours=False),
    )
    assert members(changes(queue)["default/g"]) == ["default/a", "default/b"]
    queue.end("other", "another")
    assert not changes(queue)["default/g"].members
    queue.end("a", "b")
    (found,) = ended(queue)
    assert [each.name for each in found.members] == ["default/a", "default/b"]


# --- Half-bound groups after a restart


def half_bound(recorded: list[RecordedGroup]) -> list[str]:
    """The half-bound groups after a restart with two of three members bound, one unplaceable."""
    found = HalfBoundGroups(10.0)
    register = GroupRegister(half_bound=found)
    register.restore(recorded)
    there = {"uid-a", "uid-b", "uid-huge"}
    register.confirm_restored(lambda entry: entry.uid in there, 0.0)
    queue = Queue(register)
    queue.put(*gang("g", "a", "b", size=3, bound=True), member("huge", "g", 3))
    queue.take()
    return [each.name for each in found.take(100.0)]


def test_without_a_ledger_a_running_group_is_not_half_bound_after_a_restart() -> None:
    assert half_bound([]) == []


def test_with_a_ledger_a_group_that_was_never_whole_is_half_bound_after_a_restart() -> None:
    bound = tuple(MemberEntry(f"uid-{name}", f"default/{name}", MACHINE) for name in "ab")
    never_whole = GroupEntry(BORN_A, size=3, ready_seconds=0.0, peak_bound=2)
    assert half_bound([RecordedGroup(never_whole, bound)]) == ["default/g"]
    once_whole = msgspec.structs.replace(never_whole, peak_bound=3)
    assert half_bound([RecordedGroup(once_whole, bound)]) == []


def test_a_group_that_may_have_been_whole_before_it_was_written_is_never_half_bound() -> None:
    first = queue_with(*gang("g", "a", "b", size=3, bound=True), member("huge", "g", 3))
    (change,), _, _ = first.register.changes.take(0.0)
    assert half_bound([RecordedGroup(change.entry, change.members)]) == []


def test_a_group_is_not_half_bound_if_the_ledger_missed_binds_of_its_members() -> None:
    """The ledger was away, with `whenAway: continue`."""
    waits = tuple(MemberEntry(f"uid-{name}", f"default/{name}") for name in "ab")
    assert half_bound([RecordedGroup(GroupEntry(BORN_A, size=3, ready_seconds=0.0), waits)]) == []


def test_a_group_is_not_half_bound_if_a_member_ended_that_may_have_been_bound() -> None:
    """The leader ended after it tried to bind this member, before the result was written."""
    bound = tuple(MemberEntry(f"uid-{name}", f"default/{name}", MACHINE) for name in "ab")
    tried = MemberEntry("uid-c", "default/c", sent_to=MACHINE)
    entry = GroupEntry(BORN_A, size=3, ready_seconds=0.0, peak_bound=2)
    assert half_bound([RecordedGroup(entry, (*bound, tried))]) == []


def test_a_bind_of_a_member_that_is_being_deleted_is_over_when_its_result_is_known() -> None:
    found = HalfBoundGroups(10.0)
    queue = Queue(GroupRegister(half_bound=found))
    queue.put(*gang("g", "a", "b", "c", "d", size=3))
    queue.take()
    queue.send("a", "b")
    queue.bind("a")
    queue.put(replace(member("b", "g", 3), leaving=True))
    queue.take()
    assert found.take(100.0) == []
    queue.bind("b")
    queue.take()
    assert [each.name for each in found.take(100.0)] == ["default/g"]


# --- Late members


def test_a_running_group_says_how_many_of_its_members_wait_since_when_and_why() -> None:
    queue = queue_with(*gang("g", "a", "b", size=2, bound=True))
    entry = changes(queue)["default/g"].entry
    assert (entry.state, entry.waiting, entry.late_since_seconds) == ("running", 0, None)
    queue.put(member("c", "g", 2, second=30), member("d", "g", 2, second=20))
    queue.take()
    queue.register.set_reasons({"uid-c": "no room", "uid-d": "no room"}, {})
    entry = changes(queue)["default/g"].entry
    assert (entry.state, entry.waiting, entry.late_since_seconds) == ("running", 2, 20.0)
    assert entry.reason == "no room"
    queue.end("d")
    entry = changes(queue)["default/g"].entry
    assert (entry.waiting, entry.late_since_seconds) == (1, 30.0)
    queue.send("c")
    assert changes(queue)["default/g"].entry.state == "starting"
    queue.bind("c")
    entry = changes(queue)["default/g"].entry
    assert (entry.state, entry.waiting, entry.reason) == ("running", 0, "")


def test_members_that_are_being_deleted_or_of_other_schedulers_do_not_wait() -> None:
    queue = queue_with(*gang("g", "a", "b", size=2, bound=True))
    queue.put(replace(member("c", "g", 2), leaving=True), replace(member("d", "g", 2), ours=False))
    assert changes(queue)["default/g"].entry.waiting == 0


# --- Tenants


def test_one_idle_member_keeps_no_place_for_others_with_other_terms() -> None:
    queue = queue_with(member("idle", "g", 1, bound=True, second=1))
    queue.put(*(member(f"solo{n}", second=10 + n) for n in range(4)))
    queue.put(*(member(f"late{n}", "g", 3, second=20 + n) for n in range(3)))
    assert queue.order() == ["solo0", "solo1", "solo2", "solo3", "g"]


def test_one_idle_member_keeps_no_place_for_a_group_that_never_had_its_members() -> None:
    queue = queue_with(*gang("g", "idle", "b", size=2))
    queue.put(member("solo", second=10))
    assert queue.order() == ["g", "solo"]
    queue.end("b")
    queue.take()
    queue.put(member("c", "g", second=20))
    assert queue.order() == ["solo", "g"]


def test_a_further_member_of_a_large_group_is_all_that_is_written() -> None:
    queue = queue_with(*(member(f"p{n}", "g", 1, bound=True) for n in range(6000)))
    assert len(changes(queue)["default/g"].members) == 6000
    queue.put(member("further", "g", 1))
    found = changes(queue)
    assert members(found["default/g"]) == ["default/further"]
    assert len(found) == 1


def test_a_waiting_group_says_why_it_waits_and_not_why_one_of_its_members_is_refused() -> None:
    refused = member("a-0", "g", problem=Hold("refused", "an odd size"))
    queue = queue_with(refused, *gang("g", "a-1", "a-2", size=2))
    queue.register.set_reasons(dict.fromkeys(("uid-a-1", "uid-a-2"), "no room"), {})
    assert changes(queue)["default/g"].entry.reason == "no room"
    queue.put(replace(refused, priority=1))
    assert changes(queue) == {}
    queue.end("a-2")
    short = "group default/g has 1 of 2 members; 1 refused"
    assert changes(queue)["default/g"].entry.reason == short
    queue.end("a-1")
    assert changes(queue)["default/g"].entry.reason == "an odd size"


def test_a_member_that_ended_before_it_was_seen_to_start_has_run() -> None:
    queue = queue_with(*gang("g", "a", "b", size=2))
    queue.send("a", "b")
    queue.bind("b")
    queue.register.ended("uid-a", "succeeded", 4.0)
    queue.register.ended("uid-b", "succeeded", 5.0)
    (found,) = ended(queue)
    assert [(each.name, each.machine, each.how) for each in found.members] == [
        ("default/a", MACHINE, "succeeded"),
        ("default/b", MACHINE, "succeeded"),
    ]


def test_a_member_that_vanished_while_it_was_being_bound_has_not_run() -> None:
    queue = queue_with(*gang("g", "a", "b", size=2))
    queue.send("a", "b")
    queue.bind("b")
    queue.register.ended("uid-a", "deleted", 4.0)
    queue.register.bound("uid-a", MACHINE)
    queue.end("b")
    (found,) = ended(queue)
    assert [each.name for each in found.members] == ["default/b"]


def test_an_event_of_a_group_that_has_ended_is_not_kept() -> None:
    queue = queue_with(*gang("g", "a", size=1))
    queue.end("a")
    queue.register.note(BORN_A.key, "Corrected", "none of its pods is there")
    assert queue.register.changes.take(0.0)[2] == []


def test_a_member_that_is_reported_again_after_its_end_has_not_ended() -> None:
    """A list of an API server that lags behind has pods that were deleted meanwhile."""
    queue = queue_with(*gang("g", "a", "b", size=2, bound=True))
    queue.register.ended("uid-a", "failed", 5.0)
    queue.put(member("a", "g", 2, bound=True))
    assert [each.how for each in changes(queue)["default/g"].members] == ["", ""]
    queue.register.ended("uid-a", "succeeded", 6.0)
    queue.register.ended("uid-b", "succeeded", 7.0)
    (found,) = ended(queue)
    assert (found.how, [each.how for each in found.members]) == ("succeeded", ["succeeded"] * 2)


def test_a_doubt_about_a_bind_that_is_known_to_have_happened_changes_nothing() -> None:
    queue = queue_with(*gang("g", "a", size=1))
    queue.send("a")
    queue.bind("a")
    before = changes(queue)
    queue.register.doubtful("uid-a", "no answer")
    assert before["default/g"].members[0].machine == MACHINE
    assert not changes(queue)
    queue.reject("a")
    queue.register.doubtful("uid-a", "no answer")
    assert [each.doubt for each in changes(queue)["default/g"].members] == [""]
