"""The causes of broken reservations are recorded for each reservation, at bounded cost."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from afflux.cycle.reservations import DelayCause, Reservations
from afflux.model.reservation import Reservation
from afflux.model.waiting_group import WaitingGroup
from oracles.builders import group, shape


def with_reservations(
    groups: list[WaitingGroup], start: float = 10.0, tolerance: float = 0.0
) -> Reservations:
    """Each of these groups has a reservation."""
    reservations = Reservations(tolerance)
    reservations.replace([Reservation(each.name, start) for each in groups], by_name(groups))
    return reservations


def by_name(groups: list[WaitingGroup]):
    return {each.name: each for each in groups}.get


def causes(reservations: Reservations, *names: str) -> list[tuple[str, DelayCause]]:
    return [(each.group, each.cause) for each in reservations.note_started(names, 11.0)]


def test_a_cause_applies_to_reservations_made_before_it():
    old, new = group("old", shape()), group("new", shape())
    reservations = with_reservations([old])
    reservations.note_disturbance(DelayCause.FOREIGN)
    reservations.note_disturbance(DelayCause.FOREIGN)
    both = [Reservation("old", 10.0), Reservation("new", 10.0)]
    reservations.replace(both, by_name([old, new]))
    assert causes(reservations, "new") == [("new", DelayCause.STRATEGY)]
    reservations.replace(both, by_name([old, new]))
    reservations.note_disturbance(DelayCause.FOREIGN)
    assert causes(reservations, "old", "new") == [
        ("old", DelayCause.FOREIGN),
        ("new", DelayCause.FOREIGN),
    ]


class CountedScans(dict):
    """A dictionary that counts how often all its values are visited."""

    scans = 0

    def values(self):
        self.scans += 1
        return super().values()


def test_many_changes_between_two_decisions_scan_the_reservations_once():
    groups = [group(f"g{number}", shape(cpu=1)) for number in range(100)]
    reservations = with_reservations(groups)
    reservations._records = records = CountedScans(reservations._records)
    for each in groups:
        reservations.note_ready(replace(each, run_seconds=5.0), each)
    assert records.scans == 1
    assert causes(reservations, "g7") == [("g7", DelayCause.CHANGED)]


def two_reservations(tolerance: float) -> tuple[Reservations, Callable[..., None]]:
    """Two reservations at 10, and a function that moves both."""
    groups = [group("one", shape()), group("other", shape())]
    reservations = with_reservations(groups, tolerance=tolerance)

    def move(one: float | None, other: float | None) -> None:
        again = [Reservation("one", one), Reservation("other", other)]
        reservations.replace(again, by_name(groups))

    return reservations, move


@pytest.mark.parametrize(
    ("tolerance", "cause"), [(0.0, DelayCause.OVERRUN), (1.0, DelayCause.STRATEGY)]
)
def test_a_delay_within_the_tolerance_is_no_cause_of_a_later_move(
    tolerance: float, cause: DelayCause
):
    reservations, move = two_reservations(tolerance)
    assert not reservations.standing(10.005).as_expected
    move(10.005, 10.005)
    move(10.005, 50.0)
    assert [(each.group, each.cause) for each in reservations.note_started(["other"], 50.0)] == [
        ("other", cause)
    ]


def test_a_delay_within_the_tolerance_is_the_cause_of_a_large_move_at_once():
    reservations, move = two_reservations(1.0)
    reservations.note_overrun(0.005)
    move(10.005, 50.0)
    move(60.0, None)
    assert [each.cause for each in reservations.note_started(["one", "other"], 60.0)] == [
        DelayCause.STRATEGY,
        DelayCause.OVERRUN,
    ]


def test_small_delays_add_up_to_a_cause():
    reservations, move = two_reservations(1.0)
    for start in (10.4, 10.8):
        reservations.note_overrun(0.4)
        move(start, 10.0)
    reservations.note_overrun(0.4)
    (broken,) = reservations.note_started(["one"], 11.2)
    assert (broken.reserved_start_seconds, broken.cause) == (10.0, DelayCause.OVERRUN)
