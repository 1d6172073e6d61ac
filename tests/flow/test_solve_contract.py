"""The contract of `solve`: inputs, answers and errors."""

import threading

import numpy as np
import pytest
from random_networks import Network, cycle, network

from afflux._core import FlowError, InfeasibleError, Solution, solve

PLAIN = network([2, -2], (0, 1, 0, 2, 3))


def test_an_answer_has_cost_flow_and_prices() -> None:
    answer = solve(*PLAIN)
    assert isinstance(answer, Solution)
    assert answer.cost == 6
    assert answer.flow.tolist() == [2]
    assert answer.flow.dtype == answer.price.dtype == np.int64
    assert len(answer.price) == 2
    assert repr(answer) == "Solution(cost=6, 1 arcs, 2 nodes)"


def test_columns_can_be_named_and_read_only_and_shared() -> None:
    of = PLAIN._replace(lower=PLAIN.capacity)
    for column in of:
        column.setflags(write=False)
    assert solve(**of._asdict()).cost == 6


def test_a_problem_may_be_empty() -> None:
    assert solve(*network([])).cost == 0
    assert solve(*network([0, 0])).price.tolist() == [0, 0]


def test_a_cost_may_exceed_64_bits() -> None:
    assert solve(*network([2**58, -(2**58)], (0, 1, 0, 2**60, 2**40))).cost == 2**98


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        (network([0, 0], (0, 2, 0, 1, 1)), "arc 0: head is 2, expected a node from 0 to 1"),
        (network([0, 0], (-1, 1, 0, 1, 1)), "arc 0: tail is -1, expected a node from 0 to 1"),
        (network([0, 0], (0, 1, 0, -1, 1)), "arc 0: capacity is -1, expected 0 or more"),
        (network([0, 0], (0, 1, -1, 1, 1)), "arc 0: lower bound is -1, expected 0 or more"),
        (network([0, 0], (0, 1, 3, 2, 1)), "arc 0: lower bound 3 is above its capacity 2"),
        (network([1, 0], (0, 1, 0, 2, 1)), "supplies add up to 1, expected 0"),
        (
            network([0, 0], (0, 1, 0, 2, 2**62)),
            "arc 0: cost is 4611686018427387904, expected 192153584101141162 at most in "
            "magnitude for a network of this size",
        ),
        (
            PLAIN._replace(cost=np.zeros(2, np.int64)),
            "cost has 2 values, but tail has 1: expected one per arc in both",
        ),
    ],
)
def test_a_malformed_problem_is_refused(of: Network, sentence: str) -> None:
    with pytest.raises(FlowError) as error:
        solve(*of)
    assert type(error.value) is FlowError
    assert isinstance(error.value, ValueError)
    assert str(error.value) == sentence


def test_the_error_of_an_infeasible_problem_says_what_cannot_be_routed() -> None:
    with pytest.raises(InfeasibleError) as error:
        solve(*PLAIN._replace(capacity=np.array([1])))
    assert isinstance(error.value, FlowError)
    assert str(error.value) == (
        "no feasible flow: 1 unit cannot leave node 0, whose outgoing arcs are too small"
    )


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("tail", np.array([0]), "tail is an array of int64 with 1 dimensions, expected int32"),
        ("cost", np.array([0.5]), "cost is an array of float64 with 1 dimensions, expected int64"),
        ("cost", np.array([3], ">i8"), "cost is an array of >i8 with 1 dimensions, expected int64"),
        ("cost", np.array([[3]]), "cost is an array of int64 with 2 dimensions, expected int64"),
        ("lower", [0], "lower is a list, expected a NumPy array of int64"),
        ("head", None, "head is a NoneType, expected a NumPy array of int32"),
        ("supply", np.array([2, 0, -2, 0])[::2], "supply is not contiguous"),
    ],
)
def test_arrays_of_another_type_are_refused(field: str, value: object, sentence: str) -> None:
    with pytest.raises(TypeError) as error:
        solve(**PLAIN._asdict() | {field: value})
    assert str(error.value).startswith(sentence)


def test_other_threads_run_while_it_solves() -> None:
    of = cycle(np.random.default_rng(1), classes=40, machines=600, units=6000, slots=15)
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        for _ in range(5):
            solve(*of)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    turns = 0
    while not done.wait(0.001):
        turns += 1
    thread.join()
    # With the GIL held, this thread would run only between two solves.
    assert turns > 10
