"""The mirror: what fails about one object is about no other, and nothing is forgotten."""

import pytest
from mirrored_server import Server, assumed, kinds, node, pod

from afflux.cycle.events import GroupReady, MachineSet, TaskEnded, TaskRuns
from afflux.cycle.observing import Unheard
from afflux.kube import objects
from afflux.kube.live import gathering, mirror


def test_a_placement_given_back_before_anybody_looked_waits_again():
    server, placed = assumed()
    server.mirror.unplaced(placed)
    assert kinds(server.drain()) == [TaskEnded, GroupReady]


def test_of_a_machine_that_the_cycle_forgot_it_hears_everything_again():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n"))
    server.drain()
    server.cycle.state.remove_machine("n")
    server.mirror.tell_again([Unheard("machine", "n", OverflowError())])
    server.put(node("n", cpu="5"))
    assert kinds(server.drain()) == [MachineSet, TaskRuns]
    assert server.cycle.state.where("u") == "n"


def test_of_a_group_that_the_cycle_forgot_it_hears_again():
    server = Server()
    server.put(pod("p", "u"))
    server.drain()
    server.mirror.tell_again([Unheard("group", "default/p", OverflowError())])
    assert kinds(server.drain()) == [GroupReady]
    assert kinds(server.drain()) == []


def test_nothing_is_forgotten_if_looking_fails(monkeypatch):
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u"))
    with monkeypatch.context() as patched:
        patched.setattr(server.mirror.disks, "take_touched_nodes", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            server.mirror.drain()
    assert {MachineSet, GroupReady} <= set(kinds(server.drain()))


@pytest.mark.parametrize("where", [{}, {"nodeName": "n"}])
def test_a_defect_about_one_pod_is_about_no_other(monkeypatch, where):
    right = mirror.task

    def wrong(pod, around):
        if pod.metadata.name == "odd":
            raise IndexError("inside")
        return right(pod, around)

    monkeypatch.setattr(mirror, "task", wrong)
    server = Server()
    server.put(node("n"))
    server.put(node("m"))
    server.put(pod("odd", "o", **where))
    server.put(pod("p", "u"))
    server.drain()
    assert [group.name for group in server.cycle.queue] == ["default/p"]
    held = server.mirror.gathering.take_held_back()
    if where:
        # Nobody knows how much is left beside it.
        row = server.cycle.state.rows["n"]
        assert dict(next(server.cycle.state.held_on(row)).task.shape.requests)["pods"] > 10
    else:
        assert ["an error of the scheduler (IndexError)" in why for _, why in held] == [True]


def test_a_defect_about_one_group_is_about_no_other(monkeypatch):
    right = gathering.groups

    def wrong(members, *more):
        if any(each.task.name == "default/odd" for each in members):
            raise IndexError("inside")
        return right(members, *more)

    monkeypatch.setattr(gathering, "groups", wrong)
    server = Server()
    server.put(pod("odd", "o"))
    server.put(pod("p", "u"))
    server.drain()
    assert [group.name for group in server.cycle.queue] == ["default/p"]
    held = server.mirror.gathering.take_held_back()
    assert ["IndexError" in why for _, why in held] == [True]


def test_so_is_one_that_is_found_when_its_place_in_the_queue_is(monkeypatch):
    right = gathering._heirs

    def wrong(ready, lacking):
        if any(group.name == "default/odd" for group in ready):
            raise IndexError("inside")
        return right(ready, lacking)

    server = Server()
    server.put(pod("odd", "o"))
    server.drain()
    (before,) = server.cycle.queue
    with monkeypatch.context() as patched:
        patched.setattr(gathering, "_heirs", wrong)
        server.put(pod("odd", "o", cpu="2"))
        server.put(pod("p", "u"))
        server.drain()
    assert [group.name for group in server.cycle.queue] == ["default/p"]
    held = server.mirror.gathering.take_held_back()
    assert ["IndexError" in why for _, why in held] == [True]
    server.put(pod("odd", "o"))
    server.drain()
    assert [group.name for group in server.cycle.queue] == ["default/odd", "default/p"]
    assert before in list(server.cycle.queue)


@pytest.mark.parametrize(("uid", "stays"), [("u", True), ("other", False)])
def test_a_running_pod_that_cannot_be_read_any_more_holds_its_place(uid, stays):
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n"))
    server.drain()
    server.mirror.pods.replaced([], [objects.Metadata("p", "default", uid)])
    server.drain()
    assert (server.cycle.state.where("u") == "n") == stays
    server.mirror.pods.replaced([])
    server.drain()
    assert server.cycle.state.where("u") is None
