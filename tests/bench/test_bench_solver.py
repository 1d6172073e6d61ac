"""bench.solver: both solvers on the same networks in every round, and the report."""

import sys
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is not part of the package

from bench.solver import ortools_solver
from bench.solver.churn_rounds import FORMS, SHAPES, Case, Ours, Series, run
from bench.solver.memory_measurement import ROUNDS, measure
from bench.solver.network_columns import check_flow
from bench.solver.plot import draw
from bench.solver.results import HEADER, Figures

EVERY = [Case(*each, 25) for each in product(SHAPES, FORMS, (0.5, 0.9, 1.05))]
SOME = [Case(*each, 0.9, 50) for each in product(SHAPES, FORMS)]


def few_rounds(case: Case, seed: int = 1) -> Series:
    return run(case, rounds=3, seed=seed, with_peer=True, after_round=lambda _: None)


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_both_solvers_find_the_same_cost_in_every_round(case: Case):
    done = few_rounds(case)
    assert [r.number for r in done.rounds] == [0, 1, 2, 3, 4]
    assert len(done.churn) == 3
    assert all(r.peer_seconds for r in done.rounds)
    assert all((r.by_hand_seconds is not None) == (case.form == "pinned") for r in done.rounds)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_large_crowded_networks_are_solved_as_well(shape: str, form: str):
    """Scans by two threads, machines with many arcs, working sets that prove to be too small."""
    machines = 2_500 if shape == "c" else 5_000
    done = run(
        Case(shape, form, 0.9, machines),
        rounds=3,
        seed=3,
        with_peer=True,
        after_round=lambda _: None,
    )
    assert len(done.churn) == 3


def test_different_costs_stop_the_run_with_the_round(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ortools_solver, "solve_cold", lambda *_, **__: ortools_solver.Peer(0.1, -1))
    with pytest.raises(RuntimeError, match=r"shape a, free, load 0.9, 50 machines, round 0: .*-1"):
        few_rounds(SOME[0])


@pytest.mark.parametrize("case", SOME, ids=str)
def test_the_same_seed_makes_the_same_rounds_and_another_does_not(case: Case):
    costs = [[r.cost for r in few_rounds(case, seed).rounds] for seed in (1, 1, 2)]
    assert costs[0] == costs[1] != costs[2]


@pytest.mark.parametrize("case", SOME, ids=str)
def test_a_tenth_of_the_tasks_waits_at_first_and_pinned_tasks_stay(case: Case):
    cluster = case.cluster(1)
    columns = cluster.columns
    fixed = int(columns.lower[columns.present].sum())
    assert fixed == (round(0.9 * cluster.tasks) if case.form == "pinned" else 0)
    assert columns.supply.sum() == 0
    assert columns.supply.min() == -cluster.tasks


@pytest.mark.parametrize("case", SOME, ids=str)
def test_without_churn_no_machine_is_priced_again(case: Case):
    cluster = case.cluster(1)
    ours = Ours(cluster.columns)
    for _ in range(30):  # one improving move may enable others
        ours.solve(ours.prepare())
        cluster.place(ours.flow())
        cluster.churn(0.0)
        if not cluster.touched:
            break
    assert ours.prepare().arcs == 0


@pytest.mark.parametrize("case", SOME, ids=str)
def test_churn_prices_the_machines_that_changed(case: Case):
    cluster = case.cluster(1)
    before = cluster.columns.cost.copy()
    cluster.churn(0.02)
    changed = (cluster.columns.cost != before) & cluster.columns.present
    assert changed.any()
    assert 0 < cluster.touched <= round(0.02 * cluster.tasks)


@pytest.mark.parametrize("case", SOME, ids=str)
def test_an_infeasible_flow_is_an_error(case: Case):
    columns = case.cluster(1).columns
    ours = Ours(columns)
    cost = ours.solve(ours.prepare()).cost
    flow = ours.flow()
    assert check_flow(columns, flow) == cost
    used = np.flatnonzero(flow)
    for arc, units, complaint in [
        (used[0], -1, "outside the bounds|out of balance"),
        (np.flatnonzero(~columns.present)[0], 1, "not there"),
    ]:
        wrong = flow.copy()
        wrong[arc] += units
        with pytest.raises(ValueError, match=complaint):
            check_flow(columns, wrong)


def test_the_report_has_a_row_per_case_and_a_picture():
    cases = [Case("a", form, 0.9, machines) for form in FORMS for machines in (5, 50)]
    figures = Figures([few_rounds(case) for case in cases], {})
    rows = figures.rows()
    assert [len(row) for row in rows] == [len(HEADER)] * len(cases)
    assert rows[1][HEADER.index("10x cold")] != "-"
    assert {goal.what for goal in figures.goals()} >= {"cold, ours by OR-Tools"}
    assert ElementTree.fromstring(draw(figures)).tag.endswith("svg")  # noqa: S314


@pytest.mark.parametrize("of_peer", [False, True])
def test_memory_is_measured_in_a_separate_process(of_peer: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    used = measure(Case("b", "pinned", 0.9, 250), 1, of_peer=of_peer)
    assert len(used.seconds) == (1 if of_peer else ROUNDS)
    assert used.peak_bytes > 0
