"""afflux and kube-scheduler look at the same cluster: whom one refuses, so does the other, and in
the same words; where one puts a pod, the other would let it run.

Each pod is there twice, once for each scheduler. A pod that nobody can place changes nothing, so
both may look at many of them at once; others come one at a time.
"""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chance import OVERHEAD, Chance, pinned, runtime_class
from live_manifests import pod
from looking import collection, condition, create, delete, event_of, node_of, placed
from scheduler import Scheduler
from sharing import emptied, shared
from situations import SITUATIONS, build
from testbed import ControlPlane, Manifest, verdict

PEER = "default-scheduler"
# What the peer adds about making room by force, which afflux does not do; "not found" if it has
# given up before it knows enough for that.
PREEMPTION = re.compile(r"(?<=\.) ((no new claims to deallocate, )?preemption: .*|not found)$")
# More of them find more: AFFLUX_LIVE_SEEDS=100.
SEEDS = int(os.environ.get("AFFLUX_LIVE_SEEDS", "5"))
PODS_PER_SEED = 16
# A message that was overtaken by news is written again ten seconds later.
AGREED_SECONDS = 30.0


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    """Both schedulers, each for pods of its own name."""
    with shared(control_plane, rights, tmp_path_factory.mktemp("peer")) as process:
        control_plane.start_scheduler(client_qps=-1)
        create(control_plane, runtime_class())
        try:
            yield process
        finally:
            delete(control_plane, "RuntimeClass", OVERHEAD)
            control_plane.stop_part("kube-scheduler")


def names(pod_name: str) -> tuple[str, str]:
    """A pod's name in afflux's care, and in the peer's."""
    return f"{pod_name}-afflux", f"{pod_name}-peer"


def said(plane: ControlPlane, name: str) -> tuple[str, str, str]:
    """Status, reason and message of a pod's condition, without what is only the peer's."""
    found = condition(plane.pod(name))
    message = PREEMPTION.sub("", found.get("message", ""))
    return found.get("status", ""), found.get("reason", ""), message


def agreed(plane: ControlPlane, pod_name: str, about: str) -> str:
    """What both say of a pod that waits, as soon as it is the same."""
    ours, theirs = names(pod_name)

    def same() -> bool:
        answer = said(plane, ours)
        return answer[1] == "Unschedulable" and answer == said(plane, theirs)

    try:
        plane.wait_until(same, "the same words", AGREED_SECONDS, every=0.02)
    except TimeoutError:
        where = node_of(plane, theirs)
        assert where is None, f"{said(plane, ours)}; the peer chose {where}\n{about}"
        assert said(plane, ours) == said(plane, theirs), about
    assert node_of(plane, ours) is None
    assert node_of(plane, theirs) is None
    return said(plane, ours)[2]


# --- Pods that no machine can take


