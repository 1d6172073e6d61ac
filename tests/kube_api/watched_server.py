"""A server with scripted lists and watches, and a reflector whose sink records what it gets."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from api_server import answer, client_of

from afflux.kube import objects
from afflux.kube.api.reflector import Collection, run_reflector

PODS = Collection("/api/v1/pods", objects.Pod)
Manifest = dict[str, Any]
Script = Callable[["Stream", web.Request], Awaitable[None]]


def pod(name: str, version: int, **more: Any) -> Manifest:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **more.pop("metadata", {})}
    metadata["resourceVersion"] = str(version)
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {}, **more}


def event(kind: str, item: Manifest) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    item = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}}
    return event("BOOKMARK", item)


def page(version: int, *items: Manifest, more: str = "") -> Manifest:
    metadata = {"resourceVersion": str(version), "continue": more}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


@dataclass
class Seen:
    """A sink that records its calls, in order."""

    told: list[str] = field(default_factory=list)
    now: dict[str, objects.Pod] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def replaced(
        self, items: Sequence[objects.Pod], unreadable: Sequence[objects.Metadata]
    ) -> None:
        self.now = {item.metadata.name or "": item for item in items}
        self.unreadable = [f"{each.name} {each.uid}" for each in unreadable]
        self.told.append("replaced " + " ".join(self.now))

    def changed(self, item: objects.Pod) -> None:
        self.now[item.metadata.name or ""] = item
        self.told.append(f"changed {item.metadata.name}")

    def deleted(self, item: objects.Pod) -> None:
        self.now.pop(item.metadata.name or "", None)
        self.told.append(f"deleted {item.metadata.name}")

    def erred(self, error: Exception, wait_seconds: float) -> None:
        self.errors.append(error)
        self.waits.append(wait_seconds)


@dataclass
class Stream:
    """The server's side of one watch."""

    response: web.StreamResponse
    request: web.Request

    async def say(self, *lines: bytes) -> None:
        for line in lines:
            await self.response.write(line)

    async def stay(self) -> None:
        await asyncio.sleep(60)

    def cut(self) -> None:
        assert self.request.transport is not None
        self.request.transport.abort()


@dataclass
class Server:
    """Answers lists and watches with the scripted ones in order, and repeats the last."""

    lists: list[Manifest | web.Response]
    watches: list[Script | web.Response]
    asked: list[dict[str, str]] = field(default_factory=list)

    @property
    def watched_from(self) -> list[str]:
        return [query["resourceVersion"] for query in self.asked if "watch" in query]

    @property
    def listed(self) -> list[dict[str, str]]:
        return [query for query in self.asked if "watch" not in query]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.path == PODS.path
        self.asked.append(dict(request.query))
        if "watch" not in request.query:
            given = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
            return given if isinstance(given, web.Response) else answer(given)
        script = self.watches.pop(0) if len(self.watches) > 1 else self.watches[0]
        if isinstance(script, web.Response):
            return script
        response = web.StreamResponse()
        await response.prepare(request)
        await script(Stream(response, request), request)
        return response


@asynccontextmanager
async def reflecting(
    server: Server,
    collection: Collection[objects.Pod] = PODS,
    timing: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    seen = Seen()
    async with client_of(server.handle, **options) as api:
        task = asyncio.create_task(
            run_reflector(api, collection, seen, on_error=seen.erred, **(timing or {}))
        )
        try:
            yield seen
        finally:
            task.cancel()
            results = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError)


async def stays(stream: Stream, request: web.Request) -> None:
    await stream.stay()


def says(*lines: bytes) -> Script:
    """A watch that sends these lines and stays open."""

    async def script(stream: Stream, request: web.Request) -> None:
        await stream.say(*lines)
        await stream.stay()

    return script


def ends_after(*lines: bytes, cut: bool) -> Script:
    """A watch that sends these lines and ends, cleanly or cut off."""

    async def script(stream: Stream, request: web.Request) -> None:
        await stream.say(*lines)
        if cut:
            await asyncio.sleep(0.05)
            stream.cut()

    return script
