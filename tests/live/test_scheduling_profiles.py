"""Several profiles in one process: each name has its own policies, and one may be the default's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_manifests import OURS, pod
from looking import create, delete, event_of, node_of, placed, waits
from scheduler import Scheduler
from sharing import emptied, shared
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
    with shared(control_plane, rights, directory, profiles=PROFILES) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return emptied(control_plane, afflux)


def unnamed(name: str) -> Manifest:
    """A pod that says nothing about its scheduler."""
    manifest = pod(name)
    del manifest["spec"]["schedulerName"]
    return manifest


def test_pods_without_a_scheduler_are_served_as_the_default(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1)
    create(cluster, unnamed("plain"), pod("theirs", scheduler="another"))
    assert placed(cluster, "plain") == {"plain": node}
    assert event_of(cluster, "plain", "Scheduled")["reportingController"] == DEFAULT
    assert node_of(cluster, "theirs") is None


def test_each_profile_has_its_own_policies(cluster: ControlPlane) -> None:
    loaded, populated = cluster.create_nodes(2, cpu="32")
    # One machine has much to do for one pod, the other little for several.
    create(cluster, pod("large", scheduler="another", cpu="24", nodeName=loaded))
    for number in range(4):
        create(cluster, pod(f"small-{number}", scheduler="another", nodeName=populated))
    for turn in range(2):
        create(cluster, pod("by-load", scheduler=OURS), pod("by-count", scheduler=DEFAULT))
        found = placed(cluster, "by-load", "by-count")
        assert found == {"by-load": populated, "by-count": loaded}, turn
        delete(cluster, "Pod", "by-load", "by-count")


def test_profiles_see_each_others_pods(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    create(cluster, pod("one", scheduler=OURS, cpu="800m"))
    placed(cluster, "one")
    create(cluster, pod("two", scheduler=DEFAULT, cpu="800m"))
    waits(cluster, "two", "1 Insufficient cpu")
    assert event_of(cluster, "two", "FailedScheduling")["reportingController"] == DEFAULT
    delete(cluster, "Pod", "one")
    placed(cluster, "two")


def test_figures_are_kept_by_profile(cluster: ControlPlane, afflux: Scheduler) -> None:
    name = "scheduler_schedule_attempts_total"
    before = {each: afflux.metric(name, f'profile="{each}"') for each in (OURS, DEFAULT)}
    cluster.create_nodes(1)
    create(cluster, pod("a", scheduler=OURS), pod("b", scheduler=DEFAULT))
    create(cluster, pod("c", scheduler=DEFAULT))
    placed(cluster, "a", "b", "c")

    def counted() -> dict[str, float]:
        return {each: afflux.metric(name, f'profile="{each}"') - before[each] for each in before}

    cluster.wait_until(lambda: counted() == {OURS: 1, DEFAULT: 2}, "the figures")
