"""afflux and kube-scheduler look at the same cluster: whom one refuses, so does the other, and in
the same words.

Each pod is there twice, once for each scheduler. A pod that nobody can place changes nothing, so
both may look at many of them at once.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from chance import OVERHEAD, Chance, pinned, runtime_class
from installation import NAMESPACE
from live_manifests import (
    HOSTNAME,
    ZONE,
    claim,
    container,
    csi,
    csi_node,
    expression,
    host_port,
    labelled,
    mounting,
    named,
    on,
    pod,
    required,
    storage_class,
    taint,
    toleration,
    volume,
    with_ports,
)
from looking import collection, condition, create, delete, node_of, set_ready
from scheduler import scheduling
from testbed import ControlPlane, Manifest, verdict
from testbed.nodes import node

PEER = "default-scheduler"
# What the peer adds about making room by force, which afflux does not do; "not found" if it has
# given up before it knows enough for that.
PREEMPTION = re.compile(r"(?<=\.) ((no new claims to deallocate, )?preemption: .*|not found)$")


@dataclass(frozen=True)
class Situation:
    """A pod that no machine can take, and what else it needs to be there."""

    spec: Manifest
    objects: tuple[Manifest, ...] = ()


def situation(*objects: Manifest, **spec: object) -> Situation:
    return Situation(spec, objects)


def alone(**spec: object) -> Manifest:
    """Fields of a pod that may only go to the machine that is called that."""
    return spec


# --- The cluster: each machine has something that is wrong with it


GPU = "example.com/gpu"


def machines() -> list[Manifest]:
    labels = {"disk": "ssd", "size": "5", "team": "blue"}
    busy = taint("dedicated", "NoSchedule", "gpu")
    return [
        node("plain", cpu="4", memory="8Gi", labels=labels | {ZONE: "zone-a"}),
        node("full", cpu="4", memory="8Gi", labels={"disk": "hdd", "size": "9", ZONE: "zone-a"}),
        node("crowded", cpu="4", memory="8Gi", pods=1, labels={"size": "big", ZONE: "zone-b"}),
        node("cordoned", cpu="4", memory="8Gi", labels=labels | {ZONE: "zone-b"}),
        node("gpu", cpu="4", memory="8Gi", resources={GPU: "2"}, taints=[busy]),
        node("evicting", cpu="4", memory="8Gi", taints=[taint("drain", "NoExecute")]),
        node("disliked", cpu="4", memory="8Gi", taints=[taint("slow", "PreferNoSchedule")]),
        node("unready", cpu="4", memory="8Gi"),
        node("ports", cpu="4", memory="8Gi", resources={"hugepages-2Mi": "64Mi"}),
        node("disks", cpu="4", memory="8Gi", labels={ZONE: "zone-c"}),
    ]


def residents() -> list[Manifest]:
    """Pods that are there already, bound by hand."""
    taken = with_ports(host_port(8080), host_port(5353, "UDP", "127.0.0.1"), cpu="1")
    return [
        pod("resident-full", scheduler="nobody", cpu="3", nodeName="full"),
        pod("resident-crowded", scheduler="nobody", nodeName="crowded"),
        pod("resident-ports", scheduler="nobody", containers=taken, nodeName="ports"),
        pod("resident-disks", scheduler="nobody", volumes=mounting("held"), nodeName="disks"),
        pod("resident-once", scheduler="nobody", volumes=mounting("once"), nodeName="disks"),
    ]


def disks() -> list[Manifest]:
    """Storage that the situations talk about."""
    elsewhere = labelled(expression(HOSTNAME, "In", "somewhere-else"))
    return [
        storage_class("disk", "example.com/nobody"),
        storage_class("at-once", "example.com/nobody", volumeBindingMode="Immediate"),
        storage_class("by-hand", "kubernetes.io/no-provisioner"),
        storage_class(
            "far",
            allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-z"]}]}],
        ),
        csi_node("disks", 1),
        volume("held", csi=csi("held"), for_claim="held"),
        volume("one-more", csi=csi("one-more"), for_claim="one-more"),
        volume("once", mode="ReadWriteOncePod", for_claim="once", nfs={"server": "s", "path": "/"}),
        volume("away", terms=[elsewhere], for_claim="away"),
        volume("zoned", for_claim="zoned", labels={ZONE: "zone-z"}, nfs={"server": "s", "path": "/"}),
        volume("a-only", terms=[labelled(expression(ZONE, "In", "zone-a"))], for_claim="a-only"),
        volume("c-only", terms=[labelled(expression(ZONE, "In", "zone-c"))], for_claim="c-only"),
        volume("free", "by-hand", terms=[labelled(expression(HOSTNAME, "In", "unready"))]),
        claim("held"),
        claim("one-more"),
        claim("once", mode="ReadWriteOncePod"),
        claim("away"),
        claim("zoned"),
        claim("a-only"),
        claim("c-only"),
        claim("unbound", "at-once"),
        claim("by-hand-1", "by-hand"),
        claim("too-large", "by-hand", size="1Ti"),
        claim("nowhere", "far"),
        claim("classless", "no-such-class"),
        claim("no-class", ""),
    ]


BOUND = ("held", "one-more", "once", "away", "zoned", "a-only", "c-only")

EVERYTHING = [toleration()]
HUGE = {"cpu": "100"}

SITUATIONS: dict[str, Situation] = {
    # Resources
    "cpu": situation(containers=[container(HUGE)]),
    "cpu that fits some machines by size but not by what is left": situation(
        containers=[container({"cpu": "3500m"})],
        nodeSelector={"disk": "hdd"},
    ),
    "memory": situation(containers=[container({"memory": "1Ti"})]),
    "cpu and memory": situation(containers=[container(HUGE | {"memory": "1Ti"})]),
    "ephemeral storage": situation(containers=[container({"ephemeral-storage": "2Ti"})]),
    "an extended resource that nobody has": situation(
        containers=[container({"cpu": "1", "example.com/fpga": "1"})]
    ),
    "more of an extended resource than there is": situation(
        containers=[container({"cpu": "1", GPU: "3"})], tolerations=EVERYTHING
    ),
    "huge pages": situation(
        containers=[container({"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "128Mi"})]
    ),
    "several at once": situation(
        containers=[
            container(HUGE | {"memory": "1Ti", "ephemeral-storage": "2Ti", GPU: "3"}),
        ],
        tolerations=EVERYTHING,
    ),
    "an init container that needs more": situation(
        containers=[container({"cpu": "1"})], initContainers=[container(HUGE, "init")]
    ),
    "a sidecar on top": situation(
        containers=[container({"cpu": "3"})],
        initContainers=[container({"cpu": "2"}, "side", restartPolicy="Always")],
    ),
    "an init container beside a sidecar": situation(
        containers=[container({"cpu": "1"})],
        initContainers=[
            container({"cpu": "2"}, "side", restartPolicy="Always"),
            container({"cpu": "3"}, "init"),
        ],
    ),
    "overhead": situation(
        containers=[container({"cpu": "3800m"})],
        runtimeClassName=OVERHEAD,
    ),
    "nothing but room for one more pod": situation(nodeSelector={"size": "big"}),
    # Labels
    "a selector": situation(nodeSelector={"disk": "tape"}),
    "a selector and cpu": situation(containers=[container(HUGE)], nodeSelector={"disk": "ssd"}),
    "affinity In": situation(affinity=required(labelled(expression("disk", "In", "tape", "cd")))),
    "affinity NotIn": situation(
        affinity=required(
            labelled(
                expression("disk", "NotIn", "ssd", "hdd"),
                expression(HOSTNAME, "In", "plain", "full"),
            )
        )
    ),
    "affinity Exists": situation(
        affinity=required(labelled(expression("gold", "Exists"))),
    ),
    "affinity DoesNotExist": situation(
        affinity=required(
            labelled(expression("size", "DoesNotExist"), expression("disk", "Exists"))
        ),
    ),
    "affinity Gt": situation(affinity=required(labelled(expression("size", "Gt", "9")))),
    "affinity Lt": situation(affinity=required(labelled(expression("size", "Lt", "5")))),
    "affinity to nothing": situation(affinity=required({})),
    "affinity by name": situation(affinity=on("nobody")),
    "affinity to a machine that is full": situation(cpu="2", affinity=on("full")),
    "affinity away from a name": situation(
        affinity=required(
            {
                "matchFields": [expression("metadata.name", "NotIn", "plain")],
                "matchExpressions": [expression("team", "In", "blue")],
            }
        )
    ),
    "one of several names": situation(cpu="5", affinity=required(named("In", "plain"), named("In", "full"))),
    "a name or a label": situation(
        cpu="5", affinity=required(named("In", "plain"), labelled(expression("disk", "In", "hdd")))
    ),
    "affinity and selector": situation(
        nodeSelector={"disk": "ssd"}, affinity=required(labelled(expression("disk", "In", "hdd")))
    ),
    # Taints
    "taints that are not tolerated": situation(containers=[container({"cpu": "1", GPU: "1"})]),
    "one taint tolerated": situation(
        containers=[container(HUGE)], tolerations=[toleration("dedicated", "Equal", value="gpu")]
    ),
    "the wrong value tolerated": situation(
        containers=[container(HUGE)], tolerations=[toleration("dedicated", "Equal", value="cpu")]
    ),
    "the wrong effect tolerated": situation(
        containers=[container(HUGE)], tolerations=[toleration("dedicated", effect="NoExecute")]
    ),
    "NoExecute tolerated": situation(
        containers=[container(HUGE)], tolerations=[toleration("drain", effect="NoExecute")]
    ),
    "everything tolerated": situation(containers=[container(HUGE)], tolerations=EVERYTHING),
    "a cordon tolerated": situation(
        containers=[container(HUGE)], tolerations=[toleration("node.kubernetes.io/unschedulable")]
    ),
    "not being ready tolerated": situation(
        containers=[container(HUGE)], tolerations=[toleration("node.kubernetes.io/not-ready")]
    ),
    # Ports
    "a port that is taken": situation(
        containers=with_ports(host_port(8080)), nodeSelector={HOSTNAME: "ports"}
    ),
    "a port that is taken, on one address": situation(
        containers=with_ports(host_port(8080, ip="10.0.0.1")), nodeSelector={HOSTNAME: "ports"}
    ),
    "a port of another protocol on every address": situation(
        containers=with_ports(host_port(5353, "UDP")), nodeSelector={HOSTNAME: "ports"}
    ),
    "a port of a sidecar": situation(
        initContainers=[
            container({}, "side", restartPolicy="Always", ports=[host_port(8080)]),
        ],
        nodeSelector={HOSTNAME: "ports"},
    ),
    "a port of a pod on the host's network": situation(
        containers=with_ports({"containerPort": 8080}),
        hostNetwork=True,
        nodeSelector={HOSTNAME: "ports"},
    ),
    "a port and cpu": situation(
        containers=with_ports(host_port(8080), cpu="100"), nodeSelector={HOSTNAME: "ports"}
    ),
    # Volumes
    "a claim that is not there": situation(volumes=mounting("no-such-claim")),
    "a claim that waits for its volume": situation(volumes=mounting("unbound")),
    "a claim of a class that is not there": situation(volumes=mounting("classless")),
    "a claim without a class": situation(volumes=mounting("no-class")),
    "a volume that is elsewhere": situation(volumes=mounting("away")),
    "a volume in another zone": situation(volumes=mounting("zoned")),
    "volumes in two zones": situation(volumes=mounting("a-only", "c-only")),
    "a volume for one pod only": situation(volumes=mounting("once")),
    "a volume too many": situation(volumes=mounting("one-more"), nodeSelector={HOSTNAME: "disks"}),
    "no volume to be had": situation(volumes=mounting("by-hand-1")),
    "no volume as large": situation(volumes=mounting("too-large")),
    "a class that is for another zone": situation(volumes=mounting("nowhere")),
    "a volume elsewhere and cpu": situation(
        volumes=mounting("away"), containers=[container({"cpu": "3500m"})]
    ),
    "a generic ephemeral volume without a volume": situation(
        volumes=[
            {
                "name": "scratch",
                "ephemeral": {"volumeClaimTemplate": {"spec": claim("-", "by-hand")["spec"]}},
            }
        ]
    ),
}


def twins(name: str, spec: Manifest) -> list[Manifest]:
    return [pod(f"{name}-{side}", scheduler=side, **spec) for side in ("afflux", PEER)]


def words(plane: ControlPlane, name: str) -> tuple[str, str, str]:
    """Status, reason and message of a pod's condition, without what is only the peer's."""
    found = condition(plane.pod(name))
    message = PREEMPTION.sub("", found.get("message", ""))
    return found.get("status", ""), found.get("reason", ""), message


@pytest.fixture(scope="module")
def schedulers(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with scheduling(control_plane):
        control_plane.start_scheduler(client_qps=-1)
        create(control_plane, runtime_class())
        yield control_plane
        delete(control_plane, "RuntimeClass", OVERHEAD)
        control_plane.stop_part("kube-scheduler")


@pytest.fixture(scope="module")
def refused(schedulers: ControlPlane) -> ControlPlane:
    """The cluster with a pod of each situation, twice."""
    plane = schedulers
    create(plane, *machines())
    plane.api.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": True}})
    set_ready(plane, "unready", "False")
    create(plane, *disks())
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    plane.wait_until(
        lambda: all(plane.api.get(f"{claims}/{name}")["status"]["phase"] == "Bound" for name in BOUND),
        "claims to be bound",
    )
    create(plane, *residents())
    plane.wait_until(
        lambda: len(plane.nodes()[-1]["spec"].get("taints", ())) >= 2, "the taints of the unready"
    )
    for number, each in enumerate(SITUATIONS.values()):
        create(plane, *twins(f"p{number}", each.spec))
    return plane


@pytest.mark.parametrize("name", SITUATIONS)
def test_both_say_the_same_of_a_pod_that_has_to_wait(refused: ControlPlane, name: str) -> None:
    number = list(SITUATIONS).index(name)
    pods = [each["metadata"]["name"] for each in twins(f"p{number}", {})]

    def same() -> bool:
        ours, theirs = (words(refused, each) for each in pods)
        return ours == theirs and ours[1] == "Unschedulable"

    try:
        refused.wait_until(same, name, seconds=15)
    except TimeoutError:
        ours, theirs = (words(refused, each) for each in pods)
        assert ours == theirs
    # They were not placed either.
    assert ["nodeName" in refused.pod(each)["spec"] for each in pods] == [False, False]


# --- Random pods in random clusters


class Trial:
    """One random cluster, and pods that come one at a time."""

    def __init__(self, plane: ControlPlane, seed: int) -> None:
        self.plane = plane
        self.chance = Chance(seed)
        create(plane, *self.chance.cluster())

    def judge(self, name: str) -> str:
        """Have both schedulers look at one pod; a machine, or why there is none."""
        spec, objects = self.chance.pod_spec()
        self.last = [spec, *objects]
        create(self.plane, *objects)
        self._until_bound([each for each in objects if "volumeName" in each["spec"]])
        ours, theirs = (each["metadata"]["name"] for each in twins(name, spec))
        create(self.plane, pod(ours, **spec))
        machine = self._decision(ours)
        if machine is None:
            create(self.plane, pod(theirs, scheduler=PEER, **spec))
            said = self._same_words(ours, theirs, spec)
            delete(self.plane, "Pod", ours, theirs)
            return said
        # The peer may have it, on the machine that afflux chose, and takes its room.
        delete(self.plane, "Pod", ours)
        create(self.plane, pod(theirs, scheduler=PEER, **pinned(spec, machine)))
        try:
            self.plane.wait_until(lambda: node_of(self.plane, theirs) == machine, "", 20)
        except TimeoutError:
            raise AssertionError(
                f"afflux chose {machine}, of which the peer says: {words(self.plane, theirs)[2]}"
                f"\n{json.dumps([spec, *objects])}"
            ) from None
        return machine

    def _decision(self, name: str) -> str | None:
        self.plane.wait_until(
            lambda: bool(node_of(self.plane, name) or words(self.plane, name)[0]), name, every=0.02
        )
        return node_of(self.plane, name)

    def _same_words(self, ours: str, theirs: str, spec: Manifest) -> str:
        def same() -> bool:
            return words(self.plane, ours) == words(self.plane, theirs)

        try:
            self.plane.wait_until(same, "", 15, every=0.02)
        except TimeoutError:
            where = node_of(self.plane, theirs)
            assert where is None, f"the peer chose {where}; {words(self.plane, ours)[2]}\n{spec}"
            assert words(self.plane, ours) == words(self.plane, theirs), json.dumps(spec)
        return words(self.plane, ours)[2]

    def _until_bound(self, claims: list[Manifest]) -> None:
        for each in claims:
            path = f"{collection('PersistentVolumeClaim')}/{each['metadata']['name']}"
            self.plane.wait_until(
                lambda path=path: self.plane.api.get(path)["status"]["phase"] == "Bound", path
            )


@pytest.mark.parametrize("seed", [int(x) for x in os.environ.get("SEEDS","1 2 3 4 5").split()])
def test_what_afflux_decides_the_peer_would_allow(schedulers: ControlPlane, seed: int) -> None:
    schedulers.delete_everything(keep=(NAMESPACE,))
    trial = Trial(schedulers, seed)
    import time
    answers = []
    for number in range(16):
        t=time.monotonic()
        answers.append(trial.judge(f"p{number}"))
        if time.monotonic()-t > 1.5: print("SLOW", seed, round(time.monotonic()-t,1), answers[-1], json.dumps(trial.last))
    for answer in answers:
        print(answer)
    placed = [answer for answer in answers if answer in trial.chance.machines]
    # Not a test of nothing.
    assert placed
    assert len(placed) < len(answers)
    assert verdict.bound_twice(verdict.bindings(schedulers)) == []
