"""Access review: asks the API server for the user of a token, the rights of a user, and the
certificate authorities of client certificates. For the inspection service; the chart grants the
rights for these reviews with `inspection.enabled`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from afflux.cycle.inspection_types import API_GROUP, RESOURCE
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.model.errors import InputError
from afflux.web.authentication import AUTHENTICATED, Access, ReviewError, User

REVIEW_TIMEOUT_SECONDS = 5.0
AUTHORITIES_INTERVAL_SECONDS = 60.0

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# Every API server publishes the authorities of its client certificates here.
_AUTHORITIES = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

_log = logging.getLogger(__name__)


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User | None = None


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


_Answer = TypeVar("_Answer", _TokenReview, _AccessReview)


class AccessReviews:
    """TokenReviews and SubjectAccessReviews by the API server.

    With `audiences` a token is valid if it was issued for one of them, else for the API server.
    """

    def __init__(self, api: Api, audiences: Sequence[str] = ()) -> None:
        self._api = api
        self._audiences = tuple(audiences)

    async def review_token(self, token: str) -> User | None:
        """The user of a token, None if it is not valid. Messages never contain the token."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {
                "token": token,
                **({"audiences": self._audiences} if self._audiences else {}),
            },
        }
        status = (await self._review(_TOKENS, body, _TokenReview)).status
        user = status.user
        if not status.authenticated or user is None or not user.username:
            return None
        groups = user.groups or ()
        return User(
            user.username,
            user.uid,
            groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED),
            tuple(sorted((user.extra or {}).items())),
        )

    async def review_access(self, user: User, access: Access) -> bool:
        """Whether the API server would allow the user this access."""
        attributes = {
            "group": API_GROUP,
            "resource": RESOURCE,
            "verb": access.verb,
            "namespace": access.namespace,
            "name": access.name,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name,
                "uid": user.uid,
                "groups": user.groups,
                "extra": dict(user.extra),
                "resourceAttributes": attributes,
            },
        }
        status = (await self._review(_ACCESS, body, _AccessReview)).status
        return status.allowed and not status.denied

    async def _review(self, path: str, body: object, answer: type[_Answer]) -> _Answer:
        try:
            return await self._api.send(
                "POST", path, body, answer=answer, timeout_seconds=REVIEW_TIMEOUT_SECONDS
            )
        except ApiError as error:
            if error.is_refused:
                raise ReviewError(
                    "afflux itself may not ask the API server who you are and what you may do;"
                    " expected create on tokenreviews and subjectaccessreviews for its account,"
                    " which the chart grants with inspection.enabled"
                ) from None
            raise ReviewError(f"the API server did not say who you are: {error.reason}") from None
        except UnreachableError as error:
            _log.debug("no review: %s", error)
            raise ReviewError("the API server cannot be asked who you are; ask again") from None


async def follow_authorities(api: Api, trust: Callable[[bytes], None]) -> None:
    """Call `trust` regularly with the authorities whose client certificates the API server accepts.
    While they cannot be read, those that were read last stay valid."""
    logged = ""
    while True:
        try:
            found = await api.get(_AUTHORITIES, _ConfigMap)
            trust((found.data or {}).get("client-ca-file", "").encode())
            complaint = ""
        except (ApiError, UnreachableError, InputError) as error:
            complaint = str(error)
        if complaint and complaint != logged:
            _log.warning(
                "the authorities of client certificates for the inspection service cannot be read;"
                " tokens still work: %s",
                complaint,
            )
        logged = complaint
        await asyncio.sleep(AUTHORITIES_INTERVAL_SECONDS)
