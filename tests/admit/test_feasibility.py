"""Who can never start is said of all who wait, at a price that does not grow with their kinds."""

from collections.abc import Sequence
from unittest.mock import patch

import pytest

from afflux.admit import satisfying
from afflux.admit.satisfying import Satisfying
from afflux.cluster.state import State
from afflux.model.group import Group
from afflux.network.pricing import Pricing
from afflux.policies.registry import constraints
from oracles.building import group, machine, shape


class Reports:
    """How many kinds each report finds out about, and of whom it complains."""

    def __init__(self) -> None:
        self.state = State([machine("m", cpu=4)])
        self._satisfying = Satisfying(self.state, Pricing(self.state, constraints(), []))

    def of(self, waiting: Sequence[Group]) -> tuple[int, set[str]]:
        find_out = Satisfying._find_out
        with patch.object(Satisfying, "_find_out", autospec=True, side_effect=find_out) as asked:
            found = self._satisfying.complaints(waiting)
        return asked.call_count, set(found)


@pytest.fixture
def two_kinds_at_once(monkeypatch):
    monkeypatch.setattr(satisfying, "MOST_EFFORT", 2 * satisfying.OF_EACH_CLASS)


def too_large(*numbers: int) -> list[Group]:
    """As many kinds of them."""
    return [group(f"g{number}", shape(cpu=10 + number)) for number in numbers]


def names(*numbers: int) -> set[str]:
    return {f"g{number}" for number in numbers}


def test_who_asks_for_the_same_is_asked_about_once_and_then_no_more():
    reports = Reports()
    waiting = [group(f"g{number}", shape(cpu=9)) for number in range(50)]
    assert reports.of(waiting) == (1, names(*range(50)))
    assert reports.of([*waiting, group("more", shape(cpu=9))]) == (0, {*names(*range(50)), "more"})


def test_an_answer_holds_until_a_machine_changes():
    reports = Reports()
    waiting = [group("g", shape(cpu=9))]
    assert reports.of(waiting) == (1, {"g"})
    reports.state.set_machine(machine("n", cpu=9))
    assert reports.of(waiting) == (1, set())
    reports.state.remove_machine("n")
    assert reports.of(waiting) == (1, {"g"})


@pytest.mark.usefixtures("two_kinds_at_once")
def test_a_report_finds_out_about_so_many_kinds_and_the_next_ones_about_the_others():
    reports, waiting = Reports(), too_large(*range(5))
    assert reports.of(waiting) == (2, names(0, 1))
    assert reports.of(waiting) == (2, names(0, 1, 2, 3))
    assert reports.of(waiting) == (1, names(*range(5)))
    assert reports.of(waiting) == (0, names(*range(5)))


@pytest.mark.usefixtures("two_kinds_at_once")
def test_nobody_is_forgotten_whenever_a_machine_changes_and_everybodys_turn_comes():
    reports, waiting = Reports(), too_large(*range(5))
    for _ in range(3):
        reports.of(waiting)
    still = [names(*range(5))]
    # All of them would have room now; each report finds out about the two with the oldest answers.
    for number in range(3):
        reports.state.set_machine(machine("n", cpu=20, labels={"changed": str(number)}))
        kinds, never = reports.of(waiting)
        assert kinds == 2
        assert never < still[-1]
        still.append(never)
    assert [len(each) for each in still] == [5, 3, 1, 0]
    # Who is new goes before all of them.
    reports.state.set_machine(machine("n", cpu=4))
    assert reports.of([*waiting, *too_large(5)])[1] > names(5)
