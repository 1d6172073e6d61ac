from afflux.rpc.proto.firmament import constraints_pb2 as _constraints_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResourceVector(_message.Message):
    __slots__ = ("cpu_cores", "ram_bw", "ram_cap", "disk_bw", "disk_cap", "net_tx_bw", "net_rx_bw", "ephemeral_storage")
    CPU_CORES_FIELD_NUMBER: _ClassVar[int]
    RAM_BW_FIELD_NUMBER: _ClassVar[int]
    RAM_CAP_FIELD_NUMBER: _ClassVar[int]
    DISK_BW_FIELD_NUMBER: _ClassVar[int]
    DISK_CAP_FIELD_NUMBER: _ClassVar[int]
    NET_TX_BW_FIELD_NUMBER: _ClassVar[int]
    NET_RX_BW_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_STORAGE_FIELD_NUMBER: _ClassVar[int]
    cpu_cores: float
    ram_bw: int
    ram_cap: int
    disk_bw: int
    disk_cap: int
    net_tx_bw: int
    net_rx_bw: int
    ephemeral_storage: int
    def __init__(self, cpu_cores: _Optional[float] = ..., ram_bw: _Optional[int] = ..., ram_cap: _Optional[int] = ..., disk_bw: _Optional[int] = ..., disk_cap: _Optional[int] = ..., net_tx_bw: _Optional[int] = ..., net_rx_bw: _Optional[int] = ..., ephemeral_storage: _Optional[int] = ...) -> None: ...

class ResourceDescriptor(_message.Message):
    __slots__ = ("uuid", "friendly_name", "descriptive_name", "state", "task_capacity", "last_heartbeat", "type", "schedulable", "current_running_tasks", "num_running_tasks_below", "num_slots_below", "available_resources", "reserved_resources", "min_available_resources_below", "max_available_resources_below", "min_unreserved_resources_below", "max_unreserved_resources_below", "resource_capacity", "whare_map_stats", "coco_interference_scores", "trace_machine_id", "labels", "taints", "avoids", "max_pods")
    class ResourceState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        RESOURCE_UNKNOWN: _ClassVar[ResourceDescriptor.ResourceState]
        RESOURCE_IDLE: _ClassVar[ResourceDescriptor.ResourceState]
        RESOURCE_BUSY: _ClassVar[ResourceDescriptor.ResourceState]
        RESOURCE_LOST: _ClassVar[ResourceDescriptor.ResourceState]
    RESOURCE_UNKNOWN: ResourceDescriptor.ResourceState
    RESOURCE_IDLE: ResourceDescriptor.ResourceState
    RESOURCE_BUSY: ResourceDescriptor.ResourceState
    RESOURCE_LOST: ResourceDescriptor.ResourceState
    class ResourceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        RESOURCE_PU: _ClassVar[ResourceDescriptor.ResourceType]
        RESOURCE_CORE: _ClassVar[ResourceDescriptor.ResourceType]
        RESOURCE_CACHE: _ClassVar[ResourceDescriptor.ResourceType]
        RESOURCE_NIC: _ClassVar[ResourceDescriptor.ResourceType]
        RESOURCE_DISK: _ClassVar[ResourceDescriptor.ResourceType]
        RESOURCE_SSD: _ClassVar[ResourceDescriptor.ResourceType]
        RESOURCE_MACHINE: _ClassVar[ResourceDescriptor.ResourceType]
        RESOURCE_LOGICAL: _ClassVar[ResourceDescriptor.ResourceType]
        RESOURCE_NUMA_NODE: _ClassVar[ResourceDescriptor.ResourceType]
        RESOURCE_SOCKET: _ClassVar[ResourceDescriptor.ResourceType]
        RESOURCE_COORDINATOR: _ClassVar[ResourceDescriptor.ResourceType]
    RESOURCE_PU: ResourceDescriptor.ResourceType
    RESOURCE_CORE: ResourceDescriptor.ResourceType
    RESOURCE_CACHE: ResourceDescriptor.ResourceType
    RESOURCE_NIC: ResourceDescriptor.ResourceType
    RESOURCE_DISK: ResourceDescriptor.ResourceType
    RESOURCE_SSD: ResourceDescriptor.ResourceType
    RESOURCE_MACHINE: ResourceDescriptor.ResourceType
    RESOURCE_LOGICAL: ResourceDescriptor.ResourceType
    RESOURCE_NUMA_NODE: ResourceDescriptor.ResourceType
    RESOURCE_SOCKET: ResourceDescriptor.ResourceType
    RESOURCE_COORDINATOR: ResourceDescriptor.ResourceType
    UUID_FIELD_NUMBER: _ClassVar[int]
    FRIENDLY_NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTIVE_NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TASK_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULABLE_FIELD_NUMBER: _ClassVar[int]
    CURRENT_RUNNING_TASKS_FIELD_NUMBER: _ClassVar[int]
    NUM_RUNNING_TASKS_BELOW_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOTS_BELOW_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    RESERVED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    MIN_AVAILABLE_RESOURCES_BELOW_FIELD_NUMBER: _ClassVar[int]
    MAX_AVAILABLE_RESOURCES_BELOW_FIELD_NUMBER: _ClassVar[int]
    MIN_UNRESERVED_RESOURCES_BELOW_FIELD_NUMBER: _ClassVar[int]
    MAX_UNRESERVED_RESOURCES_BELOW_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    WHARE_MAP_STATS_FIELD_NUMBER: _ClassVar[int]
    COCO_INTERFERENCE_SCORES_FIELD_NUMBER: _ClassVar[int]
    TRACE_MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    AVOIDS_FIELD_NUMBER: _ClassVar[int]
    MAX_PODS_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    friendly_name: str
    descriptive_name: str
    state: ResourceDescriptor.ResourceState
    task_capacity: int
    last_heartbeat: int
    type: ResourceDescriptor.ResourceType
    schedulable: bool
    current_running_tasks: _containers.RepeatedScalarFieldContainer[int]
    num_running_tasks_below: int
    num_slots_below: int
    available_resources: ResourceVector
    reserved_resources: ResourceVector
    min_available_resources_below: ResourceVector
    max_available_resources_below: ResourceVector
    min_unreserved_resources_below: ResourceVector
    max_unreserved_resources_below: ResourceVector
    resource_capacity: ResourceVector
    whare_map_stats: WhareMapStats
    coco_interference_scores: CoCoInterferenceScores
    trace_machine_id: int
    labels: _containers.RepeatedCompositeFieldContainer[_constraints_pb2.Label]
    taints: _containers.RepeatedCompositeFieldContainer[_constraints_pb2.Taint]
    avoids: _containers.RepeatedCompositeFieldContainer[AvoidPodsAnnotation]
    max_pods: int
    def __init__(self, uuid: _Optional[str] = ..., friendly_name: _Optional[str] = ..., descriptive_name: _Optional[str] = ..., state: _Optional[_Union[ResourceDescriptor.ResourceState, str]] = ..., task_capacity: _Optional[int] = ..., last_heartbeat: _Optional[int] = ..., type: _Optional[_Union[ResourceDescriptor.ResourceType, str]] = ..., schedulable: _Optional[bool] = ..., current_running_tasks: _Optional[_Iterable[int]] = ..., num_running_tasks_below: _Optional[int] = ..., num_slots_below: _Optional[int] = ..., available_resources: _Optional[_Union[ResourceVector, _Mapping]] = ..., reserved_resources: _Optional[_Union[ResourceVector, _Mapping]] = ..., min_available_resources_below: _Optional[_Union[ResourceVector, _Mapping]] = ..., max_available_resources_below: _Optional[_Union[ResourceVector, _Mapping]] = ..., min_unreserved_resources_below: _Optional[_Union[ResourceVector, _Mapping]] = ..., max_unreserved_resources_below: _Optional[_Union[ResourceVector, _Mapping]] = ..., resource_capacity: _Optional[_Union[ResourceVector, _Mapping]] = ..., whare_map_stats: _Optional[_Union[WhareMapStats, _Mapping]] = ..., coco_interference_scores: _Optional[_Union[CoCoInterferenceScores, _Mapping]] = ..., trace_machine_id: _Optional[int] = ..., labels: _Optional[_Iterable[_Union[_constraints_pb2.Label, _Mapping]]] = ..., taints: _Optional[_Iterable[_Union[_constraints_pb2.Taint, _Mapping]]] = ..., avoids: _Optional[_Iterable[_Union[AvoidPodsAnnotation, _Mapping]]] = ..., max_pods: _Optional[int] = ...) -> None: ...

