"""LiveGroups: a group keeps its position in the queue; no other group inherits it."""

import msgspec
from live_groups_queue import Queue, member, queue_with

from afflux.kube import objects
from afflux.kube.group_claims import PodGroups
from afflux.kube.live.live_groups import LiveGroups
from afflux.kube.pods import created_seconds


def test_ready_groups_are_ordered_by_the_time_they_became_ready() -> None:
    # The prototype was last in, first out, and later random.
    queue = queue_with(*(member(f"p{n}-{i}", f"g{n}") for n in range(20) for i in range(2)))
    order = sorted(queue.waiting.values(), key=lambda group: group.ready_seconds)
    assert [group.name for group in order] == [f"default/g{n}" for n in range(20)]


def test_a_group_that_is_retried_often_keeps_its_position() -> None:
    # The prototype delayed a group by attempt^4 seconds at each retry.
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    before = queue.waiting["default/g"].ready_seconds
    for _ in range(10):
        for running in (True, False):
            for name in ("a", "b"):
                queue.live_groups.set(member(name, "g", running=running, second=1))
            queue.take_events()
        assert queue.waiting["default/g"].ready_seconds == before


def test_a_group_keeps_its_position_over_a_restart() -> None:
    live_groups = LiveGroups()
    live_groups.restore_positions(["uid-a", "uid-b"], 1234.5)
    queue = Queue(live_groups)
    for name in ("a", "b", "c"):
        live_groups.set(member(name, "g", 3))
    queue.take_events()
    assert queue.waiting["default/g"].ready_seconds == 1234.5


def test_a_late_member_gets_the_position_of_the_group_only_if_it_replaces_a_member() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    for name in "ab":
        queue.live_groups.set(member(name, "g", running=True, nodeName="n", second=1))
    queue.take_events()
    queue.live_groups.set(member("more", "g", second=30))
    queue.live_groups.set(member("other", second=20))
    queue.take_events()
    ready = {name: group.ready_seconds for name, group in queue.waiting.items()}
    # The group has enough members: the late one queues behind the pods that came before it.
    assert ready["default/more"] > ready["default/other"]
    queue.live_groups.remove("uid-a")
    queue.live_groups.set(member("again", "g", second=40))
    queue.live_groups.set(member("again-too", "g", second=41))
    queue.take_events()
    ready = {name: group.ready_seconds for name, group in queue.waiting.items()}
    # The group lacks one member: the oldest pod replaces it, the others keep their own positions.
    assert ready["default/more"] < ready["default/other"] < ready["default/again"]
    assert ready["default/again"] < ready["default/again-too"]


def positions_of_late_members(queue: Queue, *names: str) -> dict[str, float]:
    """The positions of pods that arrive in this order while the first of a group of two runs."""
    queue.live_groups.set(member("a", "g", running=True, nodeName="n", second=1))
    for name in names:
        queue.live_groups.set(member(name, "g", second={"older": 30, "again": 40}[name]))
        queue.take_events()
    return {name: queue.waiting[f"default/{name}"].ready_seconds for name in names}


def test_a_late_member_keeps_its_position_when_others_arrive_and_over_a_restart() -> None:
    queue = queue_with(member("a", "g", second=1), member("b", "g", second=1))
    position = queue.waiting["default/g"].ready_seconds
    for name in "ab":
        queue.live_groups.set(member(name, "g", running=True, nodeName="n", second=1))
    queue.live_groups.remove("uid-b")
    # The second one is older: now it is the pod that replaces the missing member.
    before = positions_of_late_members(queue, "again", "older")
    assert before == {"again": position, "older": position}
    # What the ledger restores.
    restarted = LiveGroups()
    restarted.restore_positions(["uid-a"], position)
    restarted.restore_bound_count("default/g", 2)
    for name in before:
        restarted.restore_positions([f"uid-{name}"], position, single=True)
    assert positions_of_late_members(Queue(restarted), "older", "again") == before


def test_a_pod_that_was_not_bound_with_its_group_gets_no_earlier_position_after_a_restart() -> None:
    restarted = LiveGroups()
    # The pod `again` waited together with the others, was not started, and then the others ran.
    restarted.restore_positions(["uid-a", "uid-b", "uid-again"], 100.0)
    restarted.restore_bound_count("default/g", 2)
    restarted.set(member("b", "g", running=True, nodeName="n", second=1))
    came = created_seconds(member("again", "g", second=40).pod)
    assert positions_of_late_members(Queue(restarted), "again") == {"again": came}


def test_later_pods_do_not_get_the_position_of_one_idle_member() -> None:
    queue = queue_with(member("idle", "g", 1, running=True, nodeName="n", second=1))
    queue.live_groups.set(member("solo", second=10))
    for number in range(3):
        queue.live_groups.set(member(f"p{number}", "g", 1, second=20 + number))
    queue.take_events()
    order = sorted(queue.waiting.values(), key=lambda group: group.ready_seconds)
    assert order[0].name == "default/solo"


def test_later_pods_do_not_get_the_position_of_one_idle_member_if_sizes_contradict() -> None:
    queue = queue_with(member("idle", "g", 1, running=True, nodeName="n", second=1))
    queue.live_groups.set(member("solo", second=10))
    queue.live_groups.set(member("dissenter", "g", 3, second=15))
    for number in range(3):
        queue.live_groups.set(member(f"p{number}", "g", 1, second=20 + number))
    queue.take_events()
    order = sorted(queue.waiting.values(), key=lambda group: group.ready_seconds)
    assert [group.name for group in order[:2]] == ["default/solo", "default/p0"]


def test_later_pods_of_a_basic_pod_group_do_not_get_the_position_of_the_first() -> None:
    basic = {"schedulingPolicy": {"basic": {}}}
    native = msgspec.convert({"metadata": {"name": "g"}, "spec": basic}, objects.NativePodGroup)
    named = {"schedulingGroup": {"podGroupName": "g"}}
    queue = Queue(LiveGroups())
    queue.live_groups.pod_groups = PodGroups({}, {"default/g": native})
    queue.live_groups.set(member("first", second=1, **named))
    queue.take_events()
    queue.live_groups.set(member("solo", second=10))
    queue.live_groups.set(member("later", second=20, **named))
    queue.take_events()
    order = sorted(queue.waiting.values(), key=lambda group: group.ready_seconds)
    assert [group.name for group in order] == ["default/first", "default/solo", "default/later"]
