"""Why a task cannot go to a machine, in the words that kube-scheduler's users know."""

from collections.abc import Mapping

from afflux.model.implied_resources import ResourceKind, kind_of
from afflux.model.resources import PODS

UNSCHEDULABLE = "node(s) were unschedulable"
UNTOLERATED = "node(s) had untolerated taint(s)"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
NAMES = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
VOLUME_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
VOLUME_MISSING = ResourceKind.VOLUME.value
VOLUME_SPACE = "node(s) did not have enough free storage"
VOLUME_ZONE = "node(s) had no available volume zone"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_KEY = "node(s) didn't match pod topology spread constraints (missing required label)"
POD_AFFINITY = "node(s) didn't match pod affinity rules"
POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
DEVICES = "Insufficient devices"
NO_DISK_INFORMATION = "node(s) had no disk IO information"
NO_NORMALISER = "node(s) had disks of a model without a normalisation function"
DISK_BANDWIDTH = "node(s) had insufficient disk bandwidth"
NO_MACHINES = "no nodes available to schedule pods"


def insufficient(resource: str) -> str:
    """The reason against a machine with too little of a resource left."""
    if resource == PODS:
        return "Too many pods"
    kind = kind_of(resource)
    return kind.value if kind else f"Insufficient {resource}"


def driver_missing(driver: str) -> str:
    """The reason against a machine on which a required driver is not installed."""
    return f"{driver} CSI driver is not installed on the node"


def summary(machines: int, counts: Mapping[str, int]) -> str:
    """One sentence for all machines: `0/5 nodes are available: 3 Insufficient cpu, ...`."""
    if machines == 0:
        return NO_MACHINES
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{machines} nodes are available: {listed}."


def all_nodes(machines: int, why: str) -> str:
    """One sentence for a reason that holds on every machine: `0/5 nodes are available: ...`."""
    return f"0/{machines} nodes are available: {why}."
