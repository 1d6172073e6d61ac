"""Pods in few words, and a queue that hears of their groups."""

from typing import Any

import msgspec
from manifests import pod

from afflux.cycle.events import Event, GroupReady, GroupWithdrawn
from afflux.kube import objects
from afflux.kube.decoding import created_seconds, task
from afflux.kube.grouping import Member
from afflux.kube.live.gathering import Gathering
from afflux.model.group import Group
from afflux.queue.quorum import ONE_QUEUE
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
