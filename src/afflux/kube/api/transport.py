"""Sends one request and returns the head of its response, over reused connections.

Everything that depends on the HTTP library is here: its session, its settings, its errors.
"""

import asyncio
import errno
import os
import socket
import ssl
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from afflux.kube.api.client_config import ClientConfig
from afflux.kube.api.credentials import Credential
from afflux.kube.api.errors import CredentialError, UnreachableError
from afflux.kube.api.tls import Tls
from afflux.model.errors import InputError

# What the library raises when there is no response, or an incomplete one.
TRANSPORT_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)

CONNECT_TIMEOUT_SECONDS = 10.0
# API servers close a connection that was idle for 90 seconds. We close it earlier, so that no
# request is sent on a connection that is being closed.
_KEEPALIVE_SECONDS = 60.0
_READ_BYTES = 1 << 18
# Longer than the library takes to notice that its socket was shut down.
_CLOSE_TIMEOUT_SECONDS = 1.0
_POLL_INTERVAL_SECONDS = 0.001
# With these, a socket detects within about a minute that its peer is gone.
_SOCKET_OPTIONS = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    # In milliseconds: how long sent data may stay unacknowledged.
    ("TCP_USER_TIMEOUT", 30_000),
)


class Timeouts(msgspec.Struct, frozen=True, gc=False):
    """The timeout of a whole request, and those of its phases, which the library enforces.

    The library does not enforce the total: it would swallow a cancellation of the task that comes
    at the same moment, and the canceller would wait for ever.
    """

    total_seconds: float | None
    phases: aiohttp.ClientTimeout


def request_timeouts(seconds: float) -> Timeouts:
    """The timeouts of a request, from leaving the queue to the end of its response. The timeout for
    connecting is shorter, so that it is known that nothing was sent."""
    connect_seconds = min(CONNECT_TIMEOUT_SECONDS, seconds * 0.8)
    return Timeouts(seconds, aiohttp.ClientTimeout(connect=connect_seconds))


