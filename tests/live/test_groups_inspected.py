"""Groups as users see them by `afflux group`, `queue`, `reservations` and `history`: names that are
used twice, rolling updates, late members, and reasons after a restart."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from cluster_objects import create, delete, wait_for_reason, wait_placed
from live_manifests import in_group, pod
from scheduler_process import WITHOUT_ELECTION, Scheduler
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane, Manifest

from afflux.cli import main
from afflux.ledger.embedded_postgres import EmbeddedPostgres

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
ALL_STATES = "provisional,refused,waiting,unsatisfiable,starting,running"


class Inspected:
    """The answers of the commands, from the ledger of this scheduler."""

    def __init__(self, scheduler: Scheduler, database: str) -> None:
        self.scheduler = scheduler
        self._database = database

    def ask(self, *arguments: str) -> Any:
        """The answer as JSON, None if there is no such group."""
        code, out, error = self._run(*arguments)
        assert code in (0, 3), error
        return json.loads(out) if code == 0 else None

    def has_ledger(self) -> bool:
        """Whether the first take-over has written the schema."""
        return self._run("queue")[0] == 0

    def _run(self, *arguments: str) -> tuple[int, str, str]:
        out, error = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(error):
            code = main([*arguments, "--database", self._database, "-o", "json"])
        return code, out.getvalue(), error.getvalue()

    def write(self, statement: str) -> None:
        """Change the ledger while no process leads."""
        with psycopg.connect(self._database) as connection:
            connection.execute(statement.encode())

    def group(self, name: str) -> dict[str, Any]:
        return self.ask("group", name) or {}

    def states(self) -> dict[str, str]:
        """Of all groups that have not ended."""
        return {each["name"]: each["state"] for each in self.items("queue", "--state", ALL_STATES)}

    def items(self, command: str, *arguments: str) -> list[dict[str, Any]]:
        return self.ask(command, *arguments)["items"]

    def line(self, command: str, name: str) -> dict[str, Any]:
        """The line of the group of this name, empty if there is none."""
        lines = [each for each in self.items(command) if each["name"] == name]
        return lines[0] if lines else {}

    def wait_states(self, **expected: str) -> None:
        """Wait until these are the groups that have not ended; `__` in a name is a minus sign."""
        groups = {name.replace("__", "-"): state for name, state in expected.items()}
        self.scheduler.wait_until(lambda: self.states() == groups, f"{groups}")

    def wait_state(self, name: str, state: str) -> dict[str, Any]:
        self.scheduler.wait_until(
            lambda: self.group(name).get("state") == state, f"{name} to be {state}"
        )
        return self.group(name)


@pytest.fixture(scope="module")
def inspected(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Inspected]:
    with TemporaryDirectory(prefix="ledger-") as ledger:
        server = EmbeddedPostgres(ledger)
        url = server.start()
        sections = {
            "leaderElection": WITHOUT_ELECTION,
            "ledger": {"url": url},
            "strategy": "easy",
        }
        directory = tmp_path_factory.mktemp("inspected")
        try:
            with running_scheduler(control_plane, rights, directory, **sections) as process:
                found = Inspected(process, url)
                process.wait_until(found.has_ledger, "the ledger")
                yield found
        finally:
            server.stop()


@pytest.fixture
def cluster(control_plane: ControlPlane, inspected: Inspected) -> ControlPlane:
    """An empty cluster, and a ledger without present groups."""
    found = empty_cluster(control_plane, inspected.scheduler)
    inspected.wait_states()
    return found


def gang(name: str, count: int, size: int, cpu: str = "100m", **spec: Any) -> list[Manifest]:
    """The first members of a group."""
    return [pod(f"{name}-{n}", cpu=cpu, **in_group(name, size), **spec) for n in range(count)]


def members(group: dict[str, Any]) -> dict[str, str]:
    """The states of the members, by name."""
    return {each["name"]: each["state"] for each in group["members"]}


# --- A pod and a group of one name


def test_a_group_ends_at_its_deadline_while_a_pod_of_its_name_runs(
    cluster: ControlPlane, inspected: Inspected
) -> None:
    cluster.create_nodes(1)
    create(cluster, pod("simx"))
    create(cluster, *gang("simx", 2, 2, activeDeadlineSeconds=3, restartPolicy="Never"))
    wait_placed(cluster, "simx", "simx-0", "simx-1")
    group = inspected.wait_state("simx", "running")
    assert members(group) == {"simx-0": "bound", "simx-1": "bound"}
    assert group["namesake"] == "fluxnetes-group-default-simx"

    inspected.scheduler.wait_until(lambda: bool(inspected.line("history", "simx")), "the end")
    ended = inspected.line("history", "simx")
    assert (ended["how"], ended["size"]) == ("deadline", 2)
    inspected.wait_states(simx="running")
    assert members(inspected.group("simx")) == {"simx": "bound"}


def test_a_group_that_lacks_a_member_is_one_group_beside_a_pod_of_its_name(
    cluster: ControlPlane, inspected: Inspected
) -> None:
    cluster.create_nodes(1)
    create(cluster, pod("mpi"))
    wait_placed(cluster, "mpi")
    create(cluster, *gang("mpi", 2, 3))
    inspected.wait_states(mpi="provisional", fluxnetes__group__default__mpi="running")
    (line,) = inspected.items("queue")
    assert (line["name"], line["present"], line["size"]) == ("mpi", 2, 3)
    assert line["reason"] == "group default/mpi has 2 of 3 members"
    group = inspected.group("mpi")
    assert members(group) == {"mpi-0": "waiting", "mpi-1": "waiting"}
    lone = inspected.group(group["namesake"])
    assert (members(lone), lone["state"]) == ({"mpi": "bound"}, "running")


def test_a_pod_with_the_name_of_a_waiting_group_moves_neither_its_place_nor_its_reservation(
    cluster: ControlPlane, inspected: Inspected
) -> None:
    cluster.create_nodes(1, cpu="4")
    create(cluster, pod("busy", cpu="3", activeDeadlineSeconds=600))
    wait_placed(cluster, "busy")
    # Its end, and so the reservation, is counted from here.
    cluster.wait_until(lambda: "startTime" in cluster.pod("busy")["status"], "the start")
    create(cluster, *gang("head", 2, 2, cpu="2", activeDeadlineSeconds=60))
    create(cluster, pod("next", cpu="4", activeDeadlineSeconds=60))
    inspected.wait_states(busy="running", head="waiting", next="waiting")
    inspected.scheduler.wait_until(
        lambda: bool(inspected.line("reservations", "head").get("start")), "a reservation"
    )
    inspected.scheduler.wait_until(
        lambda: "Insufficient cpu" in inspected.line("queue", "head")["reason"], "a reason"
    )
    place, reserved = inspected.line("queue", "head"), inspected.line("reservations", "head")
    events = inspected.group("head")["events"]
    assert (place["position"], len(reserved["witness"])) == (1, 2)

    create(cluster, pod("head", cpu="4", activeDeadlineSeconds=60))
    lone = "fluxnetes-group-default-head"
    inspected.scheduler.wait_until(
        lambda: inspected.line("queue", lone).get("position") == 3, "the pod to be queued"
    )
    wait_for_reason(cluster, "head", "Insufficient cpu")
    assert inspected.line("queue", "head") == place
    assert inspected.line("reservations", "head") == reserved
    assert inspected.group("head")["events"] == events
    assert inspected.group(lone)["position"] == 3


# --- Members that come and go while the group runs


def test_a_rolling_restart_of_a_deployment_is_one_group_that_runs(
    cluster: ControlPlane, inspected: Inspected
) -> None:
    cluster.create_nodes(2)
    template = pod("-", **in_group("web", 4))
    labels = template["metadata"]["labels"] | {"app": "web"}
    spec = {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
    }
    cluster.api.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    before = set(members(inspected.wait_state("web", "running")))
    created = inspected.group("web")["created"]
    assert len(before) == 4

    cluster.kubectl("rollout", "restart", "deployment/web")
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    running = {each["metadata"]["name"] for each in cluster.pods("default", app="web")}

    def shows_the_new_pods() -> bool:
        found = inspected.group("web")
        bound = {name for name, state in members(found).items() if state == "bound"}
        return found["present"] == 4 and bound == running - before

    inspected.scheduler.wait_until(shows_the_new_pods, "the new pods to be the members")
    inspected.wait_states(web="running")
    group = inspected.group("web")
    assert group["created"] == created
    # The pods that it ran before are shown with their end.
    assert {name for name, state in members(group).items() if state == "ended"} == before
    assert not inspected.line("history", "web")


def test_members_that_come_while_the_group_runs_are_in_the_queue_with_their_reason(
    cluster: ControlPlane, inspected: Inspected
) -> None:
    cluster.create_nodes(1, cpu="1")
    create(cluster, *gang("pair", 2, 2, cpu="400m"))
    inspected.wait_state("pair", "running")
    assert inspected.items("queue") == []
    late = pod("late", cpu="400m", **in_group("pair", 2))
    create(cluster, late)
    inspected.scheduler.wait_until(
        lambda: "Insufficient cpu" in inspected.line("queue", "pair").get("reason", ""), "a reason"
    )
    line = inspected.line("queue", "pair")
    assert (line["state"], line["waiting"], line["position"]) == ("running", 1, None)
    (reserved,) = inspected.items("reservations")
    assert (reserved["name"], reserved["start"]) == ("pair", None)
    delete(cluster, "Pod", "pair-0")
    wait_placed(cluster, "late")
    inspected.scheduler.wait_until(lambda: inspected.items("queue") == [], "it to run")
    assert members(inspected.group("pair")) == {
        "pair-0": "ended",
        "pair-1": "bound",
        "late": "bound",
    }


# --- After a restart


def test_after_a_restart_a_group_that_can_never_start_shows_why(
    cluster: ControlPlane, inspected: Inspected
) -> None:
    """Nothing else happens: neither pods nor nodes change."""
    cluster.create_nodes(2, cpu="1")
    create(cluster, *gang("trio", 3, 3, cpu="600m"))
    before = inspected.wait_state("trio", "unsatisfiable")["reason"]
    assert before.startswith("needs room for 3 of its members at once")
    wait_for_reason(cluster, "trio-2", "Unsatisfiable")
    assert inspected.scheduler.stop() == 0
    # As a process leaves it that ends before it knows why the group waits.
    inspected.write("UPDATE afflux.queue SET state = 'waiting', reason = ''")
    assert inspected.group("trio")["reason"] == ""
    inspected.scheduler.start()
    assert inspected.wait_state("trio", "unsatisfiable")["reason"] == before
    assert inspected.line("queue", "trio")["reason"] == before
