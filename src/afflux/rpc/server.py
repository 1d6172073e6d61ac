"""The gRPC server: decodes calls, limits clients, and answers errors with a status.

Messages are decoded here and not by gRPC, so that a message that cannot be decoded gets a status
that says so.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from afflux.model.errors import InputError
from afflux.rpc.call_rate import CallRate
from afflux.rpc.firmament_service import FirmamentService
from afflux.rpc.message_errors import LimitError, MessageError
from afflux.rpc.proto.firmament import resources_pb2 as machines
from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.proto.firmament import statistics_pb2 as statistics
from afflux.rpc.server_security import (
    ListenAddress,
    SecurityOptions,
    has_token,
    server_credentials,
    tokens_of,
)
from afflux.web.rate_limited_log import RateLimitedLog

FIRMAMENT = "firmament.FirmamentScheduler"

_log = logging.getLogger(__name__)
_errors = RateLimitedLog(_log)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one client may send at once, and all clients together."""

    message_bytes: int = 1 << 20
    streams_per_connection: int = 256
    calls_at_once: int = 1024
    calls_per_second: float = 20_000.0


DEFAULT_SERVER_LIMITS = ServerLimits()

Call = tuple[type[Message], Callable[[Any], Awaitable[Message]]]


class Server:
    """A server of Firmament's protocol, with health and reflection."""

    def __init__(
        self, service: FirmamentService, limits: ServerLimits = DEFAULT_SERVER_LIMITS
    ) -> None:
        self._limits = limits
        self._rate = CallRate(limits.calls_per_second)
        self._tokens: tuple[bytes, ...] = ()
        self._calls = _calls(service)
        self._server: grpc.aio.Server | None = None
        # Where it listens, once it does.
        self.port = 0

    async def start(self, address: ListenAddress, security: SecurityOptions) -> None:
        """Listen; port 0 means any free port. An InputError if that is not possible."""
        credentials = server_credentials(address, security)
        self._tokens = tokens_of(security)
        limits = self._limits
        self._server = server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", limits.message_bytes),
                ("grpc.max_concurrent_streams", limits.streams_per_connection),
                # A second process must not share the port unnoticed.
                ("grpc.so_reuseport", 0),
            ),
            interceptors=(_Admission(self._complaint),) if self._tokens else (),
            maximum_concurrent_rpcs=limits.calls_at_once,
        )
        server.add_generic_rpc_handlers((self._handlers(),))
        serving = health.aio.HealthServicer()
        for name in ("", FIRMAMENT):
            await serving.set(name, health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(serving, server)
        names = (FIRMAMENT, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        try:
            if credentials is None:
                self.port = server.add_insecure_port(str(address))
            else:
                self.port = server.add_secure_port(str(address), credentials)
        except RuntimeError:
            raise InputError(
                f"--listen: {address}: expected an address of this machine and a free port, and a"
                " certificate that belongs to its key"
            ) from None
        await server.start()
        how = "plaintext" if credentials is None else "TLS"
        _log.info("serving %s on %s, port %d, %s", FIRMAMENT, address.host, self.port, how)

    async def close(self) -> None:
        """Refuse new calls, finish those under way for a moment, and stop."""
        if self._server is not None:
            await self._server.stop(grace=2.0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            FIRMAMENT,
            {name: self._handler(*call) for name, call in self._calls.items()},
        )

    def _handler(
        self, kind: type[Message], answer: Callable[[Any], Awaitable[Message]]
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        async def handle(
            request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]"
        ) -> bytes:
            await self._rate.wait(context.peer())
            try:
                message = kind.FromString(request)
            except DecodeError:
                await context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"the request is not a {kind.DESCRIPTOR.full_name}",
                )
            try:
                return (await answer(message)).SerializeToString()
            except MessageError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            except LimitError as error:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            except Exception:
                _errors.exception("a call failed: %s", kind.DESCRIPTOR.name)
                await context.abort(
                    grpc.StatusCode.INTERNAL, "the service failed; its log has the reason"
                )

        return grpc.unary_unary_rpc_method_handler(handle)

    def _complaint(self, details: grpc.HandlerCallDetails) -> str | None:
        """Why this call is not let in."""
        if has_token(details.invocation_metadata, self._tokens):
            return None
        return "authorization: expected `Bearer TOKEN` with a token of this service"


class _Admission(grpc.aio.ServerInterceptor):
    """Lets in the calls about which there is no complaint."""

    def __init__(self, complaint: Callable[[grpc.HandlerCallDetails], str | None]) -> None:
        self._complaint = complaint

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], "Awaitable[grpc.RpcMethodHandler[Any, Any] | None]"
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        complaint = self._complaint(handler_call_details)
        if complaint is None:
            return await continuation(handler_call_details)

        async def refuse(_: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, complaint)

        return grpc.unary_unary_rpc_method_handler(refuse)


def _calls(service: FirmamentService) -> Mapping[str, Call]:
    return {
        "Schedule": (pb.ScheduleRequest, service.schedule),
        "TaskCompleted": (pb.TaskUID, service.task_completed),
        "TaskFailed": (pb.TaskUID, service.task_failed),
        "TaskRemoved": (pb.TaskUID, service.task_removed),
        "TaskSubmitted": (pb.TaskDescription, service.task_submitted),
        "TaskUpdated": (pb.TaskDescription, service.task_updated),
        "NodeAdded": (machines.ResourceTopologyNodeDescriptor, service.node_added),
        "NodeFailed": (pb.ResourceUID, service.node_failed),
        "NodeRemoved": (pb.ResourceUID, service.node_removed),
        "NodeUpdated": (machines.ResourceTopologyNodeDescriptor, service.node_updated),
        "AddTaskStats": (statistics.TaskStats, service.add_task_stats),
        "AddNodeStats": (statistics.ResourceStats, service.add_node_stats),
        "Check": (pb.HealthCheckRequest, service.check),
        "AddTaskInfo": (pb.TaskInfo, service.add_task_info),
    }
