"""A proxy before the API server that injects the faults of networks and busy servers.

It terminates the client's TLS connection, forwards requests with the client's credentials, and
streams watches. Rules select the requests that get a fault. The proxy runs in its own thread; tests
change the rules while requests are under way.
"""

import asyncio
import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web
from testbed import ControlPlane

# Headers of one connection; a proxy does not forward them.
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})
POLL_INTERVAL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The parts of a request that rules select by."""

    method: str
    path: str
    watch: bool


RequestFilter = Callable[[RequestInfo], bool]


def bind_requests(info: RequestInfo) -> bool:
    """Requests to bind a pod."""
    return info.method == "POST" and info.path.endswith("/binding")


def all_requests(info: RequestInfo) -> bool:
    """All requests."""
    return True


def lease_requests(info: RequestInfo) -> bool:
    """Requests of the leader election."""
    return "/leases" in info.path


def watch_requests(*plurals: str) -> RequestFilter:
    """Watches of these kinds, by their plurals; of all kinds if none is named."""
    return lambda info: info.watch and (not plurals or _is_of(info, plurals))


def list_requests(*plurals: str) -> RequestFilter:
    """Lists of these kinds, by their plurals."""
    return lambda info: info.method == "GET" and not info.watch and _is_of(info, plurals)


def _is_of(info: RequestInfo, plurals: tuple[str, ...]) -> bool:
    return info.path.rpartition("/")[2] in plurals


# --- Faults


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """The client gets this status. `done`: the server executes the request first."""

    status: int
    reason: str = "Injected"
    retry_after_seconds: int | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is forwarded after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NoResponse:
    """The client gets no response. `done`: the server executes the request; otherwise never.

    `hang`: the connection stays open until the client gives up; otherwise it is cut.
    """

    done: bool
    hang: bool = False


@dataclass(frozen=True, slots=True)
class CutWatch:
    """The watch streams so many lines; then the connection is cut in the middle of the next."""

    lines: int


@dataclass(frozen=True, slots=True)
class WatchResponse:
    """The watch delivers this line and ends."""

    line: dict[str, Any]


EXPIRED = WatchResponse(
    {
        "type": "ERROR",
        "object": {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "too old resource version: 1 (2)",
            "reason": "Expired",
            "code": 410,
        },
    }
)

Fault = ErrorResponse | Delay | NoResponse | CutWatch | WatchResponse


@dataclass(slots=True)
class Rule:
    """Injects a fault into a share of the selected requests, at most `times` times."""

    fault: Fault
    to: RequestFilter
    share: float
    times: int | None
    hits: int = field(default=0)

    def meets(self, info: RequestInfo) -> bool:
        """Whether this request gets the fault."""
        spent = self.times is not None and self.hits >= self.times
        return not spent and self.to(info) and random.random() < self.share


class Proxy:
    """`with Proxy(plane) as proxy:`; clients connect with `proxy.kubeconfig(of)`."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._rules: list[Rule] = []
        self._blocked = False
        self._open: dict[web.StreamResponse, web.BaseRequest] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._close: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.url = ""
        # How often the API server itself answered 410 Expired.
        self.expired = 0
        # When each bind request was forwarded.
        self.bound_at: list[float] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._close is not None:
            self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- What tests do

    def inject(
        self, fault: Fault, to: RequestFilter, *, share: float = 1.0, times: int | None = None
    ) -> Rule:
        """Add a rule that holds until `clear_faults`."""
        rule = Rule(fault, to, share, times)
        self._rules = [*self._rules, rule]
        return rule

    def clear_faults(self) -> None:
        """Remove all rules; requests that hang continue to hang."""
        self._rules = []

    def cut_open_watches(self) -> None:
        """Cut every open watch, in the middle of a line."""

        async def cut() -> None:
            for response, request in list(self._open.items()):
                with suppress(ConnectionError):
                    await response.write(b'{"type":"MODIFIED","object":{"kind":"Po')
                _abort(request)

        self._do(cut())

    def block_traffic(self) -> None:
        """Forward nothing in either direction from now on; connections stay open."""
        self._blocked = True

    def kubeconfig(self, of: Path) -> Path:
        """A kubeconfig of the same user that connects to the proxy."""
        config = json.loads(of.read_text())
        config["clusters"][0]["cluster"]["server"] = self.url
        path = of.with_name(f"{of.stem}-by-{self.url.rpartition(':')[2]}.kubeconfig")
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return path

    # --- The server

    async def _start(self) -> None:
        certificate = self._plane.components.server
        served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        served.load_cert_chain(certificate.certificate, certificate.key)
        trusted = ssl.create_default_context(cafile=str(self._plane.authority))
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=trusted),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        self._session = session
        runner = web.ServerRunner(
            web.Server(self._handle, access_log=None), shutdown_timeout=0.1, handle_signals=False
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=served)
        await site.start()
        self.url = f"https://127.0.0.1:{runner.addresses[0][1]}"

        async def close() -> None:
            # Before the runner: afterwards each remaining connection would be closed slowly.
            await session.close()
            await runner.cleanup()
            ending = asyncio.all_tasks() - {asyncio.current_task()}
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            # Aborted transports still run their last callbacks.
            await asyncio.sleep(0.05)

        self._close = close

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        info = RequestInfo(request.method, request.path, request.query.get("watch") == "true")
        rule = next((rule for rule in self._rules if rule.meets(info)), None)
        if rule is not None:
            rule.hits += 1
        fault = rule.fault if rule is not None else None
        if self._session.closed:
            return await _no_response(request, hang=False)
        if self._blocked:
            return await _no_response(request, hang=True)
        if isinstance(fault, ErrorResponse) and not fault.done:
            return _status(fault)
        if isinstance(fault, WatchResponse):
            return web.Response(
                body=json.dumps(fault.line).encode() + b"\n", content_type="application/json"
            )
        if isinstance(fault, NoResponse) and not fault.done:
            return await _no_response(request, fault.hang)
        if isinstance(fault, Delay):
            await asyncio.sleep(fault.seconds)
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP
        }
        if bind_requests(info):
            self.bound_at.append(time.time())
        try:
            async with self._session.request(
                request.method,
                f"{self._plane.url}{request.raw_path}",
                data=body or None,
                headers=headers,
                allow_redirects=False,
            ) as answer:
                if isinstance(fault, NoResponse | ErrorResponse):
                    await answer.read()
                    is_answer = isinstance(fault, ErrorResponse)
                    return _status(fault) if is_answer else await _no_response(request, fault.hang)
                return await self._pass_on(request, info, answer, fault)
        except (aiohttp.ClientError, OSError):
            # The API server is down: the client sees a broken connection.
            return await _no_response(request, hang=False)

    async def _pass_on(
        self,
        request: web.BaseRequest,
        info: RequestInfo,
        answer: aiohttp.ClientResponse,
        fault: Fault | None,
    ) -> web.StreamResponse:
        headers = {
            name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP
        }
        self.expired += answer.status == 410
        if not info.watch or answer.status != 200:
            body = await answer.read()
            if self._blocked:
                return await _no_response(request, hang=True)
            return web.Response(status=answer.status, headers=headers, body=body)
        response = web.StreamResponse(status=answer.status, headers=headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        self._open[response] = request
        try:
            return await self._stream(request, response, answer, fault)
        finally:
            del self._open[response]

    async def _stream(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        answer: aiohttp.ClientResponse,
        fault: Fault | None,
    ) -> web.StreamResponse:
        left = fault.lines if isinstance(fault, CutWatch) else -1
        async for piece in answer.content.iter_any():
            if self._blocked:
                return await _no_response(request, hang=True)
            self.expired += b'"code":410' in piece
            for line in piece.splitlines(keepends=True):
                if left == 0:
                    await response.write(line[: len(line) // 2])
                    return await _no_response(request, hang=False)
                await response.write(line)
                left -= line.endswith(b"\n")
        return response

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


def _status(fault: ErrorResponse) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "injected by a test",
        "reason": fault.reason,
        "code": fault.status,
    }
    seconds = fault.retry_after_seconds
    headers = {} if seconds is None else {"Retry-After": str(seconds)}
    return web.json_response(status, status=fault.status, headers=headers)


async def _no_response(request: web.BaseRequest, hang: bool) -> web.StreamResponse:
    """Cut the connection now or, if `hang`, when the client has closed it."""
    while hang and request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(POLL_INTERVAL_SECONDS)
    _abort(request)
    # Never delivered: the connection is closed.
    return web.Response(status=599)


def _abort(request: web.BaseRequest) -> None:
    transport = request.transport
    if isinstance(transport, asyncio.Transport):
        transport.abort()
