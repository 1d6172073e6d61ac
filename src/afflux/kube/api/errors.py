"""What can go wrong with a request: the server said no, or it did not say anything.

The difference decides what may be done next. After most refusals the request had no effect. After
an UnreachableError that was `sent`, or an ApiError that `may_have_happened`, nobody knows until the
object has been read back.
"""

from collections.abc import Mapping

import msgspec

_LONGEST_MESSAGE = 1000


class ApiError(Exception):
    """The server answered, and said no.

    `reason` is the API's one word (`AlreadyExists`), `message` its sentence for people. If the
    server asked for patience, `retry_after_seconds` says how much.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after_seconds: float | None = None,
        *,
        request: str = "",
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        self.request = request
        about = f"{request}: " if request else ""
        words = reason if message == reason else f"{reason}: {message}"
        super().__init__(f"{about}{status} {words}")

    @property
    def is_conflict(self) -> bool:
        """Somebody else was first: it exists already, or has changed since it was read."""
        return self.status == 409

    @property
    def is_missing(self) -> bool:
        """There is no such object, or no such kind of object."""
        return self.status == 404

    @property
    def is_gone(self) -> bool:
        """The resource version or the continue token is too old: list again."""
        return self.status == 410

    @property
    def is_refused(self) -> bool:
        """The server does not know us, or does not let us."""
        return self.status in {401, 403}

    @property
    def is_busy(self) -> bool:
        """The server could not do it now and may be able to later."""
        if self.status in {429, 503}:
            return True
        return self.status in {500, 502, 504} and self.retry_after_seconds is not None

    @property
    def may_pass(self) -> bool:
        """The fault is the server's, or of something behind it: later it may say something else."""
        return self.status >= 500 or self.is_busy

    @property
    def may_have_happened(self) -> bool:
        """The server, or something before it, gave up in the middle: the effect is unknown."""
        return self.status in {408, 500, 502, 504}

    @property
    def may_be_under_way(self) -> bool:
        """Whoever answered did not wait for the end: it may have its effect later."""
        return self.status in {408, 502, 504}


class UnreachableError(Exception):
    """No answer, or not to the end of it.

    `sent` says whether the request may have reached the server: if so, whether it had its effect
    is unknown.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(message)


class CredentialError(UnreachableError):
    """We could not say who we are, so nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: float | None = None


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The API's own form of a refusal."""

    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: _Details | None = None


_status = msgspec.json.Decoder(Status)


def refusal(
    request: str, status: int, phrase: str, headers: Mapping[str, str], body: bytes
) -> ApiError:
    """The error that an answer other than 2xx stands for, whoever wrote its body."""
    patience = _whole_seconds(headers.get("Retry-After"))
    try:
        said = _status.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # Not from the API server itself: a proxy, a load balancer, an authentication page.
        text = " ".join(body[:_LONGEST_MESSAGE].decode(errors="replace").split())
        return ApiError(status, phrase or "Error", text or phrase, patience, request=request)
    if patience is None and said.details is not None:
        patience = said.details.retry_after_seconds
    reason = said.reason or phrase or "Error"
    message = (said.message or reason)[:_LONGEST_MESSAGE]
    return ApiError(status, reason, message, patience, request=request)


def refusal_in_watch(request: str, body: bytes) -> ApiError:
    """The error that an ERROR event's object stands for."""
    try:
        said = _status.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        said = Status()
    return refusal(request, said.code or 500, said.reason or "Error", {}, body)


def _whole_seconds(written: str | None) -> float | None:
    """Retry-After in seconds. Its other form, a date, is never sent by an API server."""
    if written is None or not written.isascii() or not written.isdigit():
        return None
    return float(written[:9])
