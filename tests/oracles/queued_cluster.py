"""A small cluster with queues, whose jobs ask for processors only."""

from afflux.admit.strategies import Strategy
from afflux.cluster.state import State
from afflux.cycle.events import Event, GroupReady
from afflux.cycle.loop import Cycle, Outcome
from afflux.cycle.optimiser import Optimiser, Queues
from afflux.model.machine import Machine
from afflux.model.waiting_group import WaitingGroup
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from oracles.builders import machine, shape, task


def job(
    name: str, *cpus: int, run: float | None = None, ready: float = 0.0, **more
) -> WaitingGroup:
    members = tuple(task(f"{name}.{i}", shape(cpu=cpu)) for i, cpu in enumerate(cpus))
    return WaitingGroup(name, members, ready_seconds=ready, run_seconds=run, **more)


class Cluster:
    """A cluster of the given machines, or of one with four processors."""

    def __init__(
        self,
        strategy: Strategy | Queues,
        *machines: Machine,
        tolerance_seconds: float = 0.0,
        **rules,
    ) -> None:
        self.state = State(machines or [machine("m", cpu=4)])
        queues = strategy if isinstance(strategy, list) else [(QueueRules(**rules), strategy)]
        policies = [Weighted(CpuMemory())]
        scheduler = Optimiser(self.state, queues, constraints(), policies)
        self.cycle = Cycle(self.state, scheduler, tolerance_seconds=tolerance_seconds)

    def run(self, *events: Event | WaitingGroup, now: float = 0.0) -> Outcome:
        return self.cycle.run(
            [GroupReady(event) if isinstance(event, WaitingGroup) else event for event in events],
            now,
        )

    def starts(self, *events: Event | WaitingGroup, now: float = 0.0) -> list[str]:
        return sorted({p.task.id.split(".")[0] for p in self.run(*events, now=now).placements})


def reserved_starts(outcome: Outcome) -> dict[str, float | None]:
    return {reservation.group: reservation.start_seconds for reservation in outcome.reservations}
