"""The mirror when the world changes at the wrong moment: no place is lost, nothing piles up."""

import pytest
from mirrored_server import Server, assumed, decoded, kinds, node, placement, pod

from afflux.cycle.events import MachineGone, TaskEnded
from afflux.kube.decoding import is_closed
from afflux.kube.decoding import task as task_of
from afflux.model.taints import Toleration


def test_a_pod_that_is_deleted_while_a_cycle_places_it_gives_its_place_back():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u"))
    server.drain()
    placed = placement(server, "p", "n")
    # The cycle runs in a thread of its own; meanwhile the watch goes on.
    server.cycle.state.place(placed.task, "n")
    server.delete("Pod", "p")
    server.mirror.assume([placed])
    assert kinds(server.drain()).count(TaskEnded) == 1
    assert server.cycle.state.where("u") is None
    assert server.cycle.state.view().used("cpu").tolist()[0] == 0


def test_a_node_that_cannot_be_used_any_more_is_gone_until_it_can():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n"))
    server.drain()
    # More processors than can be counted.
    server.put(node("n", cpu="1e30"))
    assert kinds(server.drain()) == [MachineGone]
    assert list(server.cycle.state.machines()) == []
    server.put(node("n"))
    server.drain()
    assert server.cycle.state.where("u") == "n"


CORDON = Toleration("node.kubernetes.io/unschedulable", "Exists")
TAINT = {"key": "k", "value": "v", "effect": "NoExecute"}
SOFT = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}


@pytest.mark.parametrize(
    ("spec", "ready", "tolerated", "closed"),
    [
        ({}, "True", (), False),
        ({"unschedulable": True}, "True", (), True),
        ({"unschedulable": True}, "True", (CORDON,), False),
        ({"taints": [TAINT]}, "True", (), True),
        ({"taints": [TAINT]}, "True", (Toleration("k", "Equal", "v"),), False),
        ({"taints": [SOFT]}, "True", (), False),
        ({"taints": [TAINT | {"effect": "Something"}]}, "True", (), True),
        ({}, "False", (), True),
        ({}, "Unknown", (), True),
        ({}, "Unknown", (Toleration("", "Exists"),), False),
    ],
)
def test_who_is_let_in_by_a_node_that_has_changed(spec, ready, tolerated, closed):
    manifest = node("n", **spec)
    manifest["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    assert is_closed(decoded(manifest), tolerated) is closed


def test_what_is_read_back_is_known_before_the_watch_says_it():
    server, placed = assumed()
    server.drain()
    old = server.mirror.pods.get("default/p")
    server.mirror.read_back(placed.task, None)
    server.mirror.unplaced(placed)
    server.drain()
    assert list(server.cycle.queue) == []

    server.put(pod("p", "second"))
    server.cut["Pod"] = True
    server.put(pod("p", "third"))
    second = server.mirror.pods.get("default/p")
    third = decoded(server.items["Pod"]["p"])
    server.mirror.read_back(task_of(second), third)
    # The watch catches up: old news about others of the same name.
    server.mirror.pods.changed(second)
    server.mirror.pods.deleted(second)
    server.mirror.pods.deleted(old)
    assert server.mirror.pods.get("default/p") is third


def test_what_is_read_back_is_of_no_interest_if_the_watch_is_ahead():
    server, placed = assumed()
    server.put(pod("p", "second"))
    server.mirror.read_back(placed.task, None)
    assert server.mirror.pods.get("default/p").metadata.uid == "second"


def test_who_has_never_looked_need_not_know_what_is_gone():
    server = Server()
    server.put(node("n"))
    for number in range(100):
        server.put(pod(f"p{number}", f"u{number}"))
        server.delete("Pod", f"p{number}")
    assert len(server.mirror.changes) == 1
    server.put(pod("p", "u"))
    server.cut["Pod"] = True
    server.delete("Pod", "p")
    server.relist("Pod")
    assert len(server.mirror.changes) == 1
    server.put(pod("p", "u"))
    server.drain()
    server.delete("Pod", "p")
    assert len(server.mirror.changes) == 1


def test_nothing_is_remembered_of_refused_pods_and_nodes_that_are_gone():
    server, placed = assumed()
    server.drain()
    server.mirror.unplaced(placed, "no")
    server.drain()
    going = pod("p", "u")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    server.put(going)
    server.drain()
    server.delete("Pod", "p")
    server.put(pod("q", "other", nodeName="n"))
    server.drain()
    server.delete("Pod", "q")
    server.delete("Node", "n")
    server.drain()
    # Another pod of that name starts afresh.
    assert server.mirror.refusals("default/p") == 0
    assert server.mirror._refused == {}
    assert server.mirror._on_node == {}


def test_a_running_pod_that_cannot_be_counted_takes_its_whole_machine():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u", cpu="1e30", scheduler="another", nodeName="n"))
    server.drain()
    state = server.cycle.state
    assert (state.view().capacity("pods") - state.view().used("pods"))[0] <= 0
    server.delete("Pod", "p")
    server.drain()
    assert state.view().used("pods")[0] == 0
