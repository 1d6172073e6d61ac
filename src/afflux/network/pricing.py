"""Pricing: the policies' answers about every class, cached from cycle to cycle.

Policies are asked again only about the machines that changed since, so that an idle cluster costs
nothing however large it is.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from afflux.cluster import task_room
from afflux.cluster.machines import BoolColumn, Column, Machines
from afflux.cluster.state import State
from afflux.model.errors import InputError
from afflux.model.task import Shape
from afflux.policies.policy import Policy, Weighted, admitted_by

# The cache holds this many cells (classes times machines), about 300 MB, but at least
# MIN_CACHED_CLASSES classes.
MAX_CACHED_CELLS = 12_000_000
MIN_CACHED_CLASSES = 512
# The highest cost of a task on a machine: sums over whole clusters stay far within 64 bits.
MAX_COST = 1 << 40


@dataclass(slots=True)
class Prices:
    """One class, per machine: whether it is admitted, how many tasks fit, what the first one costs,
    and by how much each further one costs more."""

    admitted: BoolColumn
    room: Column
    cost: Column
    slope: Column
    as_of: int
    # The policies' cache keys: what the answers depend on besides each machine's own row.
    cache_key: tuple[object, ...] = ()


# The policies of every profile; a plain sequence has those of the profile without a name.
Profiles = Mapping[str, Sequence[Weighted]] | Sequence[Weighted]


class Pricing:
    """The cached answers of each profile's policies about one cluster."""

    def __init__(
        self,
        state: State,
        constraints: Sequence[Policy],
        policies: Profiles,
        *,
        max_cached_cells: int = MAX_CACHED_CELLS,
        min_cached_classes: int = MIN_CACHED_CLASSES,
    ) -> None:
        self._max_cached_cells = max_cached_cells
        self._min_cached_classes = min_cached_classes
        self._state = state
        profiles = policies if isinstance(policies, Mapping) else {"": policies}
        always = [Weighted(policy) for policy in constraints]
        self._profiles = {name: _Profile([*always, *chosen]) for name, chosen in profiles.items()}
        self._known: OrderedDict[Shape, Prices] = OrderedDict()

    def prices(self, shape: Shape) -> Prices:
        """The columns of a class for the current state."""
        known = self._known.get(shape)
        cache_key = self._cache_key(shape)
        if known is None or len(known.room) != len(self._state) or known.cache_key != cache_key:
            known = self._ask(shape, self._state.view())
            known.cache_key = cache_key
            self._known[shape] = known
        elif known.as_of < self._state.version:
            rows = np.flatnonzero(self._state.changed[: len(self._state)] > known.as_of)
            fresh = self._ask(shape, self._state.view(rows))
            known.admitted[rows] = fresh.admitted
            known.room[rows] = fresh.room
            known.cost[rows] = fresh.cost
            known.slope[rows] = fresh.slope
            known.as_of = self._state.version
        self._known.move_to_end(shape)
        while len(self._known) > self._max_cached_classes():
            self._known.popitem(last=False)
        return known

    def _max_cached_classes(self) -> int:
        return max(self._min_cached_classes, self._max_cached_cells // max(1, len(self._state)))

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """The policies that may refuse a machine to a class, in the order in which they run."""
        return self._profile(shape).policies

    def _profile(self, shape: Shape) -> "_Profile":
        profile = self._profiles.get(shape.profile)
        if profile is None:
            known = ", ".join(map(repr, self._profiles))
            raise LookupError(f"profile {shape.profile!r} has no policies; expected one of {known}")
        return profile

    def _cache_key(self, shape: Shape) -> tuple[object, ...]:
        machines = self._state.view()
        return tuple(p.cache_key(shape, machines) for p in self._profile(shape).with_cache_key)

    def _ask(self, shape: Shape, machines: Machines) -> Prices:
        # Requests come first: a resource that is new to the state gets a column.
        requests = self._state.requests(shape)
        asked = np.flatnonzero(requests)
        room = task_room.room(machines.free_of(asked), requests[asked])
        if shape.devices is not None:
            np.minimum(room, task_room.device_room(machines.free_devices, shape.devices), out=room)
        profile = self._profile(shape)
        admitted = admitted_by(profile.refusing, shape, machines)
        room[~admitted] = 0
        cost = np.zeros(len(machines), np.int64)
        slope = np.zeros(len(machines), np.int64)
        for weighted in profile.with_cost:
            policy = weighted.policy
            cost += weighted.weight * _checked(policy, "cost", policy.cost(shape, machines), cost)
        for weighted in profile.with_slope:
            policy = weighted.policy
            slope += weighted.weight * _checked(
                policy, "slope", policy.slope(shape, machines), cost
            )
        return Prices(admitted, room, cost, slope, self._state.version)


class _Profile:
    """The policies of a profile by the methods that they override; only those are called."""

    def __init__(self, chosen: Sequence[Weighted]) -> None:
        self.policies = [weighted.policy for weighted in chosen]
        self.refusing = [p for p in self.policies if _overrides(p, "admits")]
        self.with_cache_key = [p for p in self.policies if _overrides(p, "cache_key")]
        self.with_cost = [w for w in chosen if _overrides(w.policy, "cost")]
        self.with_slope = [w for w in chosen if _overrides(w.policy, "slope")]


def _overrides(policy: Policy, method: str) -> bool:
    return getattr(type(policy), method) is not getattr(Policy, method)


def _checked(policy: Policy, what: str, answer: Column, like: Column) -> Column:
    """The answer of a policy; an error that names the policy if it is no column of costs."""
    column, where = np.asarray(answer), f"policy {type(policy).__name__}: {what}"
    if column.shape != like.shape or column.dtype.kind not in "iu":
        found = f"{column.dtype} of shape {column.shape}"
        raise InputError(f"{where}: {found}; expected {len(like)} integers")
    if len(column) and not 0 <= int(column.min()) <= int(column.max()) <= MAX_COST:
        worst = int(column.min()) if column.min() < 0 else int(column.max())
        raise InputError(f"{where}: {worst}; expected 0 to {MAX_COST}")
    return column
