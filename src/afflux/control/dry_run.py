"""Dry run: what the scheduler would do with a cluster that stays as it is.

Drives an adapter through the passes of the control loop (adapter.py), at one moment, until nothing
happens any more. A placement that the adapter takes back is decided again like in a live cluster.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from afflux.control.adapter import Adapter, HeldTask, Reports
from afflux.cycle.events import GroupReady, TaskEnded
from afflux.cycle.loop import Cycle
from afflux.model.eviction import Eviction
from afflux.model.placement import Placement
from afflux.model.reservation import Reservation
from afflux.model.task import Task
from afflux.plan.explain import Verdicts

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A task that waits in the end, why, and the reservation of its group if there is one."""

    task: Task
    reason: str
    reservation: Reservation | None = None


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """What starts, what waits, which running tasks are evicted, and the places that are held for
    waiting tasks until these have ended."""

    placements: tuple[Placement, ...]
    waiting: tuple[WaitingTask, ...]
    evictions: tuple[Eviction, ...] = ()
    nominations: tuple[Placement, ...] = ()


class DryRun:
    """A dry run of this cycle, which knows nothing of the cluster yet, at `now_seconds`.

    When it is made the cycle learns everything about the cluster except which groups wait, so that
    nothing is placed until `run`.
    """

    def __init__(self, adapter: Adapter, cycle: Cycle, now_seconds: float) -> None:
        self._adapter = adapter
        self._cycle = cycle
        self._now_seconds = now_seconds
        self._held: dict[str, HeldTask] = {}
        self._placed: dict[str, Placement] = {}
        self._evictions: list[Eviction] = []
        first = self._drain()
        self._ready = [each for each in first.events if isinstance(each, GroupReady)]
        others = [each for each in first.events if not isinstance(each, GroupReady)]
        cycle.run(others, now_seconds, first.unconfirmed)

    def verdicts(self) -> dict[str, Verdicts]:
        """Before `run`: for each task that waits, by name, the reasons against every machine."""
        tasks = [task for event in self._ready for task in event.group.tasks]
        return self._cycle.verdicts([*tasks, *(held.task for held in self._held.values())])

    def run(self) -> DryRunResult:
        """Place what can be placed, as often as something changes."""
        reports = Reports(self._ready)
        while True:
            outcome = self._cycle.run(reports.events, self._now_seconds, reports.unconfirmed)
            self._adapter.assume(outcome)
            placements = _completed(self._adapter.reserve(outcome))
            self._adapter.place(placements, outcome.rests_on)
            self._placed.update((each.task.id, each) for each in placements)
            if outcome.decision is not None:
                self._adapter.register.set_reasons({}, outcome.unsatisfiable)
            reports = self._drain()
            self._evictions += outcome.evictions
            if not reports.events and not outcome.placements:
                return DryRunResult(
                    tuple(self._placed.values()),
                    self._waiting(outcome.reservations),
                    tuple(self._evictions),
                    outcome.nominations,
                )

    def _drain(self) -> Reports:
        reports = self._adapter.drain(self._now_seconds)
        self._held.update((held.task.id, held) for held in reports.held)
        for event in reports.events:
            if isinstance(event, TaskEnded):
                self._placed.pop(event.task_id, None)
        return reports

    def _waiting(self, reservations: Sequence[Reservation]) -> tuple[WaitingTask, ...]:
        reserved = {each.group: each for each in reservations}
        queued = {
            task.id: (task, reserved.get(group.key))
            for group in self._cycle.queue
            for task in group.tasks
        }
        found: list[WaitingTask] = []
        for task_id, why in self._cycle.explain().items():
            task, reservation = queued[task_id]
            found.append(WaitingTask(task, why, reservation))
        found += [
            WaitingTask(held.task, held.why)
            for task_id, held in self._held.items()
            if task_id not in queued and task_id not in self._placed
        ]
        return tuple(found)


def _completed(work: Coroutine[Any, Any, R]) -> R:
    """The result of work that never suspends."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    work.close()
    raise RuntimeError("the adapter of a dry run waits for something")
