"""ClusterReader: changes of nodes and pods become the events that the cycle needs, no others."""

import pytest
from fake_api_server import (
    DEADLINE,
    FakeApiServer,
    event_types,
    node,
    placement,
    pod,
    running_pod,
    server_with_assumed_pod,
)

from afflux.cycle.events import GroupReady, GroupWithdrawn, TaskEnded, TaskRuns


def test_several_changes_of_a_pod_make_one_event():
    server = FakeApiServer()
    server.put(node("n"))
    for _ in range(5):
        server.put(pod("p", "u"))
    events = server.take_events()
    assert sum(isinstance(event, GroupReady) for event in events) == 1


def test_an_irrelevant_change_makes_no_event():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u"))
    server.take_events()
    changed = pod("p", "u")
    changed["status"] = {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}
    server.put(changed)
    assert server.take_events() == []


def test_pods_of_other_schedulers_are_counted_but_not_queued():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("theirs", "u", scheduler="another"))
    assert len(server.take_events()) == 1
    server.put(pod("theirs", "u", scheduler="another", nodeName="n"))
    assert event_types(server.take_events()) == [TaskRuns]


def test_pods_are_counted_when_their_node_comes_later_or_comes_back():
    server = FakeApiServer()
    server.put(pod("p", "u", nodeName="n"))
    server.take_events()
    server.put(node("n"))
    server.take_events()
    assert server.cycle.state.machine_of("u") == "n"
    server.delete("Node", "n")
    server.take_events()
    assert server.cycle.state.machine_of("u") is None
    server.put(node("n"))
    server.take_events()
    assert server.cycle.state.machine_of("u") == "n"


# --- Assumed pods


def test_an_assumed_pod_is_not_offered_again_while_the_watch_is_behind():
    server, _ = server_with_assumed_pod()
    server.put(pod("p", "u", labels={"new": "label"}))
    assert GroupReady not in event_types(server.take_events())


def test_the_watch_event_of_an_assumed_pod_does_not_end_its_task():
    server, _ = server_with_assumed_pod()
    server.take_events()
    server.put(pod("p", "u", nodeName="n"))
    assert TaskEnded not in event_types(server.take_events())
    assert server.cycle.state.machine_of("u") == "n"


def test_a_pod_whose_binding_failed_waits_again_in_its_position():
    server, placed = server_with_assumed_pod()
    before = server.cycle.queue
    ready_seconds = next(iter(before)).ready_seconds
    server.take_events()
    server.reader.forget_assumed(placed)
    events = server.take_events()
    assert event_types(events) == [TaskEnded, GroupReady]
    assert events[1].group.ready_seconds == ready_seconds


def test_a_pod_whose_binding_was_refused_is_held_back_with_the_reason_until_it_is_retried():
    server, placed = server_with_assumed_pod()
    server.take_events()
    server.reader.forget_assumed(placed, "binding to n was refused: no")
    assert event_types(server.take_events()) == [TaskEnded]
    assert [why for _, why in server.reader.live_groups.take_held_back()] == [
        "binding to n was refused: no"
    ]
    assert server.reader.bind_refusals("default/p") == 1
    server.reader.retry("default/p")
    assert event_types(server.take_events()) == [GroupReady]


def test_a_refused_pod_that_is_retried_before_events_are_taken_is_queued_again():
    server, placed = server_with_assumed_pod()
    server.reader.forget_assumed(placed, "binding to n was refused: no")
    server.reader.retry("default/p")
    assert event_types(server.take_events()) == [TaskEnded, GroupReady]
    assert server.reader.live_groups.take_held_back() == []
    assert server.reader.bind_refusals("default/p") == 1


def test_a_pod_bound_by_another_client_stays_on_that_node():
    server, placed = server_with_assumed_pod()
    server.put(node("m"))
    server.put(pod("p", "u", nodeName="m"))
    server.take_events()
    server.reader.forget_assumed(placed)
    assert server.take_events() == []
    assert server.cycle.state.machine_of("u") == "m"


def test_a_pod_recreated_under_the_same_name_is_another_pod():
    server, placed = server_with_assumed_pod()
    server.take_events()
    server.put(pod("p", "second"))
    assert event_types(server.take_events()) == [TaskEnded, GroupReady]
    server.reader.forget_assumed(placed)
    assert server.take_events() == []


