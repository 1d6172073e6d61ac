"""LiveGroups: which pods form a group, which are refused, and when a queue is full."""

from live_groups_queue import RULES, Queue, member, queue_with

from afflux.kube.live.live_groups import LiveGroups


def test_a_group_below_its_quorum_waits_again_when_a_pod_is_deleted() -> None:
    queue = queue_with(member("a", "g", 3), member("b", "g", 3))
    queue.live_groups.remove("uid-a")
    queue.live_groups.set(member("c", "g", 3))
    queue.take_events()
    assert not queue.waiting
    assert {why for _, why in queue.live_groups.held_back.values()} == {
        "group default/g has 2 of 3 members"
    }


def test_a_late_pod_gets_the_position_of_the_placed_group_if_it_replaces_a_member() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=2))
    before = queue.waiting["default/g"].ready_seconds
    for name in ("a", "b"):
        queue.live_groups.set(member(name, "g", running=True, nodeName="n"))
    queue.take_events()
    queue.live_groups.remove("uid-b")
    queue.live_groups.set(member("late", "g", second=30))
    queue.take_events()
    assert queue.names() == {"default/late": ["default/late"]}
    assert queue.waiting["default/late"].ready_seconds == before


def test_the_unbound_rest_of_a_placed_group_is_marked_as_begun() -> None:
    queue = queue_with(*(member(name, "g", 3) for name in "abc"))
    assert not queue.waiting["default/g"].begun
    for name in "abc":
        queue.live_groups.set(member(name, "g", 3, running=True))
    queue.take_events()
    # Two of the bindings have failed.
    for name in "bc":
        queue.live_groups.set(member(name, "g", 3))
    queue.take_events()
    assert queue.names() == {"default/g": ["default/b", "default/c"]}
    assert queue.waiting["default/g"].begun
    # The same holds after a restart.
    again = queue_with(member("a", "g", 3, running=True), member("b", "g", 3), member("c", "g", 3))
    assert again.waiting["default/g"].begun


def test_a_running_pod_that_was_not_scheduled_with_the_group_does_not_mark_it_as_begun() -> None:
    queue = queue_with(member("small"), member("single", "h", 1))
    queue.live_groups.set(member("single", "h", 1, running=True, nodeName="n"))
    queue.live_groups.remove("uid-small")
    queue.take_events()
    # A pod that ran alone and a pod that its user bound: both now have the label of group g.
    queue.live_groups.set(member("small", "g", 3, running=True, nodeName="n"))
    queue.live_groups.set(member("put", "g", 3, running=True, nodeName="n"))
    queue.live_groups.set(member("a", "g", 3))
    # A group of one grows.
    for name in "bcd":
        queue.live_groups.set(member(name, "h", 3))
    queue.take_events()
    assert queue.names() == {
        "default/g": ["default/a"],
        "default/h": ["default/b", "default/c", "default/d"],
    }
    assert not any(group.begun for group in queue.waiting.values())


def test_a_late_pod_is_scheduled_alone_even_if_other_members_have_ended() -> None:
    queue = queue_with(*(member(name, "g", 3, running=True, nodeName="n") for name in "abc"))
    for name in "ab":
        queue.live_groups.remove(f"uid-{name}")
    queue.live_groups.set(member("again", "g", 3))
    queue.take_events()
    assert queue.names() == {"default/again": ["default/again"]}


def test_the_unbound_members_of_a_half_bound_group_wait_as_one_group() -> None:
    queue = queue_with(*(member(name, "g", 3) for name in "abc"))
    for name in "abc":
        queue.live_groups.set(member(name, "g", 3, running=True))
    queue.take_events()
    queue.live_groups.set(member("a", "g", 3, running=True, nodeName="n"))
    for name in "bc":
        queue.live_groups.set(member(name, "g", 3))
    queue.take_events()
    assert queue.names() == {"default/g": ["default/b", "default/c"]}


def test_a_restored_bound_count_lets_late_members_start_alone() -> None:
    live_groups = LiveGroups()
    live_groups.restore_bound_count("default/g", 3)
    queue = Queue(live_groups)
    live_groups.set(member("a", "g", 3, running=True, nodeName="n"))
    live_groups.set(member("again", "g", 3))
    queue.take_events()
    assert queue.names() == {"default/again": ["default/again"]}


def test_a_group_name_can_be_reused_when_all_its_pods_are_gone() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    first = queue.waiting["default/g"]
    for name in ("a", "b"):
        queue.live_groups.remove(f"uid-{name}")
    for name in ("c", "d"):
        queue.live_groups.set(member(name, "g", second=50))
    queue.take_events()
    second = queue.waiting["default/g"]
    assert [t.name for t in second.tasks] == ["default/c", "default/d"]
    assert second.ready_seconds > first.ready_seconds + 40


