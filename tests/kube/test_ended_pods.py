"""ClusterReader: each end of a pod is reported once, with how and when."""

from random import Random

import pytest
from fake_api_server import OURS, FakeApiServer, decoded, node, pod, running_pod
from test_cluster_reader_history import RandomChanges

from afflux.cycle.events import TaskEnded
from afflux.groups.states import TaskEnd
from afflux.kube.reader.ended_pods import EndedPods
from afflux.kube.reader.object_store import Departure


def ended_pod(name, uid, phase="Succeeded", finished=None, **more):
    found = running_pod(name, uid, **more)
    found["status"]["phase"] = phase
    if finished is not None:
        state = {"terminated": {"finishedAt": finished}}
        found["status"]["containerStatuses"] = [{"name": "c", "state": state}]
    return found


def server_with_running_pod():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(running_pod("p", "u"))
    server.reader.take_events(1000.0)
    return server


def test_a_pod_that_ends_leaves_the_store_and_is_reported_with_its_events():
    server = server_with_running_pod()
    server.put(ended_pod("p", "u"))
    assert len(server.reader.pods) == 0
    # The end is reported with the events that tell of it.
    assert server.reader.take_events(1010.0) == [TaskEnded("u")]
    assert server.take_ends() == [TaskEnd("u", "succeeded", 1010.0)]


@pytest.mark.parametrize(
    ("finished", "at"),
    [(None, 1010.0), ("1970-01-01T00:16:45Z", 1005.0), ("1970-01-01T00:17:45Z", 1010.0)],
)
def test_a_pod_ended_when_it_says_but_not_in_the_future(finished, at):
    server = server_with_running_pod()
    server.put(ended_pod("p", "u", finished=finished))
    server.reader.take_events(1010.0)
    assert server.take_ends() == [TaskEnd("u", "succeeded", at)]


def test_what_happens_to_an_ended_pod_later_is_not_reported():
    server = server_with_running_pod()
    server.put(ended_pod("p", "u", "Failed"))
    server.reader.take_events(1010.0)
    assert [end.how for end in server.take_ends()] == ["failed"]
    # The kubelet and controllers write it again, it is listed, and it is deleted.
    server.put(ended_pod("p", "u", "Failed", labels={"job": "counted"}))
    server.relist("Pod")
    server.delete("Pod", "p")
    assert server.reader.take_events(1020.0) == []
    assert server.take_ends() == []


def test_a_pod_deleted_before_and_after_its_end():
    server = server_with_running_pod()
    server.put(running_pod("q", "v"))
    server.reader.take_events(1000.0)
    server.put(ended_pod("q", "v"))
    server.delete("Pod", "p")
    server.delete("Pod", "q")
    server.reader.take_events(1010.0)
    assert {end.task_id: end.how for end in server.take_ends()} == {
        "u": "deleted",
        "v": "succeeded",
    }


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_pod_that_ends_while_the_watch_is_cut_is_reported_with_the_next_list(is_listed):
    server = server_with_running_pod()
    server.cut["Pod"] = True
    server.put(ended_pod("p", "u", "Failed"))
    if not is_listed:
        server.delete("Pod", "p")
    server.relist("Pod")
    assert server.reader.take_events(1010.0) == [TaskEnded("u")]
    how = "failed" if is_listed else "deleted"
    assert server.take_ends() == [TaskEnd("u", how, 1010.0)]


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_pod_whose_name_was_taken_by_another_was_deleted(is_cut, phase):
    server = server_with_running_pod()
    server.cut["Pod"] = is_cut
    following = running_pod("p", "next")
    following["status"]["phase"] = phase
    server.put(following)
    if is_cut:
        server.relist("Pod")
    server.reader.take_events(1010.0)
    ends = {end.task_id: end.how for end in server.take_ends()}
    assert ends == {"u": "deleted"} | ({} if phase == "Running" else {"next": "succeeded"})


def test_pods_that_ended_before_the_first_events_are_reported_with_them():
    server = FakeApiServer()
    server.cut["Pod"] = True
    server.put(ended_pod("listed", "u", finished="1970-01-01T00:16:45Z"))
    server.put(running_pod("later", "v"))
    server.relist("Pod")
    assert len(server.reader.pods) == 1
    server.put(ended_pod("later", "v", "Failed"))
    server.delete("Pod", "later")
    server.reader.take_events(1010.0)
    assert server.take_ends() == [
        TaskEnd("u", "succeeded", 1005.0),
        TaskEnd("v", "failed", 1010.0),
    ]


def test_pods_of_other_schedulers_are_not_reported():
    server = server_with_running_pod()
    server.put(running_pod("theirs", "v", scheduler="another"))
    server.put(ended_pod("theirs", "v", scheduler="another"))
    server.put(running_pod("gone", "w", scheduler="another"))
    server.delete("Pod", "gone")
    server.reader.take_events(1010.0)
    assert server.take_ends() == []


def test_the_deletion_of_a_pod_that_cannot_be_decoded_is_reported():
    server = server_with_running_pod()
    # The reflector knows nothing but its identity.
    identity = {"kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "u"}}
    server.store("Pod").deleted(decoded(identity))
    server.reader.take_events(1010.0)
    assert server.take_ends() == [TaskEnd("u", "deleted", 1010.0)]


def test_a_waiting_pod_that_is_deleted_is_reported():
    server = server_with_running_pod()
    server.put(pod("waits", "v"))
    server.reader.take_events(1000.0)
    server.delete("Pod", "waits")
    server.reader.take_events(1010.0)
    assert server.take_ends() == [TaskEnd("v", "deleted", 1010.0)]


def test_only_the_last_ends_are_kept():
    ended = EndedPods(lambda pod: True, max_kept=3)
    for number in range(5):
        last = decoded(ended_pod(f"p{number}", f"u{number}"))
        ended.departed(Departure(last, None, deleted=False))
    assert [end.task_id for end in ended.take(1.0)] == ["u2", "u3", "u4"]


@pytest.mark.parametrize("seed", range(30))
def test_after_random_changes_each_pod_that_was_known_and_is_gone_was_reported_once(seed):
    server = RandomChanges(seed)
    known, reported = set[str](), list[str]()

    def collect():
        reported.extend(end.task_id for end in server.take_ends())
        known.update(
            each.metadata.uid for each in server.reader.pods if each.spec.scheduler_name == OURS
        )

    for _ in range(200):
        server.random_step()
        collect()
    server.catch_up()
    collect()
    live = {each.metadata.uid for each in server.reader.pods}
    assert len(reported) == len(set(reported))
    assert not live & set(reported)
    assert known - live <= set(reported)


def test_random_changes_include_each_way_in_which_a_pod_ends():
    found = set[str]()
    for seed in Random(1).sample(range(1000), 5):
        server = RandomChanges(seed)
        for _ in range(200):
            server.random_step()
            found.update(end.how for end in server.take_ends())
    assert found == {"succeeded", "failed", "deleted"}
