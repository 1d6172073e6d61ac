"""Odd objects that the API server accepts: odd pods are placed or get a reason, and they do not
affect other pods.
"""

from typing import Any

from pod_bursts import (
    PODS_PER_NODE,
    Burst,
    create_nodes,
    delete_pod,
    names,
    numbered_pods,
    pod,
    wait_bound,
)
from scheduler_process import Schedulers
from testbed import ControlPlane, Manifest, verdict
from testbed.nodes import node

LONG = "x" * 63
HUGE = str(2**63 - 1)
NEGATIVE_TOLERATION = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -5}


def requesting(name: str, **amounts: str) -> Manifest:
    """A pod with these requests."""
    made = pod(name)
    written = {key.replace("_", "-"): amount for key, amount in amounts.items()}
    made["spec"]["containers"][0]["resources"] = {"requests": written}
    return made


def labelled(name: str, **labels: str) -> Manifest:
    """A pod with these labels below afflux.dev/."""
    return pod(name, labels={f"afflux.dev/{key.replace('_', '-')}": v for key, v in labels.items()})


def affinity(terms: list[Manifest]) -> Manifest:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def expression(key: str, operator: str, *values: str) -> Manifest:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def placeable_pods() -> list[Manifest]:
    """Odd pods that fit on a machine."""
    containers = [
        {
            "name": f"c{number}",
            "image": f"{LONG}/{number}",
            "resources": {"requests": {"cpu": "1n"}},
        }
        for number in range(120)
    ]
    port = {"containerPort": 65535, "hostPort": 65535, "hostIP": "::", "protocol": "SCTP"}
    apart = {"topologyKey": LONG, "labelSelector": {"matchLabels": {LONG: LONG}}}
    found = [
        requesting("tiny", cpu="1n", memory="1m", ephemeral_storage="100u"),
        requesting("half", cpu=".5", memory="1.5Mi"),
        requesting("exponent", cpu="1e-3", memory="1E3"),
        requesting("nothing", cpu="0", memory="0"),
        pod("n" * 253),
        pod("containers", containers=containers),
        pod("starts", initContainers=[each | {"name": f"i-{each['name']}"} for each in containers]),
        pod("labels", labels={f"{'p' * 60}.{n}/{LONG}": LONG for n in range(100)}),
        pod("deadline", activeDeadlineSeconds=2**31 - 1),
        pod("urgent", priorityClassName="absurd"),
        pod("tolerant", tolerations=[NEGATIVE_TOLERATION]),
        pod(
            "choosy",
            affinity=affinity(
                [
                    {
                        "matchExpressions": [
                            expression(
                                "kubernetes.io/os", "In", *(f"v{n}" for n in range(500)), "linux"
                            )
                        ]
                    },
                    {"matchExpressions": [expression("number", "Gt", "0")]},
                ]
            ),
        ),
        pod(
            "apart",
            affinity={
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
            },
        ),
        labelled("lonely", group_name="solo", group_size="1"),
        labelled("dotted", group_name="A.B_c", group_size="000000001"),
    ]
    found[5]["spec"]["containers"][0]["ports"] = [port]
    return found


