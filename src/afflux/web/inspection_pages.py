"""The inspection service: who waits, why and until when, for those who may know.

    GET /apis/inspect.afflux.dev/v1alpha1/queue                                 and reservations,
    GET /apis/inspect.afflux.dev/v1alpha1/namespaces/NAMESPACE/queue            history
    GET /apis/inspect.afflux.dev/v1alpha1/namespaces/NAMESPACE/groups/NAME

Answers and refusals are JSON in the API's own forms; `authenticating` decides who is let in. An
answer is remembered for a second, has a bounded number of lines and takes a bounded time; more
questions than can be answered at once are sent away, not piled up; who is not let in is none of
them. Not here: where the answers come from, and the TLS below.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager

import msgspec
from aiohttp import web

from afflux.cycle.inspection import (
    MOST_LINES,
    ROOT,
    USUAL_LINES,
    Answer,
    Asked,
    GroupDetails,
    Inspection,
    InspectionError,
)
from afflux.cycle.phases import NOT_RUNNING, PRESENT, Phase
from afflux.model.errors import InputError
from afflux.web.authenticating import (
    Access,
    Gate,
    RefusalError,
    ReviewError,
    User,
    shows_certificate,
)
from afflux.web.remembering import Remembering
from afflux.web.seldom import Seldom

REMEMBERED_SECONDS = 1.0
MOST_REMEMBERED = 32
# Under way at the same time; whoever comes then is asked to come again.
MOST_AT_ONCE = 32
PATIENCE_SECONDS = 10.0
# Smaller answers are not worth compressing.
_COMPRESSED_BYTES = 4096

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
# A group's name is a pod's, or a label's value.
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
_LONGEST_TOKEN = 2048
_JSON = "application/json"
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}

_log = logging.getLogger(__name__)

_Question = Callable[[], Awaitable[Answer]]


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    """A refusal as the API has it."""

    kind: str
    api_version: str
    metadata: dict[str, str]
    status: str
    message: str
    reason: str
    code: int


class Inspecting:
    """The pages of the service."""

    def __init__(
        self, inspection: Inspection, gate: Gate, *, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._inspection = inspection
        self._gate = gate
        self._patience_seconds = patience_seconds
        self._answers = Remembering[object, bytes](REMEMBERED_SECONDS, MOST_REMEMBERED)
        self._under_way = 0
        self._log = Seldom(_log)

    def add_to(self, app: web.Application) -> None:
        """Have them answered; whatever else is under /apis/ is refused in the same form."""
        for what in ("queue", "reservations", "history"):
            for path in (f"{ROOT}/{what}", f"{ROOT}/namespaces/{{namespace}}/{what}"):
                app.router.add_get(path, self._kindly(self._list, what))
        path = f"{ROOT}/namespaces/{{namespace}}/groups/{{name}}"
        app.router.add_get(path, self._kindly(self._group, "groups"))
        app.router.add_route("*", "/apis{rest:(/.*)?}", self._kindly(self._nothing, ""))

    def _kindly(
        self, handler: Callable[[web.Request, str, User], Awaitable[bytes]], what: str
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Every answer in time and in form, every failure too."""

        async def handle(request: web.Request) -> web.Response:
            response = await in_time(request)
            if shows_certificate(request):
                # It was looked at when the connection was made: the next question makes a new one.
                response.force_close()
            return response

        async def in_time(request: web.Request) -> web.Response:
            try:
                user = await self._gate.authenticate(request)
                with self._slot():
                    async with asyncio.timeout(self._patience_seconds):
                        return _answered(await handler(request, what, user))
            except Exception as error:
                return self._failed(request, error)

        return handle

    @contextmanager
    def _slot(self) -> Generator[None]:
        """For those who are known by name."""
        if self._under_way >= MOST_AT_ONCE:
            raise RefusalError(429, "TooManyRequests", "too many questions at once; ask again")
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

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
                within = f"{self._patience_seconds:g} s"
                message = f"not answered within {within}; ask again, for less"
                return _refused(504, "Timeout", message)
            case _:
                self._log.error("%.200s", request.raw_path, exc_info=error)
                return _refused(500, "InternalError", "the scheduler's log has the reason")

    async def _list(self, request: web.Request, what: str, user: User) -> bytes:
        asked = _asked(request, what)
        await self._gate.authorize(user, Access("list", asked.namespace or ""))
        ask = {
            "queue": self._inspection.queue,
            "reservations": self._inspection.reservations,
            "history": self._inspection.history,
        }[what]
        return await self._remembered((what, asked), lambda: ask(asked))

    async def _group(self, request: web.Request, _: str, user: User) -> bytes:
        namespace, name = _namespace(request), request.match_info["name"]
        _checked(request.query, ())
        if not _NAME.fullmatch(name):
            raise InputError(f"name: {name!r:.80}, expected a group's name")
        # Whether there is such a group is only for those to know who may see it.
        await self._gate.authorize(user, Access("get", namespace, name))

        async def details() -> GroupDetails:
            found = await self._inspection.group(namespace, name)
            if found is None:
                raise RefusalError(
                    404, "NotFound", f"there is no group {name!r} in namespace {namespace!r}"
                )
            return found

        return await self._remembered(("groups", namespace, name), details)

    async def _nothing(self, request: web.Request, _: str, __: User) -> bytes:
        if request.method not in {"GET", "HEAD"}:
            message = f"{request.method:.20}, expected GET: nothing is changed here"
            raise RefusalError(405, "MethodNotAllowed", message)
        raise RefusalError(
            404,
            "NotFound",
            f"{request.path:.200}: no such page, expected {ROOT} with /queue, /reservations or"
            " /history, alone or after /namespaces/NAMESPACE, or /namespaces/NAMESPACE/groups/NAME",
        )

    async def _remembered(self, key: object, ask: _Question) -> bytes:
        async def encoded() -> bytes:
            # Whoever asked may have given up by then: what nobody waits for must not pile up.
            async with asyncio.timeout(self._patience_seconds):
                return msgspec.json.encode(await ask())

        return await self._answers.answer(key, encoded)