def stream_timeouts(idle_timeout_seconds: float) -> Timeouts:
    """The timeouts of a watch: no total, but a limit on the time between two chunks."""
    phases = aiohttp.ClientTimeout(connect=CONNECT_TIMEOUT_SECONDS, sock_read=idle_timeout_seconds)
    return Timeouts(None, phases)


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request; its text names it in messages."""

    method: str
    path: str
    query: str
    timeouts: Timeouts
    body: bytes | None = None
    content_type: str = ""
    compressed: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    """The connections to one server. Use it in one event loop."""

    def __init__(self, config: ClientConfig, user_agent: str, tls_reload_seconds: float) -> None:
        self._config = config
        self._server = config.server.rstrip("/")
        self._user_agent = user_agent
        self._tls: Tls | None = None
        if self._server.startswith("https://"):
            self._tls = Tls(config, tls_reload_seconds)
            # Unusable certificates raise now, not at the first request.
            self._tls.context(Credential())
        self._proxy = URL(config.proxy_url) if config.proxy_url else None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._sockets = WeakSet[socket.socket]()
        # Headers by content type and compression, cached for one credential.
        self._header_credential: Credential | None = None
        self._headers: dict[tuple[str, bool], CIMultiDict[str]] = {}

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()
            await self._shut_down_sockets()

    async def answer(self, request: Request) -> aiohttp.ClientResponse:
        """The head of the response, of any status; retries a 401 once with a newer credential."""
        credentials = self._config.credentials
        credential = await credentials.current()
        response = await self._exchange(request, credential)
        if response.status != 401:
            return response
        credentials.refused(credential)
        try:
            newer = await credentials.current()
        except UnreachableError:
            # Report the 401, not the failure to get a newer credential.
            return response
        if newer is credential:
            return response
        response.release()
        return await self._exchange(request, newer)

    async def _exchange(self, request: Request, credential: Credential) -> aiohttp.ClientResponse:
        url = URL(f"{self._server}{request.path}{request.query}", encoded=True)
        try:
            context = True if self._tls is None else self._tls.context(credential)
        except InputError as error:
            raise CredentialError(str(error)) from None
        try:
            return await self._open_session().request(
                request.method,
                url,
                data=request.body,
                headers=self._request_headers(request, credential),
                allow_redirects=False,
                ssl=context,
                server_hostname=self._config.tls_server_name or None,
                proxy=self._proxy,
                timeout=request.timeouts.phases,
            )
        except TRANSPORT_ERRORS as error:
            raise UnreachableError(f"{request}: {cause(error)}", sent=_may_be_sent(error)) from None

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("the client is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    # The client limits the requests in flight; watches do not count.
                    limit=0,
                    keepalive_timeout=_KEEPALIVE_SECONDS,
                    socket_factory=self._new_socket,
                ),
                # No secrets here: a proxy gets these headers too.
                headers={"User-Agent": self._user_agent},
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_READ_BYTES,
            )
        return self._session

    def _new_socket(self, address: tuple[Any, ...]) -> socket.socket:
        if self._closed:
            # The connection attempt goes on to the server's next address, and fails there too.
            raise OSError(errno.ECONNABORTED, "the client is closed")
        made = socket.socket(address[0], address[1], address[2])
        self._sockets.add(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SOCKET_OPTIONS:
            # Not every system has all of these.
            if (option := getattr(socket, name, None)) is not None:
                made.setsockopt(socket.IPPROTO_TCP, option, value)
        return made

    async def _shut_down_sockets(self) -> None:
        """Shut down connections that the library no longer tracks. A closed watch sends its TLS
        close_notify and waits for that of the server. The event loop may end before it arrives."""
        for open_socket in self._open_sockets():
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_SECONDS):
                while self._open_sockets():
                    await asyncio.sleep(_POLL_INTERVAL_SECONDS)

    def _open_sockets(self) -> list[socket.socket]:
        return [each for each in self._sockets if each.fileno() >= 0]

    def _request_headers(self, request: Request, credential: Credential) -> CIMultiDict[str]:
        if credential is not self._header_credential:
            self._headers.clear()
            self._header_credential = credential
        key = (request.content_type, request.compressed)
        headers = self._headers.get(key)
        if headers is None:
            headers = CIMultiDict[str](self._config.headers)
            headers["Accept"] = "application/json"
            headers["Accept-Encoding"] = "gzip" if request.compressed else "identity"
            if request.content_type:
                headers["Content-Type"] = request.content_type
            if credential.authorization:
                headers["Authorization"] = credential.authorization
            self._headers[key] = headers
        return headers


def cause(error: Exception) -> str:
    """Why there is no response, in a few words. Not the words of the library, which may contain the
    password of a proxy."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            said = f"the server's certificate is not accepted: {error.certificate_error}"
        case aiohttp.ClientProxyConnectionError():
            said = f"cannot connect to the proxy: {_reason(error.os_error)}"
        case aiohttp.ClientConnectorError():
            said = f"cannot connect to {error.host}:{error.port}: {_reason(error.os_error)}"
        case aiohttp.ClientHttpProxyError():
            said = f"the proxy refuses: {error.status} {error.message}"
        case aiohttp.ConnectionTimeoutError():
            said = "cannot connect: timed out"
        case TimeoutError():
            said = "timed out"
        case aiohttp.ServerDisconnectedError():
            said = "the server closed the connection"
        case aiohttp.ClientPayloadError():
            said = "the connection was lost in the middle"
        case OSError():
            said = _reason(error)
        case _:
            said = type(error).__name__
    return said


def _reason(error: OSError) -> str:
    # The text of the system for the error number; the numbers of these two types are not errno.
    if error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def _may_be_sent(error: Exception) -> bool:
    return not isinstance(
        error,
        aiohttp.ClientConnectorError
        | aiohttp.ConnectionTimeoutError
        | aiohttp.ClientHttpProxyError
        | aiohttp.InvalidURL,
    )
