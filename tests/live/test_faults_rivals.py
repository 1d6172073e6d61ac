"""Others act on the same pods and machines at the same time."""

import random
import threading
from collections.abc import Callable, Sequence

from bursts import NODES, PER_NODE, Burst, create_nodes, delete_pod, many, names, wait_bound
from scheduler import Schedulers
from testbed import ApiError, ControlPlane, Manifest, verdict

SLOTS = NODES * PER_NODE
RACED = 20


def _is_complete(cluster: ControlPlane, manifests: Sequence[Manifest]) -> bool:
    """Whether all are there and stay; those that are not are made."""
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


def test_pods_are_made_anew_under_their_names(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """As a StatefulSet does: deleted and created again while the first one is being bound."""
    create_nodes(cluster)
    afflux = schedulers.start()
    manifests = many(SLOTS)
    burst = Burst(cluster, manifests)
    made = 0

    def make_anew(index: int) -> None:
        nonlocal made
        delete_pod(cluster, burst.names[index])
        try:
            cluster.create_pods([manifests[index]])
        except ApiError as error:
            # Not gone yet, or made by the burst itself.
            if error.status != 409:
                raise
        else:
            made += 1

    for share in (0.1, 0.3, 0.5):
        burst.wait_bound(int(share * SLOTS))
        cluster.api.each(make_anew, range(int(share * SLOTS), int((share + 0.3) * SLOTS)))
    # A pod that could not be made anew, because it was not gone yet, is gone now, or soon.
    cluster.wait_until(lambda: _is_complete(cluster, manifests), "all pods to be there", 60.0)
    burst.wait_all()
    assert made > SLOTS // 4
    missing = set(burst.names) - {f"default/{pod['metadata']['name']}" for pod in cluster.pods()}
    assert not missing
    verdict.assert_sound(cluster, burst.names)
    afflux.assert_well()


def test_a_rival_binds_our_pods_at_random(cluster: ControlPlane, schedulers: Schedulers) -> None:
    """To machines of its own, so that nobody can be blamed for what two did at the same moment."""
    create_nodes(cluster)
    taint = {"key": "rival", "value": "", "effect": "NoSchedule"}
    theirs = cluster.create_nodes(4, prefix="rival", taints=[taint])
    afflux = schedulers.start()
    burst = Burst(cluster, many(SLOTS - RACED), per_second=100)

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

    raced = many(RACED, "raced")
    with repeatedly(bind_some):
        for pod in raced:
            # Bound as soon as it is there: before or after us, or at the same moment.
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
    afflux.assert_well()


def test_pods_of_others_take_room_until_they_end(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """Half of every machine is taken, and comes free in mid-burst, bit by bit."""
    machines = create_nodes(cluster)
    theirs = many(SLOTS // 2, "theirs", scheduler="somebody")
    cluster.create_pods(theirs)
    places = [machine for machine in machines for _ in range(PER_NODE // 2)]
    cluster.api.each(
        lambda pair: cluster.bind(pair[0]["metadata"]["name"], pair[1]),
        list(zip(theirs, places, strict=True)),
    )
    afflux = schedulers.start()
    burst = Burst(cluster, many(SLOTS))
    # Those of the others, and as many of ours.
    burst.wait_bound(SLOTS)
    verdict.assert_sound(cluster)
    for start in range(0, len(theirs), 20):
        for name in names(theirs[start : start + 20]):
            delete_pod(cluster, name)
        verdict.assert_sound(cluster)
    burst.wait_all()
    verdict.assert_sound(cluster, burst.names)
    afflux.assert_well()


class repeatedly:  # noqa: N801 - reads as a verb
    """Do something in a thread again and again while the test goes on."""

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
