"""Members of groups, and a queue that applies the events of `LiveGroups`."""

from typing import Any

import msgspec
from manifests import pod

from afflux.cycle.events import Event, GroupReady, GroupWithdrawn
from afflux.kube import objects
from afflux.kube.group_claims import Member
from afflux.kube.live.live_groups import LiveGroups
from afflux.kube.pods import created_seconds, task
from afflux.model.group import Group
from afflux.queue.quorum import ONE_QUEUE
from afflux.queue.rules import QueueRules

RULES = {
    "default": QueueRules(max_group_size=3),
    "narrow": QueueRules("narrow", max_groups=2, default_run_seconds=60.0),
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
    """The groups that wait, according to the events that the cycle receives."""

    def __init__(self, live_groups: LiveGroups) -> None:
        self.live_groups = live_groups
        self.waiting: dict[str, Group] = {}

    def take_events(self) -> list[Event]:
        events = self.live_groups.take_events()
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


def queue_with(*members: Member, rules: dict[str, QueueRules] | None = None) -> Queue:
    queue = Queue(LiveGroups(rules or ONE_QUEUE))
    for each in members:
        queue.live_groups.set(each)
    queue.take_events()
    return queue
