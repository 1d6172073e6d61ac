"""Who asks, and whether they may: as kube-scheduler's own secure port finds out.

A bearer token is shown to the API server, which says whose it is; a client certificate was signed
by the cluster's authority, or there would be no connection. Whether that user may look is again the
API server's word. Its answers hold for ten seconds, as in every component that delegates. Not here:
how the API server is asked, which is the reviewer's part, nor what is shown.

Anybody may show a token that is nobody's. So few are asked about at a time, fewer of one address,
and not for long. A token that the API server has accepted within the hour is known: it is reviewed
as often as others, but it does not queue with them, and what is remembered of them cannot push it
out. So a stranger cannot keep those out who are known.
"""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Literal, Protocol, cast

import msgspec
from aiohttp import web

from afflux.cycle.inspection import API_GROUP, RESOURCE
from afflux.web.remembering import Lately, Remembering

REMEMBERED_SECONDS = 10.0
MOST_REMEMBERED = 4096
# For so long a token that was accepted is not a stranger's.
KNOWN_SECONDS = 3600.0

# Tokens that are being asked about: of everybody, of one address, and for how long.
MOST_STRANGERS = 16
MOST_STRANGERS_OF_ONE = 4
PATIENCE_SECONDS = 3.0

# Everybody who could be told from everybody else; API servers add it to all of them.
AUTHENTICATED = "system:authenticated"

Verb = Literal["get", "list"]


class User(msgspec.Struct, frozen=True):
    """Somebody, as the API server knows them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Access(msgspec.Struct, frozen=True):
    """To look at the groups of a namespace, or of all of them if it is empty; at one by name."""

    verb: Verb
    namespace: str
    name: str = ""


class Reviewer(Protocol):
    """The API server, asked about others. A ReviewError if it does not say."""

    async def user_of(self, token: str) -> User | None:
        """Whose token this is; None if nobody's."""
        ...

    async def may(self, user: User, access: Access) -> bool:
        """Whether they are allowed to."""
        ...


class ReviewError(Exception):
    """The API server could not be asked; the message says why, and what to do."""


