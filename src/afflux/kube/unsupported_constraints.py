"""Constraints that afflux does not enforce yet: a pod that has one waits, and says which.

A constraint left out quietly would put pods where their owners forbade it. This file shrinks as
afflux learns.
"""

from collections.abc import Iterator

from afflux.kube import objects
from afflux.kube.complaints import shown

# Volumes that no plugin of kube-scheduler looks at. Some disks can be mounted only once, and disks
# that CSI drivers have taken over count towards a node's limit: all others wait.
_FREE_VOLUMES = frozenset(
    {
        "cephfs",
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gitRepo",
        "glusterfs",
        "hostPath",
        "image",
        "name",  # no kind of volume, but in every one
        "nfs",
        "photonPersistentDisk",
        "projected",
        "quobyte",
        "scaleIO",
        "secret",
        "storageos",
    }
)
_WITH_CLAIMS = _FREE_VOLUMES | {"ephemeral", "persistentVolumeClaim"}
_NULL = b"null"


def first_unsupported(spec: objects.PodSpec, *, claims: bool = False) -> str | None:
    """The first constraint of this pod that is not enforced, None if all are.

    Claims can be enforced only by somebody who knows the storage of the cluster.
    """
    if spec.scheduling_gates:
        names = ", ".join(shown(gate.name or "") for gate in spec.scheduling_gates)
        plural = "s" if len(spec.scheduling_gates) > 1 else ""
        return f"spec.schedulingGates: waiting for gate{plural} {names} to be removed"
    free = _WITH_CLAIMS if claims else _FREE_VOLUMES
    field = next(_unsupported_fields(spec, free), None)
    return None if field is None else f"{field} is not supported yet"


def _unsupported_fields(spec: objects.PodSpec, free_volumes: frozenset[str]) -> Iterator[str]:
    if spec.affinity is not None:
        for name, affinity in (
            ("podAffinity", spec.affinity.pod_affinity),
            ("podAntiAffinity", spec.affinity.pod_anti_affinity),
        ):
            if affinity is not None and (affinity.required or affinity.preferred):
                yield f"spec.affinity.{name}"
    if spec.topology_spread_constraints:
        yield "spec.topologySpreadConstraints"
    if spec.resource_claims:
        yield "spec.resourceClaims"
    yield from _volumes(spec, free_volumes)
    yield from _declared_features(spec)


def _declared_features(spec: objects.PodSpec) -> Iterator[str]:
    """What only nodes can run that declare the feature (status.declaredFeatures)."""
    if spec.host_network and spec.host_users is False:
        yield "spec.hostUsers: false on hostNetwork"
    for index, container in enumerate(spec.containers or ()):
        if any(
            rule.action == "RestartAllContainers" for rule in container.restart_policy_rules or ()
        ):
            yield f"spec.containers[{index}].restartPolicyRules: RestartAllContainers"


def _volumes(spec: objects.PodSpec, free: frozenset[str]) -> Iterator[str]:
    for index, volume in enumerate(spec.volumes or ()):
        if volume.keys() <= free:
            continue
        for kind, content in volume.items():
            if kind not in free and bytes(content) != _NULL:
                yield f"spec.volumes[{index}].{kind if kind.isalnum() else shown(kind)}"
