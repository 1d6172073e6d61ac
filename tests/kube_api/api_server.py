"""HTTPS servers on loopback whose answers a test writes, and clients for them."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import trustme
from aiohttp import web

from afflux.kube.api.client import Api
from afflux.kube.api.client_config import ClientConfig
from afflux.kube.api.credentials import ANONYMOUS, Credentials
from movable_clock import run_on_movable_loop

AUTHORITY = trustme.CA()
AUTHORITY_PEM = AUTHORITY.cert_pem.bytes()
OTHER_AUTHORITY = trustme.CA()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Speaker = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test to its end; a test that hangs fails. The test may move the clock by minutes."""

    async def bounded() -> None:
        async with asyncio.timeout(600):
            await test()

    run_on_movable_loop(bounded())


def server_context(
    *names: str, authority: trustme.CA = AUTHORITY, clients: trustme.CA | None = None
) -> ssl.SSLContext:
    """The TLS context of a server for these names; `clients` makes it require a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        clients.configure_trust(context)
    return context


@asynccontextmanager
async def serving(
    handler: Handler, context: ssl.SSLContext | None = None, **fields: Any
) -> AsyncIterator[ClientConfig]:
    """An HTTPS server that answers with the handler; yields the configuration for it."""
    runner = web.ServerRunner(web.Server(handler, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context or server_context())
    await site.start()
    try:
        yield config_for(runner.addresses[0][1], **fields)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def speaking(speaker: Speaker, **fields: Any) -> AsyncIterator[ClientConfig]:
    """A TLS server that writes raw bytes; yields the configuration for it."""
    tasks: set[asyncio.Task[None]] = set()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await speaker(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=server_context())
    try:
        yield config_for(server.sockets[0].getsockname()[1], **fields)
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def config_for(port: int, **fields: Any) -> ClientConfig:
    made = ClientConfig(server=f"https://127.0.0.1:{port}", origin="test", ca=AUTHORITY_PEM)
    return replace(made, **fields)


@asynccontextmanager
async def client_of(
    handler: Handler,
    context: ssl.SSLContext | None = None,
    credentials: Credentials = ANONYMOUS,
    **options: Any,
) -> AsyncIterator[Api]:
    """A server and a client of it."""
    fields = {"credentials": credentials}
    async with serving(handler, context, **fields) as made, Api(made, **options) as api:
        yield api


def answer(body: object, status: int = 200, **headers: str) -> web.Response:
    """An answer in JSON; underscores in names of headers are dashes."""
    return web.Response(
        status=status,
        body=json.dumps(body).encode(),
        content_type="application/json",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def api_error(code: int, reason: str, message: str = "no", **details: object) -> dict[str, Any]:
    """The Status object of a failed request."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": reason,
        "message": message,
        "details": details,
        "code": code,
    }


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that another task makes true; tests may move the loop's clock."""
    fails_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < fails_at, "the condition has not become true"
        await asyncio.sleep(0.005)
