from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskStats(_message.Message):
    __slots__ = ("task_id", "hostname", "timestamp", "cpu_limit", "cpu_request", "cpu_usage", "mem_limit", "mem_request", "mem_usage", "mem_rss", "mem_cache", "mem_working_set", "mem_page_faults", "mem_page_faults_rate", "major_page_faults", "major_page_faults_rate", "net_rx", "net_rx_errors", "net_rx_errors_rate", "net_rx_rate", "net_tx", "net_tx_errors", "net_tx_errors_rate", "net_tx_rate", "ephemeral_storage_limit", "ephemeral_storage_request", "ephemeral_storage_usage")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CPU_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CPU_USAGE_FIELD_NUMBER: _ClassVar[int]
    MEM_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MEM_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MEM_USAGE_FIELD_NUMBER: _ClassVar[int]
    MEM_RSS_FIELD_NUMBER: _ClassVar[int]
    MEM_CACHE_FIELD_NUMBER: _ClassVar[int]
    MEM_WORKING_SET_FIELD_NUMBER: _ClassVar[int]
    MEM_PAGE_FAULTS_FIELD_NUMBER: _ClassVar[int]
    MEM_PAGE_FAULTS_RATE_FIELD_NUMBER: _ClassVar[int]
    MAJOR_PAGE_FAULTS_FIELD_NUMBER: _ClassVar[int]
    MAJOR_PAGE_FAULTS_RATE_FIELD_NUMBER: _ClassVar[int]
    NET_RX_FIELD_NUMBER: _ClassVar[int]
    NET_RX_ERRORS_FIELD_NUMBER: _ClassVar[int]
    NET_RX_ERRORS_RATE_FIELD_NUMBER: _ClassVar[int]
    NET_RX_RATE_FIELD_NUMBER: _ClassVar[int]
    NET_TX_FIELD_NUMBER: _ClassVar[int]
    NET_TX_ERRORS_FIELD_NUMBER: _ClassVar[int]
    NET_TX_ERRORS_RATE_FIELD_NUMBER: _ClassVar[int]
    NET_TX_RATE_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_STORAGE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_STORAGE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_STORAGE_USAGE_FIELD_NUMBER: _ClassVar[int]
    task_id: int
    hostname: str
    timestamp: int
    cpu_limit: int
    cpu_request: int
    cpu_usage: int
    mem_limit: int
    mem_request: int
    mem_usage: int
    mem_rss: int
    mem_cache: int
    mem_working_set: int
    mem_page_faults: int
    mem_page_faults_rate: float
    major_page_faults: int
    major_page_faults_rate: float
    net_rx: int
    net_rx_errors: int
    net_rx_errors_rate: float
    net_rx_rate: float
    net_tx: int
    net_tx_errors: int
    net_tx_errors_rate: float
    net_tx_rate: float
    ephemeral_storage_limit: int
    ephemeral_storage_request: int
    ephemeral_storage_usage: int
    def __init__(self, task_id: _Optional[int] = ..., hostname: _Optional[str] = ..., timestamp: _Optional[int] = ..., cpu_limit: _Optional[int] = ..., cpu_request: _Optional[int] = ..., cpu_usage: _Optional[int] = ..., mem_limit: _Optional[int] = ..., mem_request: _Optional[int] = ..., mem_usage: _Optional[int] = ..., mem_rss: _Optional[int] = ..., mem_cache: _Optional[int] = ..., mem_working_set: _Optional[int] = ..., mem_page_faults: _Optional[int] = ..., mem_page_faults_rate: _Optional[float] = ..., major_page_faults: _Optional[int] = ..., major_page_faults_rate: _Optional[float] = ..., net_rx: _Optional[int] = ..., net_rx_errors: _Optional[int] = ..., net_rx_errors_rate: _Optional[float] = ..., net_rx_rate: _Optional[float] = ..., net_tx: _Optional[int] = ..., net_tx_errors: _Optional[int] = ..., net_tx_errors_rate: _Optional[float] = ..., net_tx_rate: _Optional[float] = ..., ephemeral_storage_limit: _Optional[int] = ..., ephemeral_storage_request: _Optional[int] = ..., ephemeral_storage_usage: _Optional[int] = ...) -> None: ...

class CpuStats(_message.Message):
    __slots__ = ("cpu_allocatable", "cpu_capacity", "cpu_reservation", "cpu_utilization")
    CPU_ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    CPU_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    CPU_RESERVATION_FIELD_NUMBER: _ClassVar[int]
    CPU_UTILIZATION_FIELD_NUMBER: _ClassVar[int]
    cpu_allocatable: int
    cpu_capacity: int
    cpu_reservation: float
    cpu_utilization: float
    def __init__(self, cpu_allocatable: _Optional[int] = ..., cpu_capacity: _Optional[int] = ..., cpu_reservation: _Optional[float] = ..., cpu_utilization: _Optional[float] = ...) -> None: ...

class ResourceStats(_message.Message):
    __slots__ = ("resource_id", "timestamp", "cpus_stats", "mem_allocatable", "mem_capacity", "mem_reservation", "mem_utilization", "disk_bw", "net_rx_bw", "net_tx_bw", "ephemeral_storage_allocatable", "ephemeral_storage_capacity", "ephemeral_storage_reservation", "ephemeral_storage_utilization")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    CPUS_STATS_FIELD_NUMBER: _ClassVar[int]
    MEM_ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    MEM_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MEM_RESERVATION_FIELD_NUMBER: _ClassVar[int]
    MEM_UTILIZATION_FIELD_NUMBER: _ClassVar[int]
    DISK_BW_FIELD_NUMBER: _ClassVar[int]
    NET_RX_BW_FIELD_NUMBER: _ClassVar[int]
    NET_TX_BW_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_STORAGE_ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_STORAGE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_STORAGE_RESERVATION_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_STORAGE_UTILIZATION_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    timestamp: int
    cpus_stats: _containers.RepeatedCompositeFieldContainer[CpuStats]
    mem_allocatable: int
    mem_capacity: int
    mem_reservation: float
    mem_utilization: float
    disk_bw: int
    net_rx_bw: int
    net_tx_bw: int
    ephemeral_storage_allocatable: int
    ephemeral_storage_capacity: int
    ephemeral_storage_reservation: float
    ephemeral_storage_utilization: float
    def __init__(self, resource_id: _Optional[str] = ..., timestamp: _Optional[int] = ..., cpus_stats: _Optional[_Iterable[_Union[CpuStats, _Mapping]]] = ..., mem_allocatable: _Optional[int] = ..., mem_capacity: _Optional[int] = ..., mem_reservation: _Optional[float] = ..., mem_utilization: _Optional[float] = ..., disk_bw: _Optional[int] = ..., net_rx_bw: _Optional[int] = ..., net_tx_bw: _Optional[int] = ..., ephemeral_storage_allocatable: _Optional[int] = ..., ephemeral_storage_capacity: _Optional[int] = ..., ephemeral_storage_reservation: _Optional[float] = ..., ephemeral_storage_utilization: _Optional[float] = ...) -> None: ...
