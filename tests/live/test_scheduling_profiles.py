"""Several profiles in one process, each with its own policies; one is the default scheduler's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_objects import create, delete, event_of, node_of, wait_for_reason, wait_placed
from live_manifests import OURS, pod
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane, Manifest

DEFAULT = "default-scheduler"
PROFILES = [
    {"schedulerName": OURS, "policies": [{"name": "cpu-memory"}]},
    {"schedulerName": DEFAULT, "policies": [{"name": "load-spreading"}]},
]


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    directory = tmp_path_factory.mktemp("profiles")
    with running_scheduler(control_plane, rights, directory, profiles=PROFILES) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


def unnamed(name: str) -> Manifest:
    """A pod without a scheduler name."""
    manifest = pod(name)
    del manifest["spec"]["schedulerName"]
    return manifest


def test_pods_without_a_scheduler_name_get_the_default_profile(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1)
    create(cluster, unnamed("plain"), pod("theirs", scheduler="another"))
    assert wait_placed(cluster, "plain") == {"plain": node}
    assert event_of(cluster, "plain", "Scheduled")["reportingController"] == DEFAULT
    assert node_of(cluster, "theirs") is None


def test_each_profile_has_its_own_policies(cluster: ControlPlane) -> None:
    loaded, populated = cluster.create_nodes(2, cpu="32")
    # One machine has one large pod, the other several small ones.
    create(cluster, pod("large", scheduler="another", cpu="24", nodeName=loaded))
    for number in range(4):
        create(cluster, pod(f"small-{number}", scheduler="another", nodeName=populated))
    for turn in range(2):
        create(cluster, pod("by-load", scheduler=OURS), pod("by-count", scheduler=DEFAULT))
        found = wait_placed(cluster, "by-load", "by-count")
        assert found == {"by-load": populated, "by-count": loaded}, turn
        delete(cluster, "Pod", "by-load", "by-count")


def test_profiles_see_each_others_pods(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    create(cluster, pod("one", scheduler=OURS, cpu="800m"))
    wait_placed(cluster, "one")
    create(cluster, pod("two", scheduler=DEFAULT, cpu="800m"))
    wait_for_reason(cluster, "two", "1 Insufficient cpu")
    assert event_of(cluster, "two", "FailedScheduling")["reportingController"] == DEFAULT
    delete(cluster, "Pod", "one")
    wait_placed(cluster, "two")


def test_metrics_are_counted_by_profile(cluster: ControlPlane, afflux: Scheduler) -> None:
    name = "scheduler_schedule_attempts_total"
    before = {each: afflux.metric(name, f'profile="{each}"') for each in (OURS, DEFAULT)}
    cluster.create_nodes(1)
    create(cluster, pod("a", scheduler=OURS), pod("b", scheduler=DEFAULT))
    create(cluster, pod("c", scheduler=DEFAULT))
    wait_placed(cluster, "a", "b", "c")

    def counted() -> dict[str, float]:
        return {each: afflux.metric(name, f'profile="{each}"') - before[each] for each in before}

    cluster.wait_until(lambda: counted() == {OURS: 1, DEFAULT: 2}, "the figures")
