"""The mirror when the world changes at the wrong moment: no place is lost, nothing piles up."""

import pytest
from test_kube_mirror import Server, decoded, kinds, node, placement, pod

from afflux.cycle.events import MachineGone, TaskEnded
from afflux.kube.decoding import is_closed
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
