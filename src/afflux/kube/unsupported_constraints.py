"""Constraints that afflux does not enforce yet: a pod with one waits, with a message that names it.

Ignoring a constraint would place pods where their owners forbid it.
"""

from collections.abc import Iterator

from afflux.kube import objects
from afflux.kube.input_errors import shown

# Volume types that no plugin of kube-scheduler checks. Pods with other types wait: some can be
# mounted only once, and in-tree types that are migrated to CSI count towards a node's limit.
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
        "name",  # not a type; every volume has it
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
    """The first constraint of this pod that is not enforced, None if all are. With `claims` the
    caller enforces persistent volume claims."""
    if spec.scheduling_gates:
        names = ", ".join(shown(gate.name or "") for gate in spec.scheduling_gates)
        plural = "s" if len(spec.scheduling_gates) > 1 else ""
        return f"spec.schedulingGates: waiting for gate{plural} {names} to be removed"
    free = _WITH_CLAIMS if claims else _FREE_VOLUMES
    field = next(_unsupported_fields(spec, free), None)
    return None if field is None else f"{field} is not supported yet"


def _unsupported_fields(spec: objects.PodSpec, free_volumes: frozenset[str]) -> Iterator[str]:
    if spec.resource_claims:
        yield "spec.resourceClaims"
    yield from _volumes(spec, free_volumes)
    yield from _declared_features(spec)


def _declared_features(spec: objects.PodSpec) -> Iterator[str]:
    """Features that only nodes with status.declaredFeatures support."""
    if spec.host_network and spec.host_users is False:
        yield "spec.hostUsers: false on hostNetwork"
    for index, container in enumerate(spec.containers or ()):
        rules = container.restart_policy_rules or ()
        if any(rule.action == "RestartAllContainers" for rule in rules):
            yield f"spec.containers[{index}].restartPolicyRules: RestartAllContainers"


def _volumes(spec: objects.PodSpec, free: frozenset[str]) -> Iterator[str]:
    for index, volume in enumerate(spec.volumes or ()):
        if volume.keys() <= free:
            continue
        for kind, content in volume.items():
            if kind not in free and bytes(content) != _NULL:
                yield f"spec.volumes[{index}].{kind if kind.isalnum() else shown(kind)}"
