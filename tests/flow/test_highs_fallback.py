"""Gates with HiGHS as a fallback, and without it if HiGHS fails."""

import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from gated_networks import built, gangs, least_cost, odd, wrong
from hypothesis import given, settings
from hypothesis import strategies as st
from mirrored_network import ids, ints

from afflux._core import Cancel, Columns, Gate, InfeasibleError, Network
from afflux.gates import highs_process
from afflux.gates.gated_solve import GatedChoice, safe_bound, solve_gated
from afflux.gates.integer_program import IntegerProgram, build_integer_program


def same(one: Columns, other: Columns) -> bool:
    names = ("nodes", "supply", "arcs", "tail", "head", "lower", "capacity", "cost")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def checked(network: Network, gates: list[Gate], **effort) -> GatedChoice:
    """The answer, after checks: the network is unchanged, and the flow belongs to the choice."""
    before = network.columns()
    answer = solve_gated(network, gates, **effort)
    assert same(network.columns(), before)
    assert wrong(network, gates, answer.open.tolist(), answer.cost) is None
    assert answer.gap == answer.cost - answer.bound >= 0
    return answer


class TestHighsClosesTheGap:
    @pytest.mark.parametrize("seed", range(4))
    def test_after_a_search_that_leaves_a_gap(self, seed: int) -> None:
        network, gates = gangs(seed, gangs=8)
        own = network.solve_gated(gates, flows=1)
        assert not own.is_optimal
        network, gates = gangs(seed, gangs=8)
        answer = checked(network, gates, flows=1)
        assert answer.cost == answer.bound == least_cost(network, gates)
        assert answer.is_optimal
        assert answer.bound_by == "highs"
        assert answer.choice_by == ("highs" if answer.cost < own.cost else "search")
        assert answer.fallback_note is None
        assert answer.flows > own.flows

    def test_in_a_large_network(self) -> None:
        """The model is larger than the buffer of a pipe."""
        network, gates = gangs(1, machines=60, gangs=60, admitted=6)
        known = network.solve_gated(gates, flows=100_000)
        assert known.is_optimal
        network, gates = gangs(1, machines=60, gangs=60, admitted=6)
        answer = checked(network, gates, flows=1)
        assert len(build_integer_program(network, gates, answer.open).to_bytes()) > 2**16
        assert (answer.cost, answer.bound_by) == (known.cost, "highs")
        assert answer.is_optimal

    def test_down_to_the_allowed_gap(self) -> None:
        network, gates = gangs(2, machines=60, gangs=60, admitted=6)
        answer = checked(network, gates, flows=0, gap_ppm=20_000)
        assert answer.fallback_note is None
        assert answer.gap * 1_000_000 <= 20_000 * answer.cost + 1_000_000

    @pytest.mark.long
    @pytest.mark.slow
    @settings(max_examples=30)
    @given(seed=st.integers(0, 2**32), flows=st.integers(0, 2))
    def test_and_is_never_worse_than_the_search(self, seed: int, flows: int) -> None:
        network, gates = odd(np.random.default_rng(seed))
        try:
            own = network.solve_gated(gates, flows=flows)
        except InfeasibleError:
            return
        network, gates = odd(np.random.default_rng(seed))
        answer = checked(network, gates, flows=flows)
        assert own.bound <= answer.bound <= least_cost(network, gates) <= answer.cost <= own.cost
        assert answer.fallback_note is None
        assert answer.is_optimal

    def test_without_importing_files_of_the_current_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "numpy.py").write_text("open('was-here', 'w').close()")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", "") + ":")
        network, gates = gangs(3)
        answer = checked(network, gates, flows=1)
        assert answer.choice_by == "highs"
        assert not (tmp_path / "was-here").exists()


