"""afflux with a ledger on a real API server: killed, deposed, without its database, and well."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from bursts import NODES, PER_NODE, Burst, create_nodes, gang, many, pod
from looking import create, delete, placed
from psycopg import sql
from scheduler import ALONE, SHORT, Scheduler, Schedulers
from testbed import ControlPlane, verdict

from afflux.ledger.embedded import Embedded, _servers

SLOTS = NODES * PER_NODE
AWAY_SECONDS = 60.0


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


class Side:
    """One of two schedulers with machines, pods and a database of its own."""

    def __init__(self, plane: ControlPlane, schedulers: Schedulers, name: str, server: str) -> None:
        """`server` is the address of its database's server, and its name is `whenAway`, too."""
        self.name = name
        self.url = server.replace("/postgres?", f"/{name}?")
        self._plane = plane
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        plane.create_nodes(1, cpu="6", prefix=name, labels={"side": name})
        self.afflux: Scheduler = schedulers.start(
            leaderElection=ALONE,
            strategy="fcfs",
            profiles=[{"schedulerName": name}],
            ledger={"url": self.url, "whenAway": name},
        )

    def create(self, *names: str, cpu: str = "1") -> None:
        side = {"nodeSelector": {"side": self.name}, "scheduler": self.name}
        create(self._plane, *(pod(f"{self.name}-{each}", cpu, **side) for each in names))

    def delete(self, *names: str) -> None:
        delete(self._plane, "Pod", *(f"{self.name}-{each}" for each in names))

    def placed(self, *names: str) -> None:
        placed(self._plane, *(f"{self.name}-{each}" for each in names))

    def bound(self) -> set[str]:
        """Who has a machine."""
        return {
            each["metadata"]["name"].removeprefix(f"{self.name}-")
            for each in self._plane.pods("default")
            if each["spec"]["schedulerName"] == self.name and each["spec"].get("nodeName")
        }

    def kept(self, table: str) -> list[str]:
        """The groups in a table of its ledger, in the order of the queue."""
        query = sql.SQL("SELECT name FROM {} ORDER BY priority DESC, ready_seconds")
        with psycopg.connect(self.url) as connection:
            found = connection.execute(query.format(sql.Identifier("afflux", table))).fetchall()
        return [row[0].removeprefix(f"{self.name}-") for row in found]

    def wait_kept(self, table: str, *names: str) -> None:
        self.afflux.wait_until(lambda: self.kept(table) == list(names), f"{names} in {table}")


def test_the_database_is_away_for_a_minute(
    cluster: ControlPlane, schedulers: Schedulers, directory: str
) -> None:
    """Really away: stopped, and nobody but the test can start it. Two schedulers live through it,
    one that waits for it and one that goes on."""
    server = Embedded(directory)
    address = server.start()
    try:
        waits, continues = sides = [
            Side(cluster, schedulers, name, address) for name in ("wait", "continue")
        ]
        for side in sides:
            side.create("a0", "a1", "a2", "a3")
            side.placed("a0", "a1", "a2", "a3")
            # The first does not fit, and whoever comes later waits behind it.
            side.create("b0", cpu="3")
            side.create("b1")
        for side in sides:
            side.wait_kept("queue", "b0", "b1")
            side.wait_kept("running_groups", "a0", "a1", "a2", "a3")

        server.stop()
        began = time.monotonic()
        for side in sides:
            side.create("c1")
            side.create("c0")
            # Room for the first in the queue, then for the second.
            side.delete("a0")
        continues.placed("b0")
        for side in sides:
            side.delete("a1")
        continues.placed("b1")
        while time.monotonic() - began < AWAY_SECONDS:
            assert waits.bound() == {"a2", "a3"}
            assert continues.bound() == {"a2", "a3", "b0", "b1"}
            for side in sides:
                side.afflux.assert_well()
            time.sleep(5)
        server.start()

        waits.placed("b0", "b1")
        for side in sides:
            side.create("d0")
            # Who came while nobody could write it down stands where he came.
            side.wait_kept("queue", "c1", "c0", "d0")
            side.wait_kept("running_groups", "a2", "a3", "b0", "b1")
            side.wait_kept("finished_groups", "a0", "a1")
            assert float(side.afflux.said(r"the ledger is back after ([\d.]+) s") or 0) > 50
            # Nor is that forgotten when the process is.
            side.afflux.kill()
            side.afflux.start()
            side.delete("a2")
            side.placed("c1")
            side.wait_kept("queue", "c0", "d0")
            side.delete("a3", "b1")
            side.placed("c0", "d0")
            side.wait_kept("running_groups", "b0", "c1", "c0", "d0")
            side.afflux.assert_well()
        expected = [f"default/{side.name}-{name}" for side in sides for name in side.bound()]
        assert len(expected) == 8
        verdict.assert_sound(cluster, expected)
    finally:
        server.stop()
