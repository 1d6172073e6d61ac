"""afflux with a ledger: process killed, leader replaced, database killed or away for a while."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cluster_objects import create, delete, wait_placed
from pod_bursts import NODES, PODS_PER_NODE, Burst, create_nodes, gang, numbered_pods, pod
from psycopg import sql
from scheduler_process import SHORT_LEASE, WITHOUT_ELECTION, Scheduler, Schedulers
from testbed import ControlPlane, verdict

from afflux.ledger.embedded_postgres import EmbeddedPostgres, _servers

# Stories of 10 to 80 s each.
pytestmark = pytest.mark.long

SLOTS = NODES * PODS_PER_NODE
OUTAGE_SECONDS = 60.0


def ask(directory: str, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query, read by another connection."""
    server = EmbeddedPostgres(directory)
    try:
        with psycopg.connect(server.start()) as connection:
            return connection.execute(query.encode()).fetchall()
    finally:
        server.stop()


def queue(directory: str) -> list[tuple[str, float]]:
    query = "SELECT alone, ready_seconds FROM afflux.queue ORDER BY priority DESC, ready_seconds"
    try:
        return [(row[0], row[1]) for row in ask(directory, query)]
    except psycopg.errors.UndefinedTable:
        return []  # the ledger has no schema yet


def test_the_queue_keeps_its_order_when_the_process_is_killed(
    cluster: ControlPlane, schedulers: Schedulers, directory: str
) -> None:
    """The pods have nearly the same creation time, so that only the ledger knows their order."""
    sections = {
        "leaderElection": WITHOUT_ELECTION,
        "ledger": {"directory": directory},
        "strategy": "fcfs",
    }
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
    wait_placed(cluster, *names[:3])
    afflux.wait_until(lambda: queue(directory) == before[3:], "three to have left the queue")
    delete(cluster, "Pod", *names[:3])
    wait_placed(cluster, *names[3:6])
    ended = "SELECT alone, how, machines <> '{\"\"}' FROM afflux.finished_groups ORDER BY alone"
    afflux.wait_until(lambda: len(ask(directory, ended)) == 3, "three to be history")
    assert ask(directory, ended) == [(name, "deleted", True) for name in sorted(names[:3])]
    afflux.assert_healthy()
    assert afflux.stop() == 0
    assert not any(_servers(Path(directory).resolve() / "data"))


def test_no_pod_is_lost_when_the_process_is_killed_while_binding(
    cluster: ControlPlane, schedulers: Schedulers, directory: str
) -> None:
    create_nodes(cluster)
    afflux = schedulers.start(leaderElection=WITHOUT_ELECTION, ledger={"directory": directory})
    gangs = [each for number in range(8) for each in gang(f"gang-{number}", 8)]
    burst = Burst(cluster, [*gangs, *numbered_pods(SLOTS - len(gangs))], per_second=40)
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
    afflux.assert_healthy()


def test_a_suspended_leader_finds_the_ledger_taken_over(
    cluster: ControlPlane, schedulers: Schedulers, directory: str
) -> None:
    create_nodes(cluster)
    server = EmbeddedPostgres(directory)
    ledger = {"url": server.start()}
    try:
        leader = schedulers.start(leaderElection=SHORT_LEASE, ledger=ledger)
        leader.wait_until(lambda: schedulers.leader() is leader, "the first to lead")
        other = schedulers.start(leaderElection=SHORT_LEASE, ledger=ledger)
        burst = Burst(cluster, numbered_pods(SLOTS), per_second=40)
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
        other.assert_healthy()
    finally:
        server.stop()


@pytest.mark.parametrize("when_away", ["wait", "continue"])
def test_an_embedded_database_is_restarted_after_it_was_killed(
    cluster: ControlPlane, schedulers: Schedulers, directory: str, when_away: str
) -> None:
    """An embedded server is started again by the process that uses it."""
    create_nodes(cluster)
    ledger = {"directory": directory, "whenAway": when_away}
    afflux = schedulers.start(leaderElection=WITHOUT_ELECTION, ledger=ledger)
    burst = Burst(cluster, numbered_pods(SLOTS), per_second=60)
    burst.wait_bound(SLOTS // 4)
    pid_file = Path(directory) / "data" / "postmaster.pid"
    os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGKILL)
    burst.wait_all()
    verdict.assert_sound(cluster, burst.names)
    running = "SELECT count(*) FROM afflux.running_groups WHERE state = 'running'"
    afflux.wait_until(lambda: ask(directory, running) == [(SLOTS,)], "all to be written")
    assert "the ledger is away" in afflux.log.read_text()
    assert "the ledger is back" in afflux.log.read_text()
    afflux.assert_healthy()


