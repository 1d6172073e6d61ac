"""The pages of the inspection service: queue, reservations, history and single groups.

    GET /apis/inspect.afflux.dev/v1alpha1/queue                                 and reservations,
    GET /apis/inspect.afflux.dev/v1alpha1/namespaces/NAMESPACE/queue            history
    GET /apis/inspect.afflux.dev/v1alpha1/namespaces/NAMESPACE/groups/NAME

Answers and errors are JSON in the forms of the Kubernetes API; `authentication` decides who has
access. Answers are cached for a second and bounded in length and time. Excess requests of
authenticated users are refused, not queued. Not here: where the answers come from, and TLS.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager

import msgspec
from aiohttp import web

from afflux.cycle.inspection_types import (
    DEFAULT_LINES,
    MAX_LINES,
    ROOT,
    Answer,
    GroupDetails,
    Inspection,
    InspectionError,
    ListQuery,
    is_name,
)
from afflux.groups.states import PRESENT_STATES, GroupState
from afflux.model.errors import InputError
from afflux.web.answer_cache import AnswerCache
from afflux.web.authentication import (
    Access,
    Authenticator,
    RefusalError,
    ReviewError,
    User,
    shows_certificate,
)
from afflux.web.rate_limited_log import RateLimitedLog

CACHE_TTL_SECONDS = 1.0
MAX_CACHE_ENTRIES = 32
# Requests under way; further ones get 429.
MAX_IN_FLIGHT = 32
TIMEOUT_SECONDS = 10.0
_MIN_COMPRESSED_BYTES = 4096

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_MAX_TOKEN_LENGTH = 2048
_JSON = "application/json"
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}

_log = logging.getLogger(__name__)

_Compute = Callable[[], Awaitable[Answer]]


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    """An error, as `Status` of the Kubernetes API."""

    kind: str
    api_version: str
    metadata: dict[str, str]
    status: str
    message: str
    reason: str
    code: int


class InspectionPages:
    def __init__(
        self,
        inspection: Inspection,
        authenticator: Authenticator,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._inspection = inspection
        self._authenticator = authenticator
        self._timeout_seconds = timeout_seconds
        self._answers = AnswerCache[object, bytes](CACHE_TTL_SECONDS, MAX_CACHE_ENTRIES)
        self._in_flight = 0
        self._log = RateLimitedLog(_log)

    def add_to(self, app: web.Application) -> None:
        """Add the pages to `app`; every other path under /apis/ gets an error in the same form."""
        for what in ("queue", "reservations", "history"):
            for path in (f"{ROOT}/{what}", f"{ROOT}/namespaces/{{namespace}}/{what}"):
                app.router.add_get(path, self._handled(self._list, what))
        path = f"{ROOT}/namespaces/{{namespace}}/groups/{{name}}"
        app.router.add_get(path, self._handled(self._group, "groups"))
        app.router.add_route("*", "/apis{rest:(/.*)?}", self._handled(self._not_found, ""))

    def _handled(
        self, handler: Callable[[web.Request, str, User], Awaitable[bytes]], what: str
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """A handler with authentication, limits, and errors as JSON."""

        async def handle(request: web.Request) -> web.Response:
            response = await in_time(request)
            if shows_certificate(request):
                # It was checked when the connection was made, so that each request needs a new one.
                response.force_close()
            return response

        async def in_time(request: web.Request) -> web.Response:
            try:
                user = await self._authenticator.authenticate(request)
                with self._slot():
                    async with asyncio.timeout(self._timeout_seconds):
                        return _answered(await handler(request, what, user))
            except Exception as error:
                return self._failed(request, error)

        return handle

    @contextmanager
    def _slot(self) -> Generator[None]:
        """One of the requests of authenticated users that may be under way."""
        if self._in_flight >= MAX_IN_FLIGHT:
            raise RefusalError(429, "TooManyRequests", "too many requests at once; try again")
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    def _failed(self, request: web.Request, error: Exception) -> web.Response:
        match error:
            case RefusalError():
                return _refused(error.status, error.reason, error.message)
            case InputError():
                return _refused(400, "BadRequest", str(error))
            case ReviewError() | InspectionError():
                self._log.warning("%.200s cannot be answered: %s", request.raw_path, error)
                return _refused(503, "ServiceUnavailable", str(error))
            case TimeoutError():
                within = f"{self._timeout_seconds:g} s"
                message = f"not answered within {within}; try again, with a smaller limit"
                return _refused(504, "Timeout", message)
            case _:
                self._log.error("%.200s", request.raw_path, exc_info=error)
                return _refused(500, "InternalError", "the scheduler's log has the reason")

    async def _list(self, request: web.Request, what: str, user: User) -> bytes:
        query = _list_query(request, what)
        await self._authenticator.authorize(user, Access("list", query.namespace or ""))
        ask = {
            "queue": self._inspection.queue,
            "reservations": self._inspection.reservations,
            "history": self._inspection.history,
        }[what]
        return await self._cached((what, query), lambda: ask(query))

    async def _group(self, request: web.Request, _: str, user: User) -> bytes:
        namespace, name = _namespace(request), request.match_info["name"]
        _check_names(request.query, ())
        if not is_name(name):
            raise InputError(f"name: {name!r:.80}, expected a group's name")
        # Checked first: whether a group exists is visible to authorised users only.
        await self._authenticator.authorize(user, Access("get", namespace, name))

        async def details() -> GroupDetails:
            found = await self._inspection.group(namespace, name)
            if found is None:
                raise RefusalError(
                    404, "NotFound", f"there is no group {name!r} in namespace {namespace!r}"
                )
            return found

        return await self._cached(("groups", namespace, name), details)

    async def _not_found(self, request: web.Request, _: str, __: User) -> bytes:
        if request.method not in {"GET", "HEAD"}:
            message = f"{request.method:.20}, expected GET: nothing is changed here"
            raise RefusalError(405, "MethodNotAllowed", message)
        raise RefusalError(
            404,
            "NotFound",
            f"{request.path:.200}: no such page, expected {ROOT} with /queue, /reservations or"
            " /history, alone or after /namespaces/NAMESPACE, or /namespaces/NAMESPACE/groups/NAME",
        )

    async def _cached(self, key: object, ask: _Compute) -> bytes:
        async def encoded() -> bytes:
            # Bounded even if the client has given up, so that queries do not pile up.
            async with asyncio.timeout(self._timeout_seconds):
                return msgspec.json.encode(await ask())

        return await self._answers.get(key, encoded)


def _list_query(request: web.Request, what: str) -> ListQuery:
    """The query of a list, from path and parameters; an InputError names the wrong parameter."""
    parameters = request.query
    states = ("state",) if what == "queue" else ()
    _check_names(parameters, ("limit", "continue", "queue", *states))
    namespace = _namespace(request) if "namespace" in request.match_info else None
    queue, continue_token = parameters.get("queue", ""), parameters.get("continue", "")
    if queue and not is_name(queue):
        raise InputError(f"queue: {queue!r:.80}, expected a queue's name")
    if len(continue_token) > _MAX_TOKEN_LENGTH:
        raise InputError("continue: too long, expected what the page before has in its metadata")
    return ListQuery(
        namespace=namespace,
        queue=queue,
        states=_states(parameters["state"]) if "state" in parameters else (),
        limit=_limit(parameters.get("limit", str(DEFAULT_LINES))),
        continue_token=continue_token,
    )


def _namespace(request: web.Request) -> str:
    namespace = request.match_info["namespace"]
    if not _LABEL.fullmatch(namespace):
        raise InputError(f"namespace: {namespace!r:.80}, expected a namespace's name")
    return namespace


def _check_names(query: Mapping[str, str], known: tuple[str, ...]) -> None:
    for name in query:
        if name not in known:
            expected = ", ".join(known) or "none"
            raise InputError(f"{name!r:.80}: no such parameter, expected one of: {expected}")


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= MAX_LINES:
        return int(text)
    raise InputError(f"limit: {text!r:.80}, expected a whole number from 1 to {MAX_LINES}")


def _states(text: str) -> tuple[GroupState, ...]:
    """The states in this list, in a fixed order, because they are part of a cache key."""
    given = text.split(",")
    for state in given:
        if state not in PRESENT_STATES:
            expected = ", ".join(PRESENT_STATES)
            raise InputError(f"state: {state!r:.80}, expected some of: {expected}")
    return tuple(state for state in PRESENT_STATES if state in given)


def _answered(body: bytes) -> web.Response:
    response = web.Response(body=body, content_type=_JSON, headers=_HEADERS)
    if len(body) > _MIN_COMPRESSED_BYTES:
        response.enable_compression()
    return response


def _refused(status: int, reason: str, message: str) -> web.Response:
    body = _Status("Status", "v1", {}, "Failure", message, reason, status)
    response = web.Response(
        status=status, body=msgspec.json.encode(body), content_type=_JSON, headers=_HEADERS
    )
    if status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="afflux"'
    if status == 429:
        response.headers["Retry-After"] = "1"
    return response
