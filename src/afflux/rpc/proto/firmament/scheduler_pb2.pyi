from afflux.rpc.proto.firmament import resources_pb2 as _resources_pb2
from afflux.rpc.proto.firmament import statistics_pb2 as _statistics_pb2
from afflux.rpc.proto.firmament import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskReplyType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_COMPLETED_OK: _ClassVar[TaskReplyType]
    TASK_SUBMITTED_OK: _ClassVar[TaskReplyType]
    TASK_REMOVED_OK: _ClassVar[TaskReplyType]
    TASK_FAILED_OK: _ClassVar[TaskReplyType]
    TASK_UPDATED_OK: _ClassVar[TaskReplyType]
    TASK_NOT_FOUND: _ClassVar[TaskReplyType]
    TASK_JOB_NOT_FOUND: _ClassVar[TaskReplyType]
    TASK_ALREADY_SUBMITTED: _ClassVar[TaskReplyType]
    TASK_STATE_NOT_CREATED: _ClassVar[TaskReplyType]

class NodeReplyType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_ADDED_OK: _ClassVar[NodeReplyType]
    NODE_FAILED_OK: _ClassVar[NodeReplyType]
    NODE_REMOVED_OK: _ClassVar[NodeReplyType]
    NODE_UPDATED_OK: _ClassVar[NodeReplyType]
    NODE_NOT_FOUND: _ClassVar[NodeReplyType]
    NODE_ALREADY_EXISTS: _ClassVar[NodeReplyType]

class ServingStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN: _ClassVar[ServingStatus]
    SERVING: _ClassVar[ServingStatus]
    NOT_SERVING: _ClassVar[ServingStatus]

class TaskInfoType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASKINFO_ADD: _ClassVar[TaskInfoType]
    TASKINFO_REMOVE: _ClassVar[TaskInfoType]

class TaskInfoReplyType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASKINFO_SUBMITTED_OK: _ClassVar[TaskInfoReplyType]
    TASKINFO_REMOVED_OK: _ClassVar[TaskInfoReplyType]
    TASKINFO_SUBMIT_FAILED: _ClassVar[TaskInfoReplyType]
    TASKINFO_REMOVE_FAILED: _ClassVar[TaskInfoReplyType]
TASK_COMPLETED_OK: TaskReplyType
TASK_SUBMITTED_OK: TaskReplyType
TASK_REMOVED_OK: TaskReplyType
TASK_FAILED_OK: TaskReplyType
TASK_UPDATED_OK: TaskReplyType
TASK_NOT_FOUND: TaskReplyType
TASK_JOB_NOT_FOUND: TaskReplyType
TASK_ALREADY_SUBMITTED: TaskReplyType
TASK_STATE_NOT_CREATED: TaskReplyType
NODE_ADDED_OK: NodeReplyType
NODE_FAILED_OK: NodeReplyType
NODE_REMOVED_OK: NodeReplyType
NODE_UPDATED_OK: NodeReplyType
NODE_NOT_FOUND: NodeReplyType
NODE_ALREADY_EXISTS: NodeReplyType
UNKNOWN: ServingStatus
SERVING: ServingStatus
NOT_SERVING: ServingStatus
TASKINFO_ADD: TaskInfoType
TASKINFO_REMOVE: TaskInfoType
TASKINFO_SUBMITTED_OK: TaskInfoReplyType
TASKINFO_REMOVED_OK: TaskInfoReplyType
TASKINFO_SUBMIT_FAILED: TaskInfoReplyType
TASKINFO_REMOVE_FAILED: TaskInfoReplyType

class ScheduleRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SchedulingDelta(_message.Message):
    __slots__ = ("task_id", "resource_id", "type")
    class ChangeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NOOP: _ClassVar[SchedulingDelta.ChangeType]
        PLACE: _ClassVar[SchedulingDelta.ChangeType]
        PREEMPT: _ClassVar[SchedulingDelta.ChangeType]
        MIGRATE: _ClassVar[SchedulingDelta.ChangeType]
    NOOP: SchedulingDelta.ChangeType
    PLACE: SchedulingDelta.ChangeType
    PREEMPT: SchedulingDelta.ChangeType
    MIGRATE: SchedulingDelta.ChangeType
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    task_id: int
    resource_id: str
    type: SchedulingDelta.ChangeType
    def __init__(self, task_id: _Optional[int] = ..., resource_id: _Optional[str] = ..., type: _Optional[_Union[SchedulingDelta.ChangeType, str]] = ...) -> None: ...

