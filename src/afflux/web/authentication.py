"""Delegated authentication and authorisation, as on kube-scheduler's secure port.

The API server reviews bearer tokens; a client certificate was checked against the cluster's
authority by TLS. The API server also decides whether the user has access. Its answers are cached
for ten seconds, as in every component that delegates. Not here: the requests to the API server,
which are the reviewer's part, and what is shown.

Requests with invalid tokens cost a review each. Therefore reviews of unknown tokens are limited in
number, in total and per address, and in time. A token that was accepted within the last hour is
known: it is reviewed as often as others, but in a cache of its own and without that limit, so that
unknown tokens cannot lock out known users.
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

from afflux.cycle.inspection_types import API_GROUP, RESOURCE
from afflux.web.answer_cache import AnswerCache, RecentlySeen

CACHE_TTL_SECONDS = 10.0
MAX_CACHE_ENTRIES = 4096
# An accepted token counts as known for this time.
KNOWN_TTL_SECONDS = 3600.0

# Reviews of unknown tokens under way: in total and per address; and the timeout of each.
MAX_UNKNOWN = 16
MAX_UNKNOWN_PER_ADDRESS = 4
REVIEW_TIMEOUT_SECONDS = 3.0

# API servers add this group to every authenticated user.
AUTHENTICATED = "system:authenticated"

Verb = Literal["get", "list"]


class User(msgspec.Struct, frozen=True):
    """A user as the API server knows it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Access(msgspec.Struct, frozen=True):
    """Read access to the groups of a namespace, of all if it is empty, or to one group by name."""

    verb: Verb
    namespace: str
    name: str = ""


class Reviewer(Protocol):
    """Reviews by the API server. Raise a ReviewError if it does not answer."""

    async def review_token(self, token: str) -> User | None:
        """The user of this token, None if it is invalid."""
        ...

    async def review_access(self, user: User, access: Access) -> bool:
        """Whether the user has this access."""
        ...


class ReviewError(Exception):
    """The API server did not answer; the message says why, and what to do."""


class RefusalError(Exception):
    """The request is refused: HTTP status, reason as in the Kubernetes API, and a message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


class Authenticator:
    """Authenticates requests and authorises users."""

    def __init__(
        self,
        reviewer: Reviewer,
        clock: Callable[[], float] = time.monotonic,
        *,
        review_timeout_seconds: float = REVIEW_TIMEOUT_SECONDS,
        max_cache_entries: int = MAX_CACHE_ENTRIES,
    ) -> None:
        self._reviewer = reviewer
        self._review_timeout_seconds = review_timeout_seconds
        # Reviews of unknown tokens under way, by client address.
        self._unknown = Counter[str]()
        # By digests of tokens, which are not stored: known tokens, their users, and the answers
        # about unknown ones.
        ttl, size = CACHE_TTL_SECONDS, max_cache_entries
        self._known = RecentlySeen[bytes](KNOWN_TTL_SECONDS, size, clock)
        self._users = AnswerCache[bytes, User](ttl, size, clock)
        self._unknown_users = AnswerCache[bytes, User | None](ttl, size, clock)
        self._access = AnswerCache[tuple[User, Access], bool](ttl, size, clock)

    async def authenticate(self, request: web.Request) -> User:
        """The user of the request; a RefusalError if there is none."""
        if _extra_info(request, "ssl_object") is None:
            # A request without TLS may have been read or changed on the way.
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
                "Impersonate-User: impersonation is not supported; expected your own credentials",
            )
        user = _certificate_user(
            cast("Mapping[str, object] | None", _extra_info(request, "peercert"))
        )
        return user or await self._bearer(
            request.headers.getall("Authorization", []), request.remote or ""
        )

    async def authorize(self, user: User, access: Access) -> None:
        """Raises a RefusalError unless the user has this access."""

        async def review() -> bool:
            return await self._reviewer.review_access(user, access)

        if not await self._access.get((user, access), review):
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
            return await self._users.get(digest, lambda: self._review_known(digest, token))
        user = await self._unknown_users.get(
            digest, lambda: self._review_unknown(digest, token, address)
        )
        if user is None:
            raise _invalid_token()
        return user

    async def _review_known(self, digest: bytes, token: str) -> User:
        user = await self._review(token)
        if user is None:
            self._known.discard(digest)
            raise _invalid_token()
        self._known.add(digest)
        return user

    async def _review_unknown(self, digest: bytes, token: str, address: str) -> User | None:
        with self._slot(address):
            user = await self._review(token)
        if user is not None:
            self._known.add(digest)
            self._users.put(digest, user)
        return user

    async def _review(self, token: str) -> User | None:
        try:
            async with asyncio.timeout(self._review_timeout_seconds):
                return await self._reviewer.review_token(token)
        except TimeoutError:
            raise ReviewError(
                f"the API server has not reviewed the token within"
                f" {self._review_timeout_seconds:g} s; try again"
            ) from None

    @contextmanager
    def _slot(self, address: str) -> Generator[None]:
        if (
            self._unknown.total() >= MAX_UNKNOWN
            or self._unknown[address] >= MAX_UNKNOWN_PER_ADDRESS
        ):
            raise RefusalError(429, "TooManyRequests", "too many new tokens at once; try again")
        self._unknown[address] += 1
        try:
            yield
        finally:
            self._unknown[address] -= 1
            # Drop addresses without reviews.
            self._unknown += Counter()


def shows_certificate(request: web.Request) -> bool:
    return bool(_extra_info(request, "peercert"))


def _extra_info(request: web.Request, what: str) -> object:
    transport = request.transport
    return None if transport is None else transport.get_extra_info(what)


def _certificate_user(certificate: Mapping[str, object] | None) -> User | None:
    """The user of a client certificate: the common name; the organisations are the groups.

    TLS has checked its signature, purpose and expiry. The expiry is checked again, because the
    connection may be older than the request.
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
    # Of several names the last counts, as in the API server.
    return User(names[-1], groups=(*groups, AUTHENTICATED))


def _invalid_token() -> RefusalError:
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
        " to a role with that right, or a query of one namespace (-n)"
    )
