"""The scheduler of this project: admit, price, connect, solve and plan for all groups at once.

Strategies say which groups may start, queue by queue in the order of the configuration; the
optimiser says where. Cost and memory grow with the pairs of a class and a machine that admits it.
Where thousands of tasks are all different, groups are taken in queue order in several rounds, each
with as many pairs as fit into memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, takewhile

from afflux.admit.capacity_planner import Planner
from afflux.admit.expected_ends import ExpectedEndsReader
from afflux.admit.feasibility import Feasibility
from afflux.admit.group_classes import GroupClasses
from afflux.admit.planning_inputs import PlanningInputs
from afflux.admit.room_over_time import RoomOverTime
from afflux.admit.strategies import Strategy, flow
from afflux.cluster.relation_index import relations_of
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.cycle.decision import Decision
from afflux.cycle.depth_rotation import DepthRotation
from afflux.cycle.merged_sets import MergedSets, merge_sets
from afflux.model.placement import Placement
from afflux.model.relations import NO_RELATIONS, TaskLabels
from afflux.model.reservation import NO_RESERVATIONS, Reservation, StandingReservations
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing, Profiles
from afflux.plan.check_relations import find_refused
from afflux.plan.group_sets import GroupSet, sets_in_order
from afflux.plan.plan import Plan, joined
from afflux.plan.round import plan_round
from afflux.policies.policy import Policy
from afflux.queue.rules import QueueRules

# Pairs of a class and a machine in one round, about 100 MB; and the classes that a round may always
# have.
MAX_PAIRS_PER_ROUND = 2_000_000
MIN_CLASSES_PER_ROUND = 64

Queues = Sequence[tuple[QueueRules, Strategy]]
_Walk = tuple[Sequence[WaitingGroup], QueueRules, Strategy]


class Optimiser:
    """Queues with their strategies, and a set of policies for each profile, over one cluster.

    With `with_machines` every reservation names its machines; simulations do not need them.
    """

    def __init__(
        self,
        state: State,
        queues: Queues,
        constraints: Sequence[Policy],
        policies: Profiles,
        *,
        with_machines: bool = True,
    ) -> None:
        self._queues = list(queues)
        self._with_machines = with_machines
        self._pricing = pricing = Pricing(state, constraints, policies)
        self._inputs = PlanningInputs(
            state,
            pricing,
            RoomOverTime(state, pricing),
            ExpectedEndsReader(state),
            Feasibility(state, pricing),
            MIN_CLASSES_PER_ROUND,
        )
        self._rotation = DepthRotation(self._inputs.feasibility)

    @property
    def admits_all(self) -> bool:
        """Whether every group may start for which there is room."""
        return all(strategy is flow and rules.depth is None for rules, strategy in self._queues)

    @property
    def pricing(self) -> Pricing:
        """The prices for the state that this was made for."""
        return self._pricing

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        return self._pricing.policies_of(shape)

    def decide(
        self,
        state: State,
        queue: Sequence[WaitingGroup],
        now_seconds: float = 0.0,
        earlier: StandingReservations = NO_RESERVATIONS,
    ) -> Decision:
        """The best plan found for the groups that the strategies admit. The state is the one that
        this was made for, or an overlay of it."""
        if self.admits_all:
            plan = self._plan(state, queue)
            return Decision(
                plan,
                unsatisfiable=self._unsatisfiable(queue, plan),
                rotation_pending=plan.helps_others,
            )
        queues = list(self._by_queue(queue))
        examined = [
            (self._rotation.select(groups, rules, earlier), rules, strategy)
            for groups, rules, strategy in queues
        ]
        if sum(bool(groups) and strategy is not flow for groups, _, strategy in examined) > 1:
            # Each queue can only use what the queues served before it leave.
            earlier = replace(earlier, as_expected=False)
        asked = [group for groups, _, _ in examined for group in groups]
        merged = merge_sets([groups for groups, _, _ in examined], state.relations)
        inputs = replace(self._inputs_for(state), max_classes=_max_classes(state))
        planner = Planner(
            inputs,
            list(dict.fromkeys(group for groups in merged.queues for group in groups))
            if merged.members
            else [group for groups in merged.queues for group in groups],
            merged.standing(earlier),
            now_seconds,
            asked_by=merged.asked_by,
        )
        for number, (groups, (_, rules, strategy)) in enumerate(
            zip(merged.queues, examined, strict=True)
        ):
            # A strategy is not called for an empty queue: no group would be to blame if it failed.
            if groups:
                planner.begin_queue(number)
                strategy(groups, planner, rules)
        planner.start_beside_reservations()
        plan = self._start(state, planner, merged)
        plan = self._place_without_reservation(state, planner, merged, plan)
        reservations = merged.reservations(
            planner.reservations(plan.placements, with_machines=self._with_machines)
        )
        # Of all waiting groups, whether a strategy has examined them in this cycle or not.
        never = self._unsatisfiable(queue, plan, reservations)
        if len(asked) < len(queue):
            reservations += _unexamined_unknown(queue, asked, earlier, never)
        # What starts may be the company that another group lacks; and a group that cannot start in
        # one round with others, because it would break a constraint of theirs, can start after it.
        is_due = bool(state.relations) and any(
            each.start_seconds is not None and each.start_seconds <= now_seconds
            for each in reservations
        )
        decided = Decision(
            plan,
            reservations=tuple(reservations),
            unsatisfiable=never,
            not_examined=merged.names(planner.not_examined) - never.keys(),
            queue_order=tuple(rules.name for rules, _ in self._queues),
            rotation_pending=plan.helps_others
            or bool(plan.placed and (planner.left_without_company or is_due)),
        )
        if all(rules.depth is None for rules, _ in self._queues):
            return decided
        self._rotation.record_examined(asked, queue, earlier)
        pending = any(self._has_pending(decided, *walk) for walk in queues)
        return replace(decided, rotation_pending=pending or decided.rotation_pending)

    def _inputs_for(self, state: State) -> PlanningInputs:
        """What a planner reads; of an overlay everything is read anew."""
        if state is self._inputs.state:
            return self._inputs
        pricing = self._pricing.on(state)
        return replace(
            self._inputs,
            state=state,
            pricing=pricing,
            room_over_time=RoomOverTime(state, pricing),
            expected_ends=ExpectedEndsReader(state),
        )

    def _has_pending(
        self, decided: Decision, groups: Sequence[WaitingGroup], rules: QueueRules, _: Strategy
    ) -> bool:
        """Whether groups of this queue have not been examined yet, after this decision."""
        placed = {group.key for group in decided.plan.placed}
        waiting = [group for group in groups if group.key not in placed]
        earlier = StandingReservations({each.group: each for each in decided.reservations})
        return self._rotation.has_pending(waiting, rules, earlier)

    def _by_queue(self, queue: Sequence[WaitingGroup]) -> Iterator[_Walk]:
        """The groups of each queue; groups of unknown queues are in the first one."""
        if len(self._queues) == 1:
            rules, strategy = self._queues[0]
            yield queue, rules, strategy
            return
        known = {rules.name for rules, _ in self._queues}
        first = self._queues[0][0].name
        by_name: dict[str, list[WaitingGroup]] = {}
        for group in queue:
            by_name.setdefault(group.queue if group.queue in known else first, []).append(group)
        for rules, strategy in self._queues:
            yield by_name.get(rules.name, []), rules, strategy

    def _start(self, state: State, planner: Planner, merged: MergedSets) -> Plan:
        """A plan in which all groups start that the strategies have started.

        The optimiser's plan, if it has room for all and breaks no reservation, otherwise the
        planner's.
        """
        groups = merged.groups(planner.started())
        best = self._plan(state, groups)
        if len(best.placed) == len(groups) and planner.keeps_reservations(best.placements):
            return best
        found = planner.placements()
        planner.keeps_reservations(found)
        return Plan(found, tuple(groups), best.solves)

    def _place_without_reservation(
        self, state: State, planner: Planner, merged: MergedSets, started: Plan
    ) -> Plan:
        """Add groups admitted without reservation, on room that is neither taken nor reserved."""
        if not planner.without_reservation:
            return started
        reserved = [
            Placement(_reserved_task(number, of.shape), state.name_of(row), devices)
            for number, (of, row, devices) in enumerate(planner.reserved(started.placements))
        ]
        beside = with_placements(state, [*started.placements, *reserved])
        further = self._plan(beside, merged.groups(planner.without_reservation))
        return joined([started, _without_conflicts(state, started.placements, further)])

    def _unsatisfiable(
        self,
        groups: Sequence[WaitingGroup],
        plan: Plan,
        reservations: Sequence[Reservation] = (),
    ) -> Mapping[str, str]:
        """The groups that still wait and can never start, with the reason."""
        reasons = self._inputs.feasibility.infeasible_reasons(groups)
        if not reasons:
            return reasons
        # An answer may be outdated: it is wrong about a group that starts or has a reservation.
        starts = {group.key for group in plan.placed} | {each.group for each in reservations}
        return {name: reason for name, reason in reasons.items() if name not in starts}

    def _plan(self, state: State, groups: Sequence[WaitingGroup]) -> Plan:
        state.relations.use(relations_of(groups))
        pricing = self._pricing.on(state)
        if self._groups_of_round(state, pricing, groups) == len(groups):
            return plan_round(state, pricing, groups)
        sets = sets_in_order(groups, state.relations)
        plans: list[Plan] = []
        placed: list[Placement] = []
        left = state.overlay()
        pricing = pricing.on(left)
        while sets:
            count = self._groups_of_round(left, pricing, list(chain.from_iterable(sets)))
            part = _whole_sets(sets, count)
            found = plan_round(left, pricing, [group for one in sets[:part] for group in one])
            plans.append(_without_conflicts(state, placed, found))
            place_all(left, plans[-1].placements)
            placed += plans[-1].placements
            sets = sets[part:]
        return joined(plans)

    def _groups_of_round(
        self, state: State, pricing: Pricing, groups: Sequence[WaitingGroup]
    ) -> int:
        """How many groups one round takes; no group is divided."""
        pairs = 0
        classes: set[TaskClass] = set()
        # A round of few classes is never divided: their pairs need not be counted.
        not_counted: set[TaskClass] = set()
        group_classes = GroupClasses(state.relations)
        # Single tasks of these shapes, and with these labels if they matter, are of known classes.
        known: set[tuple[Shape, TaskLabels]] = set()
        for number, group in enumerate(groups):
            first = group.tasks[0]
            if len(group.tasks) == 1:
                kind = first.shape, first.labels
                if kind in known:
                    continue
                known.add(kind)
            more = set(group_classes.classes(group)) - classes
            classes |= more
            not_counted |= more
            if len(classes) <= MIN_CLASSES_PER_ROUND:
                continue
            pairs += sum(len(pricing.prices(each.shape).rows) for each in not_counted)
            not_counted.clear()
            if pairs > MAX_PAIRS_PER_ROUND and number:
                return number
        return len(groups)


def _unexamined_unknown(
    queue: Sequence[WaitingGroup],
    asked: Sequence[WaitingGroup],
    earlier: StandingReservations,
    never: Mapping[str, str],
) -> list[Reservation]:
    """The reservations of unknown start that groups keep which this cycle did not examine."""
    examined = {group.key for group in asked} | never.keys()
    found = (earlier.reservations.get(g.key) for g in queue if g.key not in examined)
    return [each for each in found if each is not None and each.start_seconds is None]


def _max_classes(state: State) -> int:
    """The classes for which the planner keeps rooms over time, each on every machine."""
    return max(MIN_CLASSES_PER_ROUND, MAX_PAIRS_PER_ROUND // max(1, len(state)))


def _whole_sets(sets: Sequence[GroupSet], count: int) -> int:
    """How many sets have at most so many groups together; at least one."""
    totals = accumulate(len(group_set) for group_set in sets)
    return max(1, sum(1 for _ in takewhile(lambda total: total <= count, totals)))


def _without_conflicts(state: State, before: Sequence[Placement], further: Plan) -> Plan:
    """The further plan, without the groups with constraints between tasks if together with the
    placements before it one would be refused where it is. Those groups wait for another round."""
    if not before or find_refused(state, [*before, *further.placements]) is None:
        return further
    group_classes = GroupClasses(state.relations)
    kept = [group for group in further.placed if not group_classes.is_related(group)]
    tasks = {task.id for group in kept for task in group.tasks}
    placements = tuple(each for each in further.placements if each.task.id in tasks)
    refused = len(further.placements) - len(placements) + further.refused_tasks
    return replace(
        further, placements=placements, placed=tuple(kept), cost=None, refused_tasks=refused
    )


def _reserved_task(number: int, shape: Shape) -> Task:
    """A task that takes reserved room for a while. No constraint between tasks concerns it."""
    if shape.relations is not NO_RELATIONS:
        shape = replace(shape, relations=NO_RELATIONS)
    return Task(f"reservation {number}", "", shape)


def place_all(state: State, placements: Iterable[Placement]) -> None:
    """Enters placements into an overlay."""
    for placement in placements:
        state.place(placement.task, placement.machine, placement.devices)


def with_placements(state: State, placements: Iterable[Placement]) -> State:
    """An overlay of the state in which these tasks run as well."""
    overlay = state.overlay()
    place_all(overlay, placements)
    return overlay
