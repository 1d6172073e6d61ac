"""The mirror: as objects come, change and go, the cycle hears what matters and nothing else."""

import pytest
from mirrored_server import DEADLINE, Server, assumed, kinds, node, placement, pod, started

from afflux.cycle.events import GroupReady, GroupWithdrawn, TaskEnded, TaskRuns


def test_a_pod_that_changes_often_is_looked_at_once():
    server = Server()
    server.put(node("n"))
    for _ in range(5):
        server.put(pod("p", "u"))
    events = server.drain()
    assert sum(isinstance(event, GroupReady) for event in events) == 1


def test_a_change_of_no_consequence_is_no_event():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u"))
    server.drain()
    changed = pod("p", "u")
    changed["status"] = {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}
    server.put(changed)
    assert server.drain() == []


def test_pods_of_other_schedulers_are_counted_and_not_touched():
    server = Server()
    server.put(node("n"))
    server.put(pod("theirs", "u", scheduler="another"))
    assert len(server.drain()) == 1
    server.put(pod("theirs", "u", scheduler="another", nodeName="n"))
    assert kinds(server.drain()) == [TaskRuns]


def test_pods_are_counted_when_their_node_comes_later_or_comes_back():
    server = Server()
    server.put(pod("p", "u", nodeName="n"))
    server.drain()
    server.put(node("n"))
    server.drain()
    assert server.cycle.state.where("u") == "n"
    server.delete("Node", "n")
    server.drain()
    assert server.cycle.state.where("u") is None
    server.put(node("n"))
    server.drain()
    assert server.cycle.state.where("u") == "n"


# --- What was assumed


def test_an_assumed_pod_is_not_offered_again_while_the_watch_is_behind():
    server, _ = assumed()
    server.put(pod("p", "u", labels={"new": "label"}))
    assert GroupReady not in kinds(server.drain())


def test_what_the_watch_confirms_is_no_news():
    server, _ = assumed()
    server.drain()
    server.put(pod("p", "u", nodeName="n"))
    assert TaskEnded not in kinds(server.drain())
    assert server.cycle.state.where("u") == "n"


def test_a_placement_that_came_to_nothing_waits_again_in_its_place():
    server, placed = assumed()
    before = server.cycle.queue
    ready_seconds = next(iter(before)).ready_seconds
    server.drain()
    server.mirror.unplaced(placed)
    events = server.drain()
    assert kinds(events) == [TaskEnded, GroupReady]
    assert events[1].group.ready_seconds == ready_seconds


def test_a_refused_pod_waits_with_its_reason_until_it_is_tried_again():
    server, placed = assumed()
    server.drain()
    server.mirror.unplaced(placed, "binding to n was refused: no")
    assert kinds(server.drain()) == [TaskEnded]
    assert [why for _, why in server.mirror.gathering.take_held_back()] == [
        "binding to n was refused: no"
    ]
    assert server.mirror.refusals("default/p") == 1
    server.mirror.try_again("default/p")
    assert kinds(server.drain()) == [GroupReady]


def test_a_refused_pod_that_is_tried_again_before_anybody_looked_waits_again():
    server, placed = assumed()
    server.mirror.unplaced(placed, "binding to n was refused: no")
    server.mirror.try_again("default/p")
    assert kinds(server.drain()) == [TaskEnded, GroupReady]
    assert server.mirror.gathering.take_held_back() == []
    assert server.mirror.refusals("default/p") == 1


def test_a_pod_bound_by_somebody_else_stays_where_they_put_it():
    server, placed = assumed()
    server.put(node("m"))
    server.put(pod("p", "u", nodeName="m"))
    server.drain()
    server.mirror.unplaced(placed)
    assert server.drain() == []
    assert server.cycle.state.where("u") == "m"


def test_a_pod_made_anew_under_its_name_is_another_pod():
    server, placed = assumed()
    server.drain()
    server.put(pod("p", "second"))
    assert kinds(server.drain()) == [TaskEnded, GroupReady]
    server.mirror.unplaced(placed)
    assert server.drain() == []


