"""The fields of Kubernetes objects that afflux uses, with the names and nesting of the API.

Structs are immutable, hashable if they contain no mapping, and not tracked by garbage collection: a
list of 10,000 pods is decoded in a fraction of a second. As in the API server, null means absent.
"""

import re
from typing import Annotated

import msgspec

from afflux.kube.quantities import QuantityValue

ResourceTable = dict[str, QuantityValue]
Labels = dict[str, str]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
# A number, or a percentage.
IntOrString = int | str
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]

_NAME = re.compile(r"[^\s/%]+")


def is_name(text: str) -> bool:
    """Whether this is a valid name: one that fits into namespace/name and on one line."""
    return _NAME.fullmatch(text) is not None and text.isprintable()


class Fields(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Fields of an object or of a part of one; unknown ones are skipped."""


class Present(Fields, frozen=True, gc=False):
    """A value of which only the presence matters."""


class OwnerReference(Fields, frozen=True, gc=False):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class Metadata(Fields, frozen=True, gc=False):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: Int64 | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None


def is_older(version: str | None, than: str | None) -> bool:
    """Whether a resource version is older than another; False if they cannot be compared."""
    version, than = version or "", than or ""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


class Condition(Fields, frozen=True, gc=False):
    """A condition of an object: `status` is True, False or Unknown."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class Object(Fields, frozen=True, gc=False):
    """The fields of every object."""

    metadata: Metadata = Metadata()


# --- Node


class Taint(Fields, frozen=True, gc=False):
    key: str
    effect: str
    value: str | None = None


class NodeSpec(Fields, frozen=True, gc=False):
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class NodeCondition(Fields, frozen=True, gc=False):
    type: str | None = None
    status: str | None = None


class NodeImage(Fields, frozen=True, gc=False):
    names: tuple[str, ...] | None = None
    size_bytes: Int64 | None = None


class NodeStatus(Fields, frozen=True, gc=False):
    allocatable: ResourceTable | None = None
    capacity: ResourceTable | None = None
    conditions: tuple[NodeCondition, ...] | None = None
    images: tuple[NodeImage, ...] | None = None


class Node(Object, frozen=True, gc=False):
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


# --- Pod: selectors and affinity

_REQUIRED = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
_PREFERRED = msgspec.field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)


