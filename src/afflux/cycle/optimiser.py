"""The scheduler of this project: admit, price, connect, solve and plan for all groups at once.

Strategies say who may start, queue by queue in the order of the configuration; the optimiser says
where. Cost and memory grow with the number of classes times the number of machines. Where thousands
of tasks are all different, groups are taken in queue order in several rounds, each with as many
classes as can be held at once.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from afflux.admit.endings import Expecting
from afflux.admit.horizon import Horizon
from afflux.admit.planner import Outlook, Planner
from afflux.admit.satisfying import Satisfying
from afflux.admit.strategies import Strategy, flow
from afflux.cluster.state import State
from afflux.cycle.turns import Turns
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.promise import NOTHING_PROMISED, Promise, Standing
from afflux.model.task import Shape, Task
from afflux.network.pricing import Pricing, Profiles
from afflux.plan.rounds import Round, plan_round
from afflux.policies.policy import Policy
from afflux.queue.rules import QueueRules

# Classes times machines that one round may have, about 100 MB; and classes at the least.
CELLS = 2_000_000
FEWEST_CLASSES = 64

Queues = Sequence[tuple[QueueRules, Strategy]]
_Walk = tuple[Sequence[Group], QueueRules, Strategy]


class Optimising:
    """Queues with their strategies, and a set of policies for each profile, over one cluster.

    With `witnesses` every promise says on which machines; simulations do without.
    """

    def __init__(
        self,
        state: State,
        queues: Queues,
        constraints: Sequence[Policy],
        policies: Profiles,
        *,
        witnesses: bool = True,
    ) -> None:
        self._queues = list(queues)
        self._witnesses = witnesses
        self._pricing = pricing = Pricing(state, constraints, policies)
        self._outlook = Outlook(
            state,
            pricing,
            Horizon(state, pricing),
            Expecting(state),
            Satisfying(state, pricing),
            FEWEST_CLASSES,
        )
        self._turns = Turns(self._outlook.satisfying)

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """What may refuse a machine to a class, in the order in which it is asked."""
        return self._pricing.policies_of(shape)

    def decide(
        self,
        state: State,
        queue: Sequence[Group],
        now_seconds: float = 0.0,
        standing: Standing = NOTHING_PROMISED,
    ) -> Round:
        """The best plan found for those whom the strategies let start."""
        if all(strategy is flow and rules.depth is None for rules, strategy in self._queues):
            decided = self._plan(state, queue)
            return replace(decided, unsatisfiable=self._unsatisfiable(queue, decided))
        queues = list(self._by_queue(queue))
        walked = [
            (self._turns.whom(groups, rules, standing), rules, strategy)
            for groups, rules, strategy in queues
        ]
        if sum(bool(groups) and strategy is not flow for groups, _, strategy in walked) > 1:
            # Each of them counts only on what those served before it leave.
            standing = replace(standing, as_expected=False)
        asked = [g for groups, _, _ in walked for g in groups] if len(walked) > 1 else walked[0][0]
        outlook = replace(self._outlook, most_classes=_most_classes(state))
        planner = Planner(outlook, asked, standing, now_seconds)
        for groups, rules, strategy in walked:
            # Whose queue is empty is not asked: if it fails, that is about nobody.
            if groups:
                strategy(groups, planner, rules)
        decided = self._start(state, planner)
        decided = self._let_in(state, planner, decided)
        promises = planner.promises(decided.placements, seated=self._witnesses)
        # Of all who wait, whether the strategies came as far as them or not: who cannot start
        # because of others today is no less unsatisfiable than it was yesterday.
        never = self._unsatisfiable(queue, decided, promises)
        if len(asked) < len(queue):
            promises += _still_unknown(queue, asked, standing, never)
        decided = replace(
            decided,
            promises=tuple(promises),
            unsatisfiable=never,
            unreached=frozenset(planner.unreached - never.keys()),
            served=tuple(rules.name for rules, _ in self._queues),
        )
        if all(rules.depth is None for rules, _ in self._queues):
            return decided
        self._turns.looked_at(asked, queue, standing)
        return replace(decided, goes_on=any(self._are_to_come(decided, *walk) for walk in queues))

    def _are_to_come(
        self, decided: Round, groups: Sequence[Group], rules: QueueRules, _: Strategy
    ) -> bool:
        """Whether others are to be looked at, now that these have started or been told."""
        placed = {group.name for group in decided.placed}
        waiting = [group for group in groups if group.name not in placed]
        standing = Standing({each.group: each for each in decided.promises})
        return self._turns.are_to_come(waiting, rules, standing)

    def _by_queue(self, queue: Sequence[Group]) -> Iterator[_Walk]:
        """Each queue's groups; strangers are in the first queue."""
        if len(self._queues) == 1:
            rules, strategy = self._queues[0]
            yield queue, rules, strategy
            return
        known = {rules.name for rules, _ in self._queues}
        first = self._queues[0][0].name
        by_name: dict[str, list[Group]] = {}
        for group in queue:
            by_name.setdefault(group.queue if group.queue in known else first, []).append(group)
        for rules, strategy in self._queues:
            yield by_name.get(rules.name, []), rules, strategy

    def _start(self, state: State, planner: Planner) -> Round:
        """Everybody who may start does: as the optimiser proposes, or else as the planner found."""
        groups = planner.started()
        best = self._plan(state, groups)
        if len(best.placed) == len(groups) and planner.keeps_promises(best.placements):
            return best
        witness = planner.witness()
        planner.keeps_promises(witness)
        return Round(witness, tuple(groups), best.solves)

    def _let_in(self, state: State, planner: Planner, decided: Round) -> Round:
        """Then those who were let in, on what is neither taken nor promised."""
        if not planner.open:
            return decided
        promised = [
            Placement(Task(f"promise {number}", "", shape), state.name_of(row), devices)
            for number, (shape, row, devices) in enumerate(planner.held(decided.placements))
        ]
        with _assumed(state, [*decided.placements, *promised]):
            return _joined([decided, self._plan(state, planner.open)])

    def _unsatisfiable(
        self, groups: Sequence[Group], decided: Round, promises: Sequence[Promise] = ()
    ) -> Mapping[str, str]:
        """Who of those who still wait can never start, and why."""
        complaints = self._outlook.satisfying.complaints(groups)
        if not complaints:
            return complaints
        # Not all answers are of today: who starts, or will, is the proof that its own is not.
        starts = {group.name for group in decided.placed} | {each.group for each in promises}
        return {name: reason for name, reason in complaints.items() if name not in starts}

    def _plan(self, state: State, groups: Sequence[Group]) -> Round:
        rounds: list[Round] = []
        earlier: list[Placement] = []
        for part in _parts(groups, _most_classes(state)):
            # Later rounds see what the earlier ones have taken.
            with _assumed(state, earlier):
                rounds.append(plan_round(state, self._pricing, part))
            earlier += rounds[-1].placements
        return rounds[0] if len(rounds) == 1 else _joined(rounds)


