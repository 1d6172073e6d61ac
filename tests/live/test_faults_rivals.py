"""Other clients act on the same pods and machines at the same time."""

import random
import threading
from collections.abc import Callable, Sequence

import pytest
from pod_bursts import (
    NODES,
    PODS_PER_NODE,
    Burst,
    create_nodes,
    delete_pod,
    names,
    numbered_pods,
    wait_bound,
)
from scheduler_process import Schedulers
from testbed import ApiError, ControlPlane, Manifest, verdict

# Stories of 5 to 30 s each.
pytestmark = pytest.mark.long

SLOTS = NODES * PODS_PER_NODE
RACED = 20


def _is_complete(cluster: ControlPlane, manifests: Sequence[Manifest]) -> bool:
    """Whether all pods exist and stay; missing ones are created."""
    there = {
        pod["metadata"]["name"]
        for pod in cluster.pods()
        if "deletionTimestamp" not in pod["metadata"]
    }
    missing = [each for each in manifests if each["metadata"]["name"] not in there]
    for manifest in missing:
        try:
            cluster.create_pods([manifest])
        except ApiError as error:
            if error.status != 409:
                raise
    return not missing


def test_recreated_pods_are_bound(cluster: ControlPlane, schedulers: Schedulers) -> None:
    """Pods are deleted and created again during their binding, as by a StatefulSet."""
    create_nodes(cluster)
    afflux = schedulers.start()
    manifests = numbered_pods(SLOTS)
    burst = Burst(cluster, manifests)
    made = 0

    def recreate(index: int) -> None:
        nonlocal made
        delete_pod(cluster, burst.names[index])
        try:
            cluster.create_pods([manifests[index]])
        except ApiError as error:
            # The pod is not gone yet, or the burst itself has created it.
            if error.status != 409:
                raise
        else:
            made += 1

    for share in (0.1, 0.3, 0.5):
        burst.wait_bound(int(share * SLOTS))
        cluster.api.each(recreate, range(int(share * SLOTS), int((share + 0.3) * SLOTS)))
    # A pod that could not be created again, because it was not gone yet, is gone now or soon.
    cluster.wait_until(lambda: _is_complete(cluster, manifests), "all pods to be there", 60.0)
    burst.wait_all()
    assert made > SLOTS // 4
    missing = set(burst.names) - {f"default/{pod['metadata']['name']}" for pod in cluster.pods()}
    assert not missing
    verdict.assert_sound(cluster, burst.names)
    afflux.assert_healthy()


def test_pods_that_a_rival_scheduler_binds_are_left_to_it(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """The rival binds to machines of its own, so that neither can overfill those of the other."""
    create_nodes(cluster)
    taint = {"key": "rival", "value": "", "effect": "NoSchedule"}
    theirs = cluster.create_nodes(4, prefix="rival", taints=[taint])
    afflux = schedulers.start()
    burst = Burst(cluster, numbered_pods(SLOTS - RACED), per_second=100)

    def bind(pod: Manifest, node: str) -> None:
        try:
            cluster.bind(pod["metadata"]["name"], node)
        except ApiError as error:
            if error.status != 409:
                raise

    def bind_some() -> None:
        waiting = [pod for pod in cluster.pods() if "nodeName" not in pod["spec"]]
        for pod in random.sample(waiting, min(3, len(waiting))):
            bind(pod, random.choice(theirs))

    raced = numbered_pods(RACED, "raced")
    with repeatedly(bind_some):
        for pod in raced:
            # Binds a new pod at once: before or after afflux, or at the same moment.
            cluster.create_pods([pod])
            bind(pod, random.choice(theirs))
        burst.wait_all()
    expected = [*burst.names, *names(raced)]
    wait_bound(cluster, expected)
    sound = verdict.assert_sound(cluster, expected)
    by_rival = [each for each in sound.bindings if each.bound and each.node in theirs]
    by_us = [each for each in sound.bindings if each.bound and each.node not in theirs]
    assert by_rival
    assert by_us
    afflux.assert_healthy()


def test_pods_of_other_schedulers_use_room_until_they_end(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """Half of every machine is in use and becomes free bit by bit during the burst."""
    machines = create_nodes(cluster)
    theirs = numbered_pods(SLOTS // 2, "theirs", scheduler="another")
    cluster.create_pods(theirs)
    places = [machine for machine in machines for _ in range(PODS_PER_NODE // 2)]
    cluster.api.each(
        lambda pair: cluster.bind(pair[0]["metadata"]["name"], pair[1]),
        list(zip(theirs, places, strict=True)),
    )
    afflux = schedulers.start()
    burst = Burst(cluster, numbered_pods(SLOTS))
    # The pods of the other scheduler, and as many of afflux.
    burst.wait_bound(SLOTS)
    verdict.assert_sound(cluster)
    for start in range(0, len(theirs), 20):
        for name in names(theirs[start : start + 20]):
            delete_pod(cluster, name)
        verdict.assert_sound(cluster)
    burst.wait_all()
    verdict.assert_sound(cluster, burst.names)
    afflux.assert_healthy()


class repeatedly:  # noqa: N801 - reads as a verb
    """Repeats an action in a thread while the test goes on."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._end = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            while not self._end.wait(0.02):
                self._act()
        except BaseException as error:
            self._failed = error
