from afflux.rpc.proto.firmament import constraints_pb2 as _constraints_pb2
from afflux.rpc.proto.firmament import resources_pb2 as _resources_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskDescriptor(_message.Message):
    __slots__ = ("uid", "name", "state", "job_id", "index", "dependencies", "outputs", "binary", "args", "spawned", "scheduled_to_resource", "last_heartbeat_location", "last_heartbeat_time", "delegated_to", "delegated_from", "submit_time", "start_time", "finish_time", "total_unscheduled_time", "total_run_time", "relative_deadline", "absolute_deadline", "port", "input_size", "inject_task_lib", "resource_request", "priority", "task_type", "final_report", "trace_job_id", "trace_task_id", "labels", "label_selectors", "affinity", "task_namespace", "tolerations", "owner_ref_kind", "owner_ref_uid")
    class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CREATED: _ClassVar[TaskDescriptor.TaskState]
        BLOCKING: _ClassVar[TaskDescriptor.TaskState]
        RUNNABLE: _ClassVar[TaskDescriptor.TaskState]
        ASSIGNED: _ClassVar[TaskDescriptor.TaskState]
        RUNNING: _ClassVar[TaskDescriptor.TaskState]
        COMPLETED: _ClassVar[TaskDescriptor.TaskState]
        FAILED: _ClassVar[TaskDescriptor.TaskState]
        ABORTED: _ClassVar[TaskDescriptor.TaskState]
        DELEGATED: _ClassVar[TaskDescriptor.TaskState]
        UNKNOWN: _ClassVar[TaskDescriptor.TaskState]
    CREATED: TaskDescriptor.TaskState
    BLOCKING: TaskDescriptor.TaskState
    RUNNABLE: TaskDescriptor.TaskState
    ASSIGNED: TaskDescriptor.TaskState
    RUNNING: TaskDescriptor.TaskState
    COMPLETED: TaskDescriptor.TaskState
    FAILED: TaskDescriptor.TaskState
    ABORTED: TaskDescriptor.TaskState
    DELEGATED: TaskDescriptor.TaskState
    UNKNOWN: TaskDescriptor.TaskState
    class TaskType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SHEEP: _ClassVar[TaskDescriptor.TaskType]
        RABBIT: _ClassVar[TaskDescriptor.TaskType]
        DEVIL: _ClassVar[TaskDescriptor.TaskType]
        TURTLE: _ClassVar[TaskDescriptor.TaskType]
    SHEEP: TaskDescriptor.TaskType
    RABBIT: TaskDescriptor.TaskType
    DEVIL: TaskDescriptor.TaskType
    TURTLE: TaskDescriptor.TaskType
    UID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    SPAWNED_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_TO_RESOURCE_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_LOCATION_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_TIME_FIELD_NUMBER: _ClassVar[int]
    DELEGATED_TO_FIELD_NUMBER: _ClassVar[int]
    DELEGATED_FROM_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_UNSCHEDULED_TIME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_RUN_TIME_FIELD_NUMBER: _ClassVar[int]
    RELATIVE_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    ABSOLUTE_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    INPUT_SIZE_FIELD_NUMBER: _ClassVar[int]
    INJECT_TASK_LIB_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    FINAL_REPORT_FIELD_NUMBER: _ClassVar[int]
    TRACE_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTORS_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    TASK_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    OWNER_REF_KIND_FIELD_NUMBER: _ClassVar[int]
    OWNER_REF_UID_FIELD_NUMBER: _ClassVar[int]
    uid: int
    name: str
    state: TaskDescriptor.TaskState
    job_id: str
    index: int
    dependencies: _containers.RepeatedCompositeFieldContainer[ReferenceDescriptor]
    outputs: _containers.RepeatedCompositeFieldContainer[ReferenceDescriptor]
    binary: str
    args: _containers.RepeatedScalarFieldContainer[str]
    spawned: _containers.RepeatedCompositeFieldContainer[TaskDescriptor]
    scheduled_to_resource: str
    last_heartbeat_location: str
    last_heartbeat_time: int
    delegated_to: str
    delegated_from: str
    submit_time: int
    start_time: int
    finish_time: int
    total_unscheduled_time: int
    total_run_time: int
    relative_deadline: int
    absolute_deadline: int
    port: int
    input_size: int
    inject_task_lib: bool
    resource_request: _resources_pb2.ResourceVector
    priority: int
    task_type: TaskDescriptor.TaskType
    final_report: TaskFinalReport
    trace_job_id: int
    trace_task_id: int
    labels: _containers.RepeatedCompositeFieldContainer[_constraints_pb2.Label]
    label_selectors: _containers.RepeatedCompositeFieldContainer[_constraints_pb2.LabelSelector]
    affinity: _constraints_pb2.Affinity
    task_namespace: str
    tolerations: _containers.RepeatedCompositeFieldContainer[_constraints_pb2.Toleration]
    owner_ref_kind: str
    owner_ref_uid: str
    def __init__(self, uid: _Optional[int] = ..., name: _Optional[str] = ..., state: _Optional[_Union[TaskDescriptor.TaskState, str]] = ..., job_id: _Optional[str] = ..., index: _Optional[int] = ..., dependencies: _Optional[_Iterable[_Union[ReferenceDescriptor, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[ReferenceDescriptor, _Mapping]]] = ..., binary: _Optional[str] = ..., args: _Optional[_Iterable[str]] = ..., spawned: _Optional[_Iterable[_Union[TaskDescriptor, _Mapping]]] = ..., scheduled_to_resource: _Optional[str] = ..., last_heartbeat_location: _Optional[str] = ..., last_heartbeat_time: _Optional[int] = ..., delegated_to: _Optional[str] = ..., delegated_from: _Optional[str] = ..., submit_time: _Optional[int] = ..., start_time: _Optional[int] = ..., finish_time: _Optional[int] = ..., total_unscheduled_time: _Optional[int] = ..., total_run_time: _Optional[int] = ..., relative_deadline: _Optional[int] = ..., absolute_deadline: _Optional[int] = ..., port: _Optional[int] = ..., input_size: _Optional[int] = ..., inject_task_lib: _Optional[bool] = ..., resource_request: _Optional[_Union[_resources_pb2.ResourceVector, _Mapping]] = ..., priority: _Optional[int] = ..., task_type: _Optional[_Union[TaskDescriptor.TaskType, str]] = ..., final_report: _Optional[_Union[TaskFinalReport, _Mapping]] = ..., trace_job_id: _Optional[int] = ..., trace_task_id: _Optional[int] = ..., labels: _Optional[_Iterable[_Union[_constraints_pb2.Label, _Mapping]]] = ..., label_selectors: _Optional[_Iterable[_Union[_constraints_pb2.LabelSelector, _Mapping]]] = ..., affinity: _Optional[_Union[_constraints_pb2.Affinity, _Mapping]] = ..., task_namespace: _Optional[str] = ..., tolerations: _Optional[_Iterable[_Union[_constraints_pb2.Toleration, _Mapping]]] = ..., owner_ref_kind: _Optional[str] = ..., owner_ref_uid: _Optional[str] = ...) -> None: ...

class JobDescriptor(_message.Message):
    __slots__ = ("uuid", "name", "state", "root_task", "output_ids", "min_number_of_tasks", "scheduled_tasks_count", "is_gang_scheduling_job")
    class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NEW: _ClassVar[JobDescriptor.JobState]
        CREATED: _ClassVar[JobDescriptor.JobState]
        RUNNING: _ClassVar[JobDescriptor.JobState]
        COMPLETED: _ClassVar[JobDescriptor.JobState]
        FAILED: _ClassVar[JobDescriptor.JobState]
        ABORTED: _ClassVar[JobDescriptor.JobState]
        UNKNOWN: _ClassVar[JobDescriptor.JobState]
    NEW: JobDescriptor.JobState
    CREATED: JobDescriptor.JobState
    RUNNING: JobDescriptor.JobState
    COMPLETED: JobDescriptor.JobState
    FAILED: JobDescriptor.JobState
    ABORTED: JobDescriptor.JobState
    UNKNOWN: JobDescriptor.JobState
    UUID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROOT_TASK_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_IDS_FIELD_NUMBER: _ClassVar[int]
    MIN_NUMBER_OF_TASKS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_TASKS_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_GANG_SCHEDULING_JOB_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    name: str
    state: JobDescriptor.JobState
    root_task: TaskDescriptor
    output_ids: _containers.RepeatedScalarFieldContainer[bytes]
    min_number_of_tasks: int
    scheduled_tasks_count: int
    is_gang_scheduling_job: bool
    def __init__(self, uuid: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[_Union[JobDescriptor.JobState, str]] = ..., root_task: _Optional[_Union[TaskDescriptor, _Mapping]] = ..., output_ids: _Optional[_Iterable[bytes]] = ..., min_number_of_tasks: _Optional[int] = ..., scheduled_tasks_count: _Optional[int] = ..., is_gang_scheduling_job: _Optional[bool] = ...) -> None: ...

class TaskFinalReport(_message.Message):
    __slots__ = ("task_id", "start_time", "finish_time", "instructions", "cycles", "llc_refs", "llc_misses", "runtime")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    CYCLES_FIELD_NUMBER: _ClassVar[int]
    LLC_REFS_FIELD_NUMBER: _ClassVar[int]
    LLC_MISSES_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    task_id: int
    start_time: int
    finish_time: int
    instructions: int
    cycles: int
    llc_refs: int
    llc_misses: int
    runtime: float
    def __init__(self, task_id: _Optional[int] = ..., start_time: _Optional[int] = ..., finish_time: _Optional[int] = ..., instructions: _Optional[int] = ..., cycles: _Optional[int] = ..., llc_refs: _Optional[int] = ..., llc_misses: _Optional[int] = ..., runtime: _Optional[float] = ...) -> None: ...

class ReferenceDescriptor(_message.Message):
    __slots__ = ("id", "type", "scope", "non_deterministic", "size", "location", "inline_data", "producing_task", "time_to_compute", "version")
    class ReferenceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TOMBSTONE: _ClassVar[ReferenceDescriptor.ReferenceType]
        FUTURE: _ClassVar[ReferenceDescriptor.ReferenceType]
        CONCRETE: _ClassVar[ReferenceDescriptor.ReferenceType]
        STREAM: _ClassVar[ReferenceDescriptor.ReferenceType]
        VALUE: _ClassVar[ReferenceDescriptor.ReferenceType]
        ERROR: _ClassVar[ReferenceDescriptor.ReferenceType]
    TOMBSTONE: ReferenceDescriptor.ReferenceType
    FUTURE: ReferenceDescriptor.ReferenceType
    CONCRETE: ReferenceDescriptor.ReferenceType
    STREAM: ReferenceDescriptor.ReferenceType
    VALUE: ReferenceDescriptor.ReferenceType
    ERROR: ReferenceDescriptor.ReferenceType
    class ReferenceScope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PUBLIC: _ClassVar[ReferenceDescriptor.ReferenceScope]
        PRIVATE: _ClassVar[ReferenceDescriptor.ReferenceScope]
    PUBLIC: ReferenceDescriptor.ReferenceScope
    PRIVATE: ReferenceDescriptor.ReferenceScope
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    NON_DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    INLINE_DATA_FIELD_NUMBER: _ClassVar[int]
    PRODUCING_TASK_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_COMPUTE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    type: ReferenceDescriptor.ReferenceType
    scope: ReferenceDescriptor.ReferenceScope
    non_deterministic: bool
    size: int
    location: str
    inline_data: bytes
    producing_task: int
    time_to_compute: int
    version: int
    def __init__(self, id: _Optional[bytes] = ..., type: _Optional[_Union[ReferenceDescriptor.ReferenceType, str]] = ..., scope: _Optional[_Union[ReferenceDescriptor.ReferenceScope, str]] = ..., non_deterministic: _Optional[bool] = ..., size: _Optional[int] = ..., location: _Optional[str] = ..., inline_data: _Optional[bytes] = ..., producing_task: _Optional[int] = ..., time_to_compute: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...
