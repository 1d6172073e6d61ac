"""One request out, the head of one answer in, over connections that are kept.

Everything that is particular to the HTTP library is here: its session, its settings, its errors.
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

from afflux.kube.api.connection import Connection
from afflux.kube.api.credentials import Credential
from afflux.kube.api.errors import CredentialError, UnreachableError
from afflux.kube.api.tls import Tls
from afflux.model.errors import InputError

# What the library raises when an answer does not come, or not to its end.
FAILURES = (aiohttp.ClientError, TimeoutError, OSError)

CONNECT_SECONDS = 10.0
# API servers close a connection that was idle for 90 seconds. We are first, so that no request
# leaves on a connection that is being closed.
_KEEP_SECONDS = 60.0
_READ_BYTES = 1 << 18
# Longer than it takes to notice that a socket of one's own was shut.
_HANG_UP_SECONDS = 1.0
_LOOK_SECONDS = 0.001
# A socket that notices within a minute or so that the other end has vanished.
_SOCKET_OPTIONS = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    # In milliseconds: how long sent data may stay unconfirmed.
    ("TCP_USER_TIMEOUT", 30_000),
)


class Patience(msgspec.Struct, frozen=True, gc=False):
    """How long a request may take: the whole of it, and its parts as the library knows them.

    The whole is not left to the library. It takes a cancellation by somebody else that comes at the
    same moment for its own: whoever cancelled would wait for ever.
    """

    whole_seconds: float | None
    parts: aiohttp.ClientTimeout


def within(seconds: float) -> Patience:
    """The time a request has from leaving the queue to the end of its answer.

    Connecting ends before the whole does, so that it is known that nothing was sent.
    """
    connect_seconds = min(CONNECT_SECONDS, seconds * 0.8)
    return Patience(seconds, aiohttp.ClientTimeout(connect=connect_seconds))


def without_end(silence_seconds: float) -> Patience:
    """Any time, if only something is heard now and then."""
    parts = aiohttp.ClientTimeout(connect=CONNECT_SECONDS, sock_read=silence_seconds)
    return Patience(None, parts)


class Request(msgspec.Struct, frozen=True, gc=False):
    """What is asked of the server; its text is its name in messages."""

    method: str
    path: str
    query: str
    patience: Patience
    body: bytes | None = None
    content_type: str = ""
    compressed: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    """The connections to one server. Use it in one event loop."""

    def __init__(self, connection: Connection, user_agent: str) -> None:
        self._connection = connection
        self._server = connection.server.rstrip("/")
        self._user_agent = user_agent
        self._tls = Tls(connection) if self._server.startswith("https://") else None
        if self._tls is not None:
            # Certificates that cannot be used are found now, not at the first request.
            self._tls.context(Credential())
        self._proxy = URL(connection.proxy_url) if connection.proxy_url else None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._sockets = WeakSet[socket.socket]()
        # Headers by content type and compression, as long as the credential is the same.
        self._sent_with: Credential | None = None
        self._headers: dict[tuple[str, bool], CIMultiDict[str]] = {}

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            await self._hang_up()

    async def answer(self, request: Request) -> aiohttp.ClientResponse:
        """The head of an answer, whatever it says. After a 401 a newer credential is tried."""
        credentials = self._connection.credentials
        credential = await credentials.current()
        response = await self._exchange(request, credential)
        if response.status != 401:
            return response
        credentials.refused(credential)
        try:
            newer = await credentials.current()
        except UnreachableError:
            # The refusal is the news, not that there is nothing better to try.
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
                headers=self._sent_headers(request, credential),
                allow_redirects=False,
                ssl=context,
                server_hostname=self._connection.tls_server_name or None,
                proxy=self._proxy,
                timeout=request.patience.parts,
            )
        except FAILURES as error:
            raise UnreachableError(f"{request}: {cause(error)}", sent=_may_be_sent(error)) from None

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("the client is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    # How many are under way is decided by the caller: watches do not count.
                    limit=0,
                    keepalive_timeout=_KEEP_SECONDS,
                    socket_factory=self._new_socket,
                ),
                # Nothing secret: a proxy is sent these too.
                headers={"User-Agent": self._user_agent},
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_READ_BYTES,
            )
        return self._session

    def _new_socket(self, address: tuple[Any, ...]) -> socket.socket:
        if self._closed:
            # Who was connecting tries the server's next address.
            raise OSError(errno.ECONNABORTED, "the client is closed")
        made = socket.socket(address[0], address[1], address[2])
        self._sockets.add(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SOCKET_OPTIONS:
            # Not every system has every one.
            if (option := getattr(socket, name, None)) is not None:
                made.setsockopt(socket.IPPROTO_TCP, option, value)
        return made

    async def _hang_up(self) -> None:
        """Shut the connections that the library no longer knows.

        A watch that was left says farewell, as TLS has it, and waits for the server to do the same.
        The loop may end before that.
        """
        for open_socket in self._open_sockets():
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
        with suppress(TimeoutError):
            async with asyncio.timeout(_HANG_UP_SECONDS):
                while self._open_sockets():
                    await asyncio.sleep(_LOOK_SECONDS)

    def _open_sockets(self) -> list[socket.socket]:
        return [each for each in self._sockets if each.fileno() >= 0]

    def _sent_headers(self, request: Request, credential: Credential) -> CIMultiDict[str]:
        if credential is not self._sent_with:
            self._headers.clear()
            self._sent_with = credential
        key = (request.content_type, request.compressed)
        headers = self._headers.get(key)
        if headers is None:
            headers = CIMultiDict[str](self._connection.headers)
            headers["Accept"] = "application/json"
            headers["Accept-Encoding"] = "gzip" if request.compressed else "identity"
            if request.content_type:
                headers["Content-Type"] = request.content_type
            if credential.authorization:
                headers["Authorization"] = credential.authorization
            self._headers[key] = headers
        return headers


def cause(error: Exception) -> str:
    """Why there is no answer, in a few words.

    Not in the library's: those may hold a proxy's password.
    """
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
    # The system's own words, not those of who called it; except where the number is of another
    # kind.
    if error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def _may_be_sent(error: Exception) -> bool:
    """Whether the request may have left before this happened."""
    return not isinstance(
        error,
        aiohttp.ClientConnectorError
        | aiohttp.ConnectionTimeoutError
        | aiohttp.ClientHttpProxyError
        | aiohttp.InvalidURL,
    )
