"""LiveGroups under random changes of pods: groups stay complete and keep their positions."""

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from live_groups_queue import RULES, Queue, member

from afflux.kube.group_claims import Member, PodGroups, claimed_group, groups
from afflux.kube.live.live_groups import LiveGroups
from afflux.queue.quorum import GroupingResult


class LiveGroupsMachine(RuleBasedStateMachine):
    """Random changes of the pods of a few groups; the queue must match the pods that exist."""

    pods = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue(LiveGroups(RULES))
        self.members: dict[str, Member] = {}
        self.ready: dict[str, float] = {}
        self.max_bound: Counter[str] = Counter()
        self.created_count = 0

    def put(self, found: Member) -> None:
        before = self.members.get(found.task.id)
        self.members[found.task.id] = found
        if before is not None and key_of(before) != key_of(found):
            self.clear_group_if_empty(key_of(before))
        bound = sum(
            key_of(each) == key_of(found) and bool(each.pod.spec.node_name)
            for each in self.members.values()
        )
        self.max_bound[key_of(found)] = max(bound, self.max_bound[key_of(found)])
        self.queue.live_groups.set(found)

    def clear_group_if_empty(self, key: str) -> None:
        if key not in map(key_of, self.members.values()):
            self.ready.pop(key, None)
            del self.max_bound[key]

    @rule(
        target=pods,
        group=st.sampled_from([None, "g", "g", "h", "p1"]),
        size=st.sampled_from([1, 2, 2, 3, 3, 4, "x"]),
        queue=st.sampled_from(["default", "default", "narrow", "unknown"]),
        state=st.sampled_from(["pending", "pending", "gated", "assumed", "bound"]),
    )
    def add_pod(self, group: str | None, size: object, queue: str, state: str) -> str:
        self.created_count += 1
        more = {"gated": {"schedulingGates": [{"name": "x"}]}, "bound": {"nodeName": "n"}}
        running = state in {"assumed", "bound"}
        name = f"p{self.created_count}"
        found = member(name, group, size, running=running, queue=queue, **more.get(state, {}))
        self.put(found)
        return name

    @rule(name=pods, size=st.sampled_from([1, 2, 3]), group=st.sampled_from([None, "g", "h"]))
    def change_pod(self, name: str, size: int, group: str | None) -> None:
        before = self.members[f"uid-{name}"]
        queue = (before.pod.metadata.labels or {}).get("afflux.dev/queue", "default")
        node = {"nodeName": before.pod.spec.node_name} if before.pod.spec.node_name else {}
        self.put(member(name, group, size, running=before.running, queue=queue, **node))

    @rule(name=pods)
    def toggle_running(self, name: str) -> None:
        before = self.members[f"uid-{name}"]
        if before.pod.spec.node_name:
            return
        self.put(Member(before.task, before.pod, not before.running, 0, before.created_seconds))

    @rule(name=pods)
    def set_unchanged_pod(self, name: str) -> None:
        self.put(self.members[f"uid-{name}"])

    @rule(name=consumes(pods))
    def delete_pod(self, name: str) -> None:
        found = self.members.pop(f"uid-{name}")
        self.queue.live_groups.remove(found.task.id)
        self.clear_group_if_empty(key_of(found))

    @rule(target=pods)
    def no_pods(self) -> Any:
        return multiple()

    @rule()
    def take_events_and_check(self) -> None:
        self.queue.take_events()
        self.check_members()
        self.check_positions()
        assert self.queue.take_events() == []

    def check_members(self) -> None:
        """The queue has the groups of a fresh grouping of all pods, except for those that a full
        queue turned away."""
        live_groups = self.queue.live_groups
        fresh = GroupingResult()
        for key in dict.fromkeys(map(key_of, self.members.values())):
            members = [each for each in self.members.values() if key_of(each) == key]
            fresh.add(groups(members, PodGroups({}, {}), RULES, peak_running=self.max_bound[key]))
        offered = {frozenset(t.id for t in g.tasks) for g in self.queue.waiting.values()}
        turned_away = {uid for uid, (_, why) in live_groups.held_back.items() if "is full" in why}
        expected = {frozenset(t.id for t in g.tasks) for g in fresh.ready}
        assert offered == {uids for uids in expected if not uids & turned_away}
        counted = Counter(uid for uids in offered for uid in uids)
        assert set(counted.values()) <= {1}
        assert not counted.keys() & live_groups.held_back.keys()
        pending = {uid for uid, each in self.members.items() if not each.running}
        assert counted.keys() | live_groups.held_back.keys() == pending
        assert live_groups.refused == {task.id for task, _ in fresh.refused} | turned_away
        if turned_away:
            narrow = {key_of(self.members[min(uids)]) for uids in offered} & {
                key_of(each)
                for each in self.members.values()
                if (each.pod.metadata.labels or {}).get("afflux.dev/queue") == "narrow"
            }
            assert len(narrow) >= 2

    def check_positions(self) -> None:
        """A group that became ready keeps its position as long as one of its pods exists."""
        for group in self.queue.waiting.values():
            key = key_of(self.members[group.tasks[0].id])
            assert self.ready.setdefault(key, group.ready_seconds) == group.ready_seconds

    @invariant()
    def waiting_groups_are_found_by_name(self) -> None:
        assert all(
            self.queue.live_groups.waiting_group(name) == group
            for name, group in self.queue.waiting.items()
        )


def key_of(each: Member) -> str:
    return claimed_group(each.pod) or each.task.id


TestLiveGroupsMachine = LiveGroupsMachine.TestCase
TestLiveGroupsMachine.settings = settings(max_examples=150, stateful_step_count=40)
