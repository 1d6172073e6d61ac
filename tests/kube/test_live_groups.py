"""Gathering: who belongs to a group, who is refused, and who finds a queue full."""

from gathered_queue import RULES, Queue, gathered, member

from afflux.kube.live.gathering import Gathering


def test_a_pod_that_is_deleted_before_the_quorum_leaves() -> None:
    queue = gathered(member("a", "g", 3), member("b", "g", 3))
    queue.gathering.remove("uid-a")
    queue.gathering.set(member("c", "g", 3))
    queue.drain()
    assert not queue.waiting
    assert {why for _, why in queue.gathering.held_back.values()} == {
        "group default/g has 2 of 3 members"
    }


def test_a_late_pod_joins_the_placed_group_in_its_place_if_the_group_lacks_one() -> None:
    queue = gathered(member("a", "g", second=1), member("b", "g", second=2))
    before = queue.waiting["default/g"].ready_seconds
    for name in ("a", "b"):
        queue.gathering.set(member(name, "g", running=True, nodeName="n"))
    queue.drain()
    queue.gathering.remove("uid-b")
    queue.gathering.set(member("late", "g", second=30))
    queue.drain()
    assert queue.names() == {"default/late": ["default/late"]}
    assert queue.waiting["default/late"].ready_seconds == before


def test_the_rest_of_a_group_that_was_placed_goes_first() -> None:
    queue = gathered(*(member(name, "g", 3) for name in "abc"))
    assert not queue.waiting["default/g"].begun
    for name in "abc":
        queue.gathering.set(member(name, "g", 3, running=True))
    queue.drain()
    # Two of the bindings have failed.
    for name in "bc":
        queue.gathering.set(member(name, "g", 3))
    queue.drain()
    assert queue.names() == {"default/g": ["default/b", "default/c"]}
    assert queue.waiting["default/g"].begun
    # Whoever comes after a restart finds it so.
    again = gathered(member("a", "g", 3, running=True), member("b", "g", 3), member("c", "g", 3))
    assert again.waiting["default/g"].begun


def test_nobody_goes_first_by_naming_a_group_of_which_a_pod_happens_to_run() -> None:
    queue = gathered(member("small"), member("single", "h", 1))
    queue.gathering.set(member("single", "h", 1, running=True, nodeName="n"))
    queue.gathering.remove("uid-small")
    queue.drain()
    # One that ran by itself, one that its user has put on a machine: both now say they are of g.
    queue.gathering.set(member("small", "g", 3, running=True, nodeName="n"))
    queue.gathering.set(member("put", "g", 3, running=True, nodeName="n"))
    queue.gathering.set(member("a", "g", 3))
    # A group of one grows.
    for name in "bcd":
        queue.gathering.set(member(name, "h", 3))
    queue.drain()
    assert queue.names() == {
        "default/g": ["default/a"],
        "default/h": ["default/b", "default/c", "default/d"],
    }
    assert not any(group.begun for group in queue.waiting.values())


def test_it_joins_even_if_others_have_ended_meanwhile() -> None:
    queue = gathered(*(member(name, "g", 3, running=True, nodeName="n") for name in "abc"))
    for name in "ab":
        queue.gathering.remove(f"uid-{name}")
    queue.gathering.set(member("again", "g", 3))
    queue.drain()
    assert queue.names() == {"default/again": ["default/again"]}


def test_a_group_of_which_only_some_were_bound_waits_for_the_rest_together() -> None:
    queue = gathered(*(member(name, "g", 3) for name in "abc"))
    for name in "abc":
        queue.gathering.set(member(name, "g", 3, running=True))
    queue.drain()
    queue.gathering.set(member("a", "g", 3, running=True, nodeName="n"))
    for name in "bc":
        queue.gathering.set(member(name, "g", 3))
    queue.drain()
    assert queue.names() == {"default/g": ["default/b", "default/c"]}


def test_that_it_ran_before_a_restart_can_be_told() -> None:
    gathering = Gathering()
    gathering.restore_begun("default/g", 3)
    queue = Queue(gathering)
    gathering.set(member("a", "g", 3, running=True, nodeName="n"))
    gathering.set(member("again", "g", 3))
    queue.drain()
    assert queue.names() == {"default/again": ["default/again"]}


def test_a_name_is_free_when_all_its_pods_are_gone() -> None:
    queue = gathered(member("a", "g", second=1), member("b", "g", second=1))
    first = queue.waiting["default/g"]
    for name in ("a", "b"):
        queue.gathering.remove(f"uid-{name}")
    for name in ("c", "d"):
        queue.gathering.set(member(name, "g", second=50))
    queue.drain()
    second = queue.waiting["default/g"]
    assert [t.name for t in second.tasks] == ["default/c", "default/d"]
    assert second.ready_seconds > first.ready_seconds + 40


