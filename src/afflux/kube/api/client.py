"""The client: get, send, stream.

A request of a few hundred bytes costs the time of the HTTP library and little else, because
thousands of them are in flight when a burst is bound.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from importlib.metadata import version
from types import TracebackType
from typing import Self, TypeVar, cast, overload
from urllib.parse import urlencode

import aiohttp
import msgspec

from afflux.kube.api.connection import Connection
from afflux.kube.api.errors import ApiError, UnreachableError, refusal
from afflux.kube.api.pacing import Backoff, Pace
from afflux.kube.api.transport import FAILURES, Request, Transport, cause, within, without_end

T = TypeVar("T")

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

_MOST_TRIES = 10
_FIRST_WAIT_SECONDS = 0.25
_LONGEST_WAIT_SECONDS = 15.0


class Api:
    """A client of one API server, in one event loop.

    `qps` and `burst` bound the requests that leave per second; 0 is no bound. At most
    `connections` requests are under way at once; the others queue, and the time they queue is not
    part of their timeout. Watches do not count. Paths are sent as they are given.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        qps: float = 0.0,
        burst: int = 0,
        user_agent: str = "",
        connections: int = 64,
        timeout_seconds: float = 30.0,
    ) -> None:
        self.connection = connection
        self._transport = Transport(connection, user_agent or f"afflux/{version('afflux')}")
        self._pace = Pace(qps, burst)
        self._slots = asyncio.Semaphore(connections)
        self._patience = within(timeout_seconds)
        self._decoders: dict[object, msgspec.json.Decoder[object]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        await self._transport.close()

    async def get(self, path: str, answer: type[T], params: Mapping[str, str] | None = None) -> T:
        """Read something. A busy server is waited for."""
        request = Request("GET", path, _query(params), self._patience)
        return self._decoded(request, await self._patiently(request), answer)

    async def get_bytes(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Read something large, undecoded; it may travel compressed."""
        compressed = self.connection.compressed
        request = Request("GET", path, _query(params), self._patience, compressed=compressed)
        return await self._patiently(request)

    @overload
    async def send(
        self,
        method: str,
        path: str,
        body: object,
        *,
        answer: type[T],
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        retry: bool = False,
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
        params: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        retry: bool = False,
    ) -> None: ...

    async def send(
        self,
        method: str,
        path: str,
        body: object,
        *,
        answer: type[T] | None = None,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        retry: bool = False,
    ) -> T | None:
        """Write something: bytes as they are, None as no body, anything else as JSON.

        Without an `answer` the server's is read and thrown away. With `retry` a busy server is
        waited for; without, that is an ApiError with retry_after_seconds. Either way a 401 is
        tried once more if there is a newer credential, and PUT and DELETE once more if a kept
        connection turned out to be closed: their callers must take a 409 or 404 for what may have
        been their own doing.
        """
        patience = self._patience if timeout_seconds is None else within(timeout_seconds)
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        request = Request(method, path, _query(params), patience, data, content_type)
        got = await (self._patiently(request) if retry else self._once(request))
        return None if answer is None else self._decoded(request, got, answer)

    async def stream(
        self, path: str, params: Mapping[str, str] | None = None, *, silence_seconds: float
    ) -> AsyncGenerator[bytes, None]:
        """The body of a GET in pieces, as they arrive, until the server ends it.

        No piece for `silence_seconds` is an UnreachableError. Close the generator when you leave
        it early: contextlib.aclosing.
        """
        request = Request("GET", path, _query(params), without_end(silence_seconds))
        if self._pace.is_bound:
            await self._pace.turn()
        response = await self._transport.answer(request)
        try:
            if response.status >= 300:
                raise await _refused(request, response)
            while piece := await response.content.readany():
                yield piece
        except FAILURES as error:
            raise UnreachableError(f"{request}: {cause(error)}", sent=True) from None
        finally:
            # Not released: what is left of a watch will never be read.
            response.close()

    async def _patiently(self, request: Request) -> bytes:
        backoff = Backoff(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS)
        for _ in range(_MOST_TRIES - 1):
            try:
                return await self._once(request)
            except ApiError as error:
                if not _asks_for_patience(error):
                    raise
                wait_seconds = backoff.wait_seconds(error.retry_after_seconds)
            await asyncio.sleep(wait_seconds)
        return await self._once(request)

    async def _once(self, request: Request) -> bytes:
        if self._pace.is_bound:
            await self._pace.turn()
        async with self._slots:
            # A program that makes credentials has a time limit of its own.
            await self.connection.credentials.current()
            try:
                async with asyncio.timeout(request.patience.whole_seconds):
                    return await self._answer(request)
            except TimeoutError:
                raise UnreachableError(f"{request}: timed out", sent=True) from None

    async def _answer(self, request: Request) -> bytes:
        response = await self._transport.answer(request)
        try:
            if response.status >= 300:
                raise await _refused(request, response)
            return await response.read()
        except FAILURES as error:
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


def _asks_for_patience(error: ApiError) -> bool:
    return error.status == 429 or (error.is_busy and error.retry_after_seconds is not None)


async def _refused(request: Request, response: aiohttp.ClientResponse) -> ApiError:
    body = await response.read()
    phrase = response.reason or ""
    return refusal(str(request), response.status, phrase, response.headers, body)