class RefusalError(Exception):
    """No: an HTTP status, the API's one word for it, and a sentence that says what to do."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


class Gate:
    """Lets those in who may look."""

    def __init__(
        self,
        reviewer: Reviewer,
        clock: Callable[[], float] = time.monotonic,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._reviewer = reviewer
        self._patience_seconds = patience_seconds
        # How many tokens are being asked about, by the address from which they came.
        self._strangers = Counter[str]()
        # By the digests of tokens, which are not kept themselves: those that are known, whose they
        # are, and what was said of the others.
        self._known = Lately[bytes](KNOWN_SECONDS, MOST_REMEMBERED, clock)
        self._users = Remembering[bytes, User](REMEMBERED_SECONDS, MOST_REMEMBERED, clock)
        self._others = Remembering[bytes, User | None](REMEMBERED_SECONDS, MOST_REMEMBERED, clock)
        self._rights = Remembering[tuple[User, Access], bool](
            REMEMBERED_SECONDS, MOST_REMEMBERED, clock
        )

    async def authenticate(self, request: web.Request) -> User:
        """Who asks; a RefusalError if nobody knows."""
        if _shown(request, "ssl_object") is None:
            # What came in the clear may have been read, or written, by anybody on the way.
            raise RefusalError(
                403,
                "Forbidden",
                "this is answered over TLS only; expected https, for which serving.certFile and"
                " serving.keyFile of the configuration have to be set",
            )
        if any(name.lower().startswith("impersonate-") for name in request.headers):
            raise RefusalError(
                400,
                "BadRequest",
                "Impersonate-User: nobody can be impersonated here; expected your own credentials",
            )
        user = _owner(cast("Mapping[str, object] | None", _shown(request, "peercert")))
        return user or await self._bearer(
            request.headers.getall("Authorization", []), request.remote or ""
        )

    async def authorize(self, user: User, access: Access) -> None:
        """A RefusalError unless they may."""

        async def review() -> bool:
            return await self._reviewer.may(user, access)

        if not await self._rights.answer((user, access), review):
            raise RefusalError(403, "Forbidden", _forbidden(user, access))

    async def _bearer(self, headers: Sequence[str], address: str) -> User:
        if not headers:
            raise _unauthorized("no credentials")
        scheme, _, token = headers[0].partition(" ")
        token = token.strip()
        if len(headers) > 1 or scheme.lower() != "bearer" or not token:
            raise _unauthorized("not a bearer token")
        digest = sha256(token.encode(errors="surrogateescape")).digest()
        if digest in self._known:
            return await self._users.answer(digest, lambda: self._review_known(digest, token))
        user = await self._others.answer(
            digest, lambda: self._review_stranger(digest, token, address)
        )
        if user is None:
            raise _nobodys()
        return user

    async def _review_known(self, digest: bytes, token: str) -> User:
        user = await self._review(token)
        if user is None:
            self._known.forget(digest)
            raise _nobodys()
        self._known.saw(digest)
        return user

    async def _review_stranger(self, digest: bytes, token: str, address: str) -> User | None:
        with self._stranger(address):
            user = await self._review(token)
        if user is not None:
            self._known.saw(digest)
            self._users.learn(digest, user)
        return user

    async def _review(self, token: str) -> User | None:
        try:
            async with asyncio.timeout(self._patience_seconds):
                return await self._reviewer.user_of(token)
        except TimeoutError:
            raise ReviewError(
                f"the API server has not said within {self._patience_seconds:g} s whose token"
                " this is; ask again"
            ) from None

    @contextmanager
    def _stranger(self, address: str) -> Generator[None]:
        if (
            self._strangers.total() >= MOST_STRANGERS
            or self._strangers[address] >= MOST_STRANGERS_OF_ONE
        ):
            raise RefusalError(429, "TooManyRequests", "too many new tokens at once; ask again")
        self._strangers[address] += 1
        try:
            yield
        finally:
            self._strangers[address] -= 1
            # What is empty must not pile up.
            self._strangers += Counter()


def shows_certificate(request: web.Request) -> bool:
    """Whether the connection was made by somebody with a certificate."""
    return bool(_shown(request, "peercert"))


def _shown(request: web.Request, what: str) -> object:
    transport = request.transport
    return None if transport is None else transport.get_extra_info(what)


def _owner(certificate: Mapping[str, object] | None) -> User | None:
    """Whose certificate this is: the common name is the user, the organisations are the groups.

    The library has checked who signed it, for what and until when. The last is looked at again:
    a connection may be older than this request.
    """
    if not certificate:
        return None
    ends = str(certificate.get("notAfter", ""))
    if not ends or ssl.cert_time_to_seconds(ends) < time.time():
        raise _unauthorized("the client certificate has expired")
    parts = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate.get("subject", ()))
    named = [pair for part in parts for pair in part]
    names = [value for field, value in named if field == "commonName"]
    if not names or not names[-1]:
        return None
    groups = [value for field, value in named if field == "organizationName"]
    # Of several names the last counts, as it does for API servers.
    return User(names[-1], groups=(*groups, AUTHENTICATED))


def _nobodys() -> RefusalError:
    return _unauthorized("the API server does not accept this token")


def _unauthorized(problem: str) -> RefusalError:
    return RefusalError(
        401,
        "Unauthorized",
        f"{problem}; expected a token that the API server accepts, as 'Authorization: Bearer"
        " TOKEN', or a certificate that the cluster's authority for clients has signed",
    )


def _forbidden(user: User, access: Access) -> str:
    what = f"{access.verb} {RESOURCE}.{API_GROUP}"
    if access.namespace:
        return (
            f"user {user.name!r:.200} may not {what} in namespace {access.namespace!r};"
            " expected a RoleBinding there to a role with that right, such as the ClusterRole"
            " `view` or that of the chart"
        )
    return (
        f"user {user.name!r:.200} may not {what} in all namespaces; expected a ClusterRoleBinding"
        " to a role with that right, or a question about one namespace (-n)"
    )