class TestHighsIsNotAsked:
    @pytest.fixture(autouse=True)
    def _no_highs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(highs_process, "COMMAND", ("/nowhere/python",))

    def test_if_the_search_proves_the_optimum(self) -> None:
        network, gates = gangs(0)
        answer = checked(network, gates)
        assert answer.is_optimal
        assert (answer.choice_by, answer.bound_by, answer.fallback_note) == (
            "search",
            "search",
            None,
        )

    def test_if_the_gap_is_allowed(self) -> None:
        network, gates = gangs(0)
        answer = checked(network, gates, flows=0, gap_ppm=1_000_000)
        assert answer.gap > 0
        assert answer.fallback_note is None

    def test_if_it_has_no_time(self) -> None:
        network, gates = gangs(0)
        answer = checked(network, gates, flows=0, fallback_seconds=0)
        assert answer.fallback_note == "HiGHS was not asked: it was given no time"

    @pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
    def test_if_the_time_is_invalid(self, seconds: float) -> None:
        with pytest.raises(ValueError, match=r"fallback_seconds is .*, expected 0 or more"):
            solve_gated(Network(), [], fallback_seconds=seconds)

    def test_if_a_capacity_is_too_large(self) -> None:
        network, gates = gangs(0)
        nodes = network.columns().nodes
        network.add_arcs(nodes[:1], nodes[1:2], ints(0), ints(2**53 + 1), ints(0))
        answer = checked(network, gates, flows=0)
        assert answer.gap > 0
        expected = "capacity: 9007199254740993 is not exact in floating point, expected at most"
        assert answer.fallback_note == f"{expected} 2**53"

    def test_if_waiting_costs_are_too_large(self) -> None:
        network, gates = gangs(0)
        gates = [Gate(gate.members, gate.counts, 2**60) for gate in gates]
        answer = checked(network, gates, flows=0)
        assert answer.gap > 0
        assert answer.fallback_note == f"cost: {answer.cost} is not exact in floating point"

    def test_if_it_cannot_be_started(self) -> None:
        network, gates = gangs(0)
        answer = checked(network, gates, flows=0)
        assert answer.fallback_note is not None
        assert answer.fallback_note.startswith("HiGHS could not be started: ")

    def test_if_it_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "highspy", None)
        network, gates = gangs(0)
        answer = checked(network, gates, flows=0)
        assert answer.fallback_note == "HiGHS is not installed: expected the package highspy"


def says(text: str) -> str:
    return f"print({text!r})"


def advice(gates: int, **changed: object) -> str:
    return says(json.dumps({"status": "Optimal", "open": [True] * gates, "bound": None} | changed))


WRONG = {
    "crash": ("import os; os.kill(os.getpid(), 9)", "HiGHS was ended by signal 9"),
    "failure": ("raise OSError('full')", "HiGHS failed with exit status 1: OSError: full"),
    "silence": ("", "the answer of HiGHS cannot be read: "),
    "no JSON": (says("Optimal"), "the answer of HiGHS cannot be read: "),
    "no object": (says("[1]"), "the answer of HiGHS is no object"),
    "too few gates": (advice(11), "HiGHS answers a choice that is not 12 times true or false"),
    "halves": (advice(0, open=[0.5] * 12), "HiGHS answers a choice that is not 12 times"),
    "a word for gates": (advice(0, open="all"), "HiGHS answers a choice that is not 12 times"),
    "no number": (advice(12, bound=float("nan")), "HiGHS answers a bound of nan, expected"),
    "a word": (advice(12, bound="high"), "HiGHS answers a bound of 'high', expected"),
    "too much": (advice(12), "HiGHS knew nothing better: Optimal"),
    "too high": (advice(0, open=None, bound=1e12), "HiGHS says that no choice costs less than "),
    "nothing": (advice(0, open=None, status=None), "HiGHS knew nothing better: no status"),
}


