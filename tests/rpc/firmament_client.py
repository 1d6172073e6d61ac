"""A running service with a client of Firmament's protocol, and short ways to write its messages."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from afflux.app import make_scheduler
from afflux.cluster.state import State
from afflux.config import parse_scheduler_spec
from afflux.cycle.interfaces import Ledger
from afflux.cycle.loop import Cycle
from afflux.rpc.process import ServiceOptions, ServiceProcess
from afflux.rpc.proto.firmament import resources_pb2 as machines
from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.server_security import listen_address

_SERVICE = pb.DESCRIPTOR.services_by_name["FirmamentScheduler"]
RESOURCE = machines.ResourceDescriptor


class FirmamentClient:
    """The calls of the protocol, one method each: `await client.TaskRemoved(message)`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        method = _SERVICE.methods_by_name[name]
        return self._channel.unary_unary(
            f"/firmament.FirmamentScheduler/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=_class_of(method.output_type).FromString,
        )

    async def send(self, name: str, request: bytes) -> bytes:
        """A call with any bytes as its request."""
        call: Any = self._channel.unary_unary(f"/firmament.FirmamentScheduler/{name}")
        return await call(request)

    async def schedule(self) -> tuple[dict[int, str], list[int]]:
        """Where tasks start, by uid, and which wait."""
        reply = await self.Schedule(pb.ScheduleRequest())
        assert all(each.type == pb.SchedulingDelta.PLACE for each in reply.deltas)
        assert len({each.task_id for each in reply.deltas}) == len(reply.deltas)
        places = {each.task_id: each.resource_id for each in reply.deltas}
        return places, sorted(reply.unscheduled_tasks)

    async def add(self, *nodes: machines.ResourceTopologyNodeDescriptor) -> None:
        for each in nodes:
            assert (await self.NodeAdded(each)).type == pb.NODE_ADDED_OK

    async def submit(self, *tasks: pb.TaskDescription) -> None:
        for each in tasks:
            assert (await self.TaskSubmitted(each)).type == pb.TASK_SUBMITTED_OK


def _class_of(descriptor: Any) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(descriptor)


def service_process(
    policy: str = "cpu-memory",
    ledger: Ledger | None = None,
    *,
    preempts: bool = False,
    **options: Any,
) -> ServiceProcess:
    state = State()
    scheduler = make_scheduler(parse_scheduler_spec(policy), state, preempts=preempts)
    cycle = Cycle(state, scheduler, isolates_faults=True)
    return ServiceProcess(cycle, ServiceOptions(listen_address("127.0.0.1:0"), **options), ledger)


@asynccontextmanager
async def client_of(process: ServiceProcess) -> AsyncGenerator[FirmamentClient]:
    """A client on a connection of its own."""
    async with grpc.aio.insecure_channel(
        f"127.0.0.1:{process.server.port}", options=(("grpc.use_local_subchannel_pool", 1),)
    ) as channel:
        yield FirmamentClient(channel)


@asynccontextmanager
async def service(
    policy: str = "cpu-memory", ledger: Ledger | None = None, **options: Any
) -> AsyncGenerator[FirmamentClient]:
    """A service of its own, and its client."""
    async with service_process(policy, ledger, **options) as process, client_of(process) as client:
        yield client


def run(story: Any) -> None:
    """Run a story of coroutines to its end."""

    async def limited() -> None:
        async with asyncio.timeout(60):
            await story

    asyncio.run(limited())


# --- Messages


def vector(cpu_milli: float = 0, memory_bytes: int = 0) -> machines.ResourceVector:
    return machines.ResourceVector(cpu_cores=cpu_milli, ram_cap=memory_bytes * 1000)


def part(
    uuid: str,
    kind: int = RESOURCE.RESOURCE_PU,
    children: Iterable[machines.ResourceTopologyNodeDescriptor] = (),
    **fields: Any,
) -> machines.ResourceTopologyNodeDescriptor:
    """A part of a machine."""
    return machines.ResourceTopologyNodeDescriptor(
        resource_desc=RESOURCE(uuid=uuid, type=kind, **fields), children=children
    )


def node(
    uuid: str,
    cpu_milli: float = 4000,
    children: Iterable[machines.ResourceTopologyNodeDescriptor] | None = None,
    labels: dict[str, str] | None = None,
    **fields: Any,
) -> machines.ResourceTopologyNodeDescriptor:
    """A machine with one processing unit, `uuid-pu`, and ten slots unless the fields say more."""
    fields = fields or {"max_pods": 10}
    return part(
        uuid,
        RESOURCE.RESOURCE_MACHINE,
        [part(f"{uuid}-pu")] if children is None else children,
        friendly_name=fields.pop("friendly_name", uuid),
        available_resources=vector(cpu_milli, 1 << 30),
        labels=[{"key": key, "value": value} for key, value in (labels or {}).items()],
        **fields,
    )


def task(uid: int, name: str = "", cpu_milli: float = 100, **fields: Any) -> pb.TaskDescription:
    """A task of a job of its own."""
    return pb.TaskDescription(
        task_descriptor={
            "uid": uid,
            "name": name or f"default/task-{uid}",
            "task_namespace": "default",
            "resource_request": vector(cpu_milli),
            **fields,
        },
        job_descriptor={"uuid": f"job-{uid}", "name": f"job-{uid}"},
    )


def gang_task(uid: int, job: str, size: int, cpu_milli: float = 100) -> pb.TaskDescription:
    message = task(uid, cpu_milli=cpu_milli)
    message.job_descriptor.uuid = message.job_descriptor.name = job
    message.job_descriptor.is_gang_scheduling_job = True
    message.job_descriptor.min_number_of_tasks = size
    return message


def foreign(name: str, uuid: str, cpu_milli: int = 0, memory_bytes: int = 0) -> pb.TaskInfo:
    return pb.TaskInfo(
        task_name=name,
        resource_id=uuid,
        cpu_utilization=cpu_milli,
        mem_utilization=memory_bytes,
    )
