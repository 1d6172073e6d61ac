"""Differential tests against kube-scheduler: both refuse the same pods with the same message, and
kube-scheduler accepts every machine that afflux chooses.

Each pod exists twice, once for each scheduler. Unschedulable pods do not change the cluster and are
compared many at once; other pods are compared one at a time. Pods that afflux placed together are
judged as it places them: in the state in which their round ended, each is taken out and given to
kube-scheduler.
"""

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cluster_objects import collection, condition, create, delete, event_of, node_of, wait_placed
from live_manifests import pod
from random_manifests import NEIGHBOURS, OVERHEAD, RandomManifests, runtime_class
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane, Manifest, verdict
from unschedulable_pods import UNSCHEDULABLE_PODS, create_cluster

PEER = "default-scheduler"
# What kube-scheduler adds about preemption, which afflux does not have; "not found" if it gave up
# before it evaluated preemption.
PREEMPTION = re.compile(r"(?<=\.) ((no new claims to deallocate, )?preemption: .*|not found)$")
# What afflux adds about a pod whose required affinity no running pod satisfies.
COMPANY = re.compile(r"(?<=\.) It requires a pod that matches .*$")
# For a longer search: AFFLUX_LIVE_SEEDS=100.
SEEDS = int(os.environ.get("AFFLUX_LIVE_SEEDS", "5"))
PODS_PER_SEED = 16
# An outdated message is replaced after ten seconds.
AGREEMENT_TIMEOUT_SECONDS = 30.0


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    """Both schedulers, each for pods of its own name."""
    with running_scheduler(control_plane, rights, tmp_path_factory.mktemp("peer")) as process:
        control_plane.start_scheduler(client_qps=-1)
        create(control_plane, runtime_class())
        try:
            yield process
        finally:
            delete(control_plane, "RuntimeClass", OVERHEAD)
            control_plane.stop_part("kube-scheduler")


def names(pod_name: str) -> tuple[str, str]:
    """The names of a pod's copies for afflux and for the peer."""
    return f"{pod_name}-afflux", f"{pod_name}-peer"


def said(plane: ControlPlane, name: str) -> tuple[str, str, str]:
    """Status, reason and message of a pod's condition, without what one of both adds."""
    found = condition(plane.pod(name))
    message = COMPANY.sub("", PREEMPTION.sub("", found.get("message", "")))
    return found.get("status", ""), found.get("reason", ""), message


def wait_agreed(plane: ControlPlane, pod_name: str, about: str) -> str:
    """Wait until both conditions of an unschedulable pod are equal; returns the message."""
    ours, theirs = names(pod_name)

    def same() -> bool:
        answer = said(plane, ours)
        return answer[1] == "Unschedulable" and answer == said(plane, theirs)

    try:
        plane.wait_until(same, "equal messages", AGREEMENT_TIMEOUT_SECONDS, every=0.02)
    except TimeoutError:
        where = node_of(plane, theirs)
        assert where is None, f"{said(plane, ours)}; the peer chose {where}\n{about}"
        assert said(plane, ours) == said(plane, theirs), about
    assert node_of(plane, ours) is None
    assert node_of(plane, theirs) is None
    return said(plane, ours)[2]


# --- Unschedulable pods


