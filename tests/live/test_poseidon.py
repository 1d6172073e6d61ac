"""An unmodified client of Firmament schedules a real API server's pods through the service."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_objects import create, delete, names, set_ready, set_spec
from live_manifests import HOSTNAME, pod
from poseidon_client import SCHEDULER, Poseidon, PoseidonExitError
from testbed import ControlPlane, Manifest

from rpc.serve_process import ServeProcess

RUN_SECONDS = {"testbed.afflux.dev/run-seconds": "1"}


class World:
    """A cluster, the service and its client, each of which can be restarted."""

    def __init__(self, cluster: ControlPlane, directory: Path) -> None:
        self.cluster = cluster
        self._directory = directory
        self._starts = 0
        self.service = self._started(0)
        self.client = Poseidon(cluster, self.service.port)

    def _started(self, port: int) -> ServeProcess:
        self._starts += 1
        directory = self._directory / str(self._starts)
        state = str(self._directory / "state")
        return ServeProcess(directory, "--state", state, port=port)

    def restart_client(self) -> None:
        self.client.close()
        self.client = Poseidon(self.cluster, self.service.port)

    def kill_service(self) -> None:
        self.service.kill()
        with pytest.raises(PoseidonExitError):
            self.client.step()
        self.service = self._started(self.service.port)
        self.restart_client()

    def close(self) -> None:
        self.client.close()
        with self.service:
            assert "Traceback" not in self.service.log
            assert self.service.stop() == 0

    # --- Pods

    def create(self, *manifests: Manifest) -> None:
        create(self.cluster, *manifests)

    def nodes_of(self) -> dict[str, str]:
        """The node of every bound pod."""
        pods = self.cluster.pods("default")
        bound = (each for each in pods if each["spec"].get("nodeName"))
        return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in bound}

    def settle(self) -> dict[str, str]:
        """Steps until nothing is bound any more; the node of every bound pod."""
        while self.client.step():
            pass
        return self.nodes_of()

    def wait_gone(self, *pods: str) -> None:
        self.cluster.wait_until(lambda: not names(self.cluster) & {*pods}, f"{pods} being gone")


@pytest.fixture
def world(cluster: ControlPlane, tmp_path: Path) -> Iterator[World]:
    made = World(cluster, tmp_path)
    yield made
    made.close()


def ours(name: str, cpu: str = "1", **fields: object) -> Manifest:
    return pod(name, scheduler=SCHEDULER, cpu=cpu, **fields)


def replica_set(replicas: int) -> Manifest:
    template = ours("-")
    template["metadata"] = {"labels": {"app": "web"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
        },
    }


def test_pods_are_bound_run_and_leave(world: World) -> None:
    """Exact fits in millicores, and slots that are given back."""
    world.cluster.create_nodes(2, cpu="2", pods=3)
    world.create(*(ours(f"p{n}") for n in range(5)))
    first = world.settle()
    assert len(first) == 4
    assert sorted(first.values()).count("node-0000") == 2
    assert len(world.client.unscheduled) == 1
    gone = min(first)
    delete(world.cluster, "Pod", gone)
    world.wait_gone(gone)
    assert len(world.settle()) == 4
    assert not world.client.unscheduled


def test_completed_pods_make_room_and_are_removed_later(world: World) -> None:
    world.cluster.create_nodes(1, cpu="1")
    short = ours("short", annotations=RUN_SECONDS, restartPolicy="Never")
    world.create(short)
    world.settle()
    world.create(ours("next"))

    def next_is_bound() -> bool:
        return "next" in world.settle()

    world.cluster.wait_until(next_is_bound, "the next pod being bound")
    delete(world.cluster, "Pod", "short")
    world.wait_gone("short")
    world.settle()


def test_pods_of_other_schedulers_take_room_and_slots(world: World) -> None:
    world.cluster.create_nodes(1, cpu="4", pods=2)
    world.create(pod("other", cpu="1", scheduler="someone-else"))
    world.cluster.bind("other", "node-0000")
    world.create(ours("a"), ours("b"))
    # The client tells of them a little later than of its own: the second slot is taken by then.
    world.client.step()
    assert len(world.settle()) == 2
    delete(world.cluster, "Pod", "other")
    world.wait_gone("other")
    assert set(world.settle()) == {"a", "b"}


def test_selectors_and_affinity_of_the_client(world: World) -> None:
    world.cluster.create_nodes(3, cpu="4")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    expression = {"key": HOSTNAME, "operator": "In", "values": ["node-0002"]}
    soft = {preferred: [{"weight": 100, "preference": {"matchExpressions": [expression]}}]}
    selector = {"matchLabels": {"app": "web"}}
    near = {required: [{"labelSelector": selector, "topologyKey": HOSTNAME}]}
    world.create(
        ours("selected", nodeSelector={HOSTNAME: "node-0001"}),
        ours("soft", affinity={"nodeAffinity": soft}),
        ours("nowhere", nodeSelector={HOSTNAME: "no-such-node"}),
    )
    found = world.settle()
    assert found == {"selected": "node-0001", "soft": "node-0002"}
    # Its selector is lost on the way: any pod of the namespace will do.
    world.create(ours("near", affinity={"podAffinity": near}))
    assert world.settle()["near"] in {"node-0001", "node-0002"}


def test_nodes_are_cordoned_fail_change_and_return(world: World) -> None:
    world.cluster.create_nodes(2, cpu="2")
    set_spec(world.cluster, "node-0000", unschedulable=True)
    world.create(ours("first"))
    assert world.settle() == {"first": "node-0001"}
    set_ready(world.cluster, "node-0001", "False")
    set_spec(world.cluster, "node-0000", unschedulable=False)
    world.create(ours("second"))
    assert world.settle()["second"] == "node-0000"
    set_ready(world.cluster, "node-0001", "True")
    world.settle()
    world.cluster.api.patch("/api/v1/nodes/node-0001", {"metadata": {"labels": {"disk": "ssd"}}})
    world.create(ours("third", nodeSelector={"disk": "ssd"}))

    def third_is_bound() -> bool:
        return world.settle().get("third") == "node-0001"

    # The taint of a node that is not ready goes a moment later than the condition.
    world.cluster.wait_until(third_is_bound, "the third pod being bound")


def test_ids_that_repeat_do_not_end_the_client(world: World) -> None:
    world.cluster.create_nodes(1, cpu="3")
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    world.cluster.api.create(sets, replica_set(3))

    def all_are_bound() -> bool:
        return len(world.settle()) == 3 == len(world.cluster.pods("default"))

    world.cluster.wait_until(all_are_bound, "three pods being bound")
    # The job has two pods for a moment, so that a new one gets the id of one that runs.
    for _ in range(3):
        delete(world.cluster, "Pod", min(names(world.cluster)))
        world.cluster.wait_until(all_are_bound, "the new pod being bound")
    world.cluster.api.patch(f"{sets}/web", {"spec": {"replicas": 0}})
    world.cluster.wait_until(lambda: not world.settle(), "all pods being gone")
    world.create(ours("large", cpu="3"))
    assert set(world.settle()) == {"large"}


def test_the_client_is_restarted(world: World) -> None:
    world.cluster.create_nodes(1, cpu="3")
    world.create(ours("a"), ours("b"))
    world.settle()
    world.create(ours("c"), ours("d"))
    world.restart_client()
    found = world.settle()
    assert len(found) == 3
    assert len(world.client.unscheduled) == 1


def test_a_placement_that_a_restarted_client_lost_is_told_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cluster.create_nodes(1, cpu="1")
    world.create(ours("a"))
    with monkeypatch.context() as lost:
        lost.setattr(world.client, "_bind", lambda _: 0)
        assert world.settle() == {}
    world.restart_client()
    assert world.settle() == {"a": "node-0000"}


def test_the_service_is_killed(world: World) -> None:
    world.cluster.create_nodes(1, cpu="3")
    world.create(ours("a"), ours("b"))
    world.settle()
    world.kill_service()
    # The client tells nothing about the pods that run, and their room is not used again.
    world.create(ours("c"), ours("d"))
    found = world.settle()
    assert len(found) == 3
    assert len(world.client.unscheduled) == 1