def test_the_unbound_members_of_a_gang_wait_as_one_group():
    server = FakeApiServer()
    server.put(node("n"))
    labels = {"afflux.dev/group-name": "g", "afflux.dev/group-size": "3"}
    for number in range(3):
        server.put(pod(f"p{number}", f"u{number}", labels=labels))
    server.take_events()
    placed = [placement(server, f"p{number}", "n") for number in range(3)]
    server.reader.assume(placed)
    assert event_types(server.take_events()) == [GroupWithdrawn]
    for failed in placed[:2]:
        server.reader.forget_assumed(failed)
    ready = [event.group for event in server.take_events() if isinstance(event, GroupReady)]
    assert [[task.id for task in group.tasks] for group in ready] == [["u0", "u1"]]


# --- Names that are used again


def test_pods_recreated_under_the_same_names_are_a_new_group():
    labels = {"afflux.dev/group-name": "g", "afflux.dev/group-size": "2"}
    server = FakeApiServer()
    server.put(node("n"))
    for number in range(2):
        server.put(pod(f"p{number}", f"old-{number}", labels=labels))
    server.take_events()
    for number in range(2):
        server.delete("Pod", f"p{number}")
        made = pod(f"p{number}", f"new-{number}", labels=labels)
        made["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00Z"
        server.put(made)
    events = server.take_events()
    (group,) = [event.group for event in events if isinstance(event, GroupReady)]
    assert [task.id for task in group.tasks] == ["new-0", "new-1"]
    assert group.ready_seconds == pytest.approx(1_767_229_200.0, abs=1.0)


def test_pods_that_end_leave_nothing_behind():
    labels = {"afflux.dev/group-name": "g", "afflux.dev/group-size": "2"}
    server = FakeApiServer()
    server.put(node("n"))
    for number in range(2):
        server.put(running_pod(f"p{number}", f"u{number}", labels=labels, **DEADLINE))
    server.take_events()
    for number in range(2):
        server.delete("Pod", f"p{number}")
    assert event_types(server.take_events()) == [TaskEnded, TaskEnded]
    assert server.reader.live_groups.waiting_group("default/g") is None


# --- Anti-affinity of running pods


def allowed_domains(server, uid):
    group = next(each for each in server.cycle.queue if each.tasks[0].id == uid)
    terms = [
        term for reachability in group.tasks[0].shape.reachability for term in reachability.terms
    ]
    return [(each.key, each.values) for term in terms for each in term.labels]


def in_zone(name, zone):
    manifest = node(name)
    manifest["metadata"]["labels"] = {"zone": zone}
    return manifest


def test_a_pod_that_anti_affinity_keeps_off_all_nodes_is_held_back_until_a_node_is_allowed():
    term = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "zone"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    lonely = pod("l", "v", scheduler="other", nodeName="n", affinity={"podAntiAffinity": required})
    server = FakeApiServer()
    for manifest in (in_zone("n", "a"), in_zone("m", "a"), lonely, pod("p", "u")):
        server.put(manifest)
    server.take_events()
    held = [why for _, why in server.reader.live_groups.take_held_back()]
    assert held == ["2 node(s) didn't satisfy existing pods anti-affinity rules"]
    assert list(server.cycle.queue) == []
    server.put(in_zone("m", "b"))
    server.take_events()
    assert [each.name for each in server.cycle.queue] == ["default/p"]
    server.delete("Node", "m")
    server.take_events()
    assert list(server.cycle.queue) == []
    server.put(in_zone("k", "b"))
    server.take_events()
    assert [each.name for each in server.cycle.queue] == ["default/p"]


def test_anti_affinity_of_a_running_pod_closes_its_own_domain_only():
    term = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "zone"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    server = FakeApiServer()
    server.put(in_zone("n", "a"))
    server.put(in_zone("m", "b"))
    server.put(pod("p", "u"))
    server.take_events()
    assert allowed_domains(server, "u") == []
    lonely = pod("l", "v", scheduler="other", nodeName="n", affinity={"podAntiAffinity": required})
    server.put(lonely)
    server.take_events()
    assert server.reader.live_groups.take_held_back() == []
    assert allowed_domains(server, "u") == [("zone", ("a",))]
    # The node is relabelled; then the pod is deleted.
    server.put(in_zone("n", "c"))
    server.take_events()
    assert allowed_domains(server, "u") == [("zone", ("c",))]
    server.delete("Pod", "l")
    server.take_events()
    assert allowed_domains(server, "u") == []
