"""A proxy before the API server that does what networks and busy servers do.

It ends the TLS connection of the client, forwards what it is sent, the client's credentials
included, and streams watches through. Rules say which requests meet which fault instead. It runs in
a thread of its own; tests change its rules while requests are under way.
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

# Those of one connection, not of the message.
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Call:
    """A request, as rules see it."""

    method: str
    path: str
    watch: bool


Chosen = Callable[[Call], bool]


def binds(call: Call) -> bool:
    """Requests to bind a pod."""
    return call.method == "POST" and call.path.endswith("/binding")


def everything(call: Call) -> bool:
    """Whatever is asked for."""
    return True


def leases(call: Call) -> bool:
    """Everything that has to do with elections."""
    return "/leases" in call.path


def watches(*plurals: str) -> Chosen:
    """Watches of these kinds, of all if none is named."""
    return lambda call: call.watch and (not plurals or _is_of(call, plurals))


def lists(*plurals: str) -> Chosen:
    """Lists of these kinds, by their plural."""
    return lambda call: call.method == "GET" and not call.watch and _is_of(call, plurals)


def _is_of(call: Call, plurals: tuple[str, ...]) -> bool:
    return call.path.rpartition("/")[2] in plurals


# --- Faults


@dataclass(frozen=True, slots=True)
class Answer:
    """This is what the server is said to answer. `done`: it has carried the request out before."""

    status: int
    reason: str = "Injected"
    retry_after_seconds: int | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """The server hears of it later."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Swallow:
    """No answer. `done`: the server has carried it out; otherwise it never heard of it.

    `hang`: the client hears nothing and has to lose its patience; otherwise the connection is cut.
    """

    done: bool
    hang: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """A watch goes through for so many lines; then the connection ends in the middle of one."""

    lines: int


@dataclass(frozen=True, slots=True)
class Say:
    """A watch that tells this and ends."""

    line: dict[str, Any]


GONE = Say(
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

Fault = Answer | Delay | Swallow | Cut | Say


@dataclass(slots=True)
class Rule:
    """Which requests meet a fault: a share of those chosen, `times` in all."""

    fault: Fault
    to: Chosen
    share: float
    times: int | None
    hits: int = field(default=0)

    def meets(self, call: Call) -> bool:
        """Whether this request does."""
        spent = self.times is not None and self.hits >= self.times
        return not spent and self.to(call) and random.random() < self.share


class Proxy:
    """`with Proxy(plane) as proxy:`; then `proxy.kubeconfig(of)` is the way through it."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._rules: list[Rule] = []
        self._silent = False
        self._open: dict[web.StreamResponse, web.BaseRequest] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._close: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.url = ""
        # How often the server itself has said that a version is too old.
        self.expired = 0
        # When each request to bind was passed on.
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
        self, fault: Fault, to: Chosen, *, share: float = 1.0, times: int | None = None
    ) -> Rule:
        """From now on, until `calm`."""
        rule = Rule(fault, to, share, times)
        self._rules = [*self._rules, rule]
        return rule

    def calm(self) -> None:
        """No more faults; what hangs goes on hanging."""
        self._rules = []

    def cut_watches(self) -> None:
        """Cut every open watch, in the middle of a line."""

        async def cut() -> None:
            for response, request in list(self._open.items()):
                with suppress(ConnectionError):
                    await response.write(b'{"type":"MODIFIED","object":{"kind":"Po')
                _abort(request)

        self._do(cut())

    def silence(self) -> None:
        """From now on nothing comes through, in either direction; connections stay open."""
        self._silent = True

    def kubeconfig(self, of: Path) -> Path:
        """The same user, by way of the proxy."""
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
            # First, while it knows them all: those given up later would say farewell at length.
            await session.close()
            await runner.cleanup()
            ending = asyncio.all_tasks() - {asyncio.current_task()}
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            # Transports that were cut have a last word to say.
            await asyncio.sleep(0.05)

        self._close = close

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        call = Call(request.method, request.path, request.query.get("watch") == "true")
        rule = next((rule for rule in self._rules if rule.meets(call)), None)
        if rule is not None:
            rule.hits += 1
        fault = rule.fault if rule is not None else None
        if self._session.closed:
            return await _gone(request, hang=False)
        if self._silent:
            return await _gone(request, hang=True)
        if isinstance(fault, Answer) and not fault.done:
            return _status(fault)
        if isinstance(fault, Say):
            return web.Response(
                body=json.dumps(fault.line).encode() + b"\n", content_type="application/json"
            )
        if isinstance(fault, Swallow) and not fault.done:
            return await _gone(request, fault.hang)
        if isinstance(fault, Delay):
            await asyncio.sleep(fault.seconds)
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP
        }
        if binds(call):
            self.bound_at.append(time.time())
        try:
            async with self._session.request(
                request.method,
                f"{self._plane.url}{request.raw_path}",
                data=body or None,
                headers=headers,
                allow_redirects=False,
            ) as answer:
                if isinstance(fault, Swallow | Answer):
                    await answer.read()
                    is_answer = isinstance(fault, Answer)
                    return _status(fault) if is_answer else await _gone(request, fault.hang)
                return await self._pass_on(request, call, answer, fault)
        except (aiohttp.ClientError, OSError):
            # The API server is down: so is the way to it.
            return await _gone(request, hang=False)

    async def _pass_on(
        self,
        request: web.BaseRequest,
        call: Call,
        answer: aiohttp.ClientResponse,
        fault: Fault | None,
    ) -> web.StreamResponse:
        headers = {
            name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP
        }
        self.expired += answer.status == 410
        if not call.watch or answer.status != 200:
            body = await answer.read()
            if self._silent:
                return await _gone(request, hang=True)
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
        left = fault.lines if isinstance(fault, Cut) else -1
        async for piece in answer.content.iter_any():
            if self._silent:
                return await _gone(request, hang=True)
            self.expired += b'"code":410' in piece
            for line in piece.splitlines(keepends=True):
                if left == 0:
                    await response.write(line[: len(line) // 2])
                    return await _gone(request, hang=False)
                await response.write(line)
                left -= line.endswith(b"\n")
        return response

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


def _status(fault: Answer) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "injected by a test",
        "reason": fault.reason,
        "code": fault.status,
    }
    patience = fault.retry_after_seconds
    headers = {} if patience is None else {"Retry-After": str(patience)}
    return web.json_response(status, status=fault.status, headers=headers)


async def _gone(request: web.BaseRequest, hang: bool) -> web.StreamResponse:
    """No answer; the connection ends now, or when the client has lost its patience."""
    while hang and request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(LOOK_SECONDS)
    _abort(request)
    # Nobody is there to read it.
    return web.Response(status=599)


def _abort(request: web.BaseRequest) -> None:
    transport = request.transport
    if isinstance(transport, asyncio.Transport):
        transport.abort()