class TestTheSearchAnswerStays:
    @pytest.mark.parametrize(("code", "reason"), WRONG.values(), ids=WRONG)
    def test_if_the_answer_of_highs_is_invalid(
        self, code: str, reason: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(highs_process, "COMMAND", (sys.executable, "-S", "-c", code))
        network, gates = gangs(3)
        own = network.solve_gated(gates, flows=1)
        network, gates = gangs(3)
        answer = checked(network, gates, flows=1)
        assert (answer.cost, answer.bound) == (own.cost, own.bound)
        assert answer.open.tolist() == own.open.tolist()
        assert (answer.choice_by, answer.bound_by) == ("search", "search")
        assert answer.fallback_note is not None
        assert answer.fallback_note.startswith(reason)

    def test_if_the_package_cannot_be_imported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "highspy.py").write_text("raise ImportError('libhighs is missing')")
        monkeypatch.syspath_prepend(str(tmp_path))
        network, gates = gangs(3)
        answer = checked(network, gates, flows=1)
        assert answer.choice_by == "search"
        expected = "HiGHS failed with exit status 1: ImportError: libhighs is missing"
        assert answer.fallback_note == expected

    def test_if_highs_takes_too_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sleep = (sys.executable, "-S", "-c", "import time; time.sleep(60)")
        monkeypatch.setattr(highs_process, "COMMAND", sleep)
        network, gates = gangs(3)
        answer = checked(network, gates, flows=1, fallback_seconds=0.2)
        assert answer.fallback_note == "HiGHS gave no answer in time and was stopped"

    def test_if_the_call_is_cancelled(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        began = tmp_path / "began"
        code = f"import time; open({str(began)!r}, 'w').close(); time.sleep(60)"
        monkeypatch.setattr(highs_process, "COMMAND", (sys.executable, "-S", "-c", code))
        network, gates = gangs(3)
        cancel = Cancel()

        def cancel_during_highs() -> None:
            while not began.exists():
                time.sleep(0.01)
            cancel.cancel()

        canceller = threading.Thread(target=cancel_during_highs, daemon=True)
        canceller.start()
        answer = checked(network, gates, flows=1, cancel=cancel)
        canceller.join()
        assert answer.fallback_note == "cancelled while HiGHS was at work"

    def test_if_the_choice_of_highs_is_infeasible(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(highs_process, "COMMAND", (sys.executable, "-S", "-c", advice(2)))
        arcs = [(0, 1, 0, 2, 1), (0, 1, 0, 3, 5), (0, 1, 0, 3, 50)]
        network, gates = built([3, -3], arcs, [({0: 2}, 7), ({1: 3}, 7)])
        answer = checked(network, gates, flows=0)
        assert answer.choice_by == "search"
        assert answer.fallback_note == "HiGHS knew nothing better: Optimal"

    def test_and_the_network_is_unchanged_if_the_check_is_interrupted(self) -> None:
        class Interrupted:
            """A network whose `solve` is interrupted."""

            def __getattr__(self, name: str):
                return getattr(network, name)

            def solve(self) -> None:
                raise KeyboardInterrupt

        network, gates = gangs(3)
        before = network.columns()
        with pytest.raises(KeyboardInterrupt):
            solve_gated(Interrupted(), gates, flows=0)  # pyright: ignore[reportArgumentType]
        assert same(network.columns(), before)


def test_bounds_are_rounded_to_valid_bounds() -> None:
    assert safe_bound(42.0000001, 0) == 42
    assert safe_bound(41.9999, 0) == 42
    assert safe_bound(41.5, 0) == 42
    assert safe_bound(42.02, 0) == 43
    assert safe_bound(42.02, 100_000) == 42
    assert safe_bound(-41.5, 0) == -41
    assert safe_bound(2.0**52, 0) < 2**52


def test_a_written_program_is_read_back() -> None:
    # The members of the first gate share both nodes: their entries add up.
    arcs = [(0, 1, 0, 2, 3), (0, 1, 0, 4, 5), (1, 0, 0, 4, 1), (1, 1, 1, 6, -2), (0, 1, 0, 9, 7)]
    network, gates = built([6, -6], arcs, [({0: 2, 1: 4}, 50), ({2: 4}, 0)])
    network.solve_gated(gates)
    program = IntegerProgram.from_bytes(
        build_integer_program(network, gates, np.array([True, False])).to_bytes()
    )
    assert program.offset.tolist() == [50 - 12]
    assert program.cost.tolist() == [6 + 20 - 50, 4, 7]
    assert program.start.tolist() == [0, 2, 4, 6]
    # Row 0 is the earlier node of `built`.
    assert program.row.tolist() == [1, 2, 1, 2, 1, 2]
    assert program.entry.tolist() == [6, -6, -4, 4, 1, -1]
    assert program.upper.tolist() == [1, 1, 9]
    assert program.known.tolist() == [1, 0, 0]


def test_gates_without_members_are_opened() -> None:
    network = Network()
    network.add_nodes(ints(0))
    answer = solve_gated(network, [Gate(ids(), ints(), 5)])
    assert answer.cost == 0
    assert answer.open.tolist() == [True]
