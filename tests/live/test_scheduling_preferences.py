"""Two pods prefer the only node with a GPU, one of them more than the other: afflux decides both
together, kube-scheduler one after the other."""

from collections.abc import Iterator

import pytest
from cluster_objects import create, wait_placed
from live_manifests import OURS, expression, labelled, pod, preferred
from scheduler_process import Schedulers
from testbed import ControlPlane, Manifest

PEER = "default-scheduler"
WEIGHTS = {"weak": 1, "strong": 100}
ORDERS = [("weak", "strong"), ("strong", "weak")]


@pytest.fixture
def gpu_cluster(cluster: ControlPlane) -> ControlPlane:
    """A node with a GPU and room for one pod, and two others."""
    cluster.create_nodes(1, prefix="gpu", labels={"gpu": "true"}, pods=1)
    cluster.create_nodes(2, prefix="plain")
    return cluster


@pytest.fixture
def kube_scheduler(gpu_cluster: ControlPlane) -> Iterator[None]:
    gpu_cluster.start_scheduler(client_qps=-1)
    yield
    gpu_cluster.stop_part("kube-scheduler")


def preferring(kind: str, scheduler: str) -> Manifest:
    """A pod that prefers the GPU with the weight of this kind."""
    wish = preferred((WEIGHTS[kind], labelled(expression("gpu", "Exists"))))
    return pod(kind, scheduler=scheduler, affinity=wish)


def pod_on_gpu(plane: ControlPlane) -> str:
    """Which of the two pods got the GPU."""
    placed = wait_placed(plane, *WEIGHTS)
    (name,) = (name for name, node in placed.items() if node.startswith("gpu"))
    return name


@pytest.mark.parametrize("order", ORDERS)
def test_of_two_waiting_pods_the_one_that_prefers_the_gpu_more_gets_it(
    gpu_cluster: ControlPlane, schedulers: Schedulers, order: tuple[str, str]
) -> None:
    create(gpu_cluster, *(preferring(kind, OURS) for kind in order))
    schedulers.start()
    assert pod_on_gpu(gpu_cluster) == "strong"


@pytest.mark.usefixtures("kube_scheduler")
@pytest.mark.parametrize("order", ORDERS)
def test_kube_scheduler_gives_the_gpu_to_the_first_pod(
    gpu_cluster: ControlPlane, order: tuple[str, str]
) -> None:
    for kind in order:
        create(gpu_cluster, preferring(kind, PEER))
        wait_placed(gpu_cluster, kind)
    assert pod_on_gpu(gpu_cluster) == order[0]