def test_the_rest_of_a_gang_whose_binding_failed_in_part_waits_together():
    server = Server()
    server.put(node("n"))
    labels = {"afflux.dev/group-name": "g", "afflux.dev/group-size": "3"}
    for number in range(3):
        server.put(pod(f"p{number}", f"u{number}", labels=labels))
    server.drain()
    placed = [placement(server, f"p{number}", "n") for number in range(3)]
    server.mirror.assume(placed)
    assert kinds(server.drain()) == [GroupWithdrawn]
    for failed in placed[:2]:
        server.mirror.unplaced(failed)
    ready = [event.group for event in server.drain() if isinstance(event, GroupReady)]
    assert [[task.id for task in group.tasks] for group in ready] == [["u0", "u1"]]


# --- Names that are used again


def test_pods_made_anew_under_their_old_names_are_a_new_group():
    labels = {"afflux.dev/group-name": "g", "afflux.dev/group-size": "2"}
    server = Server()
    server.put(node("n"))
    for number in range(2):
        server.put(pod(f"p{number}", f"old-{number}", labels=labels))
    server.drain()
    for number in range(2):
        server.delete("Pod", f"p{number}")
        made = pod(f"p{number}", f"new-{number}", labels=labels)
        made["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00Z"
        server.put(made)
    events = server.drain()
    (group,) = [event.group for event in events if isinstance(event, GroupReady)]
    assert [task.id for task in group.tasks] == ["new-0", "new-1"]
    assert group.ready_seconds == pytest.approx(1_767_229_200.0, abs=1.0)


def test_what_ends_frees_everything_at_once():
    labels = {"afflux.dev/group-name": "g", "afflux.dev/group-size": "2"}
    server = Server()
    server.put(node("n"))
    for number in range(2):
        server.put(started(f"p{number}", f"u{number}", labels=labels, **DEADLINE))
    server.drain()
    for number in range(2):
        server.delete("Pod", f"p{number}")
    assert kinds(server.drain()) == [TaskEnded, TaskEnded]
    assert server.mirror.gathering.waiting("default/g") is None


# --- Running pods that keep others away


def places_of(server, uid):
    group = next(each for each in server.cycle.queue if each.tasks[0].id == uid)
    terms = [term for places in group.tasks[0].shape.places for term in places.terms]
    return [(each.key, each.values) for term in terms for each in term.labels]


def in_zone(name, zone):
    manifest = node(name)
    manifest["metadata"]["labels"] = {"zone": zone}
    return manifest


def test_who_has_nowhere_to_go_waits_beside_the_queue_until_there_is_somewhere():
    term = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "zone"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    lonely = pod("l", "v", scheduler="other", nodeName="n", affinity={"podAntiAffinity": required})
    server = Server()
    for manifest in (in_zone("n", "a"), in_zone("m", "a"), lonely, pod("p", "u")):
        server.put(manifest)
    server.drain()
    held = [why for _, why in server.mirror.gathering.take_held_back()]
    assert held == ["2 node(s) didn't satisfy existing pods anti-affinity rules"]
    assert list(server.cycle.queue) == []
    server.put(in_zone("m", "b"))
    server.drain()
    assert [each.name for each in server.cycle.queue] == ["default/p"]
    server.delete("Node", "m")
    server.drain()
    assert list(server.cycle.queue) == []
    server.put(in_zone("k", "b"))
    server.drain()
    assert [each.name for each in server.cycle.queue] == ["default/p"]


def test_one_running_pod_closes_its_domain_and_no_other():
    term = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "zone"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    server = Server()
    server.put(in_zone("n", "a"))
    server.put(in_zone("m", "b"))
    server.put(pod("p", "u"))
    server.drain()
    assert places_of(server, "u") == []
    lonely = pod("l", "v", scheduler="other", nodeName="n", affinity={"podAntiAffinity": required})
    server.put(lonely)
    server.drain()
    assert server.mirror.gathering.take_held_back() == []
    assert places_of(server, "u") == [("zone", ("a",))]
    # The node is relabelled, and the pod goes away in the end.
    server.put(in_zone("n", "c"))
    server.drain()
    assert places_of(server, "u") == [("zone", ("c",))]
    server.delete("Pod", "l")
    server.drain()
    assert places_of(server, "u") == []