@pytest.fixture(scope="module")
def refused(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    """The cluster with a pod of each situation, twice."""
    plane = emptied(control_plane, afflux)
    build(plane)
    for number, spec in enumerate(SITUATIONS.values()):
        ours, theirs = names(f"p{number}")
        create(plane, pod(ours, **spec), pod(theirs, scheduler=PEER, **spec))
    return plane


@pytest.mark.parametrize("situation", SITUATIONS)
def test_both_say_the_same_of_a_pod_that_has_to_wait(refused: ControlPlane, situation: str) -> None:
    number = list(SITUATIONS).index(situation)
    message = agreed(refused, f"p{number}", situation)
    assert message.startswith("0/10 nodes are available: ")


def test_both_tell_it_by_the_same_event(refused: ControlPlane) -> None:
    ours, theirs = (event_of(refused, name, "FailedScheduling") for name in names("p0"))
    for field in ("type", "reason", "action"):
        assert ours[field] == theirs[field]
    assert ours["note"] == PREEMPTION.sub("", theirs["note"])
    assert (ours["reportingController"], theirs["reportingController"]) == ("afflux", PEER)
    assert ours["regarding"].keys() == theirs["regarding"].keys()


def test_both_say_the_same_where_there_is_no_machine(
    control_plane: ControlPlane, afflux: Scheduler
) -> None:
    plane = emptied(control_plane, afflux)
    ours, theirs = names("plain")
    create(plane, pod(ours), pod(theirs, scheduler=PEER))
    assert agreed(plane, "plain", "no machine") == "no nodes available to schedule pods"


# --- Random pods in random clusters


class Trial:
    """One random cluster, and pods that come one at a time."""

    def __init__(self, plane: ControlPlane, seed: int) -> None:
        self.plane = plane
        self.chance = Chance(seed)
        create(plane, *self.chance.cluster(), *self.chance.last())
        placed(plane, "last")

    def judge_together(self, count: int) -> tuple[int, int]:
        """Have afflux look at many pods at once, then the peer at the result.

        How many were placed, and how many were not. Whatever the order, the peer finds room for
        all that were placed; and whoever was not would not fit now.
        """
        specs: dict[str, Manifest] = {}
        for number in range(count):
            specs[f"p{number}"], objects = self.chance.pod_spec()
            self._provide(objects)
        self.plane.create_pods([pod(names(name)[0], **spec) for name, spec in specs.items()])
        where = {name: self._decision(names(name)[0]) for name in specs}
        # Some may have been seen before their claims, on another watch.
        time.sleep(1)
        where = {name: node_of(self.plane, names(name)[0]) for name in where}
        delete(self.plane, "Pod", *(names(name)[0] for name in specs))
        for name, machine in where.items():
            if machine is not None:
                self._confirm(name, specs[name], machine)
        left = [name for name, machine in where.items() if machine is None]
        for name in left:
            for side, scheduler in zip(names(name), ("afflux", PEER), strict=True):
                create(self.plane, pod(side, scheduler=scheduler, **specs[name]))
            agreed(self.plane, name, f"left alone by afflux among many: {json.dumps(specs[name])}")
        return len(specs) - len(left), len(left)

    def judge(self, name: str) -> str:
        """Have both schedulers look at one pod; a machine, or why there is none."""
        spec, objects = self.chance.pod_spec()
        about = json.dumps([spec, *objects])
        self._provide(objects)
        ours, theirs = names(name)
        create(self.plane, pod(ours, **spec))
        machine = self._decision(ours)
        if machine is None and objects:
            # It may have been seen before its claims, on another watch.
            time.sleep(1)
            machine = node_of(self.plane, ours)
        if machine is None:
            create(self.plane, pod(theirs, scheduler=PEER, **spec))
            message = agreed(self.plane, name, about)
            delete(self.plane, "Pod", ours, theirs)
            return message
        delete(self.plane, "Pod", ours)
        self._confirm(name, spec, machine)
        return machine

    def _confirm(self, name: str, spec: Manifest, machine: str) -> None:
        """The peer may have it, on the machine that afflux chose, and takes its room."""
        theirs = names(name)[1]
        create(self.plane, pod(theirs, scheduler=PEER, **pinned(spec, machine)))
        try:
            self.plane.wait_until(
                lambda: node_of(self.plane, theirs) == machine, machine, AGREED_SECONDS, every=0.02
            )
        except TimeoutError:
            objection = said(self.plane, theirs)[2]
            raise AssertionError(
                f"afflux chose {machine}; the peer: {objection}\n{json.dumps(spec)}"
            ) from None

    def _decision(self, name: str) -> str | None:
        self.plane.wait_until(
            lambda: bool(node_of(self.plane, name) or said(self.plane, name)[0]), name, every=0.02
        )
        return node_of(self.plane, name)

    def _provide(self, objects: list[Manifest]) -> None:
        """Volumes first: a claim that comes in the same moment is looked at 15 seconds later."""
        for each in objects:
            create(self.plane, each)
            if each["kind"] == "PersistentVolume":
                self._until_phase(each, "Available")
            elif "volumeName" in each["spec"]:
                self._until_phase(each, "Bound")

    def _until_phase(self, manifest: Manifest, phase: str) -> None:
        path = f"{collection(manifest['kind'])}/{manifest['metadata']['name']}"
        self.plane.wait_until(
            lambda: self.plane.api.get(path)["status"].get("phase") == phase, f"{path} {phase}"
        )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_afflux_decides_the_peer_would_too(
    control_plane: ControlPlane, afflux: Scheduler, seed: int
) -> None:
    plane = emptied(control_plane, afflux)
    trial = Trial(plane, seed)
    answers = [trial.judge(f"p{number}") for number in range(PODS_PER_SEED)]
    # Not a test of nothing: some were placed, others were not.
    assert {answer in trial.chance.machines for answer in answers} == {True, False}
    assert verdict.bound_twice(verdict.bindings(plane)) == []


@pytest.mark.parametrize("seed", range(1000, 1000 + (SEEDS + 1) // 2))
def test_what_afflux_decides_about_many_at_once_the_peer_would_too(
    control_plane: ControlPlane, afflux: Scheduler, seed: int
) -> None:
    trial = Trial(emptied(control_plane, afflux), seed)
    placed_count, left_count = trial.judge_together(24)
    assert placed_count
    assert left_count
