"""Situations in which no machine can take a pod: a cluster where each machine has something wrong
with it, and pods that look at it from all sides.
"""

from collections.abc import Iterable
from typing import Any

from chance import GPU, OVERHEAD
from live_manifests import (
    HOSTNAME,
    ZONE,
    capacity,
    claim,
    container,
    csi,
    csi_driver,
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
from looking import collection, create, delete, set_ready, set_spec
from testbed import ControlPlane, Manifest
from testbed.nodes import node

# --- The cluster: each machine has something that is wrong with it


SMALL = "small.example.com"
MISSING = "missing.example.com"
SHARE = {"server": "somewhere", "path": "/"}
# Claims that have the volume of their own name.
BOUND = (
    "held", "one-more", "once", "away", "zoned", "a-only", "c-only", "uninstalled", "leaving",
    "vanished",
)  # fmt: skip


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
        pod("resident-leaving", scheduler="nobody", volumes=mounting("leaving"), nodeName="disks"),
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
        storage_class("small", SMALL),
        csi_driver(SMALL, storageCapacity=True),
        capacity("small-here", "small", "1Mi"),
        csi_driver(MISSING, preventPodSchedulingIfMissing=True),
        csi_node("disks", 1),
        volume("held", csi=csi("held"), for_claim="held"),
        volume("one-more", csi=csi("one-more"), for_claim="one-more"),
        volume("once", mode="ReadWriteOncePod", for_claim="once", nfs=SHARE),
        volume("uninstalled", csi=csi("uninstalled", MISSING), for_claim="uninstalled"),
        volume("leaving", nfs=SHARE, for_claim="leaving"),
        volume("vanished", nfs=SHARE, for_claim="vanished"),
        volume("away", terms=[elsewhere], for_claim="away"),
        volume("zoned", for_claim="zoned", labels={ZONE: "zone-z"}, nfs=SHARE),
        volume("a-only", terms=[labelled(expression(ZONE, "In", "zone-a"))], for_claim="a-only"),
        volume("c-only", terms=[labelled(expression(ZONE, "In", "zone-c"))], for_claim="c-only"),
        volume("free", "by-hand", terms=[labelled(expression(HOSTNAME, "In", "unready"))]),
        *(claim(name) for name in BOUND if name != "once"),
        claim("once", mode="ReadWriteOncePod"),
        claim("unbound", "at-once"),
        claim("by-hand-1", "by-hand"),
        claim("too-large", "by-hand", size="1Ti"),
        claim("nowhere", "far"),
        claim("classless", "no-such-class"),
        claim("no-class", ""),
        claim("spacious", "small"),
    ]


def wanting(**spec: Any) -> Manifest:
    """Fields of a pod's spec."""
    return spec


EVERYTHING = [toleration()]
HUGE = {"cpu": "100"}

