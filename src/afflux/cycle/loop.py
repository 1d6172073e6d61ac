"""One cycle: what happened is observed, who waits is placed, what was decided is handed on.

Read this first. The doors (Kubernetes, simulation, files) differ only in where events come from
and where placements go; everything between is the same.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from afflux.cluster.state import State
from afflux.cycle.events import Event
from afflux.cycle.observing import Observing, Unheard
from afflux.cycle.ports import Scheduler
from afflux.cycle.promises import Broken, Promises
from afflux.cycle.sparing import Aside, decide_sparing
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.promise import Promise, Standing
from afflux.model.task import Shape
from afflux.plan.check import check_complete, check_plan
from afflux.plan.explain import why_waiting
from afflux.plan.rounds import Round
from afflux.policies.policy import Policy
from afflux.queue.waiting import Queue

# Between two cycles of which the second only looks at others, if the first one placed nobody.
TURN_SECONDS = 1.0

# Added to the reason of a group that a pass had no time or memory for.
NOT_REACHED = " Not looked at in the last cycle: more is ahead than one cycle can plan for."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cycle decided; the round is None if there was nothing to decide about.

    `promises` are all that hold after it, `broken` those that it could not keep, `unsatisfiable`
    the groups that can never start, with the reason. `unheard` is what has to be told again.
    `set_aside` are the groups, with their errors, because of which no decision could be made.
    `again_seconds` is when to run the next cycle if nothing happens before: one of those is tried
    again, a promise has to be kept, or it is the turn of others to be looked at.
    """

    placements: tuple[Placement, ...] = ()
    round: Round | None = None
    promises: tuple[Promise, ...] = ()
    broken: tuple[Broken, ...] = ()
    unsatisfiable: Mapping[str, str] = field(default_factory=dict[str, str])
    unheard: tuple[Unheard, ...] = ()
    set_aside: Mapping[str, Exception] = field(default_factory=dict[str, Exception])
    again_seconds: float | None = None


class Cycle:
    """A cluster, a queue and a scheduler.

    Placements are assumed at once: nobody else is given the same place. The door carries them out
    and reports, as events, what became of them: a placement that failed is a task that ended, and
    its group is ready again.

    A defect of the scheduler or of a policy is raised, as simulations and files want it. With
    `spares_others` those are set aside whom it is about, and the others go on. A promise is broken
    by more than `tolerance_seconds`.
    """

    def __init__(
        self,
        state: State,
        scheduler: Scheduler,
        *,
        spares_others: bool = False,
        tolerance_seconds: float = 0.0,
    ) -> None:
        self.state = state
        self.queue = Queue()
        self._scheduler = scheduler
        self._promises = Promises(tolerance_seconds)
        self._observing = Observing(state, self.queue, self._promises)
        self._spares_others = spares_others
        self._unreached: frozenset[str] = frozenset()
        self._due_seconds = math.inf
        self._turn_seconds = math.inf
        self._aside = Aside()

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """What may refuse a machine to a class, in the order in which it is asked."""
        return self._scheduler.policies_of(shape)

    def restore(self, promises: Iterable[Promise]) -> None:
        """What was promised before a restart holds on."""
        self._promises.restore(promises)

    def run(self, events: Iterable[Event], now_seconds: float = 0.0) -> Outcome:
        """Events in, placements out."""
        # 1. observe, 2. gather
        unheard = self._observe(events, now_seconds)
        due_seconds = min(self._due_seconds, self._turn_seconds)
        if not self._observing.news and now_seconds < due_seconds:
            return Outcome(
                promises=self._promises.current(),
                unheard=unheard,
                again_seconds=self._again_seconds(),
            )
        # 3. admit, 4. price, 5. connect, 6. solve, 7. plan
        decided, culprits = self._decide(now_seconds)
        # 8. commit
        self._assume(decided, now_seconds)
        self._observing.news = False
        self._aside.take(culprits, self.queue, now_seconds)
        rank = {name: number for number, name in enumerate(decided.served)}
        self._promises.overtaken(decided.placed, decided.promises, self.queue.get, rank)
        broken = self._promises.started((group.name for group in decided.placed), now_seconds)
        self.queue.discard_all(group.name for group in decided.placed)
        self._promises.replace(decided.promises, self.queue.get)
        self._promises.set_aside(culprits)
        self._due_seconds = self._promises.next_due_seconds(now_seconds)
        pause = 0.0 if decided.placed else TURN_SECONDS
        self._turn_seconds = now_seconds + pause if decided.goes_on else math.inf
        self._unreached = decided.unreached
        return Outcome(
            decided.placements,
            decided,
            decided.promises,
            tuple(broken),
            decided.unsatisfiable,
            unheard,
            culprits,
            self._again_seconds(),
        )

    def explain(self) -> dict[str, str]:
        """9. For every waiting task, by id, one sentence that says why."""
        reasons = why_waiting(self.state, self.policies_of, self.queue)
        for name in self._unreached:
            group = self.queue.get(name)
            for task in group.tasks if group is not None else ():
                reasons[task.id] += NOT_REACHED
        return reasons

    def _again_seconds(self) -> float | None:
        """When to come again even if nothing happens: to keep a promise, to look at others, or to
        try somebody again."""
        tried = self._aside.soonest_seconds()
        again = min(self._due_seconds, self._turn_seconds, math.inf if tried is None else tried)
        return None if again == math.inf else again

    def _observe(self, events: Iterable[Event], now_seconds: float) -> tuple[Unheard, ...]:
        if not self._spares_others:
            for event in events:
                self._observing.observe(event, now_seconds)
            return ()
        unheard = self._observing.observe_all(events, now_seconds)
        self._observing.news |= self._aside.release(self.queue, now_seconds)
        return tuple(unheard)

    def _decide(self, now_seconds: float) -> tuple[Round, Mapping[str, Exception]]:
        """A plan that has passed; and who was left out because none with them does."""
        standing = self._promises.standing(now_seconds)
        standing = replace(standing, has_news=self._observing.news)

        def decide(groups: Sequence[Group]) -> Round:
            return self._decide_about(groups, now_seconds, standing)

        queue = self.queue.considered()
        return decide_sparing(decide, queue) if self._spares_others else (decide(queue), {})

    def _decide_about(
        self, groups: Sequence[Group], now_seconds: float, standing: Standing
    ) -> Round:
        decided = self._scheduler.decide(self.state, groups, now_seconds, standing)
        check_plan(self.state, decided.placed, decided.placements, self.policies_of)
        check_complete(decided.placed, decided.placements)
        return decided

    def _assume(self, decided: Round, now_seconds: float) -> None:
        """All placements hold from now on, or none of them."""
        ends = {
            task.id: now_seconds + group.run_seconds
            for group in decided.placed
            if group.run_seconds is not None
            for task in group.tasks
        }
        placed: list[str] = []
        try:
            for placement in decided.placements:
                until = ends.get(placement.task.id)
                self.state.place(placement.task, placement.machine, placement.devices, until)
                placed.append(placement.task.id)
        except Exception:
            for task_id in placed:
                self.state.remove(task_id)
            raise
