"""The client of an API server: get, send, stream.

A small request costs little more than the HTTP library itself: a burst of pods means thousands of
bindings in flight.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from importlib.metadata import version
from typing import Self, TypeVar, cast, overload
from urllib.parse import urlencode

import aiohttp
import msgspec

from afflux.control.backoff import Backoff
from afflux.kube.api.client_config import ClientConfig
from afflux.kube.api.errors import ApiError, UnreachableError, api_error
from afflux.kube.api.rate_limit import RateLimiter
from afflux.kube.api.tls import RELOAD_INTERVAL_SECONDS
from afflux.kube.api.transport import (
    TRANSPORT_ERRORS,
    Request,
    Transport,
    cause,
    request_timeouts,
    stream_timeouts,
)

T = TypeVar("T")

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

_MAX_ATTEMPTS = 10
_INITIAL_BACKOFF_SECONDS = 0.25
_MAX_BACKOFF_SECONDS = 15.0


class Api:
    """A client of one API server, in one event loop.

    `qps` and `burst` limit the requests per second; 0 means no limit. At most `connections`
    requests are in flight at once. The others queue, and the time in the queue is not part of
    their timeout. Watches do not count. Paths are sent unchanged.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        qps: float = 0.0,
        burst: int = 0,
        user_agent: str = "",
        connections: int = 64,
        timeout_seconds: float = 30.0,
        tls_reload_interval_seconds: float = RELOAD_INTERVAL_SECONDS,
    ) -> None:
        self.config = config
        agent = user_agent or f"afflux/{version('afflux')}"
        self._transport = Transport(config, agent, tls_reload_interval_seconds)
        self._rate_limiter = RateLimiter(qps, burst)
        self._slots = asyncio.Semaphore(connections)
        self._timeouts = request_timeouts(timeout_seconds)
        self._decoders: dict[object, msgspec.json.Decoder[object]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        await self._transport.close()

    async def get(self, path: str, answer: type[T], params: Mapping[str, str] | None = None) -> T:
        """Read an object or a list. Retries while the server is busy."""
        request = Request("GET", path, _query(params), self._timeouts)
        return self._decoded(request, await self._with_retries(request), answer)

    async def get_bytes(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The same without decoding, and compressed if the configuration allows it."""
        compressed = self.config.compressed
        request = Request("GET", path, _query(params), self._timeouts, compressed=compressed)
        return await self._with_retries(request)

    @overload
    async def send(
        self,
        method: str,
        path: str,
        body: object,
        *,
        answer: type[T],
        content_type: str = JSON,
        timeout_seconds: float | None = None,
    ) -> T: ...

    @overload
    async def send(
        self,
        method: str,
        path: str,
        body: object,
        *,
        answer: None = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
    ) -> None: ...

    async def send(
        self,
        method: str,
        path: str,
        body: object,
        *,
        answer: type[T] | None = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
    ) -> T | None:
        """Send a request with a body: bytes unchanged, None as no body, anything else as JSON.

        Without an `answer` type the body of the response is ignored. While the server is busy, this
        raises an ApiError with retry_after_seconds. A 401 is retried once if there is a newer
        credential, and the HTTP library retries PUT and DELETE once if a reused connection was
        already closed. A 409 or 404 may therefore be the effect of the caller's own first attempt.
        """
        timeouts = self._timeouts if timeout_seconds is None else request_timeouts(timeout_seconds)
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        request = Request(method, path, "", timeouts, data, content_type)
        got = await self._once(request)
        return None if answer is None else self._decoded(request, got, answer)

    async def stream(
        self, path: str, params: Mapping[str, str] | None = None, *, idle_timeout_seconds: float
    ) -> AsyncGenerator[bytes, None]:
        """The body of a GET in chunks, as they arrive, until the server ends it.

        Raises an UnreachableError if no chunk arrives for `idle_timeout_seconds`. A caller that
        stops early must close the generator: contextlib.aclosing.
        """
        request = Request("GET", path, _query(params), stream_timeouts(idle_timeout_seconds))
        if self._rate_limiter.is_limited:
            await self._rate_limiter.wait()
        response = await self._transport.answer(request)
        try:
            if response.status >= 300:
                raise await _refused(request, response)
            while chunk := await response.content.readany():
                yield chunk
        except TRANSPORT_ERRORS as error:
            raise UnreachableError(f"{request}: {cause(error)}", sent=True) from None
        finally:
            # Closed, not released: the rest of a watch is never read.
            response.close()

    async def find(self, path: str, answer: type[T]) -> T | None:
        """As `get`; None if there is no such object."""
        try:
            return await self.get(path, answer)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def _with_retries(self, request: Request) -> bytes:
        backoff = Backoff(_INITIAL_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS)
        for _ in range(_MAX_ATTEMPTS - 1):
            try:
                return await self._once(request)
            except ApiError as error:
                if not _is_retryable(error):
                    raise
                wait_seconds = backoff.wait_seconds(error.retry_after_seconds)
            await asyncio.sleep(wait_seconds)
        return await self._once(request)

    async def _once(self, request: Request) -> bytes:
        if self._rate_limiter.is_limited:
            await self._rate_limiter.wait()
        async with self._slots:
            # Outside of the timeout: an exec plugin has a timeout of its own.
            await self.config.credentials.current()
            try:
                async with asyncio.timeout(request.timeouts.total_seconds):
                    return await self._answer(request)
            except TimeoutError:
                raise UnreachableError(f"{request}: timed out", sent=True) from None

    async def _answer(self, request: Request) -> bytes:
        response = await self._transport.answer(request)
        try:
            if response.status >= 300:
                raise await _refused(request, response)
            return await response.read()
        except TRANSPORT_ERRORS as error:
            raise UnreachableError(f"{request}: {cause(error)}", sent=True) from None
        finally:
            response.release()

    def _decoded(self, request: Request, body: bytes, answer: type[T]) -> T:
        decoder = self._decoders.get(answer)
        if decoder is None:
            decoder = cast("msgspec.json.Decoder[object]", msgspec.json.Decoder(answer))
            self._decoders[answer] = decoder
        try:
            return cast("T", decoder.decode(body))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            problem = f"{request}: the answer cannot be read: {error}"
            raise UnreachableError(problem, sent=True) from None


def _query(params: Mapping[str, str] | None) -> str:
    return f"?{urlencode(params)}" if params else ""


def _is_retryable(error: ApiError) -> bool:
    return error.status == 429 or (error.is_busy and error.retry_after_seconds is not None)


async def _refused(request: Request, response: aiohttp.ClientResponse) -> ApiError:
    body = await response.read()
    phrase = response.reason or ""
    return api_error(str(request), response.status, phrase, response.headers, body)