SITUATIONS: dict[str, Manifest] = {
    # Resources
    "cpu": wanting(containers=[container(HUGE)]),
    "cpu that fits some machines by size but not by what is left": wanting(
        containers=[container({"cpu": "3500m"})],
        nodeSelector={"disk": "hdd"},
    ),
    "memory": wanting(containers=[container({"memory": "1Ti"})]),
    "cpu and memory": wanting(containers=[container(HUGE | {"memory": "1Ti"})]),
    "ephemeral storage": wanting(containers=[container({"ephemeral-storage": "2Ti"})]),
    "an extended resource that nobody has": wanting(
        containers=[container({"cpu": "1", "example.com/fpga": "1"})]
    ),
    "more of an extended resource than there is": wanting(
        containers=[container({"cpu": "1", GPU: "3"})], tolerations=EVERYTHING
    ),
    "huge pages": wanting(
        containers=[container({"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "128Mi"})]
    ),
    "several at once": wanting(
        containers=[
            container(HUGE | {"memory": "1Ti", "ephemeral-storage": "2Ti", GPU: "3"}),
        ],
        tolerations=EVERYTHING,
    ),
    "an init container that needs more": wanting(
        containers=[container({"cpu": "1"})], initContainers=[container(HUGE, "init")]
    ),
    "a sidecar on top": wanting(
        containers=[container({"cpu": "3"})],
        initContainers=[container({"cpu": "2"}, "side", restartPolicy="Always")],
    ),
    "an init container beside a sidecar": wanting(
        containers=[container({"cpu": "1"})],
        initContainers=[
            container({"cpu": "2"}, "side", restartPolicy="Always"),
            container({"cpu": "3"}, "init"),
        ],
    ),
    "overhead": wanting(
        containers=[container({"cpu": "3800m"})],
        runtimeClassName=OVERHEAD,
    ),
    "nothing but room for one more pod": wanting(nodeSelector={"size": "big"}),
    # Labels
    "a selector": wanting(nodeSelector={"disk": "tape"}),
    "a selector and cpu": wanting(containers=[container(HUGE)], nodeSelector={"disk": "ssd"}),
    "affinity In": wanting(affinity=required(labelled(expression("disk", "In", "tape", "cd")))),
    "affinity NotIn": wanting(
        affinity=required(
            labelled(
                expression("disk", "NotIn", "ssd", "hdd"),
                expression(HOSTNAME, "In", "plain", "full"),
            )
        )
    ),
    "affinity Exists": wanting(
        affinity=required(labelled(expression("gold", "Exists"))),
    ),
    "affinity DoesNotExist": wanting(
        affinity=required(
            labelled(expression("size", "DoesNotExist"), expression("disk", "Exists"))
        ),
    ),
    "affinity Gt": wanting(affinity=required(labelled(expression("size", "Gt", "9")))),
    "affinity Lt": wanting(affinity=required(labelled(expression("size", "Lt", "5")))),
    "affinity to nothing": wanting(affinity=required({})),
    "affinity by name": wanting(affinity=on("nobody")),
    "affinity to a machine that is full": wanting(cpu="2", affinity=on("full")),
    "affinity away from a name": wanting(
        affinity=required(
            {
                "matchFields": [expression("metadata.name", "NotIn", "plain")],
                "matchExpressions": [expression("team", "In", "blue")],
            }
        )
    ),
    "one of several names": wanting(
        cpu="5", affinity=required(named("In", "plain"), named("In", "full"))
    ),
    "a name or a label": wanting(
        cpu="5", affinity=required(named("In", "plain"), labelled(expression("disk", "In", "hdd")))
    ),
    "affinity and selector": wanting(
        nodeSelector={"disk": "ssd"}, affinity=required(labelled(expression("disk", "In", "hdd")))
    ),
    # Taints
    "taints that are not tolerated": wanting(containers=[container({"cpu": "1", GPU: "1"})]),
    "one taint tolerated": wanting(
        containers=[container(HUGE)], tolerations=[toleration("dedicated", "Equal", value="gpu")]
    ),
    "the wrong value tolerated": wanting(
        containers=[container(HUGE)], tolerations=[toleration("dedicated", "Equal", value="cpu")]
    ),
    "the wrong effect tolerated": wanting(
        containers=[container(HUGE)], tolerations=[toleration("dedicated", effect="NoExecute")]
    ),
    "NoExecute tolerated": wanting(
        containers=[container(HUGE)], tolerations=[toleration("drain", effect="NoExecute")]
    ),
    "everything tolerated": wanting(containers=[container(HUGE)], tolerations=EVERYTHING),
    "a cordon tolerated": wanting(
        containers=[container(HUGE)], tolerations=[toleration("node.kubernetes.io/unschedulable")]
    ),
    "not being ready tolerated": wanting(
        containers=[container(HUGE)], tolerations=[toleration("node.kubernetes.io/not-ready")]
    ),
    # Ports
    "a port that is taken": wanting(
        containers=with_ports(host_port(8080)), nodeSelector={HOSTNAME: "ports"}
    ),
    "a port that is taken, on one address": wanting(
        containers=with_ports(host_port(8080, ip="10.0.0.1")), nodeSelector={HOSTNAME: "ports"}
    ),
    "a port of another protocol on every address": wanting(
        containers=with_ports(host_port(5353, "UDP")), nodeSelector={HOSTNAME: "ports"}
    ),
    "a port of a sidecar": wanting(
        initContainers=[
            container({}, "side", restartPolicy="Always", ports=[host_port(8080)]),
        ],
        nodeSelector={HOSTNAME: "ports"},
    ),
    "a port of a pod on the host's network": wanting(
        containers=with_ports({"containerPort": 8080}),
        hostNetwork=True,
        nodeSelector={HOSTNAME: "ports"},
    ),
    "a port and cpu": wanting(
        containers=with_ports(host_port(8080), cpu="100"), nodeSelector={HOSTNAME: "ports"}
    ),
    # Volumes
    "a claim that is not there": wanting(volumes=mounting("no-such-claim")),
    "a claim that waits for its volume": wanting(volumes=mounting("unbound")),
    "a claim of a class that is not there": wanting(volumes=mounting("classless")),
    "a claim without a class": wanting(volumes=mounting("no-class")),
    "a volume that is elsewhere": wanting(volumes=mounting("away")),
    "a volume in another zone": wanting(volumes=mounting("zoned")),
    "volumes in two zones": wanting(volumes=mounting("a-only", "c-only")),
    "a volume for one pod only": wanting(volumes=mounting("once")),
    "a volume too many": wanting(volumes=mounting("one-more"), nodeSelector={HOSTNAME: "disks"}),
    "no volume to be had": wanting(volumes=mounting("by-hand-1")),
    "no volume as large": wanting(volumes=mounting("too-large")),
    "a class that is for another zone": wanting(volumes=mounting("nowhere")),
    "a volume whose driver must be there": wanting(volumes=mounting("uninstalled")),
    "a claim that is being deleted": wanting(volumes=mounting("leaving")),
    "a claim that has lost its volume": wanting(volumes=mounting("vanished")),
    "no space left": wanting(volumes=mounting("spacious")),
    "a volume elsewhere and cpu": wanting(
        volumes=mounting("away"), containers=[container({"cpu": "3500m"})]
    ),
    "a generic ephemeral volume without a volume": wanting(
        volumes=[
            {
                "name": "scratch",
                "ephemeral": {"volumeClaimTemplate": {"spec": claim("-", "by-hand")["spec"]}},
            }
        ]
    ),
}


def build(plane: ControlPlane) -> None:
    """Make the cluster, and wait until the controllers have done their part."""
    create(plane, *machines(), *disks())
    set_spec(plane, "cordoned", unschedulable=True)
    set_ready(plane, "unready", "False")
    claims = collection("PersistentVolumeClaim")

    def phases(names: Iterable[str]) -> set[str]:
        return {plane.api.get(f"{claims}/{name}")["status"]["phase"] for name in names}

    plane.wait_until(lambda: phases(BOUND) == {"Bound"}, "claims to be bound")
    create(plane, *residents())
    # It stays as long as its pod runs.
    delete(plane, "PersistentVolumeClaim", "leaving")
    # In this order: a controller gives a volume that is not going away its finalizer back.
    delete(plane, "PersistentVolume", "vanished")
    plane.api.patch(
        f"{collection('PersistentVolume')}/vanished", {"metadata": {"finalizers": None}}
    )
    plane.wait_until(lambda: phases(["vanished"]) == {"Lost"}, "a claim to lose its volume")
    plane.wait_until(lambda: len(_taints(plane, "unready")) == 2, "taints of what is not ready")
    plane.wait_until(lambda: len(_taints(plane, "cordoned")) == 1, "the taint of a cordon")


def _taints(plane: ControlPlane, name: str) -> list[Manifest]:
    return plane.api.get(f"{collection('Node')}/{name}")["spec"].get("taints", [])