class Expression(Fields, frozen=True, gc=False):
    """One expression of a node selector or a label selector."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(Fields, frozen=True, gc=False):
    match_expressions: tuple[Expression, ...] | None = None
    match_fields: tuple[Expression, ...] | None = None


class NodeSelector(Fields, frozen=True, gc=False):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredTerm(Fields, frozen=True, gc=False):
    weight: Annotated[int, msgspec.Meta(ge=0, le=100)]
    preference: NodeSelectorTerm


class NodeAffinity(Fields, frozen=True, gc=False):
    required: NodeSelector | None = _REQUIRED
    preferred: tuple[PreferredTerm, ...] | None = _PREFERRED


class LabelSelector(Fields, frozen=True, gc=False):
    match_labels: Labels | None = None
    match_expressions: tuple[Expression, ...] | None = None


class PodAffinityTerm(Fields, frozen=True, gc=False):
    label_selector: LabelSelector | None = None
    topology_key: str | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class PreferredPodAffinityTerm(Fields, frozen=True, gc=False):
    weight: Annotated[int, msgspec.Meta(ge=1, le=100)]
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Fields, frozen=True, gc=False):
    """Pod affinity or anti-affinity."""

    required: tuple[PodAffinityTerm, ...] | None = _REQUIRED
    preferred: tuple[PreferredPodAffinityTerm, ...] | None = _PREFERRED


class Affinity(Fields, frozen=True, gc=False):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Fields, frozen=True, gc=False):
    max_skew: Int32
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class Toleration(Fields, frozen=True, gc=False):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


# --- Pod: containers


class ContainerResources(Fields, frozen=True, gc=False):
    requests: ResourceTable | None = None
    limits: ResourceTable | None = None


class ContainerPort(Fields, frozen=True, gc=False):
    container_port: Port | None = None
    host_port: Port | None = None
    host_ip: str | None = msgspec.field(name="hostIP", default=None)
    protocol: str | None = None


class RestartRule(Fields, frozen=True, gc=False):
    action: str | None = None


class Container(Fields, frozen=True, gc=False):
    name: str | None = None
    image: str | None = None
    resources: ContainerResources | None = None
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] | None = None


class ContainerStateTerminated(Fields, frozen=True, gc=False):
    finished_at: str | None = None


class ContainerState(Fields, frozen=True, gc=False):
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Fields, frozen=True, gc=False):
    name: str | None = None
    resources: ContainerResources | None = None
    allocated_resources: ResourceTable | None = None
    state: ContainerState | None = None


# --- Pod: volumes


class ImageVolume(Fields, frozen=True, gc=False):
    reference: str | None = None


class ClaimVolume(Fields, frozen=True, gc=False):
    claim_name: str | None = None


# --- Pod: the whole


class SchedulingGate(Fields, frozen=True, gc=False):
    name: str | None = None


class SchedulingGroup(Fields, frozen=True, gc=False):
    pod_group_name: str | None = None


class PodSpec(Fields, frozen=True, gc=False):
    node_name: str | None = None
    node_selector: Labels | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    scheduling_group: SchedulingGroup | None = None
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    overhead: ResourceTable | None = None
    resources: ContainerResources | None = None
    # The keys name the type of the volume; the few contents that matter are decoded elsewhere.
    volumes: tuple[dict[str, msgspec.Raw], ...] | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    resource_claims: tuple[Present, ...] | None = None
    active_deadline_seconds: Int64 | None = None
    termination_grace_period_seconds: Int64 | None = None
    host_network: bool | None = None
    host_users: bool | None = None


class PodStatus(Fields, frozen=True, gc=False):
    phase: str | None = None
    reason: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Object, frozen=True, gc=False):
    spec: PodSpec = PodSpec()
    status: PodStatus | None = None


# --- Groups, priorities, the rest


class CoschedulingPodGroupSpec(Fields, frozen=True, gc=False):
    min_member: Int32 | None = None


class CoschedulingPodGroup(Object, frozen=True, gc=False):
    """PodGroup of scheduling.x-k8s.io, of the coscheduling plugin."""

    spec: CoschedulingPodGroupSpec = CoschedulingPodGroupSpec()


class Gang(Fields, frozen=True, gc=False):
    min_count: Int32 | None = None


class SchedulingPolicy(Fields, frozen=True, gc=False):
    basic: Present | None = None
    gang: Gang | None = None


class SchedulingConstraints(Fields, frozen=True, gc=False):
    topology: tuple[Present, ...] | None = None


class DisruptionMode(Fields, frozen=True, gc=False):
    single: Present | None = None
    all: Present | None = None


class NativePodGroupSpec(Fields, frozen=True, gc=False):
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    disruption_mode: DisruptionMode | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    parent_composite_pod_group_name: str | None = None


class NativePodGroup(Object, frozen=True, gc=False):
    """PodGroup of scheduling.k8s.io, of Kubernetes itself."""

    spec: NativePodGroupSpec = NativePodGroupSpec()


class PriorityClass(Object, frozen=True, gc=False):
    value: Int32 = 0
    global_default: bool | None = None
    preemption_policy: str | None = None


class Namespace(Object, frozen=True, gc=False):
    pass


class DisruptionBudgetSpec(Fields, frozen=True, gc=False):
    selector: LabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class DisruptionBudgetStatus(Fields, frozen=True, gc=False):
    disruptions_allowed: Int32 | None = None


class PodDisruptionBudget(Object, frozen=True, gc=False):
    """How many of some pods may be disrupted at once."""

    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus | None = None


# --- Services and controllers: what selects pods together


class Identity(Metadata, frozen=True, gc=False):
    """Metadata without what is large: a cluster may have tens of thousands of ReplicaSets, and
    annotations may repeat whole objects. Fields with a name that no object has are skipped."""

    labels: Labels | None = msgspec.field(name="-labels", default=None)
    annotations: Labels | None = msgspec.field(name="-annotations", default=None)
    owner_references: tuple[OwnerReference, ...] | None = msgspec.field(
        name="-ownerReferences", default=None
    )
    creation_timestamp: str | None = msgspec.field(name="-creationTimestamp", default=None)


class SelectingObject(Object, frozen=True, gc=False):
    """A Service or a controller of pods."""

    metadata: Identity = Identity()


class MapSelectorSpec(Fields, frozen=True, gc=False):
    """A selector that is a mapping of labels."""

    selector: Labels | None = None


class LabelSelectorSpec(Fields, frozen=True, gc=False):
    selector: LabelSelector | None = None


class Service(SelectingObject, frozen=True, gc=False):
    spec: MapSelectorSpec | None = None


class ReplicationController(SelectingObject, frozen=True, gc=False):
    spec: MapSelectorSpec | None = None


class ReplicaSet(SelectingObject, frozen=True, gc=False):
    spec: LabelSelectorSpec | None = None


class StatefulSet(SelectingObject, frozen=True, gc=False):
    spec: LabelSelectorSpec | None = None


# --- Storage


class ObjectReference(Fields, frozen=True, gc=False):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class ClaimSpec(Fields, frozen=True, gc=False):
    access_modes: tuple[str, ...] | None = None
    selector: LabelSelector | None = None
    resources: ContainerResources | None = None
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ClaimStatus(Fields, frozen=True, gc=False):
    phase: str | None = None


class PersistentVolumeClaim(Object, frozen=True, gc=False):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus | None = None


class CSIVolume(Fields, frozen=True, gc=False):
    driver: str | None = None
    volume_handle: str | None = None


class VolumeNodeAffinity(Fields, frozen=True, gc=False):
    required: NodeSelector | None = None


class VolumeSpec(Fields, frozen=True, gc=False):
    capacity: ResourceTable | None = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: ObjectReference | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolume | None = None
    local: Present | None = None
    host_path: Present | None = None
    # In-tree volume types of cloud providers, which Kubernetes migrates to CSI.
    aws_elastic_block_store: Present | None = None
    azure_disk: Present | None = None
    cinder: Present | None = None
    gce_persistent_disk: Present | None = None
    portworx_volume: Present | None = None


class VolumeStatus(Fields, frozen=True, gc=False):
    phase: str | None = None


class PersistentVolume(Object, frozen=True, gc=False):
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus | None = None


class TopologyRequirement(Fields, frozen=True, gc=False):
    key: str
    values: tuple[str, ...] | None = None


class TopologyTerm(Fields, frozen=True, gc=False):
    match_label_expressions: tuple[TopologyRequirement, ...] | None = None


class StorageClass(Object, frozen=True, gc=False):
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] | None = None


class DriverLimit(Fields, frozen=True, gc=False):
    count: Int32 | None = None


class NodeDriver(Fields, frozen=True, gc=False):
    name: str
    allocatable: DriverLimit | None = None


class CSINodeSpec(Fields, frozen=True, gc=False):
    drivers: tuple[NodeDriver, ...] | None = None


class CSINode(Object, frozen=True, gc=False):
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Fields, frozen=True, gc=False):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object, frozen=True, gc=False):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, frozen=True, gc=False):
    storage_class_name: str | None = None
    node_topology: LabelSelector | None = None
    capacity: QuantityValue | None = None
    maximum_volume_size: QuantityValue | None = None


# --- Disk IO


class BlockIO(Fields, frozen=True, gc=False):
    """Normalised bytes per second."""

    total: float | None = None
    read: float | None = None
    write: float | None = None


class DeviceBandwidth(BlockIO, frozen=True, gc=False):
    """What a disk has left, in `status`; the KEP's sample has the figures beside the name."""

    name: str | None = None
    status: BlockIO | None = None


class NodeDiskIOInfoSpec(Fields, frozen=True, gc=False):
    """Written by the scheduler: the uids of the pods for which the driver keeps bandwidth."""

    node_name: str | None = None
    reserved_pods: tuple[str, ...] | None = None


class NodeDiskIOInfoStatus(Fields, frozen=True, gc=False):
    """Written by the IO driver: what the pods reserved in the observed generation leave, by the
    id of the device."""

    observed_generation: Int64 | None = None
    allocatable_bandwidth: dict[str, DeviceBandwidth] | None = None


class NodeDiskIOInfo(Object, frozen=True, gc=False):
    """The disks of one node (ioi.intel.com/v1)."""

    spec: NodeDiskIOInfoSpec = NodeDiskIOInfoSpec()
    status: NodeDiskIOInfoStatus | None = None


class ConfigMap(Object, frozen=True, gc=False):
    """Its texts are decoded by the reader that wants this ConfigMap: they may be large."""

    data: dict[str, msgspec.Raw] | None = None