class SchedulingDeltas(_message.Message):
    __slots__ = ("deltas", "unscheduled_tasks")
    DELTAS_FIELD_NUMBER: _ClassVar[int]
    UNSCHEDULED_TASKS_FIELD_NUMBER: _ClassVar[int]
    deltas: _containers.RepeatedCompositeFieldContainer[SchedulingDelta]
    unscheduled_tasks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, deltas: _Optional[_Iterable[_Union[SchedulingDelta, _Mapping]]] = ..., unscheduled_tasks: _Optional[_Iterable[int]] = ...) -> None: ...

class TaskDescription(_message.Message):
    __slots__ = ("task_descriptor", "job_descriptor")
    TASK_DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    JOB_DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    task_descriptor: _tasks_pb2.TaskDescriptor
    job_descriptor: _tasks_pb2.JobDescriptor
    def __init__(self, task_descriptor: _Optional[_Union[_tasks_pb2.TaskDescriptor, _Mapping]] = ..., job_descriptor: _Optional[_Union[_tasks_pb2.JobDescriptor, _Mapping]] = ...) -> None: ...

class TaskCompletedResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: TaskReplyType
    def __init__(self, type: _Optional[_Union[TaskReplyType, str]] = ...) -> None: ...

class TaskSubmittedResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: TaskReplyType
    def __init__(self, type: _Optional[_Union[TaskReplyType, str]] = ...) -> None: ...

class TaskRemovedResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: TaskReplyType
    def __init__(self, type: _Optional[_Union[TaskReplyType, str]] = ...) -> None: ...

class TaskFailedResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: TaskReplyType
    def __init__(self, type: _Optional[_Union[TaskReplyType, str]] = ...) -> None: ...

class TaskUpdatedResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: TaskReplyType
    def __init__(self, type: _Optional[_Union[TaskReplyType, str]] = ...) -> None: ...

class NodeAddedResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: NodeReplyType
    def __init__(self, type: _Optional[_Union[NodeReplyType, str]] = ...) -> None: ...

class NodeRemovedResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: NodeReplyType
    def __init__(self, type: _Optional[_Union[NodeReplyType, str]] = ...) -> None: ...

class NodeFailedResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: NodeReplyType
    def __init__(self, type: _Optional[_Union[NodeReplyType, str]] = ...) -> None: ...

class NodeUpdatedResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: NodeReplyType
    def __init__(self, type: _Optional[_Union[NodeReplyType, str]] = ...) -> None: ...

class TaskStatsResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: TaskReplyType
    def __init__(self, type: _Optional[_Union[TaskReplyType, str]] = ...) -> None: ...

class ResourceStatsResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: NodeReplyType
    def __init__(self, type: _Optional[_Union[NodeReplyType, str]] = ...) -> None: ...

class TaskUID(_message.Message):
    __slots__ = ("task_uid",)
    TASK_UID_FIELD_NUMBER: _ClassVar[int]
    task_uid: int
    def __init__(self, task_uid: _Optional[int] = ...) -> None: ...

class ResourceUID(_message.Message):
    __slots__ = ("resource_uid",)
    RESOURCE_UID_FIELD_NUMBER: _ClassVar[int]
    resource_uid: str
    def __init__(self, resource_uid: _Optional[str] = ...) -> None: ...

class HealthCheckRequest(_message.Message):
    __slots__ = ("grpc_service",)
    GRPC_SERVICE_FIELD_NUMBER: _ClassVar[int]
    grpc_service: str
    def __init__(self, grpc_service: _Optional[str] = ...) -> None: ...

class HealthCheckResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: ServingStatus
    def __init__(self, status: _Optional[_Union[ServingStatus, str]] = ...) -> None: ...

class TaskInfo(_message.Message):
    __slots__ = ("task_name", "resource_id", "cpu_utilization", "mem_utilization", "ephemeral_storage_utilization", "type")
    TASK_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    CPU_UTILIZATION_FIELD_NUMBER: _ClassVar[int]
    MEM_UTILIZATION_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_STORAGE_UTILIZATION_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    task_name: str
    resource_id: str
    cpu_utilization: int
    mem_utilization: int
    ephemeral_storage_utilization: int
    type: TaskInfoType
    def __init__(self, task_name: _Optional[str] = ..., resource_id: _Optional[str] = ..., cpu_utilization: _Optional[int] = ..., mem_utilization: _Optional[int] = ..., ephemeral_storage_utilization: _Optional[int] = ..., type: _Optional[_Union[TaskInfoType, str]] = ...) -> None: ...

class TaskInfoResponse(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: TaskInfoReplyType
    def __init__(self, type: _Optional[_Union[TaskInfoReplyType, str]] = ...) -> None: ...
