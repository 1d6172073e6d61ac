"""ClusterReader: an error in one object does not affect others, and no change is lost."""

import pytest
from fake_api_server import FakeApiServer, event_types, node, pod, server_with_assumed_pod

from afflux.cycle.event_intake import ResyncRequest
from afflux.cycle.events import GroupReady, MachineSet, TaskEnded, TaskRuns
from afflux.groups import evaluation
from afflux.kube import objects
from afflux.kube.reader import cluster_reader


def test_a_placement_forgotten_before_events_are_taken_is_queued_again():
    server, placed = server_with_assumed_pod()
    server.reader.forget_assumed(placed)
    assert event_types(server.take_events()) == [TaskEnded, GroupReady]


def test_a_resync_of_a_machine_repeats_the_events_of_the_machine_and_its_pods():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n"))
    server.take_events()
    server.cycle.state.remove_machine("n")
    server.reader.resync([ResyncRequest("machine", "n", OverflowError())])
    server.put(node("n", cpu="5"))
    assert event_types(server.take_events()) == [MachineSet, TaskRuns]
    assert server.cycle.state.machine_of("u") == "n"


def test_a_resync_of_a_group_repeats_its_event():
    server = FakeApiServer()
    server.put(pod("p", "u"))
    server.take_events()
    server.reader.resync(
        [ResyncRequest("group", server.cycle.queue.considered()[0].key, OverflowError())]
    )
    assert event_types(server.take_events()) == [GroupReady]
    assert event_types(server.take_events()) == []


def test_no_events_are_lost_if_take_events_fails(monkeypatch):
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u"))
    with monkeypatch.context() as patched:
        patched.setattr(server.reader.cluster_storage, "take_changed_nodes", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            server.reader.take_events()
    assert {MachineSet, GroupReady} <= set(event_types(server.take_events()))


@pytest.mark.parametrize("where", [{}, {"nodeName": "n"}])
def test_an_internal_error_in_one_pod_does_not_affect_other_pods(monkeypatch, where):
    right = cluster_reader.task

    def wrong(pod, context):
        if pod.metadata.name == "odd":
            raise IndexError("inside")
        return right(pod, context)

    monkeypatch.setattr(cluster_reader, "task", wrong)
    server = FakeApiServer()
    server.put(node("n"))
    server.put(node("m"))
    server.put(pod("odd", "o", **where))
    server.put(pod("p", "u"))
    server.take_events()
    assert [group.name for group in server.cycle.queue] == ["default/p"]
    held = server.reader.register.take_held_back()
    if where:
        # The free resources of the node are unknown, so the pod takes all of them.
        row = server.cycle.state.rows["n"]
        assert dict(next(server.cycle.state.placed_on(row)).task.shape.requests)["pods"] > 10
    else:
        assert ["an error of the scheduler (IndexError)" in hold.why for _, hold in held] == [True]


def test_an_internal_error_in_one_group_does_not_affect_other_groups(monkeypatch):
    right = evaluation.gather

    def wrong(name, *more, **others):
        if name == "default/odd":
            raise IndexError("inside")
        return right(name, *more, **others)

    monkeypatch.setattr(evaluation, "gather", wrong)
    server = FakeApiServer()
    server.put(pod("odd", "o"))
    server.put(pod("p", "u"))
    server.take_events()
    assert [group.name for group in server.cycle.queue] == ["default/p"]
    held = server.reader.register.take_held_back()
    assert ["IndexError" in hold.why for _, hold in held] == [True]


def test_an_internal_error_about_a_group_that_waits_does_not_affect_other_groups(monkeypatch):
    right = evaluation.run_seconds_of

    def wrong(members, queue):
        if any(each.task.name == "default/odd" for each in members):
            raise IndexError("inside")
        return right(members, queue)

    server = FakeApiServer()
    server.put(pod("odd", "o"))
    server.take_events()
    (before,) = server.cycle.queue
    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "run_seconds_of", wrong)
        server.put(pod("odd", "o", cpu="2"))
        server.put(pod("p", "u"))
        server.take_events()
    assert [group.name for group in server.cycle.queue] == ["default/p"]
    held = server.reader.register.take_held_back()
    assert ["IndexError" in hold.why for _, hold in held] == [True]
    server.put(pod("odd", "o"))
    server.take_events()
    assert [group.name for group in server.cycle.queue] == ["default/odd", "default/p"]
    assert before in list(server.cycle.queue)


@pytest.mark.parametrize(("uid", "stays"), [("u", True), ("other", False)])
def test_a_running_pod_that_becomes_unreadable_keeps_its_resources(uid, stays):
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n"))
    server.take_events()
    server.reader.pods.replaced([], [objects.Metadata("p", "default", uid)])
    server.take_events()
    assert (server.cycle.state.machine_of("u") == "n") == stays
    server.reader.pods.replaced([])
    server.take_events()
    assert server.cycle.state.machine_of("u") is None
