"""What becomes of nominations when a decision begins: they start, are held on, or end.

The result is an overlay of the state in which all of these places are taken. The tasks in them have
eviction terms, so that a group of a higher priority can take a place, like that of a running task.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from afflux.admit.group_classes import GroupClasses
from afflux.cluster.state import State
from afflux.evict.level import chosen_devices
from afflux.evict.related_preemptors import is_admitted
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.placement import Placement
from afflux.model.reservation import StandingReservations
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing


@dataclass(slots=True)
class HeldPlaces:
    """`state` has all held places taken. `starting` are the groups whose places are free now,
    `held` those that wait on, each with its places."""

    state: State
    starting: dict[str, tuple[WaitingGroup, tuple[Placement, ...]]] = field(
        default_factory=dict[str, tuple[WaitingGroup, tuple[Placement, ...]]]
    )
    held: dict[str, tuple[WaitingGroup, tuple[Placement, ...]]] = field(
        default_factory=dict[str, tuple[WaitingGroup, tuple[Placement, ...]]]
    )

    @property
    def groups(self) -> set[str]:
        """The keys of all groups that have a place."""
        return {*self.starting, *self.held}

    def cancel(self, group: str) -> None:
        """A group of a higher priority takes the place of this one."""
        self.starting.pop(group, None)
        self.held.pop(group, None)


def hold_places(
    state: State,
    pricing: Pricing,
    queue: Sequence[WaitingGroup],
    now_seconds: float,
    earlier: StandingReservations,
) -> HeldPlaces:
    """Nominations of the groups that still wait, those of the highest priority first."""
    if not earlier.nominations:
        return HeldPlaces(state)
    groups = [group for group in queue if group.key in earlier.nominations]
    groups.sort(key=lambda group: -group.priority)
    GroupClasses(state.relations, groups)
    now, after = state.overlay(), state.overlay()
    for task_id in earlier.ending:
        after.remove(task_id)
    places = HeldPlaces(now)
    for group in groups:
        where = earlier.nominations[group.key]
        if [each.task.id for each in where] != [task.id for task in group.tasks]:
            continue
        wanted = [(task, each) for task, each in zip(group.tasks, where, strict=True)]
        current = [Placement(task, each.machine, each.devices) for task, each in wanted]
        terms = EvictionTerms(group.key, group.priority, whole_group=group.is_gang)
        ends = expected_end(group, now_seconds)
        started = _enter(now, pricing.on(now), current, ends, terms)
        if started is not None:
            for each in started:
                after.place(each.task, each.machine, each.devices, ends)
            places.starting[group.key] = group, started
            continue
        ends = expected_end(group, max(now_seconds, earlier.start_of(group.key) or now_seconds))
        kept = _enter(after, pricing.on(after), current, ends, terms)
        if kept is not None:
            for each in kept:
                now.place(each.task, each.machine, each.devices, ends, terms=terms)
            places.held[group.key] = group, kept
    return places


def expected_end(group: WaitingGroup, start_seconds: float) -> float | None:
    """When the tasks of a group end that starts at this time, None without end."""
    return None if group.run_seconds is None else start_seconds + group.run_seconds


def _enter(
    state: State,
    pricing: Pricing,
    places: Sequence[Placement],
    until_seconds: float | None,
    terms: EvictionTerms,
) -> tuple[Placement, ...] | None:
    """Place all of these tasks on their machines, or none if one does not fit."""
    entered: list[Placement] = []
    for each in places:
        row = state.rows.get(each.machine)
        if row is None or not is_admitted(state, pricing, each.task, row):
            for placed in entered:
                state.remove(placed.task.id)
            return None
        devices = chosen_devices(state, each.task, row)
        state.place(each.task, each.machine, devices, until_seconds, terms=terms)
        entered.append(Placement(each.task, each.machine, devices))
    return tuple(entered)
