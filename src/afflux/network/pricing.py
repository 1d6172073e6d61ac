"""Pricing: the policies' answers about every class, cached from cycle to cycle.

Policies are asked again only about the machines that changed since, so that an idle cluster costs
nothing however large it is.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.machines import Column
from afflux.cluster.state import State
from afflux.cluster.task_room import room_of
from afflux.model.errors import InputError
from afflux.model.task import Shape
from afflux.policies.policy import Policy, Weighted, admitted_by

# The cache holds this many pairs of a class and a machine that admits it, about 340 MB, but at
# least MIN_CACHED_CLASSES classes.
MAX_CACHED_PAIRS = 12_000_000
MIN_CACHED_CLASSES = 512
# What the cached classes name together (see `Shape.parts`), about 150 MB.
MAX_CACHED_PARTS = 1_500_000
# The highest cost of a task on a machine: sums over whole clusters stay far within 64 bits.
MAX_COST = 1 << 40


@dataclass(slots=True)
class Prices:
    """One class on the machines that admit it: their rows in ascending order, how many tasks fit
    there now, what the first one costs, and by how much each further one costs more."""

    rows: NDArray[np.int32]
    room: Column
    cost: Column
    slope: Column
    as_of: int
    machines: int
    # The policies' cache keys: what the answers depend on besides each machine's own row.
    cache_key: tuple[object, ...] = ()

    def copy(self) -> "Prices":
        """The same columns, to be brought up to date independently of these."""
        return replace(
            self,
            rows=self.rows.copy(),
            room=self.room.copy(),
            cost=self.cost.copy(),
            slope=self.slope.copy(),
        )

    def by_machine(self, column: Column) -> Column:
        """One of the columns with an entry for every machine, 0 where the class is not admitted."""
        spread = np.zeros(self.machines, np.int64)
        spread[self.rows] = column
        return spread


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
        max_cached_pairs: int = MAX_CACHED_PAIRS,
        min_cached_classes: int = MIN_CACHED_CLASSES,
    ) -> None:
        self._max_cached_pairs = max_cached_pairs
        self._min_cached_classes = min_cached_classes
        self._state = state
        profiles = policies if isinstance(policies, Mapping) else {"": policies}
        always = [Weighted(policy) for policy in constraints]
        self._profiles = {name: _Profile([*always, *chosen]) for name, chosen in profiles.items()}
        self._known: OrderedDict[Shape, Prices] = OrderedDict()
        self._cached_pairs = 0
        self._cached_parts = 0
        # The pricing of the state below, if this is the pricing of an overlay.
        self._below: Pricing | None = None

    def on(self, state: State) -> "Pricing":
        """The pricing of an overlay of the state, or this one if it is the state itself. Policies
        are asked only about the machines that differ."""
        if state is self._state:
            return self
        other = copy(self)
        other._state, other._below = state, self
        other._known = OrderedDict()
        other._cached_pairs = other._cached_parts = 0
        return other

    def prices(self, shape: Shape) -> Prices:
        """The columns of a class for the current state."""
        state, known = self._state, self._known.get(shape)
        cache_key = self._cache_key(shape)
        before = 0 if known is None else len(known.rows)
        if known is None and self._below is not None:
            # The overlay may have no column yet for a resource that is new to the state below.
            state.requests(shape)
            known = self._known[shape] = self._below.prices(shape).copy()
            self._cached_parts += shape.parts
        if known is None or known.machines != len(state) or known.cache_key != cache_key:
            known = self._ask(shape, np.arange(len(state), dtype=np.int32))
            known.cache_key = cache_key
            self._cached_parts += 0 if shape in self._known else shape.parts
            self._known[shape] = known
        elif known.as_of < state.version:
            changed = np.flatnonzero(state.changed[: len(state)] > known.as_of)
            _update(known, self._ask(shape, changed.astype(np.int32)), changed)
        self._cached_pairs += len(known.rows) - before
        self._known.move_to_end(shape)
        while self._cached_too_much():
            oldest, prices = self._known.popitem(last=False)
            self._cached_pairs -= len(prices.rows)
            self._cached_parts -= oldest.parts
        return known

    def _cached_too_much(self) -> bool:
        if self._cached_parts > MAX_CACHED_PARTS:
            return len(self._known) > 1
        few = len(self._known) <= self._min_cached_classes
        return self._cached_pairs > self._max_cached_pairs and not few

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

    def _ask(self, shape: Shape, rows: NDArray[np.int32]) -> Prices:
        """The answers about these rows."""
        state = self._state
        profile = self._profile(shape)
        # Requests come first: a resource that is new to the state gets a column.
        requests = state.requests(shape)
        asked = np.flatnonzero(requests)
        admitted = admitted_by(profile.refusing, shape, state.view(_view_rows(rows, state)))
        rows = rows[admitted]
        machines = state.view(_view_rows(rows, state))
        room = room_of(requests[asked], shape, machines.free_for(shape, asked))
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
        return Prices(rows, room, cost, slope, state.version, len(state))


def _view_rows(rows: NDArray[np.int32], state: State) -> NDArray[np.intp] | None:
    """These rows for a view of the state; None, which is faster, if they are all there are."""
    return None if len(rows) == len(state) else rows.astype(np.intp)


def _update(known: Prices, fresh: Prices, changed: NDArray[np.intp]) -> None:
    """Replace what is known about changed rows by fresh answers about them."""
    is_changed = np.zeros(known.machines, np.bool_)
    is_changed[changed] = True
    stale = is_changed[known.rows]
    known.as_of = fresh.as_of
    if np.array_equal(known.rows[stale], fresh.rows):
        known.room[stale], known.cost[stale] = fresh.room, fresh.cost
        known.slope[stale] = fresh.slope
        return
    rows = np.concatenate([known.rows[~stale], fresh.rows])
    order = np.argsort(rows, kind="stable")
    known.rows = rows[order]
    known.room = np.concatenate([known.room[~stale], fresh.room])[order]
    known.cost = np.concatenate([known.cost[~stale], fresh.cost])[order]
    known.slope = np.concatenate([known.slope[~stale], fresh.slope])[order]


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
