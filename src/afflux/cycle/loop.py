"""One cycle: what happened is observed, who waits is placed, what was decided is handed on.

Read this first. The doors (Kubernetes, simulation, files) differ only in where events come from
and where placements go; everything between is the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from afflux.cluster.state import State
from afflux.cycle.events import (
    Event,
    GroupReady,
    GroupWithdrawn,
    MachineGone,
    MachineSet,
    TaskEnded,
    TaskRuns,
)
from afflux.cycle.ports import Scheduler
from afflux.cycle.promises import Broken, Cause, Promises
from afflux.model.placement import Placement
from afflux.model.promise import Promise
from afflux.model.task import Shape
from afflux.plan.check import check_complete, check_plan
from afflux.plan.explain import why_waiting
from afflux.plan.rounds import Round
from afflux.policies.policy import Policy
from afflux.queue.waiting import Queue


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cycle decided; the round is None if there was nothing to decide about.

    `promises` are all that hold after it, `broken` those that it could not keep, `unsatisfiable`
    the groups that can never start, with the reason.
    """

    placements: tuple[Placement, ...] = ()
    round: Round | None = None
    promises: tuple[Promise, ...] = ()
    broken: tuple[Broken, ...] = ()
    unsatisfiable: Mapping[str, str] = field(default_factory=dict[str, str])


class Cycle:
    """A cluster, a queue and a scheduler.

    Placements are assumed at once: nobody else is given the same place. The door carries them out
    and reports, as events, what became of them: a placement that failed is a task that ended, and
    its group is ready again.
    """

    def __init__(self, state: State, scheduler: Scheduler) -> None:
        self.state = state
        self.queue = Queue()
        self._scheduler = scheduler
        self._promises = Promises()
        self._news = False

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """What may refuse a machine to a class, in the order in which it is asked."""
        return self._scheduler.policies_of(shape)

    def restore(self, promises: Iterable[Promise]) -> None:
        """What was promised before a restart holds on."""
        self._promises.restore(promises)

    def run(self, events: Iterable[Event], now_seconds: float = 0.0) -> Outcome:
        """Events in, placements out."""
        # 1. observe, 2. gather
        for event in events:
            self._observe(event, now_seconds)
        if not self._news:
            return Outcome(promises=self._promises.current())
        # 3. admit, 4. price, 5. connect, 6. solve, 7. plan
        queue = self.queue.considered()
        standing = self._promises.standing(now_seconds)
        decided = self._scheduler.decide(self.state, queue, now_seconds, standing)
        check_plan(self.state, decided.placed, decided.placements, self.policies_of)
        check_complete(decided.placed, decided.placements)
        # 8. commit
        self._news = False
        ends = {
            task.id: now_seconds + group.run_seconds
            for group in decided.placed
            if group.run_seconds is not None
            for task in group.tasks
        }
        for placement in decided.placements:
            until = ends.get(placement.task.id)
            self.state.place(placement.task, placement.machine, placement.devices, until)
        broken = self._promises.started((group.name for group in decided.placed), now_seconds)
        self.queue.discard_all(group.name for group in decided.placed)
        self._promises.replace(decided.promises, self.queue.priority_of)
        return Outcome(
            decided.placements, decided, decided.promises, tuple(broken), decided.unsatisfiable
        )

    def explain(self) -> dict[str, str]:
        """9. For every waiting task, by id, one sentence that says why."""
        return why_waiting(self.state, self.policies_of, self.queue)

    def _observe(self, event: Event, now_seconds: float) -> None:
        """Take notice. News is what may help somebody who waits: a group, room, one ahead gone."""
        match event:
            case MachineSet(machine):
                version = self.state.version
                self.state.set_machine(machine)
                if self.state.version > version:
                    self._news = True
                    self._promises.disturb(Cause.MACHINE)
            case MachineGone(name) if name in self.state.rows:
                self.state.remove_machine(name)
                self._promises.disturb(Cause.MACHINE)
            case TaskRuns(task, machine, until) if machine in self.state.rows:
                before = self.state.where(task.id)
                self.state.place(task, machine, until_seconds=until)
                self._news |= before not in (None, machine)
                if before != machine:
                    self._promises.disturb(Cause.FOREIGN)
            case TaskEnded(task_id):
                held = self.state.remove(task_id)
                self._news |= held is not None
                if held is not None and held.until_seconds != now_seconds:
                    self._promises.freed()
            case GroupReady(group):
                self._promises.joined(group, known=group.name in self.queue)
                self.queue.add(group)
                self._news = True
            case GroupWithdrawn(name):
                self._news |= name in self.queue
                self.queue.discard(name)
                self._promises.forget(name)
            case MachineGone() | TaskRuns():
                # Reports cross on the way; about an unknown machine there is nothing to do.
                pass
