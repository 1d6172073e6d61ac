"""One scheduling cycle: events come in, placements go out. Read this file first.

    1. observe    apply the events to the cluster, the queue and the reservations
    2. gather     take the waiting groups in queue order
    3. admit      strategies decide which groups may start now, and which get a reservation
    4. price      policies say what each class of tasks costs on each machine
    5. connect    build the flow network
    6. solve      find the cheapest flow
    7. plan       turn the flow into placements, and check them
    8. commit     assume the placements, and update the queue and the reservations
    9. explain    say for every waiting task why it waits

The adapters (Kubernetes, simulation, files) differ only in where events come from and where
placements go. Steps 3 to 7 are in the scheduler (`optimiser`).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from afflux.cluster.state import State
from afflux.cycle.decision import Decision
from afflux.cycle.event_intake import EventIntake, ResyncRequest
from afflux.cycle.events import Event
from afflux.cycle.fault_isolation import Quarantine, decide_isolating_faults
from afflux.cycle.interfaces import Scheduler
from afflux.cycle.nominations import Nominations
from afflux.cycle.preempting_scheduler import end_after_grace
from afflux.cycle.reservations import BrokenReservation, Reservations
from afflux.model.eviction import Eviction
from afflux.model.placement import Placement
from afflux.model.reservation import Reservation
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.binding_order import binding_order
from afflux.plan.check import check_complete, check_plan
from afflux.plan.check_evictions import check_evictions
from afflux.plan.explain import Verdicts, verdicts_by_task, why_waiting
from afflux.plan.plan import Plan
from afflux.plan.standing_violations import StandingViolations
from afflux.policies.policy import Policy
from afflux.queue.order import WaitingQueue

# Pause before a cycle that only examines further groups, if the cycle before placed none.
ROTATION_INTERVAL_SECONDS = 1.0

# Added to the reason of a group that a cycle had no time or memory for.
NOT_EXAMINED = " Not looked at in the last cycle: more is ahead than one cycle can plan for."

# Added to the reason of a task for which others are evicted.
NOMINATED = " Nominated for {machine}: starts there once the pods that leave for it have ended."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cycle decided; `decision` is None if there was nothing to decide.

    `placements` come in an order in which they can be bound; `rests_on` has those that have to be
    bound before, and `circles` those that are bound together (plan/binding_order.py).
    `reservations` are all that stand after the cycle, `broken` those whose groups started late in
    it. `unsatisfiable` has the groups that can never start, with the reason. `resync_requests` name
    what the adapter has to report again. `quarantined` has the groups that were left out because
    no decision could be made with them, with their errors.
    At `wake_up_seconds` the next cycle has to run even without events: a reservation is due, a
    quarantined group is tried again, or further groups are examined. None if no cycle is needed.
    `evictions` are the running tasks that have to end now; `nominations` the places that are held
    for the tasks that wait for such ends.
    """

    placements: tuple[Placement, ...] = ()
    decision: Decision | None = None
    reservations: tuple[Reservation, ...] = ()
    broken: tuple[BrokenReservation, ...] = ()
    unsatisfiable: Mapping[str, str] = field(default_factory=dict[str, str])
    resync_requests: tuple[ResyncRequest, ...] = ()
    quarantined: Mapping[str, Exception] = field(default_factory=dict[str, Exception])
    wake_up_seconds: float | None = None
    rests_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    circles: tuple[frozenset[str], ...] = ()
    evictions: tuple[Eviction, ...] = ()
    nominations: tuple[Placement, ...] = ()


