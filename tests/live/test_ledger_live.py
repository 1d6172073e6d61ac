"""afflux with a ledger on a real API server: killed, deposed, without its database, and well."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from bursts import NODES, PER_NODE, Burst, create_nodes, gang, many, pod
from looking import create, delete, placed
from scheduler import SHORT, Schedulers
from testbed import ControlPlane, verdict

from afflux.ledger.embedded import Embedded, _servers

SLOTS = NODES * PER_NODE
ALONE = {"leaderElect": False}


@pytest.fixture
def directory() -> Iterator[str]:
    """Where a ledger of our own is; short, as paths of sockets have to be."""
    with TemporaryDirectory(prefix="ledger-") as name:
        yield name
        server = Embedded(name)
        server.start()
        server.stop()


def ask(directory: str, query: str) -> list[tuple[Any, ...]]:
    """What the ledger says, asked by somebody else."""
    server = Embedded(directory)
    try:
        with psycopg.connect(server.start()) as connection:
            return connection.execute(query.encode()).fetchall()
    finally:
        server.stop()


def queue(directory: str) -> list[tuple[str, float]]:
    query = "SELECT name, ready_seconds FROM afflux.queue ORDER BY priority DESC, ready_seconds"
    try:
        return [(row[0], row[1]) for row in ask(directory, query)]
    except psycopg.errors.UndefinedTable:
        return []  # it has only just begun


def test_killed_it_keeps_the_order(
    cluster: ControlPlane, schedulers: Schedulers, directory: str
) -> None:
    """Created within a second or two, which is all that the API server remembers of their order."""
    sections = {"leaderElection": ALONE, "ledger": {"directory": directory}, "strategy": "fcfs"}
    afflux = schedulers.start(**sections)
    names = [f"{letter}-pod" for letter in "ecagdfb"]
    create(cluster, *(pod(name, cpu="1") for name in names))
    afflux.wait_until(lambda: len(queue(directory)) == len(names), "all to be queued")
    before = queue(directory)
    assert [name for name, _ in before] == names
    for _ in range(2):
        afflux.kill()
        afflux.start()
    cluster.create_nodes(1, cpu="3")
    placed(cluster, *names[:3])
    afflux.wait_until(lambda: queue(directory) == before[3:], "three to have left the queue")
    delete(cluster, "Pod", *names[:3])
    placed(cluster, *names[3:6])
    ended = "SELECT name, how, machines <> '{\"\"}' FROM afflux.finished_groups ORDER BY name"
    afflux.wait_until(lambda: len(ask(directory, ended)) == 3, "three to be history")
    assert ask(directory, ended) == [(name, "deleted", True) for name in sorted(names[:3])]
    afflux.assert_well()
    assert afflux.stop() == 0
    assert not any(_servers(Path(directory).resolve() / "data"))


def test_killed_in_mid_bind_it_loses_nobody(
    cluster: ControlPlane, schedulers: Schedulers, directory: str
) -> None:
    create_nodes(cluster)
    afflux = schedulers.start(leaderElection=ALONE, ledger={"directory": directory})
    gangs = [each for number in range(8) for each in gang(f"gang-{number}", 8)]
    burst = Burst(cluster, [*gangs, *many(SLOTS - len(gangs))], per_second=40)
    for _ in range(3):
        burst.wait_bound(sum(each.bound for each in verdict.bindings(cluster)) + 1)
        afflux.kill()
        afflux.start()
    burst.wait_all()
    verdict.assert_sound(cluster, burst.names)
    groups = 8 + SLOTS - len(gangs)
    running = "SELECT count(*) FROM afflux.running_groups WHERE state = 'running'"
    afflux.wait_until(lambda: ask(directory, running) == [(groups,)], "all to be running")
    assert ask(directory, "SELECT count(*) FROM afflux.groups") == [(groups,)]
    assert ask(directory, "SELECT count(*) FROM afflux.pods WHERE machine <> ''") == [(SLOTS,)]
    assert ask(directory, "SELECT * FROM afflux.intents") == []
    afflux.assert_well()


def test_a_leader_that_slept_finds_the_ledger_taken(
    cluster: ControlPlane, schedulers: Schedulers, directory: str
) -> None:
    create_nodes(cluster)
    server = Embedded(directory)
    ledger = {"url": server.start()}
    try:
        leader = schedulers.start(leaderElection=SHORT, ledger=ledger)
        leader.wait_until(lambda: schedulers.leader() is leader, "the first to lead")
        other = schedulers.start(leaderElection=SHORT, ledger=ledger)
        burst = Burst(cluster, many(SLOTS), per_second=40)
        burst.wait_bound(SLOTS // 4)
        leader.signal(signal.SIGSTOP)
        other.wait_until(lambda: schedulers.leader() is other, "the other to lead")
        burst.wait_bound(sum(each.bound for each in verdict.bindings(cluster)) + 1)
        leader.signal(signal.SIGCONT)
        assert leader.wait_ended() == 1
        burst.wait_all()
        verdict.assert_sound(cluster, burst.names)
        epoch = schedulers.lease()["leaseTransitions"]
        assert ask(directory, "SELECT epoch FROM afflux.fence") == [(epoch,)]
        other.assert_well()
    finally:
        server.stop()


@pytest.mark.parametrize("when_away", ["wait", "continue"])
def test_the_database_is_killed_and_comes_back(
    cluster: ControlPlane, schedulers: Schedulers, directory: str, when_away: str
) -> None:
    """One of our own is started again by whoever needs it."""
    create_nodes(cluster)
    ledger = {"directory": directory, "whenAway": when_away}
    afflux = schedulers.start(leaderElection=ALONE, ledger=ledger)
    burst = Burst(cluster, many(SLOTS), per_second=60)
    burst.wait_bound(SLOTS // 4)
    pid_file = Path(directory) / "data" / "postmaster.pid"
    os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGKILL)
    burst.wait_all()
    verdict.assert_sound(cluster, burst.names)
    running = "SELECT count(*) FROM afflux.running_groups WHERE state = 'running'"
    afflux.wait_until(lambda: ask(directory, running) == [(SLOTS,)], "all to be written")
    assert "the ledger is away" in afflux.log.read_text()
    assert "the ledger is back" in afflux.log.read_text()
    afflux.assert_well()