def test_members_may_differ_in_size_and_constraints() -> None:
    # What the prototype got wrong: heterogeneous groups were not possible.
    queue = gathered(
        member("leader", "g", requests={"cpu": "4"}),
        member("worker", "g", requests={"cpu": "1"}, nodeSelector={"disk": "fast"}),
    )
    (group,) = queue.waiting.values()
    assert len(group.shapes) == 2


def test_durations_are_those_of_the_pods() -> None:
    # What the prototype got wrong: every job was sent with a duration of 3,600 s.
    queue = gathered(
        member("a", "g", activeDeadlineSeconds=60, terminationGracePeriodSeconds=0),
        member("b", "g", activeDeadlineSeconds=7200, terminationGracePeriodSeconds=0),
    )
    assert queue.waiting["default/g"].run_seconds == 7200.0


def test_a_pod_and_a_group_of_one_name_are_told_apart() -> None:
    queue = gathered(member("g"), member("a", "g"), member("b", "g"))
    assert sorted(queue.waiting) == ["default/g", "default/g (group)"]
    queue = gathered(member("g", "g", 1, second=2), member("a", "g", 1, second=1))
    assert queue.names() == {"default/g (group)": ["default/a"], "default/g": ["default/g"]}


# --- Refusals


def test_one_that_is_refused_stops_nobody_else() -> None:
    # What the prototype got wrong: the first cancelled group stopped all binding.
    queue = gathered(member("bad", "g", "many"), member("solo"), member("c", "h"), member("d", "h"))
    assert sorted(queue.waiting) == ["default/h", "default/solo"]
    assert queue.gathering.refused == {"uid-bad"}


def test_a_label_that_is_corrected_makes_it_good() -> None:
    queue = gathered(member("a", "g"), member("b", "g", "two"))
    assert queue.gathering.refused == {"uid-b"}
    queue.gathering.set(member("b", "g", 2))
    queue.drain()
    assert list(queue.waiting) == ["default/g"]
    assert not queue.gathering.refused
    assert not queue.gathering.held_back


def test_who_waits_is_not_refused() -> None:
    queue = gathered(member("a", "g"), member("gated", schedulingGates=[{"name": "x"}]))
    assert set(queue.gathering.held_back) == {"uid-a", "uid-gated"}
    assert not queue.gathering.refused


def test_a_queue_takes_so_many_groups_and_then_the_next_who_became_ready() -> None:
    queue = gathered(*(member(f"p{n}", queue="narrow") for n in range(5)), rules=RULES)
    assert sorted(queue.waiting) == ["default/p0", "default/p1"]
    assert queue.gathering.refused == {"uid-p2", "uid-p3", "uid-p4"}
    assert queue.gathering.held_back["uid-p2"][1] == "queue narrow is full: 2 groups wait in it"
    # Its turn comes before that of somebody who has only just arrived.
    queue.gathering.set(member("p0", queue="narrow", running=True))
    queue.gathering.set(member("late", queue="narrow"))
    queue.drain()
    assert sorted(queue.waiting) == ["default/p1", "default/p2"]
    queue.gathering.remove("uid-p3")
    queue.gathering.remove("uid-p1")
    queue.drain()
    assert sorted(queue.waiting) == ["default/p2", "default/p4"]


def test_who_can_never_start_takes_nobodys_place_in_a_full_queue() -> None:
    queue = gathered(*(member(f"p{n}", queue="narrow") for n in range(5)), rules=RULES)
    gathering = queue.gathering
    assert gathering.pass_over({"default/p0", "default/gone"})
    queue.drain()
    assert sorted(queue.waiting) == ["default/p0", "default/p1", "default/p2"]
    # As long as that is so, and nobody else can never start, nobody else comes.
    assert not gathering.pass_over({"default/p0"})
    assert queue.drain() == []
    # If it may start after all it keeps its place, and so do the others.
    assert not gathering.pass_over(set())
    queue.drain()
    assert sorted(queue.waiting) == ["default/p0", "default/p1", "default/p2"]
    for name in ("p1", "p2"):
        gathering.set(member(name, queue="narrow", running=True))
    queue.drain()
    assert sorted(queue.waiting) == ["default/p0", "default/p3"]


def test_the_rest_of_a_group_that_runs_finds_room_in_a_full_queue() -> None:
    queue = gathered(
        member("a", "g", queue="narrow", running=True),
        member("b", "h", 1, queue="narrow"),
        member("c", "i", 1, queue="narrow"),
        rules=RULES,
    )
    assert sorted(queue.waiting) == ["default/h", "default/i"]
    queue.gathering.set(member("d", "g", queue="narrow"))
    queue.drain()
    assert sorted(queue.waiting) == ["default/g", "default/h", "default/i"]
