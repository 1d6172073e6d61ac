"""Infeasible groups are reported for the whole queue, with bounded effort per report."""

from collections.abc import Sequence
from unittest.mock import patch

import pytest

from afflux.admit import feasibility
from afflux.admit.feasibility import Feasibility
from afflux.cluster.state import State
from afflux.model.relations import Relations
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing
from afflux.policies.registry import constraints
from oracles.builders import group, machine, shape
from oracles.related_tasks import apart, near, related_group, related_task, spread


class Reports:
    """Reports with the number of new answers and the names of the infeasible groups."""

    def __init__(self) -> None:
        self.state = State([machine("m", cpu=4)])
        self._feasibility = Feasibility(self.state, Pricing(self.state, constraints(), []))

    def of(self, waiting: Sequence[WaitingGroup]) -> tuple[int, set[str]]:
        find_out = Feasibility._compute
        with patch.object(Feasibility, "_compute", autospec=True, side_effect=find_out) as asked:
            found = self._feasibility.infeasible_reasons(waiting)
        return asked.call_count, set(found)


@pytest.fixture
def two_answers_per_report(monkeypatch):
    monkeypatch.setattr(feasibility, "MAX_EFFORT", 2 * feasibility.EFFORT_PER_CLASS)


def too_large(*numbers: int) -> list[WaitingGroup]:
    """Infeasible groups, each of another kind."""
    return [group(f"g{number}", shape(cpu=10 + number)) for number in numbers]


def names(*numbers: int) -> set[str]:
    return {f"g{number}" for number in numbers}


def test_groups_that_ask_for_the_same_share_one_answer():
    reports = Reports()
    waiting = [group(f"g{number}", shape(cpu=9)) for number in range(50)]
    assert reports.of(waiting) == (1, names(*range(50)))
    assert reports.of([*waiting, group("more", shape(cpu=9))]) == (0, {*names(*range(50)), "more"})


def test_an_answer_is_cached_until_a_machine_changes():
    reports = Reports()
    waiting = [group("g", shape(cpu=9))]
    assert reports.of(waiting) == (1, {"g"})
    reports.state.set_machine(machine("n", cpu=9))
    assert reports.of(waiting) == (1, set())
    reports.state.remove_machine("n")
    assert reports.of(waiting) == (1, {"g"})


@pytest.mark.usefixtures("two_answers_per_report")
def test_a_report_computes_a_bounded_number_of_answers_and_later_ones_the_rest():
    reports, waiting = Reports(), too_large(*range(5))
    assert reports.of(waiting) == (2, names(0, 1))
    assert reports.of(waiting) == (2, names(0, 1, 2, 3))
    assert reports.of(waiting) == (1, names(*range(5)))
    assert reports.of(waiting) == (0, names(*range(5)))


@pytest.mark.usefixtures("two_answers_per_report")
def test_old_answers_are_kept_and_renewed_oldest_first_after_changes():
    reports, waiting = Reports(), too_large(*range(5))
    for _ in range(3):
        reports.of(waiting)
    still = [names(*range(5))]
    # All groups have room now; each report renews the two oldest answers.
    for number in range(3):
        reports.state.set_machine(machine("n", cpu=20, labels={"changed": str(number)}))
        kinds, never = reports.of(waiting)
        assert kinds == 2
        assert never < still[-1]
        still.append(never)
    assert [len(each) for each in still] == [5, 3, 1, 0]
    # New groups come before old answers.
    reports.state.set_machine(machine("n", cpu=4))
    assert reports.of([*waiting, *too_large(5)])[1] > names(5)


# --- Constraints between tasks


def hosts(count: int) -> State:
    return State([machine(f"m{n}", cpu=9, labels={"host": f"m{n}"}) for n in range(count)])


def gang_apart(count: int, app: str = "web") -> WaitingGroup:
    tasks = [related_task(f"t{n}", "web", apart(app, "host")) for n in range(count)]
    return related_group("gang", *tasks)


def reason_of(state: State, waiting: WaitingGroup) -> str | None:
    return Feasibility(state, Pricing(state, constraints(), [])).infeasible_reason(waiting)


def test_members_that_repel_each_other_need_as_many_domains():
    assert reason_of(hosts(4), gang_apart(4)) is None
    assert reason_of(hosts(4), gang_apart(5)) == (
        "needs 5 different values of the label host for members that repel each other; the nodes"
        " that admit them have 4"
    )


def test_members_that_repel_others_need_no_domain_each():
    assert reason_of(hosts(2), gang_apart(5, "db")) is None


def test_members_that_repel_each_other_share_nodes_without_the_label():
    state = hosts(2)
    state.set_machine(machine("plain", cpu=9))
    assert reason_of(state, gang_apart(5)) is None


def test_affinity_to_tasks_that_do_not_run_may_be_met_one_day():
    waiting = related_group("w", related_task("w", "web", near("db", "host")))
    assert reason_of(hosts(1), waiting) is None


@pytest.mark.parametrize("relations", [near("db", "zone"), spread("web", "zone")])
def test_a_label_that_no_node_has_can_never_be_met(relations: Relations):
    waiting = related_group("w", related_task("w", "web", relations))
    assert reason_of(hosts(3), waiting) == (
        "needs a node with the label zone; none that admits it has the label"
    )
