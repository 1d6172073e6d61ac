"""ClusterReader with changes at inconvenient moments: no resources leak, no state piles up."""

import pytest
from fake_api_server import (
    FakeApiServer,
    decoded,
    event_types,
    node,
    placement,
    pod,
    server_with_assumed_pod,
)

from afflux.cycle.events import MachineGone, TaskEnded
from afflux.kube.nodes import rejects_pod
from afflux.kube.pods import task as task_of
from afflux.model.taints import Toleration


def test_a_pod_deleted_while_a_cycle_places_it_frees_its_resources():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u"))
    server.take_events()
    placed = placement(server, "p", "n")
    # The cycle runs in its own thread while watch events arrive.
    server.cycle.state.place(placed.task, "n")
    server.delete("Pod", "p")
    server.reader.assume([placed])
    assert event_types(server.take_events()).count(TaskEnded) == 1
    assert server.cycle.state.machine_of("u") is None
    assert server.cycle.state.view().used("cpu").tolist()[0] == 0


def test_a_node_with_an_invalid_quantity_is_removed_until_it_is_corrected():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n"))
    server.take_events()
    # A CPU quantity that is out of range.
    server.put(node("n", cpu="1e30"))
    assert event_types(server.take_events()) == [MachineGone]
    assert list(server.cycle.state.machines()) == []
    server.put(node("n"))
    server.take_events()
    assert server.cycle.state.machine_of("u") == "n"


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
def test_a_node_rejects_pods_that_do_not_tolerate_its_state(spec, ready, tolerated, closed):
    manifest = node("n", **spec)
    manifest["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    assert rejects_pod(decoded(manifest), tolerated) is closed


def test_an_observed_pod_is_known_before_its_watch_event_arrives():
    server, placed = server_with_assumed_pod()
    server.take_events()
    old = server.reader.pods.get("default/p")
    server.reader.set_observed(placed.task.id, placed.task.name, None)
    server.reader.forget_assumed(placed)
    server.take_events()
    assert list(server.cycle.queue) == []

    server.put(pod("p", "second"))
    server.cut["Pod"] = True
    server.put(pod("p", "third"))
    second = server.reader.pods.get("default/p")
    third = decoded(server.items["Pod"]["p"])
    server.reader.set_observed(task_of(second).id, task_of(second).name, third)
    # The watch catches up with old events of earlier pods of the same name.
    server.reader.pods.changed(second)
    server.reader.pods.deleted(second)
    server.reader.pods.deleted(old)
    assert server.reader.pods.get("default/p") is third


def test_an_observation_is_ignored_if_the_watch_is_ahead():
    server, placed = server_with_assumed_pod()
    server.put(pod("p", "second"))
    server.reader.set_observed(placed.task.id, placed.task.name, None)
    assert server.reader.pods.get("default/p").metadata.uid == "second"


def test_pods_deleted_before_events_are_taken_leave_no_pending_changes():
    server = FakeApiServer()
    server.put(node("n"))
    for number in range(100):
        server.put(pod(f"p{number}", f"u{number}"))
        server.delete("Pod", f"p{number}")
    assert len(server.reader.changes) == 1
    server.put(pod("p", "u"))
    server.cut["Pod"] = True
    server.delete("Pod", "p")
    server.relist("Pod")
    assert len(server.reader.changes) == 1
    server.put(pod("p", "u"))
    server.take_events()
    server.delete("Pod", "p")
    assert len(server.reader.changes) == 1


def test_state_of_deleted_pods_and_nodes_is_dropped():
    server, placed = server_with_assumed_pod()
    server.take_events()
    server.reader.forget_assumed(placed, refusal="no")
    server.take_events()
    going = pod("p", "u")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    server.put(going)
    server.take_events()
    server.delete("Pod", "p")
    server.put(pod("q", "other", nodeName="n"))
    server.take_events()
    server.delete("Pod", "q")
    server.delete("Node", "n")
    server.take_events()
    # Another pod of that name starts without refusals.
    assert server.reader.bind_refusals("default/p") == 0
    assert server.reader._refusal_reasons == {}
    assert server.reader._pods_on_node == {}


def test_a_running_pod_with_an_invalid_quantity_takes_its_whole_node():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u", cpu="1e30", scheduler="another", nodeName="n"))
    server.take_events()
    state = server.cycle.state
    assert (state.view().capacity("pods") - state.view().used("pods"))[0] <= 0
    server.delete("Pod", "p")
    server.take_events()
    assert state.view().used("pods")[0] == 0