class Side:
    """One of two schedulers with its own machines, pods and database."""

    def __init__(self, plane: ControlPlane, schedulers: Schedulers, name: str, server: str) -> None:
        """`server` is the address of the database; `name` is also the value of `whenAway`."""
        self.name = name
        self.url = server.replace("/postgres?", f"/{name}?")
        self._plane = plane
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        plane.create_nodes(1, cpu="6", prefix=name, labels={"side": name})
        self.afflux: Scheduler = schedulers.start(
            leaderElection=WITHOUT_ELECTION,
            strategy="fcfs",
            profiles=[{"schedulerName": name}],
            ledger={"url": self.url, "whenAway": name},
        )

    def create(self, *names: str, cpu: str = "1") -> None:
        side = {"nodeSelector": {"side": self.name}, "scheduler": self.name}
        create(self._plane, *(pod(f"{self.name}-{each}", cpu, **side) for each in names))

    def delete(self, *names: str) -> None:
        delete(self._plane, "Pod", *(f"{self.name}-{each}" for each in names))

    def wait_placed(self, *names: str) -> None:
        wait_placed(self._plane, *(f"{self.name}-{each}" for each in names))

    def bound(self) -> set[str]:
        """The names of the bound pods."""
        return {
            each["metadata"]["name"].removeprefix(f"{self.name}-")
            for each in self._plane.pods("default")
            if each["spec"]["schedulerName"] == self.name and each["spec"].get("nodeName")
        }

    def rows(self, table: str) -> list[str]:
        """The groups in a table of the ledger, in queue order."""
        query = sql.SQL("SELECT alone FROM {} ORDER BY priority DESC, ready_seconds")
        with psycopg.connect(self.url) as connection:
            found = connection.execute(query.format(sql.Identifier("afflux", table))).fetchall()
        return [row[0].removeprefix(f"{self.name}-") for row in found]

    def wait_rows(self, table: str, *names: str) -> None:
        self.afflux.wait_until(lambda: self.rows(table) == list(names), f"{names} in {table}")


def test_scheduling_and_the_queue_while_the_database_is_away_for_a_minute(
    cluster: ControlPlane, schedulers: Schedulers, directory: str
) -> None:
    """The server is stopped, and the schedulers cannot start it. One scheduler waits for it, the
    other continues."""
    server = EmbeddedPostgres(directory)
    address = server.start()
    try:
        waiting, continuing = sides = [
            Side(cluster, schedulers, name, address) for name in ("wait", "continue")
        ]
        for side in sides:
            side.create("a0", "a1", "a2", "a3")
            side.wait_placed("a0", "a1", "a2", "a3")
            # b0 does not fit, and b1 waits behind it.
            side.create("b0", cpu="3")
            side.create("b1")
        for side in sides:
            side.wait_rows("queue", "b0", "b1")
            side.wait_rows("running_groups", "a0", "a1", "a2", "a3")

        server.stop()
        began = time.monotonic()
        for side in sides:
            side.create("c1")
            side.create("c0")
            # Room for b0, then for b1.
            side.delete("a0")
        continuing.wait_placed("b0")
        for side in sides:
            side.delete("a1")
        continuing.wait_placed("b1")
        while time.monotonic() - began < OUTAGE_SECONDS:
            assert waiting.bound() == {"a2", "a3"}
            assert continuing.bound() == {"a2", "a3", "b0", "b1"}
            for side in sides:
                side.afflux.assert_healthy()
            time.sleep(5)
        server.start()

        waiting.wait_placed("b0", "b1")
        for side in sides:
            side.create("d0")
            # Pods that arrived during the outage keep their positions.
            side.wait_rows("queue", "c1", "c0", "d0")
            side.wait_rows("running_groups", "a2", "a3", "b0", "b1")
            side.wait_rows("finished_groups", "a0", "a1")
            assert float(side.afflux.logged(r"the ledger is back after ([\d.]+) s") or 0) > 50
            # A restarted process keeps them too.
            side.afflux.kill()
            side.afflux.start()
            side.delete("a2")
            side.wait_placed("c1")
            side.wait_rows("queue", "c0", "d0")
            side.delete("a3", "b1")
            side.wait_placed("c0", "d0")
            side.wait_rows("running_groups", "b0", "c1", "c0", "d0")
            side.afflux.assert_healthy()
        expected = [f"default/{side.name}-{name}" for side in sides for name in side.bound()]
        assert len(expected) == 8
        verdict.assert_sound(cluster, expected)
    finally:
        server.stop()
