"""A plan: which tasks start, which are evicted for others, and how good that is.

It holds placements, evictions and nominations only. What else a scheduler decides about waiting
groups, such as reservations, is in the decision (`cycle/decision.py`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from afflux.model.eviction import Eviction
from afflux.model.placement import Placement
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.refused_proposals import RefusedProposals


@dataclass(frozen=True, slots=True)
class Plan:
    """Which groups start, and where; and which running tasks are evicted for which others.

    `placed` has the groups whose tasks are in `placements`. `nominated` are groups that wait for
    the tasks of `evictions` to end, on the machines in `nominations`; `overruns` has, by budget,
    the evictions beyond what it allows. `cost` is what the plan costs, waiting
    included; `bound` what the relaxed network, or the relaxed knapsack where not everything fits,
    says no plan can undercut, level by level given the levels above. Groups without room even alone
    are in neither. `refused_tasks` were placed and taken back, because tasks placed after them made
    their domain unfit. `refused_proposals` counts, by kind of constraint, what the network proposed
    and the account refused. `cut_searches` counts the searches for tasks with constraints between
    them that gave up at a limit, `untried_sets` the sets of tasks that require each other for which
    the round did not search, because it had reached a limit of searches. What they left waiting may
    have places, and another round follows.
    """

    placements: tuple[Placement, ...] = ()
    placed: tuple[WaitingGroup, ...] = ()
    solves: int = 0
    cost: int | None = None
    bound: int | None = None
    refused_tasks: int = 0
    refused_proposals: Mapping[str, int] = field(default_factory=RefusedProposals)
    cut_searches: int = 0
    untried_sets: int = 0
    evictions: tuple[Eviction, ...] = ()
    nominated: tuple[WaitingGroup, ...] = ()
    nominations: tuple[Placement, ...] = ()
    overruns: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def helps_others(self) -> bool:
        """Whether the next round may place tasks that this one left waiting, without any event:
        it placed tasks, and gave up a search, left out a set, or took tasks back."""
        left_waiting = self.cut_searches or self.untried_sets or self.refused_tasks
        return bool(self.placed) and bool(left_waiting)

    @property
    def gap(self) -> float | None:
        """The cost above the bound, as a share of the bound; None if unknown."""
        if self.cost is None or self.bound is None:
            return None
        return (self.cost - self.bound) / max(1, abs(self.bound))


def joined(plans: Sequence[Plan]) -> Plan:
    """Several plans, each made for the room that the earlier ones left, as one."""
    return Plan(
        placements=tuple(placement for each in plans for placement in each.placements),
        placed=tuple(group for each in plans for group in each.placed),
        solves=sum(each.solves for each in plans),
        cost=_sum([each.cost for each in plans]),
        bound=_sum([each.bound for each in plans]),
        refused_tasks=sum(each.refused_tasks for each in plans),
        refused_proposals=sum((Counter(p.refused_proposals) for p in plans), RefusedProposals()),
        cut_searches=sum(each.cut_searches for each in plans),
        untried_sets=sum(each.untried_sets for each in plans),
    )


def _sum(figures: Sequence[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if len(known) == len(figures) else None
