"""Reservations: when a waiting group starts at the latest, and a machine for every member."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from afflux.model.placement import Placement


@dataclass(frozen=True, slots=True)
class Reservation:
    """The start that is reserved for a waiting group.

    The group, named by its key, starts at `start_seconds` at the latest; None means unknown,
    because the group waits for work without end. `machines` proves that the start is possible: it
    maps every member, by task id, to a machine that has room for it from then on. The group may
    start on other machines.
    """

    group: str
    start_seconds: float | None
    machines: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class StandingReservations:
    """The reservations that stand when a decision begins, by group.

    `as_expected` is True if since the last decision work has ended exactly when it was expected to,
    and no group has come that goes before one with a reservation. Then every reservation can be
    kept, and none can move to an earlier start. `has_unblocking_events` is True if since the last
    decision something has happened that may help a waiting group. `nominations` has, by group, the
    places for which tasks were evicted and that are held for it; `ending` the ids of evicted tasks
    that may still run.
    """

    reservations: Mapping[str, Reservation] = field(default_factory=dict[str, Reservation])
    as_expected: bool = False
    has_unblocking_events: bool = True
    nominations: Mapping[str, tuple[Placement, ...]] = field(
        default_factory=dict[str, tuple[Placement, ...]]
    )
    ending: frozenset[str] = frozenset()

    def start_of(self, group: str) -> float | None:
        """The reserved start of this group; None if it is unknown, or without reservation."""
        reservation = self.reservations.get(group)
        return None if reservation is None else reservation.start_seconds


NO_RESERVATIONS = StandingReservations()