def test_members_may_differ_in_size_and_constraints() -> None:
    # The prototype did not allow heterogeneous groups.
    queue = queue_with(
        member("leader", "g", requests={"cpu": "4"}),
        member("worker", "g", requests={"cpu": "1"}, nodeSelector={"disk": "fast"}),
    )
    (group,) = queue.waiting.values()
    assert len(group.shapes) == 2


def test_the_run_time_of_a_group_comes_from_its_pods() -> None:
    # The prototype gave every job a duration of 3,600 s.
    queue = queue_with(
        member("a", "g", activeDeadlineSeconds=60, terminationGracePeriodSeconds=0),
        member("b", "g", activeDeadlineSeconds=7200, terminationGracePeriodSeconds=0),
    )
    assert queue.waiting["default/g"].run_seconds == 7200.0


def test_a_pod_and_a_group_of_the_same_name_get_different_names() -> None:
    queue = queue_with(member("g"), member("a", "g"), member("b", "g"))
    assert sorted(queue.waiting) == ["default/g", "default/g (group)"]
    queue = queue_with(member("g", "g", 1, second=2), member("a", "g", 1, second=1))
    assert queue.names() == {"default/g (group)": ["default/a"], "default/g": ["default/g"]}


# --- Refusals


def test_a_refused_pod_does_not_affect_other_pods() -> None:
    # In the prototype the first cancelled group stopped all binding.
    queue = queue_with(
        member("bad", "g", "many"), member("solo"), member("c", "h"), member("d", "h")
    )
    assert sorted(queue.waiting) == ["default/h", "default/solo"]
    assert queue.live_groups.refused == {"uid-bad"}


def test_a_refused_pod_is_accepted_when_its_label_is_corrected() -> None:
    queue = queue_with(member("a", "g"), member("b", "g", "two"))
    assert queue.live_groups.refused == {"uid-b"}
    queue.live_groups.set(member("b", "g", 2))
    queue.take_events()
    assert list(queue.waiting) == ["default/g"]
    assert not queue.live_groups.refused
    assert not queue.live_groups.held_back


def test_pods_that_wait_for_members_or_gates_are_not_refused() -> None:
    queue = queue_with(member("a", "g"), member("gated", schedulingGates=[{"name": "x"}]))
    assert set(queue.live_groups.held_back) == {"uid-a", "uid-gated"}
    assert not queue.live_groups.refused


def test_a_full_queue_takes_the_next_group_in_order_of_readiness() -> None:
    queue = queue_with(*(member(f"p{n}", queue="narrow") for n in range(5)), rules=RULES)
    assert sorted(queue.waiting) == ["default/p0", "default/p1"]
    assert queue.live_groups.refused == {"uid-p2", "uid-p3", "uid-p4"}
    assert queue.live_groups.held_back["uid-p2"][1] == "queue narrow is full: 2 groups wait in it"
    # The groups that were turned away come before a pod that has just arrived.
    queue.live_groups.set(member("p0", queue="narrow", running=True))
    queue.live_groups.set(member("late", queue="narrow"))
    queue.take_events()
    assert sorted(queue.waiting) == ["default/p1", "default/p2"]
    queue.live_groups.remove("uid-p3")
    queue.live_groups.remove("uid-p1")
    queue.take_events()
    assert sorted(queue.waiting) == ["default/p2", "default/p4"]


def test_unsatisfiable_groups_do_not_count_against_the_limit_of_a_queue() -> None:
    queue = queue_with(*(member(f"p{n}", queue="narrow") for n in range(5)), rules=RULES)
    live_groups = queue.live_groups
    assert live_groups.set_unsatisfiable({"default/p0", "default/gone"})
    queue.take_events()
    assert sorted(queue.waiting) == ["default/p0", "default/p1", "default/p2"]
    # No more groups are accepted until the set of unsatisfiable groups grows.
    assert not live_groups.set_unsatisfiable({"default/p0"})
    assert queue.take_events() == []
    # p0 can start again: it stays in the queue, and so do the others.
    assert not live_groups.set_unsatisfiable(set())
    queue.take_events()
    assert sorted(queue.waiting) == ["default/p0", "default/p1", "default/p2"]
    for name in ("p1", "p2"):
        live_groups.set(member(name, queue="narrow", running=True))
    queue.take_events()
    assert sorted(queue.waiting) == ["default/p0", "default/p3"]


def test_the_rest_of_a_running_group_is_accepted_by_a_full_queue() -> None:
    queue = queue_with(
        member("a", "g", queue="narrow", running=True),
        member("b", "h", 1, queue="narrow"),
        member("c", "i", 1, queue="narrow"),
        rules=RULES,
    )
    assert sorted(queue.waiting) == ["default/h", "default/i"]
    queue.live_groups.set(member("d", "g", queue="narrow"))
    queue.take_events()
    assert sorted(queue.waiting) == ["default/g", "default/h", "default/i"]
