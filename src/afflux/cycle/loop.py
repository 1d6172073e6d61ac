"""One cycle: what happened is observed, who waits is placed, what was decided is carried out.

Read this first. The doors (Kubernetes, simulation, files) differ only in where events come from
and where placements go; everything between is the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
from afflux.cycle.ports import Binder, Scheduler
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.task import Shape
from afflux.plan.check import check_complete, check_plan
from afflux.plan.explain import why_waiting
from afflux.plan.rounds import Round
from afflux.policies.policy import Policy
from afflux.queue.waiting import Queue


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cycle did: what was placed, what failed to bind, and the plan's own figures."""

    placements: tuple[Placement, ...]
    failed: tuple[Placement, ...]
    round: Round


class Cycle:
    """A cluster, a queue, a scheduler, and the hands that carry out its plans."""

    def __init__(self, state: State, scheduler: Scheduler, binder: Binder) -> None:
        self.state = state
        self.queue = Queue()
        self._scheduler = scheduler
        self._binder = binder

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """What may refuse a machine to a class, in the order in which it is asked."""
        return self._scheduler.policies_of(shape)

    def run(self, events: Iterable[Event]) -> Outcome:
        """Events in, placements out."""
        # 1. observe, 2. gather
        for event in events:
            self._observe(event)
        # 3. admit, 4. price, 5. connect, 6. solve, 7. plan
        decided = self._scheduler.decide(self.state, self.queue.considered())
        check_plan(self.state, decided.placed, decided.placements, self.policies_of)
        check_complete(decided.placed, decided.placements)
        # 8. commit: assumed first, so that nobody is given the same place; what fails waits again
        for placement in decided.placements:
            self.state.place(placement.task, placement.machine, placement.devices)
        failed = tuple(self._binder.bind(decided.placements)) if decided.placements else ()
        self._forget(failed, decided.placed)
        return Outcome(decided.placements, failed, decided)

    def explain(self) -> dict[str, str]:
        """9. For every waiting task, by id, one sentence that says why."""
        return why_waiting(self.state, self.policies_of, self.queue)

    def _observe(self, event: Event) -> None:
        match event:
            case MachineSet(machine):
                self.state.set_machine(machine)
            case MachineGone(name) if name in self.state.rows:
                self.state.remove_machine(name)
            case TaskRuns(task, machine) if machine in self.state.rows:
                self.state.place(task, machine)
            case TaskEnded(task_id):
                self.state.remove(task_id)
            case GroupReady(group):
                self.queue.add(group)
            case GroupWithdrawn(name):
                self.queue.discard(name)
            case MachineGone() | TaskRuns():
                # Reports cross on the way; about an unknown machine there is nothing to do.
                pass

    def _forget(self, failed: Iterable[Placement], placed: Iterable[Group]) -> None:
        """Groups leave the queue; members that were not bound keep their group's place there."""
        lost = {placement.task.id for placement in failed}
        bound: list[str] = []
        for group in placed:
            again = tuple(task for task in group.tasks if task.id in lost)
            if again:
                self.queue.add(replace(group, tasks=again))
            else:
                bound.append(group.name)
        self.queue.discard_all(bound)
        for task_id in lost:
            self.state.remove(task_id)
