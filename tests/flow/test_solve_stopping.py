"""A solve does not block other threads of Python, and stops when it is cancelled or out of time."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from mirrored_network import ids, ints, long_solve, twin

from afflux._core import Cancel, ExpiredError, Network

pytestmark = pytest.mark.slow


def wait_until_solving(network: Network) -> None:
    """Return while another thread solves the network: until then it can be used."""
    with suppress(RuntimeError):
        while network.nodes:
            time.sleep(0.001)


@contextmanager
def during_the_solve(network: Network, action: Callable[[], None]) -> Iterator[None]:
    """Calls the action from another thread as soon as the network is being solved."""

    def act() -> None:
        wait_until_solving(network)
        action()

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    yield
    thread.join(60)
    assert not thread.is_alive()


def test_other_threads_run_during_a_long_solve() -> None:
    """Measured in CPU time of this process, which does not depend on other processes."""
    network = long_solve()
    ticks, done = [], threading.Event()

    def beat() -> None:
        while not done.wait(0.01):
            ticks.append(time.process_time())

    heart = threading.Thread(target=beat)
    heart.start()
    began = time.process_time()
    assert network.solve().is_optimal
    ended = time.process_time()
    done.set()
    heart.join()
    beats = [began, *(tick for tick in ticks if began < tick < ended), ended]
    # With the GIL held, one pause would be as long as the solve.
    assert np.diff(beats).max() < (ended - began) / 4


def test_another_thread_can_cancel() -> None:
    network, cancel = long_solve(classes=600, machines=6000), Cancel()
    with during_the_solve(network, cancel.cancel):
        answer = network.solve(cancel=cancel)
    assert cancel.is_cancelled
    assert not answer.is_optimal
    assert 0 < answer.gap == answer.cost - answer.bound


def test_a_cancelled_network_can_be_solved_later() -> None:
    network, cancel = long_solve(classes=200, machines=2000), Cancel()
    cancel.cancel()
    stopped = network.solve(cancel=cancel)
    best = network.solve()
    assert stopped.bound <= best.cost <= stopped.cost
    assert best.is_optimal
    assert best.cost == long_solve(classes=200, machines=2000).solve().cost


@pytest.mark.parametrize("budget", [0, 0.05, 0.2])
def test_at_the_end_of_the_budget_there_is_a_flow_and_a_bound(budget: float) -> None:
    network = long_solve(classes=600, machines=6000)
    answer = network.solve(budget_seconds=budget)
    # The optimum takes several times as long as the longest budget.
    assert not answer.is_optimal
    assert 0 < answer.gap == answer.cost - answer.bound
    # The flow is feasible: all units arrive.
    to_sink = ids(*range(600 * 6000, network.arcs))
    assert network.flow(to_sink).sum() == 6000 * 10


def test_a_small_network_is_solved_even_without_time() -> None:
    for seed in range(20):
        of = twin(seed)
        of.churn()
        cost = of.proven_cost()
        if cost is not None:
            of.set_cost(5)
            answer = of.network.solve(budget_seconds=0)
            assert answer.is_optimal
            assert of.wrong(of.columns()) is None


def test_levels_share_a_budget() -> None:
    network = Network()
    nodes = network.add_nodes(ints(1, 1, -2))
    ends = ids(0, 0, 1, 1), np.repeat(nodes[2:], 4)
    arcs = network.add_arcs(*ends, np.zeros(4, np.int64), np.ones(4, np.int64), ints(1, 9, 1, 9))
    answer = network.solve_levels([arcs[:1], arcs[2:3]], budget_seconds=0)
    assert answer.units == [1, 0]
    assert [kept.tolist() for kept in answer.guaranteed] == [[1]]
    assert answer.cost == 10
    assert answer.bound <= 2
    assert not answer.is_optimal
    assert network.solve_levels([arcs[:1], arcs[2:3]]).cost == 2


def test_cancelled_gates_without_a_flow_are_an_error() -> None:
    network = Network()
    network.add_nodes(ints(1, -1))
    network.add_arcs(ids(0), ids(1), ints(0), ints(1), ints(1))
    cancel = Cancel()
    cancel.cancel()
    with pytest.raises(
        ExpiredError, match="no feasible flow was found before the solve was stopped"
    ):
        network.solve_gated([], cancel=cancel)
    assert network.solve_gated([]).cost == 1


def test_a_network_that_is_being_solved_cannot_be_used() -> None:
    network, cancel = long_solve(classes=600, machines=6000), Cancel()
    solving = threading.Thread(target=network.solve, kwargs={"cancel": cancel})
    solving.start()
    refused = []
    while solving.is_alive() and len(refused) < 5:
        for use in (
            lambda: network.nodes,
            lambda: network.flow(ids(0)),
            lambda: network.set_cost(ids(0), ints(0)),
            network.solve,
        ):
            try:
                use()
            except RuntimeError as error:
                refused.append(str(error))
                cancel.cancel()
        time.sleep(0.001)
    solving.join()
    assert refused
    assert set(refused) == {
        "the network is being solved: use it after that call has returned, or use another network"
    }
    assert network.nodes == 6601


def test_networks_can_be_solved_in_parallel() -> None:
    networks = [long_solve(classes=100, machines=500 + 100 * number) for number in range(4)]
    costs = {}

    def work(number: int) -> None:
        costs[number] = networks[number].solve().cost

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = [long_solve(classes=100, machines=500 + 100 * n).solve().cost for n in range(4)]
    assert [costs[number] for number in range(4)] == alone


CTRL_C = """
from mirrored_network import long_solve
from test_solve_stopping import during_the_solve
network = long_solve(classes=800, machines=8000)
try:
    with during_the_solve(network, lambda: print("solving", flush=True)):
        network.solve()
except KeyboardInterrupt:
    print("interrupted", network.nodes, flush=True)
else:
    print("solved", flush=True)
"""


def test_ctrl_c_ends_a_solve() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CTRL_C],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "solving\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted 8801\n"
        assert process.wait(timeout=60) == 0