@pytest.fixture(scope="module")
def refused(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    """The cluster with two copies of each unschedulable pod."""
    plane = empty_cluster(control_plane, afflux)
    create_cluster(plane)
    for number, spec in enumerate(UNSCHEDULABLE_PODS.values()):
        ours, theirs = names(f"p{number}")
        create(plane, pod(ours, **spec), pod(theirs, scheduler=PEER, **spec))
    return plane


@pytest.mark.parametrize("situation", UNSCHEDULABLE_PODS)
def test_both_give_the_same_reason_for_an_unschedulable_pod(
    refused: ControlPlane, situation: str
) -> None:
    number = list(UNSCHEDULABLE_PODS).index(situation)
    message = wait_agreed(refused, f"p{number}", situation)
    assert message.startswith("0/10 nodes are available: ")


def test_both_write_the_same_event(refused: ControlPlane) -> None:
    ours, theirs = (event_of(refused, name, "FailedScheduling") for name in names("p0"))
    for field in ("type", "reason", "action"):
        assert ours[field] == theirs[field]
    assert ours["note"] == PREEMPTION.sub("", theirs["note"])
    assert (ours["reportingController"], theirs["reportingController"]) == ("afflux", PEER)
    assert ours["regarding"].keys() == theirs["regarding"].keys()


def test_both_give_the_same_reason_without_machines(
    control_plane: ControlPlane, afflux: Scheduler
) -> None:
    plane = empty_cluster(control_plane, afflux)
    ours, theirs = names("plain")
    create(plane, pod(ours), pod(theirs, scheduler=PEER))
    assert wait_agreed(plane, "plain", "no machine") == "no nodes available to schedule pods"


# --- Random pods in random clusters


def logged_rounds(afflux: Scheduler) -> list[dict[str, str]]:
    """The machines of the pods that each round since the start has placed, without the suffix of
    their names."""
    found: dict[str, dict[str, str]] = {}
    line = re.compile(r"round (\d+): default/(\S+)-afflux on (\S+)\n")
    for number, name, machine in line.findall(afflux.log.read_text()):
        assert not any(name in each for each in found.values()), f"{name} was placed twice"
        found.setdefault(number, {})[name] = machine
    return list(found.values())


class Trial:
    """One random cluster, and comparisons of random pods on it."""

    def __init__(self, plane: ControlPlane, seed: int) -> None:
        self.plane = plane
        self.manifests = RandomManifests(seed)
        namespace, *others = self.manifests.cluster()
        create(plane, namespace)
        plane.wait_for_account(NEIGHBOURS)
        create(plane, *others, *self.manifests.last_objects())
        wait_placed(plane, "last")

    def judge_together(self, afflux: Scheduler, count: int) -> tuple[int, int]:
        """Let afflux decide about many pods at once, then the peer about the result.

        afflux starts when the pods and their claims are there, so that its first round has all of
        them. A later round may place pods that would have broken the spread of others in theirs, so
        the log says which rounds there were: the order of the bindings is another, as some wait for
        volumes. The peer must refuse, with all placed pods in place, the pods that wait; and accept
        each placed pod in the state in which its round ended. Returns how many pods were placed and
        how many were not.
        """
        specs: dict[str, Manifest] = {}
        for number in range(count):
            specs[f"p{number}"], objects = self.manifests.pod_spec()
            self._provide(objects)
        assert afflux.stop() == 0
        try:
            self.plane.create_pods([pod(names(name)[0], **spec) for name, spec in specs.items()])
        finally:
            afflux.start(log_level="debug")
        rounds = self._rounds(afflux)
        placed = {name: machine for each in rounds for name, machine in each.items()}
        left = [name for name in specs if name not in placed]
        # First the pods that wait, or some would be placed where others are deleted.
        delete(self.plane, "Pod", *(names(name)[0] for name in (*left, *placed)))
        for name, machine in placed.items():
            create(self.plane, pod(names(name)[1], scheduler=PEER, nodeName=machine, **specs[name]))
        for name in left:
            ours, theirs = names(name)
            create(self.plane, pod(ours, **specs[name]), pod(theirs, scheduler=PEER, **specs[name]))
            wait_agreed(
                self.plane, name, f"not placed by afflux among many: {json.dumps(specs[name])}"
            )
        delete(self.plane, "Pod", *(side for name in left for side in names(name)))
        for together in reversed(rounds):
            for name, machine in together.items():
                delete(self.plane, "Pod", names(name)[1])
                self._confirm(name, specs[name], machine)
            delete(self.plane, "Pod", *(names(name)[1] for name in together))
        return len(placed), len(left)

    def judge(self, name: str) -> str:
        """Let both schedulers decide about one pod; returns its machine or the message."""
        spec, objects = self.manifests.pod_spec()
        about = json.dumps([spec, *objects])
        self._provide(objects)
        ours, theirs = names(name)
        create(self.plane, pod(ours, **spec))
        machine = self._decision(ours)
        if machine is None and objects:
            # Claims come by another watch, possibly after the pod.
            time.sleep(1)
            machine = node_of(self.plane, ours)
        if machine is None:
            create(self.plane, pod(theirs, scheduler=PEER, **spec))
            message = wait_agreed(self.plane, name, about)
            delete(self.plane, "Pod", ours, theirs)
            return message
        delete(self.plane, "Pod", ours)
        self._confirm(name, spec, machine)
        return machine

    def _confirm(self, name: str, spec: Manifest, machine: str) -> None:
        """Let the peer bind its copy to the machine that afflux chose, where it stays.

        The machine is nominated: affinity to it would change the domains over which the pod is
        spread.
        """
        theirs = names(name)[1]
        gates = [{"name": "example.com/nominated"}]
        create(self.plane, pod(theirs, scheduler=PEER, schedulingGates=gates, **spec))
        path = f"{collection('Pod')}/{theirs}"
        # kube-scheduler filters the nominated node first, and looks at others if that refuses.
        self.plane.api.patch(f"{path}/status", {"status": {"nominatedNodeName": machine}})
        self.plane.api.patch(path, {"spec": {"schedulingGates": []}})

        with suppress(TimeoutError):
            self.plane.wait_until(
                lambda: node_of(self.plane, theirs) is not None,
                theirs,
                AGREEMENT_TIMEOUT_SECONDS,
                every=0.02,
            )
        peer_says = node_of(self.plane, theirs) or said(self.plane, theirs)[2]
        about = f"afflux chose {machine}; the peer: {peer_says}\n{json.dumps(spec)}"
        assert peer_says == machine, about

    def _rounds(self, afflux: Scheduler) -> list[dict[str, str]]:
        """Where the rounds of afflux since its start have placed pods, once another round would
        place nothing more.

        A pod that no machine admits has its condition from a round that has seen all earlier pods
        and bindings.
        """
        hopeless = pod("hopeless", nodeSelector={"no-machine": "has-this"})
        before: list[dict[str, str]] | None = None
        while True:
            create(self.plane, hopeless)
            self._decision("hopeless")
            delete(self.plane, "Pod", "hopeless")
            rounds = logged_rounds(afflux)
            if rounds == before:
                return rounds
            wait_placed(self.plane, *(names(name)[0] for each in rounds for name in each))
            before = rounds

    def _decision(self, name: str) -> str | None:
        self.plane.wait_until(
            lambda: bool(node_of(self.plane, name) or said(self.plane, name)[0]), name, every=0.02
        )
        return node_of(self.plane, name)

    def _provide(self, objects: list[Manifest]) -> None:
        """Create volumes first: a claim without a volume is retried after 15 seconds only."""
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
def test_the_peer_confirms_every_decision(
    control_plane: ControlPlane, afflux: Scheduler, seed: int
) -> None:
    plane = empty_cluster(control_plane, afflux)
    trial = Trial(plane, seed)
    answers = [trial.judge(f"p{number}") for number in range(PODS_PER_SEED)]
    # The trial is not trivial: some pods were placed, others were not.
    assert {answer in trial.manifests.machines for answer in answers} == {True, False}
    assert verdict.bound_twice(verdict.bindings(plane)) == []


@pytest.mark.parametrize("seed", range(1000, 1000 + (SEEDS + 1) // 2))
def test_the_peer_confirms_decisions_about_many_pods_at_once(
    control_plane: ControlPlane, afflux: Scheduler, seed: int
) -> None:
    trial = Trial(empty_cluster(control_plane, afflux), seed)
    placed_count, left_count = trial.judge_together(afflux, 24)
    assert placed_count
    assert left_count
