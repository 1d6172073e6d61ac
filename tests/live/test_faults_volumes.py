"""Volumes are reserved or provisioned before a pod is bound, and those writes fail."""

from typing import Any

from fault_injection import ErrorResponse, NoResponse, Proxy, RequestInfo, bind_requests
from pod_bursts import Burst, create_nodes, pod
from scheduler_process import Schedulers
from testbed import ControlPlane, Manifest, verdict

NODES = 8
PODS = 32
FAULTS = [
    ErrorResponse(409, "Conflict"),
    ErrorResponse(500, "InternalError"),
    NoResponse(done=True),
    NoResponse(done=False),
]


def test_writes_to_claims_fail_and_the_process_is_killed(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    create_nodes(cluster, NODES)
    cluster.api.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            "metadata": {"name": "disk"},
            "provisioner": "testbed.afflux.dev/disk",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    # Every second pod has two claims.
    claims = {f"writer-{n:02d}": [f"c-{n}-{k}" for k in range(1 + n % 2)] for n in range(PODS)}
    cluster.api.each(
        lambda name: create_claim(cluster, name), [each for of in claims.values() for each in of]
    )
    with Proxy(cluster) as proxy:
        by_proxy = proxy.kubeconfig(schedulers.kubeconfig)
        afflux = schedulers.start(by_proxy, leaderElection={"leaderElect": False})
        rules = [proxy.inject(fault, patches_of_claims, share=0.1) for fault in FAULTS]
        proxy.inject(NoResponse(done=True), bind_requests, share=0.2)
        burst = Burst(cluster, [writer(name, each) for name, each in claims.items()])
        burst.wait_bound(PODS // 4)
        afflux.kill()
        afflux.start()
        burst.wait_bound(PODS * 3 // 4)
        assert sum(rule.hits for rule in rules) > 3
        # Some pods would by chance be refused repeatedly and back off for long.
        proxy.clear_faults()
        burst.wait_all()
        cluster.wait_until(lambda: all(is_running(each) for each in cluster.pods()), "all to run")
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_healthy()


def test_volume_reservations_of_groups_fail_and_the_process_is_killed(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """There are as many local disks as members: in the end every group has all its disks."""
    nodes = create_nodes(cluster, NODES)
    cluster.api.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            "metadata": {"name": "disk"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    names = [f"writer-{n:02d}" for n in range(PODS)]
    cluster.api.each(lambda name: create_claim(cluster, name), names)
    cluster.api.each(lambda n: create_disk(cluster, f"disk-{n:02d}", nodes[n % NODES]), range(PODS))
    with Proxy(cluster) as proxy:
        by_proxy = proxy.kubeconfig(schedulers.kubeconfig)
        afflux = schedulers.start(by_proxy, leaderElection={"leaderElect": False})
        rules = [proxy.inject(fault, patches_of_volumes, share=0.1) for fault in FAULTS]
        proxy.inject(NoResponse(done=True), bind_requests, share=0.2)
        members = [
            writer(name, [name], labels=in_group(f"g{number // 4}", 4))
            for number, name in enumerate(names)
        ]
        burst = Burst(cluster, members)
        burst.wait_bound(PODS // 4)
        afflux.kill()
        afflux.start()
        burst.wait_bound(PODS * 3 // 4)
        assert sum(rule.hits for rule in rules) > 1
        proxy.clear_faults()
        burst.wait_all()
        cluster.wait_until(lambda: all(is_running(each) for each in cluster.pods()), "all to run")
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_healthy()


def patches_of_volumes(info: RequestInfo) -> bool:
    return info.method == "PATCH" and "/persistentvolumes/" in info.path


def patches_of_claims(info: RequestInfo) -> bool:
    return info.method == "PATCH" and "/persistentvolumeclaims/" in info.path


def create_claim(cluster: ControlPlane, name: str) -> None:
    spec = {
        "storageClassName": "disk",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    cluster.api.create(path, {"metadata": {"name": name}, "spec": spec})


def in_group(name: str, size: int) -> dict[str, str]:
    return {"afflux.dev/group-name": name, "afflux.dev/group-size": str(size)}


def create_disk(cluster: ControlPlane, name: str, node: str) -> None:
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "storageClassName": "disk",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "local": {"path": f"/mnt/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
    }
    cluster.api.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})


def writer(name: str, claims: list[str], **fields: Any) -> Manifest:
    """A pod with these claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=volumes, **fields)


def is_running(pod: Manifest) -> bool:
    return pod["status"]["phase"] == "Running"