class ResourceTopologyNodeDescriptor(_message.Message):
    __slots__ = ("resource_desc", "children", "parent_id")
    RESOURCE_DESC_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    resource_desc: ResourceDescriptor
    children: _containers.RepeatedCompositeFieldContainer[ResourceTopologyNodeDescriptor]
    parent_id: str
    def __init__(self, resource_desc: _Optional[_Union[ResourceDescriptor, _Mapping]] = ..., children: _Optional[_Iterable[_Union[ResourceTopologyNodeDescriptor, _Mapping]]] = ..., parent_id: _Optional[str] = ...) -> None: ...

class AvoidPodsAnnotation(_message.Message):
    __slots__ = ("kind", "uid")
    KIND_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    uid: str
    def __init__(self, kind: _Optional[str] = ..., uid: _Optional[str] = ...) -> None: ...

class WhareMapStats(_message.Message):
    __slots__ = ("num_idle", "num_devils", "num_rabbits", "num_sheep", "num_turtles")
    NUM_IDLE_FIELD_NUMBER: _ClassVar[int]
    NUM_DEVILS_FIELD_NUMBER: _ClassVar[int]
    NUM_RABBITS_FIELD_NUMBER: _ClassVar[int]
    NUM_SHEEP_FIELD_NUMBER: _ClassVar[int]
    NUM_TURTLES_FIELD_NUMBER: _ClassVar[int]
    num_idle: int
    num_devils: int
    num_rabbits: int
    num_sheep: int
    num_turtles: int
    def __init__(self, num_idle: _Optional[int] = ..., num_devils: _Optional[int] = ..., num_rabbits: _Optional[int] = ..., num_sheep: _Optional[int] = ..., num_turtles: _Optional[int] = ...) -> None: ...

class CoCoInterferenceScores(_message.Message):
    __slots__ = ("devil_penalty", "rabbit_penalty", "sheep_penalty", "turtle_penalty")
    DEVIL_PENALTY_FIELD_NUMBER: _ClassVar[int]
    RABBIT_PENALTY_FIELD_NUMBER: _ClassVar[int]
    SHEEP_PENALTY_FIELD_NUMBER: _ClassVar[int]
    TURTLE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    devil_penalty: int
    rabbit_penalty: int
    sheep_penalty: int
    turtle_penalty: int
    def __init__(self, devil_penalty: _Optional[int] = ..., rabbit_penalty: _Optional[int] = ..., sheep_penalty: _Optional[int] = ..., turtle_penalty: _Optional[int] = ...) -> None: ...
