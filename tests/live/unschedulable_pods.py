"""Pods that no node can take, by what makes them unschedulable, and the cluster for them: each
node has another defect, from taints to used host ports.
"""

from collections.abc import Iterable
from typing import Any

from cluster_objects import collection, create, delete, set_ready, set_spec
from live_manifests import (
    HOSTNAME,
    ZONE,
    between_pods,
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
    pod_term,
    required,
    spread_constraint,
    storage_class,
    taint,
    toleration,
    volume,
    with_ports,
)
from random_manifests import GPU, OVERHEAD
from testbed import ControlPlane, Manifest
from testbed.nodes import node

# --- The cluster: each node has another defect


SMALL_DRIVER = "small.example.com"
MISSING_DRIVER = "missing.example.com"
SHARE = {"server": "somewhere", "path": "/"}
# Claims that are bound to the volume of the same name.
BOUND_CLAIMS = (
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


def bound_pods() -> list[Manifest]:
    """Running pods of another scheduler."""
    taken = with_ports(host_port(8080), host_port(5353, "UDP", "127.0.0.1"), cpu="1")
    return [
        pod("resident-full", scheduler="another", cpu="3", nodeName="full", labels={"app": "db"}),
        pod("resident-crowded", scheduler="another", nodeName="crowded"),
        pod("resident-ports", scheduler="another", containers=taken, nodeName="ports"),
        pod("resident-disks", scheduler="another", volumes=mounting("held"), nodeName="disks"),
        pod("resident-leaving", scheduler="another", volumes=mounting("leaving"), nodeName="disks"),
        pod("resident-once", scheduler="another", volumes=mounting("once"), nodeName="disks"),
        pod(
            "resident-lone",
            scheduler="another",
            nodeName="disks",
            labels={"app": "lone"},
            affinity=between_pods("podAntiAffinity", pod_term(HOSTNAME, {"tier": "rival"})),
        ),
    ]


def storage_objects() -> list[Manifest]:
    """Storage classes, drivers, volumes and claims of the pods below."""
    elsewhere = labelled(expression(HOSTNAME, "In", "somewhere-else"))
    return [
        storage_class("disk", "example.com/no-provisioner"),
        storage_class("at-once", "example.com/no-provisioner", volumeBindingMode="Immediate"),
        storage_class("by-hand", "kubernetes.io/no-provisioner"),
        storage_class(
            "far",
            allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-z"]}]}],
        ),
        storage_class("small", SMALL_DRIVER),
        csi_driver(SMALL_DRIVER, storageCapacity=True),
        capacity("small-here", "small", "1Mi"),
        csi_driver(MISSING_DRIVER, preventPodSchedulingIfMissing=True),
        csi_node("disks", 1),
        volume("held", csi=csi("held"), for_claim="held"),
        volume("one-more", csi=csi("one-more"), for_claim="one-more"),
        volume("once", mode="ReadWriteOncePod", for_claim="once", nfs=SHARE),
        volume("uninstalled", csi=csi("uninstalled", MISSING_DRIVER), for_claim="uninstalled"),
        volume("leaving", nfs=SHARE, for_claim="leaving"),
        volume("vanished", nfs=SHARE, for_claim="vanished"),
        volume("away", terms=[elsewhere], for_claim="away"),
        volume("zoned", for_claim="zoned", labels={ZONE: "zone-z"}, nfs=SHARE),
        volume("a-only", terms=[labelled(expression(ZONE, "In", "zone-a"))], for_claim="a-only"),
        volume("c-only", terms=[labelled(expression(ZONE, "In", "zone-c"))], for_claim="c-only"),
        volume("free", "by-hand", terms=[labelled(expression(HOSTNAME, "In", "unready"))]),
        *(claim(name) for name in BOUND_CLAIMS if name != "once"),
        claim("once", mode="ReadWriteOncePod"),
        claim("unbound", "at-once"),
        claim("by-hand-1", "by-hand"),
        claim("too-large", "by-hand", size="1Ti"),
        claim("nowhere", "far"),
        claim("classless", "no-such-class"),
        claim("no-class", ""),
        claim("spacious", "small"),
    ]


def pod_spec(**spec: Any) -> Manifest:
    """Fields of a pod's spec."""
    return spec


TOLERATE_ALL = [toleration()]
HUGE = {"cpu": "100"}

UNSCHEDULABLE_PODS: dict[str, Manifest] = {
    # Resources
    "cpu": pod_spec(containers=[container(HUGE)]),
    "cpu that fits some machines by size but not by what is left": pod_spec(
        containers=[container({"cpu": "3500m"})], nodeSelector={"disk": "hdd"}
    ),
    "memory": pod_spec(containers=[container({"memory": "1Ti"})]),
    "cpu and memory": pod_spec(containers=[container(HUGE | {"memory": "1Ti"})]),
    "ephemeral storage": pod_spec(containers=[container({"ephemeral-storage": "2Ti"})]),
    "an extended resource that no node has": pod_spec(
        containers=[container({"cpu": "1", "example.com/fpga": "1"})]
    ),
    "more of an extended resource than there is": pod_spec(
        containers=[container({"cpu": "1", GPU: "3"})], tolerations=TOLERATE_ALL
    ),
    "huge pages": pod_spec(
        containers=[container({"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "128Mi"})]
    ),
    "several at once": pod_spec(
        containers=[container(HUGE | {"memory": "1Ti", "ephemeral-storage": "2Ti", GPU: "3"})],
        tolerations=TOLERATE_ALL,
    ),
    "an init container that needs more": pod_spec(
        containers=[container({"cpu": "1"})], initContainers=[container(HUGE, "init")]
    ),
    "a sidecar on top": pod_spec(
        containers=[container({"cpu": "3"})],
        initContainers=[container({"cpu": "2"}, "side", restartPolicy="Always")],
    ),
    "an init container beside a sidecar": pod_spec(
        containers=[container({"cpu": "1"})],
        initContainers=[
            container({"cpu": "2"}, "side", restartPolicy="Always"),
            container({"cpu": "3"}, "init"),
        ],
    ),
    "overhead": pod_spec(containers=[container({"cpu": "3800m"})], runtimeClassName=OVERHEAD),
    "nothing but room for one more pod": pod_spec(nodeSelector={"size": "big"}),
    # Labels
    "a selector": pod_spec(nodeSelector={"disk": "tape"}),
    "a selector and cpu": pod_spec(containers=[container(HUGE)], nodeSelector={"disk": "ssd"}),
    "affinity In": pod_spec(affinity=required(labelled(expression("disk", "In", "tape", "cd")))),
    "affinity NotIn": pod_spec(
        affinity=required(
            labelled(
                expression("disk", "NotIn", "ssd", "hdd"),
                expression(HOSTNAME, "In", "plain", "full"),
            )
        )
    ),
    "affinity Exists": pod_spec(affinity=required(labelled(expression("gold", "Exists")))),
    "affinity DoesNotExist": pod_spec(
        affinity=required(
            labelled(expression("size", "DoesNotExist"), expression("disk", "Exists"))
        )
    ),
    "affinity Gt": pod_spec(affinity=required(labelled(expression("size", "Gt", "9")))),
    "affinity Lt": pod_spec(affinity=required(labelled(expression("size", "Lt", "5")))),
    "affinity to nothing": pod_spec(affinity=required({})),
    "affinity by name": pod_spec(affinity=on("no-such-node")),
    "affinity to a machine that is full": pod_spec(cpu="2", affinity=on("full")),
    "affinity away from a name": pod_spec(
        affinity=required(
            {
                "matchFields": [expression("metadata.name", "NotIn", "plain")],
                "matchExpressions": [expression("team", "In", "blue")],
            }
        )
    ),
    "one of several names": pod_spec(
        cpu="5", affinity=required(named("In", "plain"), named("In", "full"))
    ),
    "a name or a label": pod_spec(
        cpu="5", affinity=required(named("In", "plain"), labelled(expression("disk", "In", "hdd")))
    ),
    "affinity and selector": pod_spec(
        nodeSelector={"disk": "ssd"}, affinity=required(labelled(expression("disk", "In", "hdd")))
    ),
    # Taints
    "taints that are not tolerated": pod_spec(containers=[container({"cpu": "1", GPU: "1"})]),
    "one taint tolerated": pod_spec(
        containers=[container(HUGE)], tolerations=[toleration("dedicated", "Equal", value="gpu")]
    ),
    "the wrong value tolerated": pod_spec(
        containers=[container(HUGE)], tolerations=[toleration("dedicated", "Equal", value="cpu")]
    ),
    "the wrong effect tolerated": pod_spec(
        containers=[container(HUGE)], tolerations=[toleration("dedicated", effect="NoExecute")]
    ),
    "NoExecute tolerated": pod_spec(
        containers=[container(HUGE)], tolerations=[toleration("drain", effect="NoExecute")]
    ),
    "everything tolerated": pod_spec(containers=[container(HUGE)], tolerations=TOLERATE_ALL),
    "a cordon tolerated": pod_spec(
        containers=[container(HUGE)], tolerations=[toleration("node.kubernetes.io/unschedulable")]
    ),
    "not being ready tolerated": pod_spec(
        containers=[container(HUGE)], tolerations=[toleration("node.kubernetes.io/not-ready")]
    ),
    # Ports
    "a port that is taken": pod_spec(
        containers=with_ports(host_port(8080)), nodeSelector={HOSTNAME: "ports"}
    ),
    "a port that is taken, on one address": pod_spec(
        containers=with_ports(host_port(8080, ip="10.0.0.1")), nodeSelector={HOSTNAME: "ports"}
    ),
    "a port of another protocol on every address": pod_spec(
        containers=with_ports(host_port(5353, "UDP")), nodeSelector={HOSTNAME: "ports"}
    ),
    "a port of a sidecar": pod_spec(
        initContainers=[container({}, "side", restartPolicy="Always", ports=[host_port(8080)])],
        nodeSelector={HOSTNAME: "ports"},
    ),
    "a port of a pod on the host's network": pod_spec(
        containers=with_ports({"containerPort": 8080}),
        hostNetwork=True,
        nodeSelector={HOSTNAME: "ports"},
    ),
    "a port and cpu": pod_spec(
        containers=with_ports(host_port(8080), cpu="100"), nodeSelector={HOSTNAME: "ports"}
    ),
    # Volumes
    "a claim that is not there": pod_spec(volumes=mounting("no-such-claim")),
    "a claim that waits for its volume": pod_spec(volumes=mounting("unbound")),
    "a claim of a class that is not there": pod_spec(volumes=mounting("classless")),
    "a claim without a class": pod_spec(volumes=mounting("no-class")),
    "a volume that is elsewhere": pod_spec(volumes=mounting("away")),
    "a volume in another zone": pod_spec(volumes=mounting("zoned")),
    "volumes in two zones": pod_spec(volumes=mounting("a-only", "c-only")),
    "a volume for one pod only": pod_spec(volumes=mounting("once")),
    "a volume too many": pod_spec(volumes=mounting("one-more"), nodeSelector={HOSTNAME: "disks"}),
    "no volume to be had": pod_spec(volumes=mounting("by-hand-1")),
    "no volume as large": pod_spec(volumes=mounting("too-large")),
    "a class that is for another zone": pod_spec(volumes=mounting("nowhere")),
    "a volume whose driver must be there": pod_spec(volumes=mounting("uninstalled")),
    "a claim that is being deleted": pod_spec(volumes=mounting("leaving")),
    "a claim that has lost its volume": pod_spec(volumes=mounting("vanished")),
    "no space left": pod_spec(volumes=mounting("spacious")),
    "a volume elsewhere and cpu": pod_spec(
        volumes=mounting("away"), containers=[container({"cpu": "3500m"})]
    ),
    # Other pods
    "affinity to pods that do not run": pod_spec(
        affinity=between_pods("podAffinity", pod_term(ZONE, {"app": "nowhere"}))
    ),
    "affinity to a pod of a domain without room": pod_spec(
        cpu="2", affinity=between_pods("podAffinity", pod_term(HOSTNAME, {"app": "db"}))
    ),
    "affinity to pods of another namespace": pod_spec(
        affinity=between_pods(
            "podAffinity", pod_term(ZONE, {"app": "db"}, namespaces=["kube-system"])
        )
    ),
    "affinity of the first of its kind, without the label": pod_spec(
        labels={"app": "first"},
        affinity=between_pods("podAffinity", pod_term("no-such-label", {"app": "first"})),
    ),
    "two terms that different pods satisfy": pod_spec(
        affinity=between_pods(
            "podAffinity", pod_term(ZONE, {"app": "db"}), pod_term(HOSTNAME, {"app": "lone"})
        )
    ),
    "anti-affinity to every pod": pod_spec(
        affinity=between_pods("podAntiAffinity", pod_term("kubernetes.io/os", {})),
        nodeSelector={HOSTNAME: "full"},
    ),
    "anti-affinity in a zone": pod_spec(
        affinity=between_pods("podAntiAffinity", pod_term(ZONE, {"app": "db"})),
        nodeSelector={"disk": "hdd"},
    ),
    "the anti-affinity of a running pod": pod_spec(
        labels={"tier": "rival"}, nodeSelector={HOSTNAME: "disks"}
    ),
    "affinity, anti-affinity and another's anti-affinity": pod_spec(
        labels={"tier": "rival"},
        affinity=between_pods("podAffinity", pod_term(ZONE, {"app": "lone"}))
        | between_pods("podAntiAffinity", pod_term(HOSTNAME, {"app": "lone"})),
    ),
    "spread over a label that no node has": pod_spec(
        topologySpreadConstraints=[spread_constraint("no-such-label", {"app": "db"})]
    ),
    "spread over zones, also those of nodes that the pod does not match": pod_spec(
        labels={"app": "db"},
        nodeSelector={"team": "blue"},
        topologySpreadConstraints=[
            spread_constraint(ZONE, {"app": "db"}, nodeAffinityPolicy="Ignore")
        ],
    ),
    "spread with too few zones": pod_spec(
        labels={"app": "db"},
        nodeSelector={"disk": "hdd"},
        topologySpreadConstraints=[spread_constraint(ZONE, {"app": "db"}, minDomains=9)],
    ),
    "spread over a zone and a label that some nodes lack": pod_spec(
        labels={"app": "db"},
        topologySpreadConstraints=[
            spread_constraint(ZONE, {"app": "db"}),
            spread_constraint("size", {"app": "db"}),
        ],
    ),
    "spread and affinity": pod_spec(
        topologySpreadConstraints=[spread_constraint(ZONE, {"app": "db"})],
        affinity=between_pods("podAffinity", pod_term(ZONE, {"app": "nowhere"})),
    ),
    "a generic ephemeral volume without a volume": pod_spec(
        volumes=[
            {
                "name": "scratch",
                "ephemeral": {"volumeClaimTemplate": {"spec": claim("-", "by-hand")["spec"]}},
            }
        ]
    ),
}


def create_cluster(plane: ControlPlane) -> None:
    """Create the cluster and wait for its controllers."""
    create(plane, *machines(), *storage_objects())
    set_spec(plane, "cordoned", unschedulable=True)
    set_ready(plane, "unready", "False")
    claims = collection("PersistentVolumeClaim")

    def phases(names: Iterable[str]) -> set[str]:
        return {plane.api.get(f"{claims}/{name}")["status"]["phase"] for name in names}

    plane.wait_until(lambda: phases(BOUND_CLAIMS) == {"Bound"}, "claims to be bound")
    create(plane, *bound_pods())
    # The claim stays as long as its pod runs.
    delete(plane, "PersistentVolumeClaim", "leaving")
    # In this order: the controller restores the finalizer of a volume that is not being deleted.
    delete(plane, "PersistentVolume", "vanished")
    plane.api.patch(
        f"{collection('PersistentVolume')}/vanished", {"metadata": {"finalizers": None}}
    )
    plane.wait_until(lambda: phases(["vanished"]) == {"Lost"}, "a claim to lose its volume")
    plane.wait_until(lambda: len(_taints(plane, "unready")) == 2, "the taints of `unready`")
    plane.wait_until(lambda: len(_taints(plane, "cordoned")) == 1, "the taint of a cordon")


def _taints(plane: ControlPlane, name: str) -> list[Manifest]:
    return plane.api.get(f"{collection('Node')}/{name}")["spec"].get("taints", [])