class Cycle:
    """A cluster, a queue and a scheduler.

    Placements are assumed at once, so that no later cycle uses the same room. The adapter carries
    them out and reports the result as events: after a failed placement its task has ended, and its
    group is ready again.

    An error of the scheduler or of a policy is raised, which is right for simulations and files.
    With `isolates_faults` the groups that cause it are quarantined, and the others are placed.
    A reservation counts as broken if its group starts more than `tolerance_seconds` late.
    """

    def __init__(
        self,
        state: State,
        scheduler: Scheduler,
        *,
        isolates_faults: bool = False,
        tolerance_seconds: float = 0.0,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.state = state
        self.queue = WaitingQueue()
        # Which running tasks do not meet their requirements any more, for adapters that ask.
        self.violations = StandingViolations(state)
        self._scheduler = scheduler
        self._reservations = Reservations(tolerance_seconds)
        self._nominations = Nominations()
        self._intake = EventIntake(state, self.queue, self._reservations, self._nominations)
        self._isolates_faults = isolates_faults
        self._quarantine = quarantine or Quarantine()
        self._not_examined: frozenset[str] = frozenset()
        # When the next reservation is due, and when further groups are examined.
        self._due_seconds = math.inf
        self._rotation_seconds = math.inf

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        return self._scheduler.policies_of(shape)

    def restore(self, reservations: Iterable[Reservation]) -> None:
        """Reservations that were made before a restart stand on."""
        self._reservations.restore(reservations)

    def run(
        self,
        events: Iterable[Event],
        now_seconds: float = 0.0,
        unconfirmed: Collection[str] = (),
    ) -> Outcome:
        """Steps 1 to 8. The placements of the `unconfirmed` tasks may still fail."""
        # 1. Observe.
        self.state.drop_unused_columns()
        resync_requests = self._observe(events, now_seconds)
        wake_up_seconds = min(self._due_seconds, self._rotation_seconds)
        if not self._intake.has_unblocking_events and now_seconds < wake_up_seconds:
            return Outcome(
                reservations=self._reservations.current(),
                resync_requests=resync_requests,
                wake_up_seconds=self._wake_up_seconds(),
                nominations=self._nominations.current(),
            )
        # 2. Gather, 3. admit, 4. price, 5. connect, 6. solve, 7. plan.
        decided, quarantined = self._decide(now_seconds)
        # 8. Commit: the placements, and the order in which they can be bound,
        order = binding_order(self.state, decided.plan.placements, unconfirmed)
        self._assume(decided.plan, now_seconds)
        self._intake.has_unblocking_events = False
        # the victims, which end after their grace periods,
        for eviction in decided.plan.evictions:
            end_after_grace(self.state, eviction, now_seconds)
        self._nominations.replace(decided.plan)
        # the groups that wait,
        self._quarantine.add(quarantined, self.queue, now_seconds)
        broken = self._update_reservations(decided, quarantined, now_seconds)
        self._not_examined = decided.not_examined
        # and when to run again without events.
        self._due_seconds = self._reservations.next_due_seconds(now_seconds)
        pause = 0.0 if decided.plan.placed else ROTATION_INTERVAL_SECONDS
        self._rotation_seconds = now_seconds + pause if decided.rotation_pending else math.inf
        return Outcome(
            order.placements,
            decided,
            decided.reservations,
            tuple(broken),
            decided.unsatisfiable,
            resync_requests,
            quarantined,
            self._wake_up_seconds(),
            order.rests_on,
            order.circles,
            decided.plan.evictions,
            self._nominations.current(),
        )

    def explain(self) -> dict[str, str]:
        """Step 9: for every waiting task, by id, one sentence that says why it waits."""
        reasons = why_waiting(self.state, self.policies_of, self.queue)
        for name in self._not_examined:
            group = self.queue.get(name)
            for task in group.tasks if group is not None else ():
                reasons[task.id] += NOT_EXAMINED
        for each in self._nominations.current():
            if each.task.id in reasons:
                reasons[each.task.id] += NOMINATED.format(machine=each.machine)
        return reasons

    def verdicts(self, tasks: Sequence[Task]) -> dict[str, Verdicts]:
        """For each of these tasks, by name, the reasons of every machine against it."""
        return verdicts_by_task(self.state, self.policies_of, tasks)

    def _wake_up_seconds(self) -> float | None:
        release = self._quarantine.next_release_seconds()
        wake_up = min(self._due_seconds, self._rotation_seconds, release)
        return None if wake_up == math.inf else wake_up

    def _observe(self, events: Iterable[Event], now_seconds: float) -> tuple[ResyncRequest, ...]:
        if not self._isolates_faults:
            for event in events:
                self._intake.observe(event, now_seconds)
            return ()
        resync_requests = self._intake.observe_all(events, now_seconds)
        if self._quarantine.release(self.queue, now_seconds):
            self._intake.has_unblocking_events = True
        return tuple(resync_requests)

    def _decide(self, now_seconds: float) -> tuple[Decision, Mapping[str, Exception]]:
        """A decision with a checked plan, and the groups that were left out, with their errors."""
        self.state.relations.drop_unused()
        has_events = self._intake.has_unblocking_events
        earlier = replace(
            self._reservations.standing(now_seconds), has_unblocking_events=has_events
        )
        queue = self.queue.considered()
        earlier = self._nominations.add_to(earlier, self.state, queue)

        def decide(groups: Sequence[WaitingGroup]) -> Decision:
            decided = self._scheduler.decide(self.state, groups, now_seconds, earlier)
            plan = decided.plan
            check_plan(self.state, plan.placed, plan.placements, self.policies_of)
            check_complete(plan.placed, plan.placements)
            allowed, ending = self.state.disruptions_allowed, earlier.ending
            check_evictions(self.state, plan, allowed, self.policies_of, ending=ending)
            return decided

        if self._isolates_faults:
            return decide_isolating_faults(decide, queue)
        return decide(queue), {}

    def _assume(self, plan: Plan, now_seconds: float) -> None:
        """Enter all placements into the state, or none if one of them fails."""
        ends = {
            task.id: now_seconds + group.run_seconds
            for group in plan.placed
            if group.run_seconds is not None
            for task in group.tasks
        }
        placed: list[str] = []
        try:
            for placement in plan.placements:
                until = ends.get(placement.task.id)
                self.state.place(placement.task, placement.machine, placement.devices, until)
                placed.append(placement.task.id)
        except Exception:
            for task_id in placed:
                self.state.remove(task_id)
            raise

    def _update_reservations(
        self, decided: Decision, quarantined: Iterable[str], now_seconds: float
    ) -> list[BrokenReservation]:
        """Take the placed groups from the queue, and replace the reservations; the broken ones."""
        rank = {name: number for number, name in enumerate(decided.queue_order)}
        reservations = decided.reservations
        if decided.plan.nominated:
            highest = max(group.priority for group in decided.plan.nominated)
            self._reservations.note_preempted(highest)
        self._reservations.note_overtaken(decided.plan.placed, reservations, self.queue.get, rank)
        placed = [group.key for group in decided.plan.placed]
        broken = self._reservations.note_started(placed, now_seconds)
        self.queue.discard_all(placed)
        self._reservations.replace(reservations, self.queue.get)
        self._reservations.note_quarantined(quarantined)
        return broken