def _still_unknown(
    queue: Sequence[Group], asked: Sequence[Group], standing: Standing, never: Mapping[str, str]
) -> list[Promise]:
    """Who was not looked at keeps the word that nobody knows when; it would come back next time."""
    looked_at = {group.name for group in asked} | never.keys()
    found = (standing.promises.get(g.name) for g in queue if g.name not in looked_at)
    return [each for each in found if each is not None and each.start_seconds is None]


def _most_classes(state: State) -> int:
    return max(FEWEST_CLASSES, CELLS // max(1, len(state)))


@contextmanager
def _assumed(state: State, placements: Sequence[Placement]) -> Generator[None]:
    """The state as if these had been carried out."""
    placed: list[str] = []
    try:
        for placement in placements:
            state.place(placement.task, placement.machine, placement.devices)
            placed.append(placement.task.id)
        yield
    finally:
        for task_id in placed:
            state.remove(task_id)


def _parts(groups: Sequence[Group], most_classes: int) -> Iterator[Sequence[Group]]:
    """The groups in order, in parts of so many classes at most; one group is never divided."""
    first = 0
    classes: set[Shape] = set()
    last: Shape | None = None
    for number, group in enumerate(groups):
        # Neighbours in the queue are often of one class.
        if len(group.shapes) == 1 and group.shapes[0][0] is last:
            continue
        more = classes.union(shape for shape, _ in group.shapes)
        if len(more) > most_classes and number > first:
            yield groups[first:number]
            first = number
            more = {shape for shape, _ in group.shapes}
        classes = more
        last = group.shapes[0][0]
    yield groups[first:]


def _joined(rounds: Sequence[Round]) -> Round:
    """One round for all: what was placed first is a given for those after it."""
    return Round(
        placements=tuple(placement for each in rounds for placement in each.placements),
        placed=tuple(group for each in rounds for group in each.placed),
        solves=sum(each.solves for each in rounds),
        cost=_sum([each.cost for each in rounds]),
        bound=_sum([each.bound for each in rounds]),
    )


def _sum(figures: Sequence[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if len(known) == len(figures) else None
