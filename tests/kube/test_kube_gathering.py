"""Gathering: pods come, change and go in any order; groups are whole, and in their place."""

from collections import Counter
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from manifests import pod

from afflux.cycle.events import Event, GroupReady, GroupWithdrawn
from afflux.kube import objects
from afflux.kube.decoding import created_seconds, task
from afflux.kube.grouping import Member, PodGroups, claimed_group, groups
from afflux.kube.live.gathering import Gathering
from afflux.model.group import Group
from afflux.queue.quorum import ONE_QUEUE, Gathered
from afflux.queue.rules import QueueRules

RULES = {
    "default": QueueRules(largest_group=3),
    "narrow": QueueRules("narrow", most_groups=2, default_run_seconds=60.0),
}


def member(
    name: str,
    group: str | None = None,
    size: object = 2,
    *,
    uid: str = "",
    running: bool = False,
    queue: str = "default",
    second: int = 0,
    **spec: Any,
) -> Member:
    labels = {} if queue == "default" else {"afflux.dev/queue": queue}
    if group is not None:
        labels |= {"afflux.dev/group-name": group, "afflux.dev/group-size": str(size)}
    manifest = pod(name, labels=labels, metadata={"uid": uid or f"uid-{name}"}, **spec)
    manifest["metadata"]["labels"] = labels
    manifest["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02d}Z"
    found = msgspec.convert(manifest, objects.Pod)
    return Member(task(found), found, running, created_seconds=created_seconds(found))


class Queue:
    """What the cycle was told."""

    def __init__(self, gathering: Gathering) -> None:
        self.gathering = gathering
        self.waiting: dict[str, Group] = {}

    def drain(self) -> list[Event]:
        events = self.gathering.drain()
        for event in events:
            match event:
                case GroupReady(group):
                    self.waiting[group.name] = group
                case GroupWithdrawn(name):
                    del self.waiting[name]
                case _:
                    raise AssertionError(event)
        return events

    def names(self) -> dict[str, list[str]]:
        return {n: [t.name for t in g.tasks] for n, g in self.waiting.items()}


def gathered(*members: Member, rules: dict[str, QueueRules] | None = None) -> Queue:
    queue = Queue(Gathering(rules or ONE_QUEUE))
    for each in members:
        queue.gathering.set(each)
    queue.drain()
    return queue


# --- Names


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


# --- Any history


class History(RuleBasedStateMachine):
    """Pods of a few groups, and what a queue must look like after any number of changes."""

    pods = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue(Gathering(RULES))
        self.there: dict[str, Member] = {}
        self.ready: dict[str, float] = {}
        self.most_bound: Counter[str] = Counter()
        self.made = 0

    def put(self, found: Member) -> None:
        before = self.there.get(found.task.id)
        self.there[found.task.id] = found
        if before is not None and key_of(before) != key_of(found):
            self.forget(key_of(before))
        bound = sum(
            key_of(each) == key_of(found) and bool(each.pod.spec.node_name)
            for each in self.there.values()
        )
        self.most_bound[key_of(found)] = max(bound, self.most_bound[key_of(found)])
        self.queue.gathering.set(found)

    def forget(self, key: str) -> None:
        if key not in map(key_of, self.there.values()):
            self.ready.pop(key, None)
            del self.most_bound[key]

    @rule(
        target=pods,
        group=st.sampled_from([None, "g", "g", "h", "p1"]),
        size=st.sampled_from([1, 2, 2, 3, 3, 4, "x"]),
        queue=st.sampled_from(["default", "default", "narrow", "unknown"]),
        is_=st.sampled_from(["pending", "pending", "gated", "assumed", "bound"]),
    )
    def comes(self, group: str | None, size: object, queue: str, is_: str) -> str:
        self.made += 1
        more = {"gated": {"schedulingGates": [{"name": "x"}]}, "bound": {"nodeName": "n"}}
        running = is_ in {"assumed", "bound"}
        name = f"p{self.made}"
        found = member(name, group, size, running=running, queue=queue, **more.get(is_, {}))
        self.put(found)
        return name

    @rule(name=pods, size=st.sampled_from([1, 2, 3]), group=st.sampled_from([None, "g", "h"]))
    def changes(self, name: str, size: int, group: str | None) -> None:
        before = self.there[f"uid-{name}"]
        queue = (before.pod.metadata.labels or {}).get("afflux.dev/queue", "default")
        node = {"nodeName": before.pod.spec.node_name} if before.pod.spec.node_name else {}
        self.put(member(name, group, size, running=before.running, queue=queue, **node))

    @rule(name=pods)
    def runs_or_does_not(self, name: str) -> None:
        before = self.there[f"uid-{name}"]
        if before.pod.spec.node_name:
            return
        self.put(Member(before.task, before.pod, not before.running, 0, before.created_seconds))

    @rule(name=pods)
    def is_seen_again(self, name: str) -> None:
        self.put(self.there[f"uid-{name}"])

    @rule(name=consumes(pods))
    def goes(self, name: str) -> None:
        found = self.there.pop(f"uid-{name}")
        self.queue.gathering.remove(found.task.id)
        self.forget(key_of(found))

    @rule(target=pods)
    def nobody(self) -> Any:
        return multiple()

    @rule()
    def is_looked_at(self) -> None:
        self.queue.drain()
        self.check_members()
        self.check_places()
        assert self.queue.drain() == []

    def check_members(self) -> None:
        """As if all had come at once; but for those whom a full queue turned away."""
        gathering = self.queue.gathering
        fresh = Gathered()
        for key in dict.fromkeys(map(key_of, self.there.values())):
            members = [each for each in self.there.values() if key_of(each) == key]
            fresh.add(groups(members, PodGroups(), RULES, most_ran=self.most_bound[key]))
        told = {frozenset(t.id for t in g.tasks) for g in self.queue.waiting.values()}
        away = {uid for uid, (_, why) in gathering.held_back.items() if "is full" in why}
        expected = {frozenset(t.id for t in g.tasks) for g in fresh.ready}
        assert told == {uids for uids in expected if not uids & away}
        counted = Counter(uid for uids in told for uid in uids)
        assert set(counted.values()) <= {1}
        assert not counted.keys() & gathering.held_back.keys()
        pending = {uid for uid, each in self.there.items() if not each.running}
        assert counted.keys() | gathering.held_back.keys() == pending
        assert gathering.refused == {task.id for task, _ in fresh.refused} | away
        if away:
            narrow = {key_of(self.there[min(uids)]) for uids in told} & {
                key_of(each)
                for each in self.there.values()
                if (each.pod.metadata.labels or {}).get("afflux.dev/queue") == "narrow"
            }
            assert len(narrow) >= 2

    def check_places(self) -> None:
        """Once it is ready a group keeps its place for as long as it is there."""
        for group in self.queue.waiting.values():
            key = key_of(self.there[group.tasks[0].id])
            assert self.ready.setdefault(key, group.ready_seconds) == group.ready_seconds

    @invariant()
    def names_are_known(self) -> None:
        assert all(
            self.queue.gathering.waiting(name) == group
            for name, group in self.queue.waiting.items()
        )


def key_of(each: Member) -> str:
    return claimed_group(each.pod) or each.task.id


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
