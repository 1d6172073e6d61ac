"""The mirror: when what runs is expected to end."""

import pytest
from mirrored_server import DEADLINE, OURS, Server, node, placement, pod, started

from afflux.cycle.events import TaskRuns
from afflux.kube.live.mirror import Mirror
from afflux.queue.rules import QueueRules


def ends(events):
    return [event.until_seconds for event in events if isinstance(event, TaskRuns)]


@pytest.mark.parametrize("scheduler", [OURS, "another"])
def test_a_pod_ends_after_its_start_its_deadline_and_its_grace_period(scheduler):
    server = Server()
    server.put(node("n"))
    server.put(started("p", "u", scheduler=scheduler, **DEADLINE))
    server.put(started("endless", "v", scheduler=scheduler))
    assert ends(server.drain()) == [1065.0, None]


def test_a_pod_that_says_how_long_it_takes_ends_then():
    server = Server()
    server.put(node("n"))
    expecting = started("p", "u", **DEADLINE)
    expecting["metadata"]["annotations"] = {"afflux.dev/expected-seconds": "20"}
    server.put(expecting)
    assert ends(server.drain()) == [1020.0]


def test_a_pod_that_says_nothing_ends_as_its_queue_says_if_it_is_ours():
    server = Server()
    rules = {"default": QueueRules(default_run_seconds=300.0)}
    server.mirror = Mirror([OURS], rules)
    server.put(node("n"))
    server.put(started("ours", "u"))
    server.put(started("theirs", "v", scheduler="another"))
    assert ends(server.drain()) == [1300.0, None]


@pytest.mark.parametrize("scheduler", [OURS, "another"])
@pytest.mark.parametrize("spec", [{}, DEADLINE])
def test_a_pod_that_is_being_deleted_ends_when_its_grace_period_does(spec, scheduler):
    server = Server()
    server.put(node("n"))
    server.put(started("p", "u", scheduler=scheduler, **spec))
    server.drain()
    going = started("p", "u", scheduler=scheduler, **spec)
    # Asked for at 1,070, when its expected end was over, with 30 s.
    going["metadata"]["deletionTimestamp"] = "1970-01-01T00:18:20Z"
    server.put(going)
    assert ends(server.mirror.drain(1070.0)) == [1100.0]


def test_so_does_one_whose_start_is_not_known_yet():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n", **DEADLINE))
    server.mirror.drain(1000.0)
    going = pod("p", "u", nodeName="n", **DEADLINE)
    going["metadata"]["deletionTimestamp"] = "1970-01-01T00:16:45Z"
    server.put(going)
    assert ends(server.mirror.drain(1001.0)) == [1005.0]


def test_a_deletion_at_no_time_changes_nothing():
    server = Server()
    server.put(node("n"))
    server.put(started("p", "u", **DEADLINE))
    server.drain()
    going = started("p", "u", **DEADLINE)
    going["metadata"]["deletionTimestamp"] = "soon"
    server.put(going)
    assert ends(server.drain()) == []


def test_before_its_start_is_known_it_counts_from_when_it_was_seen():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n", **DEADLINE))
    assert ends(server.mirror.drain(2000.0)) == [2065.0]
    # Time alone changes nothing.
    server.put(pod("p", "u", nodeName="n", labels={"new": "label"}, **DEADLINE))
    assert ends(server.mirror.drain(2030.0)) == []
    server.put(started("p", "u", "1970-01-01T00:33:50Z", **DEADLINE))
    assert ends(server.mirror.drain(2031.0)) == [2095.0]


def test_an_end_is_told_again_only_if_it_is_another_one():
    server = Server()
    server.put(node("n"))
    server.put(started("p", "u", **DEADLINE))
    server.drain()
    changed = started("p", "u", **DEADLINE)
    changed["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    server.put(changed)
    assert server.drain() == []
    server.put(started("p", "u", **DEADLINE | {"activeDeadlineSeconds": 30}))
    assert ends(server.drain()) == [1035.0]


def test_the_end_of_what_we_placed_is_told_when_its_start_is_known():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u", **DEADLINE))
    server.mirror.drain(1000.0)
    server.mirror.assume([placement(server, "p", "n")])
    server.put(pod("p", "u", nodeName="n", **DEADLINE))
    assert ends(server.mirror.drain(1001.0)) == []
    server.put(started("p", "u", "1970-01-01T00:16:41Z", **DEADLINE))
    assert ends(server.mirror.drain(1002.0)) == [1066.0]


def test_a_node_that_comes_back_has_its_pods_until_their_end():
    server = Server()
    server.put(started("p", "u", **DEADLINE))
    server.drain()
    server.put(node("n"))
    assert ends(server.drain()) == [1065.0]