def unplaceable_pods() -> list[Manifest]:
    """Odd pods that fit nowhere, or whose fields make no sense."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "no.such/key",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}
    many_containers = [
        {"name": f"c{n}", "image": "x", "resources": {"requests": {"memory": HUGE, "cpu": HUGE}}}
        for n in range(10)
    ]
    widgets = pod("widgets")
    widgets["spec"]["containers"][0]["resources"] = {"limits": {f"{'w' * 60}.example/{LONG}": HUGE}}
    return [
        requesting("vast", cpu=HUGE, memory=HUGE),
        requesting("vaster", cpu="1e30", memory="8Ei"),
        requesting("large", cpu="9e15", memory="7Pi"),
        pod("sum", containers=many_containers),
        widgets,
        pod("nowhere", nodeSelector={LONG: LONG}),
        pod("no-terms", affinity=affinity([{}])),
        pod(
            "beyond",
            affinity=affinity(
                [{"matchExpressions": [expression("number", "Gt", "9223372036854775807")]}]
            ),
        ),
        pod(
            "no-number",
            affinity=affinity([{"matchExpressions": [expression("number", "Lt", "0")]}]),
        ),
        pod("spread", topologySpreadConstraints=[spread]),
        pod("claims", volumes=[claim]),
        labelled("no-members", group_name="g1", group_size="0"),
        labelled("half-a-member", group_name="g2", group_size="0.5"),
        labelled("too-many", group_name="g3", group_size="999999999"),
        labelled("words", group_name="g4", group_size="eight"),
        labelled("nameless", group_size="8"),
        labelled("unnamed", group_name="", group_size="8"),
    ]


def odd_nodes() -> list[Manifest]:
    """Nodes that must not get pods, or whose fields are missing or extreme."""
    images = [
        {"names": [f"{LONG}/{n}", f"{LONG}/{n}:{LONG}"], "sizeBytes": 2**63 - 1} for n in range(300)
    ]
    taints = [{"key": f"{LONG}.{n}/{LONG}", "effect": "PreferNoSchedule"} for n in range(50)]
    wide = {f"vendor-{n}.example/{LONG}": HUGE for n in range(200)}
    taint = {"key": "odd", "effect": "NoSchedule"}
    bare: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}}

    def with_status(name: str, **status: Any) -> Manifest:
        made = node(name, taints=[taint])
        made["status"] = {**made["status"], **status}
        return made

    return [
        bare,
        with_status("silent", allocatable=None, capacity=None),
        with_status("empty", allocatable={}, capacity={}),
        with_status("capacity-only", allocatable=None),
        with_status("absurd", allocatable={"cpu": HUGE, "memory": HUGE, "pods": HUGE}),
        with_status("wide", allocatable=wide | {"cpu": "1", "memory": "1", "pods": "1"}),
        with_status("unready", conditions=[{"type": "Ready", "status": "Perhaps"}]),
        with_status("unconditional", conditions=None),
        with_status("pictures", images=images),
        node(
            "tainted",
            taints=[*taints, taint],
            labels={f"{LONG}.{n}/{LONG}": LONG for n in range(200)},
        ),
        node("m" * 253, taints=[taint], labels={"kubernetes.io/hostname": LONG}),
    ]


def test_odd_pods_and_machines_do_not_delay_others(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    cluster.api.create(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": "absurd"}, "value": 1_000_000_000},
    )
    good = create_nodes(cluster, 8, labels={"number": "1"})
    afflux = schedulers.start()
    odd = odd_nodes()
    cluster.api.each(lambda made: cluster.api.create("/api/v1/nodes", made), odd)
    placed, waiting = placeable_pods(), unplaceable_pods()
    cluster.create_pods([*placed, *waiting])
    burst = Burst(cluster, numbered_pods(40))
    burst.wait_all()
    wait_bound(cluster, names(placed))
    wait_for_reasons(cluster, waiting)
    # Nodes change and more pods arrive.
    for name in good[:2]:
        cluster.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"number": "7"}}})
    more = Burst(cluster, numbered_pods(4, "more"))
    more.wait_all()
    pods, nodes = cluster.pods(), cluster.nodes()
    assert verdict.bound_twice(verdict.bindings(cluster)) == []
    readable = [each for each in nodes if each["metadata"]["name"] in good]
    assert verdict.over_capacity(readable, pods) == []
    bound_to = {each["spec"].get("nodeName") for each in pods} - {None}
    assert bound_to <= {*good, *(each["metadata"]["name"] for each in odd)}
    afflux.assert_healthy()


def wait_for_reasons(cluster: ControlPlane, waiting: list[Manifest]) -> None:
    """Wait until each of these pods has a reason."""
    expected = {each["metadata"]["name"] for each in waiting}

    def all_have_reasons() -> bool:
        return expected <= {
            each["metadata"]["name"]
            for each in cluster.pods()
            for condition in each["status"].get("conditions", ())
            if condition["type"] == "PodScheduled" and condition.get("message")
        }

    cluster.wait_until(all_have_reasons, "a reason on every waiting pod")


def test_absurd_pods_of_another_scheduler_fill_their_machine(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    full, *others = create_nodes(cluster, 4)
    afflux = schedulers.start()
    absurd = [made for made in unplaceable_pods() if made["metadata"]["name"] in ("vast", "sum")]
    for made in absurd:
        made["spec"]["schedulerName"] = "another"
    cluster.create_pods(absurd)
    for made in absurd:
        cluster.bind(made["metadata"]["name"], full)
    room = Burst(cluster, numbered_pods(len(others) * PODS_PER_NODE))
    room.wait_all()
    assert full not in where(cluster, room.names)
    late = Burst(cluster, numbered_pods(PODS_PER_NODE, "late"))
    for name in names(absurd):
        delete_pod(cluster, name)
    late.wait_all()
    assert set(where(cluster, late.names)) == {full}
    verdict.assert_sound(cluster, [*room.names, *late.names])
    afflux.assert_healthy()


def where(cluster: ControlPlane, expected: list[str]) -> list[str]:
    """The nodes of these pods."""
    return [
        each["spec"]["nodeName"]
        for each in cluster.pods()
        if f"default/{each['metadata']['name']}" in expected
    ]
