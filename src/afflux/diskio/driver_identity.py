"""Which driver sends a report: checked before the report is read.

Either all drivers have one token in a file, or the API server reviews the token of each: it must
be of the expected service account and for the audience of the aggregator, so that it is good for
nothing else. If such a token is bound to a node, as those of pods are, its driver reports only for
that node.
"""

import hmac
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from afflux.kube.api.credentials import read_token
from afflux.kube.api.errors import CredentialError
from afflux.kube.live.access_review import AccessReviews
from afflux.web.answer_cache import AnswerCache
from afflux.web.authentication import CACHE_TTL_SECONDS, ReviewError, User

AUDIENCE = "afflux-disk-io"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_MAX_CACHE_ENTRIES = 32_768


class RefusedError(Exception):
    """The sender is not a driver; the message says why. `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class DriverIdentity(Protocol):
    async def node_of(self, token: str) -> str | None:
        """The node for which the sender may report, None for any; a RefusedError if for none."""
        ...


class SharedToken:
    """One token for all drivers. The file is read for every check: it may be replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        read_token(path)

    async def node_of(self, token: str) -> None:
        """Any node, with the right token."""
        try:
            expected = read_token(self._path)
        except CredentialError as error:
            raise RefusedError(503, str(error)) from None
        if not hmac.compare_digest(_as_bytes(token), expected.encode()):
            raise RefusedError(401, "not the token of the drivers")


class ReviewedToken:
    """Tokens of one service account, system:serviceaccount:NAMESPACE:NAME."""

    def __init__(self, reviews: AccessReviews, account: str, clock: Callable[[], float]) -> None:
        self._reviews = reviews
        self._account = account
        # By digests, so that tokens are not kept.
        self._users = AnswerCache[bytes, User | None](CACHE_TTL_SECONDS, _MAX_CACHE_ENTRIES, clock)

    async def node_of(self, token: str) -> str | None:
        """The node to which the token is bound, if it is to one."""
        digest = sha256(_as_bytes(token)).digest()
        try:
            user = await self._users.get(digest, lambda: self._reviews.review_token(token))
        except ReviewError as error:
            raise RefusedError(503, str(error)) from None
        if user is None:
            raise RefusedError(401, f"the token is not valid for the audience {AUDIENCE}")
        if user.name != self._account:
            raise RefusedError(403, f"user {user.name!r:.200}, expected {self._account}")
        nodes = dict(user.extra).get(_NODE_NAME, ())
        return nodes[0] if nodes else None


def _as_bytes(token: str) -> bytes:
    # Headers may contain anything.
    return token.encode(errors="surrogateescape")
