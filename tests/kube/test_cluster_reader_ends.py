"""ClusterReader: when running pods are expected to end."""

import pytest
from fake_api_server import DEADLINE, OURS, FakeApiServer, node, placement, pod, running_pod

from afflux.cycle.events import TaskRuns
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.queue.rules import QueueRules


def ends(events):
    return [event.until_seconds for event in events if isinstance(event, TaskRuns)]


@pytest.mark.parametrize("scheduler", [OURS, "another"])
def test_a_pod_ends_after_its_start_its_deadline_and_its_grace_period(scheduler):
    server = FakeApiServer()
    server.put(node("n"))
    server.put(running_pod("p", "u", scheduler=scheduler, **DEADLINE))
    server.put(running_pod("endless", "v", scheduler=scheduler))
    assert ends(server.take_events()) == [1065.0, None]


def test_a_pod_with_an_expected_run_time_ends_after_it():
    server = FakeApiServer()
    server.put(node("n"))
    expecting = running_pod("p", "u", **DEADLINE)
    expecting["metadata"]["annotations"] = {"afflux.dev/expected-seconds": "20"}
    server.put(expecting)
    assert ends(server.take_events()) == [1020.0]


def test_pods_of_ours_without_a_run_time_get_the_default_of_their_queue():
    server = FakeApiServer()
    rules = {"default": QueueRules(default_run_seconds=300.0)}
    server.reader = ClusterReader([OURS], rules)
    server.put(node("n"))
    server.put(running_pod("ours", "u"))
    server.put(running_pod("theirs", "v", scheduler="another"))
    assert ends(server.take_events()) == [1300.0, None]


@pytest.mark.parametrize("scheduler", [OURS, "another"])
@pytest.mark.parametrize("spec", [{}, DEADLINE])
def test_a_deleted_pod_ends_with_its_grace_period(spec, scheduler):
    server = FakeApiServer()
    server.put(node("n"))
    server.put(running_pod("p", "u", scheduler=scheduler, **spec))
    server.take_events()
    going = running_pod("p", "u", scheduler=scheduler, **spec)
    # Deleted at 1,070 with a grace period of 30 s, after its expected end.
    going["metadata"]["deletionTimestamp"] = "1970-01-01T00:18:20Z"
    server.put(going)
    assert ends(server.reader.take_events(1070.0)) == [1100.0]


def test_a_deleted_pod_whose_start_is_unknown_ends_with_its_grace_period():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n", **DEADLINE))
    server.reader.take_events(1000.0)
    going = pod("p", "u", nodeName="n", **DEADLINE)
    going["metadata"]["deletionTimestamp"] = "1970-01-01T00:16:45Z"
    server.put(going)
    assert ends(server.reader.take_events(1001.0)) == [1005.0]


def test_a_malformed_deletion_time_does_not_change_the_end():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(running_pod("p", "u", **DEADLINE))
    server.take_events()
    going = running_pod("p", "u", **DEADLINE)
    going["metadata"]["deletionTimestamp"] = "soon"
    server.put(going)
    assert ends(server.take_events()) == [1065.0]


def test_the_end_counts_from_the_first_observation_until_the_start_is_known():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n", **DEADLINE))
    assert ends(server.reader.take_events(2000.0)) == [2065.0]
    # A later observation alone does not change the end.
    server.put(pod("p", "u", nodeName="n", labels={"new": "label"}, **DEADLINE))
    assert ends(server.reader.take_events(2030.0)) == [2065.0]
    server.put(running_pod("p", "u", "1970-01-01T00:33:50Z", **DEADLINE))
    assert ends(server.reader.take_events(2031.0)) == [2095.0]


def test_an_end_is_reported_again_only_if_it_changes():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(running_pod("p", "u", **DEADLINE))
    server.take_events()
    changed = running_pod("p", "u", **DEADLINE)
    changed["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    server.put(changed)
    assert server.take_events() == []
    server.put(running_pod("p", "u", **DEADLINE | {"activeDeadlineSeconds": 30}))
    assert ends(server.take_events()) == [1035.0]


def test_the_end_of_an_assumed_pod_is_reported_when_its_start_is_known():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u", **DEADLINE))
    server.reader.take_events(1000.0)
    server.reader.assume([placement(server, "p", "n")])
    server.put(pod("p", "u", nodeName="n", **DEADLINE))
    assert ends(server.reader.take_events(1001.0)) == []
    server.put(running_pod("p", "u", "1970-01-01T00:16:41Z", **DEADLINE))
    assert ends(server.reader.take_events(1002.0)) == [1066.0]


def test_the_pods_of_a_recreated_node_are_reported_with_their_ends():
    server = FakeApiServer()
    server.put(running_pod("p", "u", **DEADLINE))
    server.take_events()
    server.put(node("n"))
    assert ends(server.take_events()) == [1065.0]
