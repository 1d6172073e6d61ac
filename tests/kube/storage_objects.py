"""Small storage objects to write tests with."""

import json
from typing import Any

import msgspec
from manifests import Manifest, pod

from afflux.kube import objects
from afflux.kube.object_files import KINDS
from afflux.kube.pods import PodContext, task
from afflux.kube.volumes.storage import Storage
from afflux.kube.volumes.volume_needs import Blocked, VolumeNeeds
from afflux.model.task import Task

BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"


def storage_object(kind: str, name: str, group: str = "storage.k8s.io", **fields: Any) -> Manifest:
    metadata = {"name": name, **fields.pop("metadata", {})}
    version = f"{group}/v1" if group else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def claim(name: str, *, volume: str = "", node: str = "", gib: int = 1, **fields: Any) -> Manifest:
    """A claim, bound if it has a volume; the rest are fields of its spec."""
    annotations = ({BOUND: "yes"} if volume else {}) | ({SELECTED: node} if node else {})
    status = fields.pop("status", {"phase": "Bound" if volume else "Pending"})
    metadata = {"namespace": "default", "uid": f"uid-{name}", "annotations": annotations}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": f"{gib}Gi"}},
        "storageClassName": "later",
        **({"volumeName": volume} if volume else {}),
    }
    metadata |= fields.pop("metadata", {})
    return storage_object(
        "PersistentVolumeClaim", name, "", metadata=metadata, spec=spec | fields, status=status
    )


def volume(name: str, *, on: Any = None, gib: int = 1, **fields: Any) -> Manifest:
    """A free volume; `on` is its node affinity, as terms of labels."""
    status = fields.pop("status", {"phase": "Available"})
    labels = fields.pop("labels", {})
    metadata = {"labels": labels, **fields.pop("metadata", {})}
    spec: Manifest = {
        "capacity": {"storage": f"{gib}Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "later",
        "csi": {"driver": "disk.example.com", "volumeHandle": f"handle-{name}"},
    }
    if on is not None:
        terms = [
            {
                "matchExpressions": [
                    {"key": key, "operator": "In", "values": list(values)}
                    for key, values in term.items()
                ]
            }
            for term in on
        ]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return storage_object(
        "PersistentVolume", name, "", metadata=metadata, spec=spec | fields, status=status
    )


def storage_class(name: str = "later", provisioner: str = "", **fields: Any) -> Manifest:
    stated = {
        "provisioner": provisioner or "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    return storage_object("StorageClass", name, **(stated | fields))


def allowed(**labels: str) -> list[Manifest]:
    return [{"matchLabelExpressions": [{"key": k, "values": v.split()} for k, v in labels.items()]}]


def driver(name: str = "disk.example.com", **spec: Any) -> Manifest:
    return storage_object("CSIDriver", name, spec=spec)


def csi_node(name: str, **limits: int | None) -> Manifest:
    """Drivers of a node by name (_ for .) and how many volumes each attaches."""
    drivers = [
        {
            "name": each.replace("_", "."),
            "nodeID": name,
            **({} if count is None else {"allocatable": {"count": count}}),
        }
        for each, count in limits.items()
    ]
    return storage_object("CSINode", name, spec={"drivers": drivers})


def space(name: str, of: str = "later", **fields: Any) -> Manifest:
    return storage_object(
        "CSIStorageCapacity", name, storageClassName=of, **({"nodeTopology": {}} | fields)
    )


def claiming(name: str = "web", *claims: str, ephemeral: tuple[str, ...] = (), **spec: Any):
    """A pod with these claims."""
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": each}}
        for number, each in enumerate(claims)
    ]
    volumes += [{"name": each, "ephemeral": {"volumeClaimTemplate": {}}} for each in ephemeral]
    metadata = {"uid": f"uid-{name}", **spec.pop("metadata", {})}
    return pod(name, metadata=metadata, volumes=volumes, **spec)


def typed(manifest: Manifest) -> Any:
    group = manifest["apiVersion"].rpartition("/")[0]
    kind = KINDS[group, manifest["kind"]]
    return msgspec.json.decode(json.dumps(manifest), type=kind)


def storage(*manifests: Manifest) -> Storage:
    found = Storage()
    for manifest in manifests:
        found.set(typed(manifest))
    return found


def needs(manifest: Manifest, *others: Manifest) -> VolumeNeeds | Blocked:
    """The volume needs of the pod among these objects."""
    return storage(*others, manifest).needs(typed(manifest))


def decoded(manifest: Manifest, *others: Manifest) -> Task:
    context = PodContext(storage=storage(*others, manifest))
    found: objects.Pod = typed(manifest)
    return task(found, context)
