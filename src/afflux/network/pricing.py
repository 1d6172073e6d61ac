"""Prices: what the policies answer for every class, kept from cycle to cycle.

Only rows that changed since a class was last asked about are asked about again, so that a quiet
cluster costs nothing however large it is.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from afflux.cluster.machines import BoolColumn, Column, Machines
from afflux.cluster.state import State
from afflux.model.errors import InputError
from afflux.model.task import Shape
from afflux.policies import fit
from afflux.policies.policy import Policy, Weighted, admitted_by

# Cells (classes times machines) whose columns are kept, about 300 MB; and classes at the least.
KEPT_CELLS = 12_000_000
KEPT_CLASSES = 512
# What a task may cost on a machine: sums over whole clusters stay far within 64 bits.
LARGEST_COST = 1 << 40


@dataclass(slots=True)
class Prices:
    """One class: where it may go at all, how many fit on each machine, what the first costs, what
    each further one adds."""

    admitted: BoolColumn
    room: Column
    cost: Column
    slope: Column
    as_of: int
    # What the answers depend on besides each machine's own row.
    figures: tuple[object, ...] = ()


# The policies of every profile; a plain sequence is those of the nameless one.
Profiles = Mapping[str, Sequence[Weighted]] | Sequence[Weighted]


class Pricing:
    """The answers of a set of policies about one cluster, a set for each profile."""

    def __init__(self, state: State, constraints: Sequence[Policy], policies: Profiles) -> None:
        self._state = state
        profiles = policies if isinstance(policies, Mapping) else {"": policies}
        always = [Weighted(policy) for policy in constraints]
        self._profiles = {name: _Profile([*always, *chosen]) for name, chosen in profiles.items()}
        self._known: OrderedDict[Shape, Prices] = OrderedDict()

    def prices(self, shape: Shape) -> Prices:
        """The columns of a class, as of now."""
        known = self._known.get(shape)
        figures = self._figures(shape)
        if known is None or len(known.room) != len(self._state) or known.figures != figures:
            known = self._ask(shape, self._state.view())
            known.figures = figures
            self._known[shape] = known
        elif known.as_of < self._state.version:
            changed = self._state.changed[: len(self._state)] > known.as_of
            rows = np.flatnonzero(changed)
            fresh = self._ask(shape, self._state.view(rows))
            known.admitted[rows] = fresh.admitted
            known.room[rows] = fresh.room
            known.cost[rows] = fresh.cost
            known.slope[rows] = fresh.slope
            known.as_of = self._state.version
        self._known.move_to_end(shape)
        while len(self._known) > max(KEPT_CLASSES, KEPT_CELLS // max(1, len(self._state))):
            self._known.popitem(last=False)
        return known

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """Everything that may refuse a machine to a class, in the order in which it is asked."""
        return self._profile(shape).policies

    def _profile(self, shape: Shape) -> "_Profile":
        profile = self._profiles.get(shape.profile)
        if profile is None:
            known = ", ".join(map(repr, self._profiles))
            raise LookupError(f"profile {shape.profile!r} has no policies; expected one of {known}")
        return profile

    def _figures(self, shape: Shape) -> tuple[object, ...]:
        machines = self._state.view()
        return tuple(p.figures(shape, machines) for p in self._profile(shape).wide)

    def _ask(self, shape: Shape, machines: Machines) -> Prices:
        # First what it asks for: a resource that nobody has named yet becomes a column.
        requests = self._state.requests(shape)
        asked = np.flatnonzero(requests)
        room = fit.room(machines.free_of(asked), requests[asked])
        if shape.devices is not None:
            np.minimum(room, fit.device_room(machines.free_devices, shape.devices), out=room)
        profile = self._profile(shape)
        admitted = admitted_by(profile.refusing, shape, machines)
        room[~admitted] = 0
        cost = np.zeros(len(machines), np.int64)
        slope = np.zeros(len(machines), np.int64)
        for weighted in profile.costing:
            policy = weighted.policy
            cost += weighted.weight * _checked(policy, "cost", policy.cost(shape, machines), cost)
        for weighted in profile.rising:
            policy = weighted.policy
            rise = _checked(policy, "slope", policy.slope(shape, machines), cost)
            slope += weighted.weight * rise
        return Prices(admitted, room, cost, slope, self._state.version)


class _Profile:
    """Policies by the questions on which they have an opinion; the others need not be asked."""

    def __init__(self, chosen: Sequence[Weighted]) -> None:
        self.policies = [weighted.policy for weighted in chosen]
        self.refusing = [p for p in self.policies if _answers(p, "admits")]
        self.wide = [p for p in self.policies if _answers(p, "figures")]
        self.costing = [w for w in chosen if _answers(w.policy, "cost")]
        self.rising = [w for w in chosen if _answers(w.policy, "slope")]


def _answers(policy: Policy, question: str) -> bool:
    return getattr(type(policy), question) is not getattr(Policy, question)


def _checked(policy: Policy, what: str, answer: Column, like: Column) -> Column:
    """A policy may come from anywhere: what is not a column of costs is refused by its name."""
    column = np.asarray(answer)
    if column.shape != like.shape or column.dtype.kind not in "iu":
        found = f"{column.dtype} of shape {column.shape}"
        raise InputError(
            f"policy {type(policy).__name__}: {what}: {found}; expected {len(like)} integers"
        )
    if len(column) and not 0 <= int(column.min()) <= int(column.max()) <= LARGEST_COST:
        worst = int(column.min()) if column.min() < 0 else int(column.max())
        raise InputError(
            f"policy {type(policy).__name__}: {what}: {worst}; expected 0 to {LARGEST_COST}"
        )
    return column
