"""Gathering: pods come, change and go in any order; groups are whole, and in their place."""

from collections import Counter
from typing import Any

from gathered_queue import RULES, Queue, member
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from afflux.kube.grouping import Member, PodGroups, claimed_group, groups
from afflux.kube.live.gathering import Gathering
from afflux.queue.quorum import Gathered


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
