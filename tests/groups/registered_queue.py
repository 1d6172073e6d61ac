"""Members of groups, and a queue that applies what the register reports as waiting."""

from dataclasses import replace

from afflux.groups.member import Claim, GroupTerms, Hold, Member
from afflux.groups.register import GroupRegister
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.queue.rules import ONE_QUEUE, QueueRules
from oracles.held_tasks import held_tasks

RULES = {
    "default": QueueRules(max_group_size=3),
    "narrow": QueueRules("narrow", max_groups=2, default_run_seconds=60.0),
}
MACHINE = "n"


def member(
    name: str,
    group: str = "",
    size: int = 2,
    *,
    queue: str = "default",
    second: int = 0,
    bound: bool = False,
    problem: Hold | None = None,
    blocked: str | None = None,
    cpu: int = 1,
) -> Member:
    task = Task(f"uid-{name}", f"default/{name}", Shape(resources({"cpu": cpu})), blocked)
    terms = None if problem is not None else GroupTerms(size if group else 1, queue)
    return Member(
        task,
        "default",
        name,
        Claim(group, terms, problem),
        machine=MACHINE if bound else "",
        created_seconds=float(second),
    )


class Queue:
    """What waits, by its shown name, according to the changes that the register reports."""

    def __init__(self, register: GroupRegister) -> None:
        self.register = register
        self.by_key: dict[str, WaitingGroup] = {}

    @property
    def waiting(self) -> dict[str, WaitingGroup]:
        return {group.name: group for group in self.by_key.values()}

    def put(self, *members: Member) -> None:
        for each in members:
            self.register.set(each)

    def send(self, *names: str) -> None:
        """The cycle has placed these tasks: they are about to be bound."""
        for name in names:
            self.register.sent(f"uid-{name}", MACHINE)

    def bind(self, *names: str) -> None:
        for name in names:
            self.register.bound(f"uid-{name}", MACHINE)

    def reject(self, *names: str) -> None:
        for name in names:
            self.register.not_bound(f"uid-{name}")

    def end(self, *names: str) -> None:
        for name in names:
            self.register.ended(f"uid-{name}", "deleted", 0.0)

    def take(self) -> int:
        """Apply the changes; returns how many there were."""
        withdrawn, ready = self.register.take_starts()
        for key in withdrawn:
            del self.by_key[key]
        self.by_key.update((group.key, group) for group in ready)
        return len(withdrawn) + len(ready)

    def names(self) -> dict[str, list[str]]:
        """The members of each group that waits, by the names that people see."""
        self.take()
        return {n: [t.name for t in g.tasks] for n, g in sorted(self.waiting.items())}

    def order(self) -> list[str]:
        self.take()
        groups = sorted(self.by_key.values(), key=lambda group: group.ready_seconds)
        return [group.name.removeprefix("default/") for group in groups]

    def place(self, name: str) -> float:
        self.take()
        return self.waiting[f"default/{name}"].ready_seconds

    def hold(self, name: str) -> Hold | None:
        self.take()
        held = {task.id: hold for task, hold in held_tasks(self.register)}
        return held.get(f"uid-{name}")

    def refused(self, *names: str) -> list[str]:
        holds = {name: self.hold(name) for name in names}
        return [name for name, hold in holds.items() if hold and hold.kind == "refused"]


def queue_with(*members: Member, rules: dict[str, QueueRules] | None = None) -> Queue:
    queue = Queue(GroupRegister(rules or ONE_QUEUE))
    queue.put(*members)
    queue.take()
    return queue


def unblocked(found: Member) -> Member:
    return replace(found, task=replace(found.task, blocked=None))
