"""Builders of Kubernetes manifests for tests on a real API server."""

from collections.abc import Mapping, Sequence
from typing import Any

from testbed import Manifest

OURS = "afflux"
IMAGE = "testbed.invalid/nothing"
PROVISIONER = "testbed.afflux.dev/disk"
DRIVER = "disk.testbed.afflux.dev"
HOSTNAME = "kubernetes.io/hostname"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
ZONE = "topology.kubernetes.io/zone"


def pod(
    name: str,
    *,
    scheduler: str = OURS,
    cpu: str = "100m",
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    namespace: str = "default",
    **spec: Any,
) -> Manifest:
    """A pod with one container; keywords are fields of its spec."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [container(requests or {"cpu": cpu})],
            **spec,
        },
    }


def container(requests: Mapping[str, str], name: str = "main", **fields: Any) -> Manifest:
    """A container with these requests; resources without overcommit are limits too."""
    firm = {key: value for key, value in requests.items() if "/" in key or key[:5] == "hugep"}
    resources: Manifest = {"requests": dict(requests)} | ({"limits": firm} if firm else {})
    return {"name": name, "image": IMAGE, "resources": resources, **fields}


def with_ports(*ports: Manifest, **requests: str) -> list[Manifest]:
    """One container with these ports."""
    return [container(requests or {"cpu": "100m"}, ports=list(ports))]


def host_port(number: int, protocol: str = "TCP", ip: str = "") -> Manifest:
    """A port of the host."""
    port: Manifest = {"containerPort": number, "hostPort": number, "protocol": protocol}
    return port | ({"hostIP": ip} if ip else {})


# --- Groups


def in_group(name: str, size: object) -> dict[str, Any]:
    """The fields of a pod of this group."""
    return {"labels": {"afflux.dev/group-name": name, "afflux.dev/group-size": str(size)}}


def job(name: str, deadline: int) -> Manifest:
    """A Job of two pods that form a group and run until they are stopped."""
    template = pod("-", activeDeadlineSeconds=deadline, restartPolicy="Never", **in_group(name, 2))
    return {
        "metadata": {"name": name},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "backoffLimit": 20,
            "template": {
                "metadata": {"labels": template["metadata"]["labels"]},
                "spec": template["spec"],
            },
        },
    }


# --- Affinity, taints and tolerations


def expression(key: str, operator: str, *values: str) -> Manifest:
    """One requirement on a label, or on a field."""
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def required(*terms: Manifest) -> Manifest:
    """`affinity` that requires one of these terms."""
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def labelled(*expressions: Manifest) -> Manifest:
    """A term on labels."""
    return {"matchExpressions": list(expressions)}


def named(operator: str, name: str) -> Manifest:
    """A term on the machine's name."""
    return {"matchFields": [expression("metadata.name", operator, name)]}


def on(name: str) -> Manifest:
    """`affinity` to one machine."""
    return required(named("In", name))


def preferred(*weighted: tuple[int, Manifest]) -> Manifest:
    """`affinity` that prefers these terms."""
    wishes = [{"weight": weight, "preference": term} for weight, term in weighted]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}


def taint(key: str, effect: str, value: str = "") -> Manifest:
    """A taint."""
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def toleration(key: str = "", operator: str = "Exists", **fields: str) -> Manifest:
    """A toleration; without a key it tolerates every taint."""
    return {"operator": operator, **({"key": key} if key else {}), **fields}


# --- Constraints between pods


def pod_term(key: str, labels: Mapping[str, str], **fields: Any) -> Manifest:
    """A term of affinity or anti-affinity to the pods with these labels."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": dict(labels)}, **fields}


def between_pods(kind: str, *terms: Manifest) -> Manifest:
    """`affinity` with these required terms of `podAffinity` or `podAntiAffinity`."""
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def spread_constraint(key: str, labels: Mapping[str, str], **fields: Any) -> Manifest:
    """A required spread constraint with a maximum skew of 1."""
    constraint = {"topologyKey": key, "labelSelector": {"matchLabels": dict(labels)}, "maxSkew": 1}
    return {"whenUnsatisfiable": "DoNotSchedule", **constraint, **fields}


# --- Storage


def storage_class(name: str, provisioner: str = PROVISIONER, **fields: Any) -> Manifest:
    """A storage class, by default with WaitForFirstConsumer."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **fields,
    }


def claim(
    name: str, storage: str = "disk", *, size: str = "1Gi", mode: str = "ReadWriteOnce", **spec: Any
) -> Manifest:
    """A claim of this storage class."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "storageClassName": storage,
            "accessModes": [mode],
            "resources": {"requests": {"storage": size}},
            **spec,
        },
    }


def volume(
    name: str,
    storage: str = "disk",
    *,
    size: str = "1Gi",
    mode: str = "ReadWriteOnce",
    terms: Sequence[Manifest] = (),
    labels: Mapping[str, str] | None = None,
    for_claim: str | None = None,
    **source: Any,
) -> Manifest:
    """A volume that nodes of these terms can reach, reserved for `for_claim` if given."""
    spec: Manifest = {
        "storageClassName": storage,
        "accessModes": [mode],
        "capacity": {"storage": size},
        "persistentVolumeReclaimPolicy": "Retain",
        **(source or {"local": {"path": f"/mnt/{name}"}}),
    }
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": list(terms)}}
    if for_claim is not None:
        spec["claimRef"] = {"namespace": "default", "name": for_claim}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": spec,
    }


def csi(handle: str, driver: str = DRIVER) -> Manifest:
    """The source of a volume that a driver attaches."""
    return {"driver": driver, "volumeHandle": handle}


def csi_node(name: str, limit: int | None = None, driver: str = DRIVER) -> Manifest:
    """The CSINode of a node with one driver, which attaches at most `limit` volumes."""
    entry: Manifest = {"name": driver, "nodeID": name, "topologyKeys": []}
    if limit is not None:
        entry["allocatable"] = {"count": limit}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [entry]},
    }


def csi_driver(name: str, **spec: Any) -> Manifest:
    """The CSIDriver object of a driver."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {"attachRequired": False, **spec},
    }


def capacity(name: str, storage: str, size: str) -> Manifest:
    """The free space for volumes of a class, the same on every node."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": storage,
        "nodeTopology": {},
        "capacity": size,
    }


def mounting(*claims: str) -> list[Manifest]:
    """The volumes of a pod that uses these claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
