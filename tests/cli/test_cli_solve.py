"""afflux solve: a minimum-cost-flow problem in DIMACS format."""

from collections.abc import Callable
from pathlib import Path

import pytest
from run_afflux import Afflux

# Two units from node 1 to node 4: the path through node 2 is cheaper but has capacity 1, and node 3
# must get one unit in any case.
PROBLEM = """\
c two ways
p min 4 5
n 1 2
n 4 -2
a 1 2 0 2 1
a 1 3 1 2 2
a 2 3 0 1 1
a 2 4 0 1 1
a 3 4 0 2 1
"""


@pytest.fixture
def problem(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "problem.min"
        path.write_text(text)
        return path

    return write


Write = Callable[[str], Path]


def test_the_optimal_cost_is_printed(afflux: Afflux, problem: Write) -> None:
    answer = afflux("solve", problem(PROBLEM))
    assert (answer.code, answer.out, answer.err) == (0, "5\n", "")


def test_json_has_cost_flows_in_the_order_of_the_arcs_and_prices_that_prove_it(
    afflux: Afflux, problem: Write
) -> None:
    answer = afflux("solve", problem(PROBLEM), "--json").json
    assert answer.keys() == {"version", "cost", "flows", "prices"}
    assert (answer["version"], answer["cost"]) == (1, 5)
    assert answer["flows"] == [1, 1, 0, 1, 1]
    assert len(answer["prices"]) == 4
    arcs = [tuple(map(int, line.split()[1:])) for line in PROBLEM.splitlines() if line[0] == "a"]
    for flow, (tail, head, lower, capacity, cost) in zip(answer["flows"], arcs, strict=True):
        reduced = cost + answer["prices"][tail - 1] - answer["prices"][head - 1]
        assert flow == capacity or reduced >= 0
        assert flow == lower or reduced <= 0


def test_a_problem_can_be_piped_in(afflux: Afflux, typed: Callable[[str], None]) -> None:
    typed(PROBLEM)
    assert afflux("solve", "-").out == "5\n"


def test_costs_may_be_large_and_negative(afflux: Afflux, problem: Write) -> None:
    big = 10**9
    text = f"p min 2 1\nn 1 {big}\nn 2 -{big}\na 1 2 0 {big} -{big}\n"
    assert afflux("solve", problem(text)).out == f"{-(big * big)}\n"


@pytest.mark.parametrize(
    "text",
    [
        PROBLEM.replace("n 1 2", "n 1 5").replace("n 4 -2", "n 4 -5"),
        # Each bound is possible by itself, but node 3 must receive more than it can send.
        PROBLEM.replace("a 1 3 1 2 2", "a 1 3 2 2 2").replace("a 3 4 0 2 1", "a 3 4 0 1 1"),
    ],
    ids=["supply", "lower bounds"],
)
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_problem_without_a_solution_is_exit_code_3_with_a_sentence(
    afflux: Afflux, problem: Write, text: str, flags: list[str]
) -> None:
    path = problem(text)
    answer = afflux("solve", path, *flags)
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith(f"afflux solve: {path}: no solution: ")
    assert answer.err.count("\n") == 1


def test_messages_count_nodes_and_arcs_as_the_file_does(afflux: Afflux, problem: Write) -> None:
    # Node 1 has two units to send and an arc for one.
    stuck = afflux("solve", problem("p min 2 1\nn 1 2\nn 2 -2\na 1 2 0 1 1\n"))
    assert "1 unit cannot leave node 1," in stuck.err
    # The second arc must bring more to node 3 than it can pass on.
    stuck = afflux("solve", problem("p min 3 2\nn 1 1\nn 2 -1\na 1 2 0 1 1\na 2 3 1 1 1\n"))
    assert "1 unit cannot leave node 3," in stuck.err
    dear = f"p min 2 2\nn 1 1\nn 2 -1\na 1 2 0 1 1\na 1 2 0 1 {2**63 - 1}\n"
    assert f"arc 2: cost is {2**63 - 1}" in afflux("solve", problem(dear)).complaint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["empty"]),
        ("c only a comment\n", ["p"]),
        (PROBLEM.replace("p min 4 5", "p max 4 5"), ["line 2", "max"]),
        (PROBLEM.replace("p min 4 5", "p min 4 6"), ["6", "5"]),
        (PROBLEM.replace("p min 4 5", "p min 4 4"), ["4", "5"]),
        (PROBLEM.replace("p min 4 5\n", ""), ["line 2"]),
        (PROBLEM + "p min 4 5\n", ["line 10"]),
        (PROBLEM.replace("n 1 2", "n 9 2"), ["line 3", "9"]),
        (PROBLEM.replace("n 1 2", "n 1 3"), ["3", "2"]),
        (PROBLEM.replace("n 4 -2", "n 1 -2"), ["line 4", "1"]),
        (PROBLEM.replace("a 1 2 0 2 1", "a 1 2 0 2"), ["line 5"]),
        (PROBLEM.replace("a 1 2 0 2 1", "a 1 7 0 2 1"), ["line 5", "7"]),
        (PROBLEM.replace("a 1 2 0 2 1", "a 1 2 3 2 1"), ["line 5", "3", "2"]),
        (PROBLEM.replace("a 1 2 0 2 1", "a 1 2 0 2 nan"), ["line 5", "nan"]),
        (PROBLEM.replace("a 1 2 0 2 1", f"a 1 2 0 2 {10**40}"), ["line 5"]),
        (PROBLEM.replace("a 1 2 0 2 1", "x 1 2 0 2 1"), ["line 5", "x"]),
        (PROBLEM.replace("a 1 2 0 2 1", "\x1b[31m 1"), ["line 5", "\\x1b[31m"]),
        ("p min 999999999999 1\na 1 2 0 1 1\n", ["line 1", "999999999999"]),
        ("x" * 5_000_000, ["line 1"]),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_text_that_is_not_dimacs_is_bad_input(
    afflux: Afflux, problem: Write, text: str, words: list[str], flags: list[str]
) -> None:
    path = problem(text)
    complaint = afflux("solve", path, *flags).complaint
    assert complaint.startswith(f"afflux solve: {path}")
    for word in words:
        assert word in complaint


def test_bytes_that_are_not_text_are_bad_input(afflux: Afflux, tmp_path: Path) -> None:
    path = tmp_path / "noise"
    path.write_bytes(b"p min 1 0\n\xff\xfe")
    assert "byte 10" in afflux("solve", path).complaint
