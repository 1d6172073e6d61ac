"""A scheduler that evicts running tasks for waiting ones of a higher priority.

It asks another scheduler for a decision. Only if groups are left waiting that could gain, victims
are sought. Then the other scheduler decides once more, in a cluster where the places are taken that
become free, and where the victims end after their grace periods.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from afflux.cluster.state import State
from afflux.cycle.decision import Decision
from afflux.cycle.held_places import HeldPlaces, expected_end, hold_places
from afflux.cycle.optimiser import Optimiser
from afflux.evict.budgets import overruns, usage_of
from afflux.evict.candidates import CandidatesReader
from afflux.evict.preemption import NO_PREEMPTION, Preemption, preempt
from afflux.model.eviction import Eviction
from afflux.model.placement import Placement
from afflux.model.reservation import NO_RESERVATIONS, Reservation, StandingReservations
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.check_evictions import needed_evictions
from afflux.policies.policy import Policy


class PreemptingScheduler:
    """Preempts for the groups of these profiles; all others only wait."""

    def __init__(self, state: State, inner: Optimiser, profiles: Collection[str]) -> None:
        self._inner = inner
        self._profiles = frozenset(profiles)
        self._candidates = CandidatesReader(state)

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        return self._inner.policies_of(shape)

    def decide(
        self,
        state: State,
        queue: Sequence[WaitingGroup],
        now_seconds: float = 0.0,
        earlier: StandingReservations = NO_RESERVATIONS,
    ) -> Decision:
        """The decision of the other scheduler, with evictions where these help."""
        pricing = self._inner.pricing
        places = hold_places(state, pricing, queue, now_seconds, earlier)
        others: Sequence[WaitingGroup] = queue
        if places.groups:
            others = [group for group in queue if group.key not in places.groups]
            earlier = replace(earlier, as_expected=False)
        decided = self._inner.decide(places.state, others, now_seconds, earlier)
        if len(decided.plan.placed) == len(others):
            decided = _composed(decided, places, NO_PREEMPTION, ())
            return _with_reservations(decided, earlier, now_seconds)
        reader = self._candidates if places.state is state else CandidatesReader(places.state)
        found = preempt(
            places.state,
            pricing.on(places.state),
            reader,
            [group if self._may(group) else replace(group, may_preempt=False) for group in others],
            decided.plan.placements,
            allowed=earlier.disruptions_allowed,
            ending=earlier.ending,
        )
        if not found.groups:
            decided = _composed(decided, places, NO_PREEMPTION, ())
            return _with_reservations(decided, earlier, now_seconds)
        if not self._inner.admits_all:
            # Which of them start is for the strategies to say.
            found = replace(found, started=(), placements=())
        evictions = self._real_evictions(places, found)
        new = {group.key for group in (*found.groups, *found.started)}
        world = _after_decision(places.state, found, now_seconds)
        others = [group for group in others if group.key not in new]
        earlier = replace(earlier, as_expected=False)
        decided = self._inner.decide(world, others, now_seconds, earlier)
        decided = _composed(decided, places, found, evictions)
        decided = _with_needed_evictions(state, decided, earlier)
        return _with_reservations(decided, earlier, now_seconds)

    def _may(self, group: WaitingGroup) -> bool:
        return group.may_preempt and all(
            shape.profile in self._profiles for shape, _ in group.shapes
        )

    def _real_evictions(self, places: HeldPlaces, found: Preemption) -> tuple[Eviction, ...]:
        """The evictions of tasks that run. A task that only has a held place loses that."""
        held = {
            task.id: group.key
            for group, _ in (*places.starting.values(), *places.held.values())
            for task in group.tasks
        }
        for each in found.evictions:
            if each.task.id in held:
                places.cancel(held[each.task.id])
        return tuple(each for each in found.evictions if each.task.id not in held)


def _after_decision(state: State, found: Preemption, now_seconds: float) -> State:
    """The cluster in which the victims end after their grace period, and the places that they leave
    are taken."""
    world = state.overlay()
    for each in found.evictions:
        end_after_grace(world, each, now_seconds)
    grace = max((each.grace_seconds for each in found.evictions), default=0.0)
    starts = [(group, now_seconds + grace) for group in found.groups]
    starts += [(group, now_seconds) for group in found.started]
    ends = {task.id: expected_end(group, at) for group, at in starts for task in group.tasks}
    for each in (*found.nominations, *found.placements):
        world.place(each.task, each.machine, each.devices, ends[each.task.id])
    return world


def end_after_grace(state: State, eviction: Eviction, now_seconds: float) -> None:
    """An evicted task ends after its grace period, if it would run longer."""
    held = state.placed_task(eviction.task.id)
    if held is None:
        return
    until = now_seconds + eviction.grace_seconds
    if held.until_seconds is not None:
        until = min(until, held.until_seconds)
    disks = state.disks.disks_of(eviction.task.id)
    state.place(held.task, eviction.machine, None, until, disks=disks, terms=held.terms)


def _composed(
    decided: Decision, places: HeldPlaces, found: Preemption, evictions: tuple[Eviction, ...]
) -> Decision:
    """The decision of the other scheduler with the evictions and with all places that are held."""
    if not places.groups and not found.groups:
        return decided
    starting, held = list(places.starting.values()), list(places.held.values())
    plan = replace(
        decided.plan,
        placements=(
            *_all(at for _, at in starting),
            *found.placements,
            *decided.plan.placements,
        ),
        placed=(*(group for group, _ in starting), *found.started, *decided.plan.placed),
        evictions=evictions,
        nominated=(*(group for group, _ in held), *found.groups),
        nominations=(*_all(at for _, at in held), *found.nominations),
        overruns=found.overruns,
    )
    # A place that was taken from another group may be free already.
    is_pending = decided.rotation_pending or len(evictions) < len(found.evictions)
    return replace(decided, plan=plan, rotation_pending=is_pending)


def _with_needed_evictions(
    state: State, decided: Decision, earlier: StandingReservations
) -> Decision:
    """Without the evictions for which there is no need any more, because others than expected
    start."""
    evictions = needed_evictions(state, decided.plan, earlier.ending)
    terms = [state.placed_task(each.task.id) for each in evictions]
    names = (name for held in terms if held and held.terms for name in held.terms.budgets)
    plan = replace(
        decided.plan,
        evictions=evictions,
        overruns=overruns(usage_of(names), earlier.disruptions_allowed),
    )
    fewer = len(evictions) < len(decided.plan.evictions)
    return replace(decided, plan=plan, rotation_pending=decided.rotation_pending or fewer)


def _with_reservations(
    decided: Decision, earlier: StandingReservations, now_seconds: float
) -> Decision:
    """A nominated group has a reservation: it starts when its victims have ended."""
    plan = decided.plan
    if not plan.nominated:
        return decided
    grace = max((each.grace_seconds for each in plan.evictions), default=0.0)
    where = {each.task.id: each.machine for each in plan.nominations}
    reservations = [
        Reservation(
            group.key,
            max(now_seconds, earlier.start_of(group.key) or now_seconds)
            if group.key in earlier.nominations
            else now_seconds + grace,
            tuple((task.id, where[task.id]) for task in group.tasks),
        )
        for group in plan.nominated
    ]
    return replace(decided, reservations=(*decided.reservations, *reservations))


def _all(places: Iterable[Sequence[Placement]]) -> list[Placement]:
    return [each for some in places for each in some]
