"""Preemption: level by level of priority, which running tasks leave so that waiting ones can start.

Two states are kept, overlays of the cluster. *Now* has everything that runs and all new tasks: what
fits there starts at once. *After* is the same once the victims have ended. A level is settled
completely before the next one:

1. the level is planned as usual on the room that there is, now and once earlier victims have ended;
2. if groups are left over that could gain, the whole level is chosen once more, with victims;
3. what is chosen is entered into both states; tasks that fit only after the victims have ended are
   nominated for their machines.

Groups that never preempt come after the others of their priority: they use what is left over.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from afflux.admit.group_classes import ClassCounts, GroupClasses
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.evict.budgets import overruns, usage_of
from afflux.evict.candidates import Candidate, CandidatesReader, Evictable, put_back
from afflux.evict.level import (
    Level,
    LevelResult,
    choose_level,
    chosen_devices,
    has_room,
    has_room_without,
)
from afflux.evict.related_preemptors import is_admitted, place_related
from afflux.model.eviction import Eviction, EvictionCause
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing
from afflux.plan.plan import Plan, joined
from afflux.plan.round import plan_round

# Groups with constraints between tasks for which one decision searches.
MAX_RELATED_SEARCHES = 32


@dataclass(frozen=True, slots=True)
class Preemption:
    """The evictions, the groups that wait for their victims to end, and their places; and the
    groups of the same levels that start at once. `overruns` has, by budget, the victims beyond what
    it allows."""

    evictions: tuple[Eviction, ...] = ()
    groups: tuple[WaitingGroup, ...] = ()
    nominations: tuple[Placement, ...] = ()
    started: tuple[WaitingGroup, ...] = ()
    placements: tuple[Placement, ...] = ()
    overruns: Mapping[str, int] = field(default_factory=dict[str, int])


NO_PREEMPTION = Preemption()


def preempt(
    state: State,
    pricing: Pricing,
    reader: CandidatesReader,
    queue: Sequence[WaitingGroup],
    started: Iterable[Placement] = (),
    *,
    allowed: Mapping[str, int],
    ending: Collection[str] = (),
) -> Preemption:
    """The evictions that help the groups of the queue, which come in its order.

    `started` has the placements of the groups that start without any eviction; `ending` the tasks
    that leave already. `allowed` says how many tasks each budget may lose.
    """
    # A resource that is new to the state gets a column before anything is counted by columns.
    for shape in dict.fromkeys(shape for group in queue for shape, _ in group.shapes):
        state.requests(shape)
    reader.update()
    lowest = reader.lowest_priority
    where = {each.task.id: each for each in started}
    waiting = [group for group in queue if _may_preempt(group, lowest, where)]
    if not waiting:
        return NO_PREEMPTION
    classes = GroupClasses(state.relations, queue)
    # One after the other, so that only groups that can gain cost more than this.
    later = _without(state, ending)
    gainers = _gainers(later, pricing.on(later), reader, waiting, classes=classes, ending=ending)
    if not gainers:
        return NO_PREEMPTION
    search = _Search(state, pricing, reader, classes, allowed=allowed, ending=ending)
    highest = max(group.priority for group in gainers)
    search.start(each for g in queue if g.priority > highest for each in _placements(g, where))
    lowest_gainer = min(group.priority for group in gainers)
    considered = [
        group
        for group in queue
        if lowest_gainer <= group.priority <= highest and not any(t.blocked for t in group.tasks)
    ]
    # Without victims there is nothing to leave over for lower levels.
    considered.sort(key=lambda group: (-group.priority, not group.may_preempt))
    for (priority, may_preempt), level in groupby(
        considered, key=lambda group: (group.priority, group.may_preempt)
    ):
        search.settle(priority, list(level), may_preempt=may_preempt)
    return search.result()


def _without(state: State, ending: Collection[str]) -> State:
    """The state once these tasks have ended."""
    if not ending:
        return state
    later = state.overlay()
    for task_id in ending:
        later.remove(task_id)
    return later


def _may_preempt(group: WaitingGroup, lowest: int, where: Mapping[str, Placement]) -> bool:
    return (
        group.may_preempt
        and group.priority > lowest
        and group.tasks[0].id not in where
        and not any(task.blocked for task in group.tasks)
    )


def _placements(group: WaitingGroup, where: Mapping[str, Placement]) -> list[Placement]:
    return [where[task.id] for task in group.tasks if task.id in where]


def _gainers(
    state: State,
    pricing: Pricing,
    reader: CandidatesReader,
    groups: Iterable[WaitingGroup],
    *,
    classes: GroupClasses,
    ending: Collection[str],
) -> list[WaitingGroup]:
    """The groups for which there would be room for each class if all candidates left, in a state
    without the tasks that are `ending`."""
    found: list[WaitingGroup] = []
    for priority, level in groupby(
        sorted(groups, key=lambda group: -group.priority), key=lambda group: group.priority
    ):
        evictable = reader.below(priority, ending, {})
        known: dict[ClassCounts, bool] = {}
        for group in level:
            counts = classes.of(group)
            if counts not in known:
                known[counts] = has_room_without(state, pricing, counts, evictable)
            if known[counts]:
                found.append(group)
    return found


class _Search:
    """The two states, and what was decided so far."""

    def __init__(
        self,
        state: State,
        pricing: Pricing,
        reader: CandidatesReader,
        classes: GroupClasses,
        *,
        allowed: Mapping[str, int],
        ending: Collection[str],
    ) -> None:
        self._reader = reader
        self._classes = classes
        self._allowed = dict(allowed)
        self._now = state.overlay()
        self._after = _without(state, ending).overlay()
        self._now_prices = pricing.on(self._now)
        self._after_prices = pricing.on(self._after)
        self._gone = set(ending)
        self._victims: list[Candidate] = []
        self._evictions: list[Eviction] = []
        # Searches for places of groups with constraints between tasks that are left.
        self._searches_left = MAX_RELATED_SEARCHES
        self._groups: list[WaitingGroup] = []
        self._nominations: list[Placement] = []
        self._started: list[WaitingGroup] = []
        self._placements: list[Placement] = []

    def start(self, placements: Iterable[Placement]) -> None:
        """These tasks start at once."""
        for each in placements:
            self._now.place(each.task, each.machine, each.devices)
            self._after.place(each.task, each.machine, each.devices)

    def settle(self, priority: int, groups: Sequence[WaitingGroup], *, may_preempt: bool) -> None:
        """One level: it is final afterwards."""
        begin = self._without_victims(groups)
        where = {each.task.id: self._now.rows[each.machine] for each in begin.placements}
        placed = {group.key for group in begin.placed}
        related = [group for group in groups if self._needs_trials(group)]
        plain = [group for group in groups if not self._needs_trials(group)]
        for group in related:
            if group.key in placed:
                self._enter(group, [where[task.id] for task in group.tasks])
        result = None
        if may_preempt and len(placed) < len(groups):
            evictable = self._evictable(priority)
            gains = {
                counts: has_room_without(self._after, self._after_prices, counts, evictable)
                for counts in {self._classes.of(g) for g in plain if g.key not in placed}
            }
            able = [g for g in plain if g.key in placed or gains[self._classes.of(g)]]
            if any(group.key not in placed for group in able):
                level = Level(self._after, self._after_prices, able, self._classes, evictable)
                result = choose_level(level, begin)
        if result is None:
            for group in plain:
                if group.key in placed:
                    self._enter(group, [where[task.id] for task in group.tasks])
        else:
            self._carry_out(result)
        for group in related if may_preempt else ():
            if group.key not in placed:
                self._settle_related(priority, group)

    def result(self) -> Preemption:
        """What was decided."""
        names = (name for each in self._victims for name in each.terms.budgets)
        return Preemption(
            tuple(self._evictions),
            tuple(self._groups),
            tuple(self._nominations),
            tuple(self._started),
            tuple(self._placements),
            overruns(usage_of(names), self._allowed),
        )

    def _without_victims(self, groups: Sequence[WaitingGroup]) -> Plan:
        """What fits now, and then what fits once the victims of higher levels have ended."""
        at_once = plan_round(self._now, self._now_prices, groups)
        placed = {group.key for group in at_once.placed}
        left = [group for group in groups if group.key not in placed]
        if not left or not self._gone:
            return at_once
        after = self._after.overlay()
        for each in at_once.placements:
            after.place(each.task, each.machine)
        return joined([at_once, plan_round(after, self._after_prices.on(after), left)])

    def _evictable(self, priority: int) -> Evictable:
        used = Counter(name for each in self._victims for name in each.terms.budgets)
        allowed = {name: max(0, most - used[name]) for name, most in self._allowed.items()}
        return self._reader.below(priority, self._gone, allowed)

    def _settle_related(self, priority: int, group: WaitingGroup) -> None:
        evictable = self._evictable(priority)
        counts = self._classes.of(group)
        able = has_room_without(self._after, self._after_prices, counts, evictable)
        if self._searches_left and able:
            self._searches_left -= 1
            found = place_related(self._after, self._after_prices, group, evictable)
            if found is not None:
                self._leave(found.victims)
                if self._enter(group, found.rows):
                    self._record(found.victims, [group])

    def _carry_out(self, result: LevelResult) -> None:
        self._leave(result.victims)
        crowded = {each.held.row for each in result.victims}
        # The first groups of the queue get the places that are free already.
        units = {
            of: sorted(rows, key=lambda row: row in crowded) for of, rows in result.units.items()
        }
        taken: Counter[TaskClass] = Counter()
        for group in result.placed:
            rows: list[int] = []
            for task in group.tasks:
                of = self._classes.class_of(task)
                rows.append(units[of][taken[of]])
                taken[of] += 1
            self._enter(group, rows)
        self._record(result.victims, result.placed)

    def _leave(self, victims: Iterable[Candidate]) -> None:
        for each in victims:
            self._after.remove(each.id)
            self._gone.add(each.id)

    def _enter(self, group: WaitingGroup, rows: Sequence[int]) -> bool:
        """The group starts at once if all of it fits now, otherwise it is nominated. Returns
        whether it fits at all: the account has the last word."""
        where = list(zip(group.tasks, rows, strict=True))
        at_once = self._place_all(self._now, self._now_prices, group, where)
        if at_once is not None:
            devices = {each.task.id: each.devices for each in at_once}
            if self._place_all(self._after, self._after_prices, group, where, devices) is not None:
                self._started.append(group)
                self._placements += at_once
                return True
            for each in at_once:
                self._now.remove(each.task.id)
        later = self._place_all(self._after, self._after_prices, group, where)
        if later is None:
            return False
        for each in later:
            self._now.place(each.task, each.machine, each.devices)
        self._groups.append(group)
        self._nominations += later
        return True

    def _place_all(
        self,
        state: State,
        prices: Pricing,
        group: WaitingGroup,
        where: Iterable[tuple[Task, int]],
        devices: Mapping[str, tuple[int, ...]] | None = None,
    ) -> list[Placement] | None:
        """Place all tasks of a group, on these devices if given; None if one does not fit."""
        entered: list[Placement] = []
        for task, row in where:
            if not self._fits(state, prices, group, task, row):
                for each in entered:
                    state.remove(each.task.id)
                return None
            own = chosen_devices(state, task, row) if devices is None else devices[task.id]
            entered.append(Placement(task, state.name_of(row), own))
            state.place(task, entered[-1].machine, own)
        return entered

    def _needs_trials(self, group: WaitingGroup) -> bool:
        """Whether more than amounts and devices decide whether a machine takes a task: constraints
        between tasks, or disks."""
        uses_disks = any(shape.disks is not None for shape, _ in group.shapes)
        return uses_disks or self._classes.has_rules(group)

    def _fits(
        self, state: State, prices: Pricing, group: WaitingGroup, task: Task, row: int
    ) -> bool:
        if self._needs_trials(group):
            return is_admitted(state, prices, task, row)
        return has_room(prices, task.shape, row)

    def _record(self, victims: Sequence[Candidate], groups: Iterable[WaitingGroup]) -> None:
        """Victims leave for the tasks of these groups that wait for them on their machines; those
        for which no task waits stay."""
        new = {group.key for group in groups}
        tasks = {task.id for group in self._groups if group.key in new for task in group.tasks}
        waiting: dict[str, list[Task]] = {}
        for each in self._nominations:
            if each.task.id in tasks:
                waiting.setdefault(each.machine, []).append(each.task)
        wholes: dict[str, list[Task]] = {}
        for victim in victims:
            if victim.terms.whole_group:
                here = waiting.get(self._after.name_of(victim.held.row), ())
                wholes.setdefault(victim.terms.group, []).extend(here)
        for victim in victims:
            machine = self._after.name_of(victim.held.row)
            whole = victim.terms.whole_group
            needed = wholes[victim.terms.group] if whole else waiting.get(machine, [])
            if not needed:
                put_back(self._after, victim, self._now)
                self._gone.discard(victim.id)
                continue
            self._victims.append(victim)
            self._evictions.append(
                Eviction(
                    victim.held.task,
                    machine,
                    EvictionCause.PREEMPT,
                    tuple(dict.fromkeys(needed)),
                    victim.terms.grace_seconds,
                )
            )