def _asked(request: web.Request, what: str) -> Asked:
    """What the path and the query say; an InputError that names the parameter."""
    query = request.query
    states = ("state",) if what == "queue" else ()
    _checked(query, ("limit", "continue", "queue", *states))
    namespace = _namespace(request) if "namespace" in request.match_info else None
    queue, resume = query.get("queue", ""), query.get("continue", "")
    if queue and not _NAME.fullmatch(queue):
        raise InputError(f"queue: {queue!r:.80}, expected a queue's name")
    if len(resume) > _LONGEST_TOKEN:
        raise InputError("continue: too long, expected what the page before has in its metadata")
    return Asked(
        namespace=namespace,
        queue=queue,
        states=_states(query["state"]) if "state" in query else NOT_RUNNING,
        limit=_limit(query.get("limit", str(USUAL_LINES))),
        resume=resume,
    )


def _namespace(request: web.Request) -> str:
    namespace = request.match_info["namespace"]
    if not _LABEL.fullmatch(namespace):
        raise InputError(f"namespace: {namespace!r:.80}, expected a namespace's name")
    return namespace


def _checked(query: Mapping[str, str], known: tuple[str, ...]) -> None:
    for name in query:
        if name not in known:
            expected = ", ".join(known) or "none"
            raise InputError(f"{name!r:.80}: no such parameter, expected one of: {expected}")


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= MOST_LINES:
        return int(text)
    raise InputError(f"limit: {text!r:.80}, expected a whole number from 1 to {MOST_LINES}")


def _states(text: str) -> tuple[Phase, ...]:
    """The states in this list, in one order however they were written: the cache compares them."""
    written = text.split(",")
    for state in written:
        if state not in PRESENT:
            expected = ", ".join(PRESENT)
            raise InputError(f"state: {state!r:.80}, expected some of: {expected}")
    return tuple(state for state in PRESENT if state in written)


def _answered(body: bytes) -> web.Response:
    response = web.Response(body=body, content_type=_JSON, headers=_HEADERS)
    if len(body) > _COMPRESSED_BYTES:
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
