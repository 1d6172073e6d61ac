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

from afflux.cycle.events import (
    GroupReady,
    GroupWithdrawn,
    MachineSet,
    NamespaceSet,
    TaskEnded,
    TaskRuns,
)
from afflux.model.relations import NO_RELATIONS


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
    server.reader.forget_assumed(placed, refusal="binding to n was refused: no")
    assert event_types(server.take_events()) == [TaskEnded]
    assert [hold.why for _, hold in server.reader.register.take_held_back()] == [
        "binding to n was refused: no"
    ]
    assert server.reader.bind_refusals("default/p") == 1
    server.reader.retry("default/p")
    assert event_types(server.take_events()) == [GroupReady]


def test_a_refused_pod_that_is_retried_before_events_are_taken_is_queued_again():
    server, placed = server_with_assumed_pod()
    server.reader.forget_assumed(placed, refusal="binding to n was refused: no")
    server.reader.retry("default/p")
    assert event_types(server.take_events()) == [TaskEnded, GroupReady]
    assert server.reader.register.take_held_back() == []
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
    assert server.reader.register.present("default", "g") == []


# --- Namespaces, Services and controllers


def namespace(name, **labels):
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def replica_set(name, **labels):
    spec = {"selector": {"matchLabels": labels}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def service(name, **labels):
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"selector": labels},
    }


def owned_pod(name, uid, owner, **more):
    manifest = pod(name, uid, **more)
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "controller": True}
    manifest["metadata"]["ownerReferences"] = [reference]
    return manifest


def spread_selectors(server, uid):
    """The label requirements of the spread constraints with which a task waits."""
    group = next(each for each in server.cycle.queue if each.tasks[0].id == uid)
    constraints = group.tasks[0].shape.relations.spread
    return {
        tuple((one.key, one.values) for one in each.selector.labels or ()) for each in constraints
    }


def test_namespaces_are_reported_before_the_tasks_that_run_in_them():
    server = FakeApiServer()
    for manifest in (node("n"), pod("p", "u", nodeName="n"), namespace("default", team="a")):
        server.put(manifest)
    events = server.reader.take_events()
    labels = {"kubernetes.io/metadata.name": "default", "team": "a"}
    assert events[0] == NamespaceSet("default", labels)
    assert [type(each) for each in events[1:]] == [MachineSet, TaskRuns]
    server.delete("Namespace", "default")
    assert server.reader.take_events() == [NamespaceSet("default", {})]


def test_a_pod_gets_default_constraints_when_its_controller_is_known():
    server = FakeApiServer()
    server.put(owned_pod("p", "u", "web", labels={"app": "web"}))
    server.put(pod("q", "v", labels={"app": "web"}))
    server.take_events()
    assert spread_selectors(server, "u") == set()
    server.put(replica_set("web", app="web"))
    server.take_events()
    assert spread_selectors(server, "u") == {(("app", ("web",)),)}
    assert spread_selectors(server, "v") == set()
    server.delete("ReplicaSet", "web")
    server.take_events()
    assert spread_selectors(server, "u") == set()


def test_a_pod_follows_the_services_that_select_it():
    server = FakeApiServer()
    server.put(pod("p", "u", labels={"app": "web", "tier": "1"}))
    server.put(service("all", app="web"))
    server.take_events()
    assert spread_selectors(server, "u") == {(("app", ("web",)),)}
    server.put(service("one", tier="1"))
    server.take_events()
    assert spread_selectors(server, "u") == {(("app", ("web",)), ("tier", ("1",)))}
    server.put(service("all", app="other"))
    server.take_events()
    assert spread_selectors(server, "u") == {(("tier", ("1",)),)}
    server.delete("Service", "one")
    server.take_events()
    assert spread_selectors(server, "u") == set()


def test_only_pods_that_a_changed_service_concerns_are_looked_at_again():
    server = FakeApiServer()
    server.put(pod("p", "u", labels={"app": "web"}))
    server.take_events()
    server.put(service("other", app="db"))
    assert server.reader.take_events() == []


def test_a_pod_that_runs_has_no_default_constraints():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(service("all", app="web"))
    server.put(pod("p", "u", labels={"app": "web"}))
    server.take_events()
    assert spread_selectors(server, "u") == {(("app", ("web",)),)}
    server.put(pod("p", "u", labels={"app": "web"}, nodeName="n"))
    server.take_events()
    running = server.cycle.state.placed_task("u")
    assert running is not None
    assert running.task.shape.relations is NO_RELATIONS
    assert running.task.labels.labels == (("app", "web"),)


def test_a_changed_label_of_a_running_pod_is_reported():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u", labels={"app": "web"}, nodeName="n"))
    server.take_events()
    server.put(pod("p", "u", labels={"app": "db"}, nodeName="n"))
    (event,) = server.reader.take_events()
    assert event.task.labels.labels == (("app", "db"),)
