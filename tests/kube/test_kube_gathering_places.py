"""Gathering: every group keeps its place in the queue, and nobody gets another's."""

import msgspec
from gathered_queue import Queue, gathered, member

from afflux.kube import objects
from afflux.kube.decoding import created_seconds
from afflux.kube.grouping import PodGroups
from afflux.kube.live.gathering import Gathering


def test_ready_groups_come_in_the_order_in_which_they_became_ready() -> None:
    # What the prototype got wrong: last in, first out; then at random.
    queue = gathered(*(member(f"p{n}-{i}", f"g{n}") for n in range(20) for i in range(2)))
    order = sorted(queue.waiting.values(), key=lambda group: group.ready_seconds)
    assert [group.name for group in order] == [f"default/g{n}" for n in range(20)]


def test_a_group_that_is_tried_again_and_again_keeps_its_place() -> None:
    # What the prototype got wrong: each retry put a group back by attempt^4 seconds.
    queue = gathered(member("a", "g", second=1), member("b", "g", second=1))
    before = queue.waiting["default/g"].ready_seconds
    for _ in range(10):
        for running in (True, False):
            for name in ("a", "b"):
                queue.gathering.set(member(name, "g", running=running, second=1))
            queue.drain()
        assert queue.waiting["default/g"].ready_seconds == before


def test_its_place_before_a_restart_is_its_place_after_it() -> None:
    gathering = Gathering()
    gathering.restore(["uid-a", "uid-b"], 1234.5)
    queue = Queue(gathering)
    for name in ("a", "b", "c"):
        gathering.set(member(name, "g", 3))
    queue.drain()
    assert queue.waiting["default/g"].ready_seconds == 1234.5


def test_a_late_member_has_the_place_of_the_group_only_if_the_group_lacks_one() -> None:
    queue = gathered(member("a", "g", second=1), member("b", "g", second=1))
    for name in "ab":
        queue.gathering.set(member(name, "g", running=True, nodeName="n", second=1))
    queue.drain()
    queue.gathering.set(member("more", "g", second=30))
    queue.gathering.set(member("other", second=20))
    queue.drain()
    ready = {name: group.ready_seconds for name, group in queue.waiting.items()}
    # More than it needs: it goes behind those who came before it.
    assert ready["default/more"] > ready["default/other"]
    queue.gathering.remove("uid-a")
    queue.gathering.set(member("again", "g", second=40))
    queue.gathering.set(member("again-too", "g", second=41))
    queue.drain()
    ready = {name: group.ready_seconds for name, group in queue.waiting.items()}
    # Now it lacks one, and the oldest takes its place; the others wait their turn.
    assert ready["default/more"] < ready["default/other"] < ready["default/again"]
    assert ready["default/again"] < ready["default/again-too"]


def with_late_members(queue: Queue, *names: str) -> dict[str, float]:
    """Where these wait, in this order of arrival, while the first of a group of two runs."""
    queue.gathering.set(member("a", "g", running=True, nodeName="n", second=1))
    for name in names:
        queue.gathering.set(member(name, "g", second={"older": 30, "again": 40}[name]))
        queue.drain()
    return {name: queue.waiting[f"default/{name}"].ready_seconds for name in names}


def test_a_late_member_keeps_its_place_whoever_else_comes_and_through_a_restart() -> None:
    queue = gathered(member("a", "g", second=1), member("b", "g", second=1))
    place = queue.waiting["default/g"].ready_seconds
    for name in "ab":
        queue.gathering.set(member(name, "g", running=True, nodeName="n", second=1))
    queue.gathering.remove("uid-b")
    # The second one is older, and could not start before: now it is the one that the group lacks.
    before = with_late_members(queue, "again", "older")
    assert before == {"again": place, "older": place}
    # What a ledger has of it.
    restarted = Gathering()
    restarted.restore(["uid-a"], place)
    restarted.restore_begun("default/g", 2)
    for name in before:
        restarted.restore([f"uid-{name}"], place, alone=True)
    assert with_late_members(Queue(restarted), "older", "again") == before


def test_who_was_only_named_in_a_group_does_not_get_its_place_by_a_restart() -> None:
    restarted = Gathering()
    # It came while the others waited, and could not start; then they ran.
    restarted.restore(["uid-a", "uid-b", "uid-again"], 100.0)
    restarted.restore_begun("default/g", 2)
    restarted.set(member("b", "g", running=True, nodeName="n", second=1))
    came = created_seconds(member("again", "g", second=40).pod)
    assert with_late_members(Queue(restarted), "again") == {"again": came}


def test_one_idle_pod_keeps_no_place_for_others() -> None:
    queue = gathered(member("idle", "g", 1, running=True, nodeName="n", second=1))
    queue.gathering.set(member("solo", second=10))
    for number in range(3):
        queue.gathering.set(member(f"p{number}", "g", 1, second=20 + number))
    queue.drain()
    order = sorted(queue.waiting.values(), key=lambda group: group.ready_seconds)
    assert order[0].name == "default/solo"


def test_nor_if_somebody_contradicts() -> None:
    queue = gathered(member("idle", "g", 1, running=True, nodeName="n", second=1))
    queue.gathering.set(member("solo", second=10))
    queue.gathering.set(member("dissenter", "g", 3, second=15))
    for number in range(3):
        queue.gathering.set(member(f"p{number}", "g", 1, second=20 + number))
    queue.drain()
    order = sorted(queue.waiting.values(), key=lambda group: group.ready_seconds)
    assert [group.name for group in order[:2]] == ["default/solo", "default/p0"]


def test_nor_if_the_group_is_one_in_name_only() -> None:
    basic = {"schedulingPolicy": {"basic": {}}}
    native = msgspec.convert({"metadata": {"name": "g"}, "spec": basic}, objects.NativeGroup)
    named = {"schedulingGroup": {"podGroupName": "g"}}
    queue = Queue(Gathering())
    queue.gathering.pod_groups = PodGroups({}, {"default/g": native})
    queue.gathering.set(member("first", second=1, **named))
    queue.drain()
    queue.gathering.set(member("solo", second=10))
    queue.gathering.set(member("later", second=20, **named))
    queue.drain()
    order = sorted(queue.waiting.values(), key=lambda group: group.ready_seconds)
    assert [group.name for group in order] == ["default/first", "default/solo", "default/later"]
