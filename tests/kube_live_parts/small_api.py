"""A small API server for tests: objects with resource versions over real HTTP, and faults.

It supports what leases, events, pod statuses and deletions need: create, read, replace with a
precondition, patch, delete with a uid. Its conflicts have the messages of the real API server.
"""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from afflux.kube.api.client import Api
from afflux.kube.api.client_config import ClientConfig

Object = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """What goes wrong with a request; by default nothing. `until` holds the answer back."""

    before_seconds: float = 0.0
    status: int | None = None
    retry_after: str = ""
    hang_up_before: bool = False
    hang_up_after: bool = False
    after_seconds: float = 0.0
    until: asyncio.Event | None = None


@dataclass
class Request:
    """What was asked for."""

    method: str
    path: str
    body: Any = None
    content_type: str = ""
    user_agent: str = ""


@dataclass
class SmallApi:
    """The objects by path, the requests, and the function that decides what goes wrong."""

    url: str = ""
    objects: dict[str, Object] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    fault: Callable[[Request], Fault] = lambda _: Fault()
    # Called with every object that was written, at the moment it is.
    written: Callable[[str, Object], None] = lambda _path, _object: None
    in_flight: int = 0
    most_in_flight: int = 0
    version: int = 0

    def api(self, **options: Any) -> Api:
        return Api(ClientConfig(self.url, "the test"), **options)

    def put(self, path: str, kept: Object) -> Object:
        self.version += 1
        kept["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = kept
        self.written(path, kept)
        return kept

    async def answer(self, http: web.Request) -> web.StreamResponse:
        text = await http.text()
        request = Request(
            http.method,
            http.path,
            json.loads(text) if text else None,
            http.content_type,
            http.headers.get("User-Agent", ""),
        )
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(http, request)
        finally:
            self.in_flight -= 1

    async def _answer(self, http: web.Request, request: Request) -> web.StreamResponse:
        fault = self.fault(request)
        await asyncio.sleep(fault.before_seconds)
        if fault.hang_up_before:
            return _hang_up(http)
        if fault.status is not None:
            headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
            return _status(fault.status, "Injected", "a fault of the test", headers)
        response = self._done(request)
        await asyncio.sleep(fault.after_seconds)
        if fault.until is not None:
            await fault.until.wait()
        return _hang_up(http) if fault.hang_up_after else response

    def _done(self, request: Request) -> web.Response:
        path = request.path.removesuffix("/status")
        kept = self.objects.get(path)
        if request.method == "POST":
            path = f"{path}/{request.body['metadata']['name']}"
            if path in self.objects:
                return _status(409, "AlreadyExists", f"{path} already exists")
            created = copy.deepcopy(request.body)
            created["metadata"].setdefault("uid", f"uid-{self.version}")
            return web.json_response(self.put(path, created), status=201)
        if kept is None:
            return _status(404, "NotFound", f"{path} not found")
        if request.method == "GET":
            return web.json_response(kept)
        if request.method == "DELETE":
            uid = (request.body or {}).get("preconditions", {}).get("uid")
            if uid not in {None, kept["metadata"].get("uid")}:
                return _status(409, "Conflict", "Precondition failed: UID in precondition")
            self.delete(path)
            return web.json_response({"kind": "Status", "status": "Success"})
        wanted_version = request.body.get("metadata", {}).get("resourceVersion")
        if wanted_version not in {None, kept["metadata"]["resourceVersion"]}:
            return _status(
                409, "Conflict", "the object has been modified; please apply your changes"
            )
        wanted_uid = request.body.get("metadata", {}).get("uid")
        if wanted_uid not in {None, kept["metadata"].get("uid")}:
            return _status(422, "Invalid", "metadata.uid: Invalid value: field is immutable")
        if request.method == "PUT":
            return web.json_response(self.put(path, copy.deepcopy(request.body)))
        strategic = request.content_type == "application/strategic-merge-patch+json"
        return web.json_response(self.put(path, merged(kept, request.body, strategic)))

    def delete(self, path: str) -> None:
        del self.objects[path]


def merged(kept: Object, patch: Object, strategic: bool) -> Object:
    """A merge patch; a strategic one also merges conditions by their type."""
    result = dict(kept)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key) or {}, value, strategic)
        elif strategic and key == "conditions":
            by_type = {condition["type"]: condition for condition in result.get(key, [])}
            for condition in value:
                by_type[condition["type"]] = {**by_type.get(condition["type"], {}), **condition}
            result[key] = list(by_type.values())
        else:
            result[key] = value
    return result


def _status(
    code: int, reason: str, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code}
    return web.json_response(
        {**body, "reason": reason, "message": message}, status=code, headers=headers
    )


def _hang_up(http: web.Request) -> web.Response:
    if http.transport is not None:
        http.transport.abort()
    return web.Response()


@asynccontextmanager
async def serving() -> AsyncIterator[SmallApi]:
    """A server on a free port of loopback."""
    server = SmallApi()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        server.url = f"http://{host}:{port}"
        yield server
    finally:
        await runner.cleanup()


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that will happen; an error if it does not within a generous time."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run an asynchronous test; nothing may be left running behind it."""

    async def bounded() -> None:
        async with asyncio.timeout(120):
            await test()
        left = [task for task in asyncio.all_tasks() if "RequestHandler" not in repr(task)]
        assert left == [asyncio.current_task()], left

    asyncio.run(bounded())
