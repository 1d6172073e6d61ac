"""Errors of requests: the server answered with an error, or there was no answer.

After most ApiErrors the request had no effect. After an ApiError that `may_have_happened`, or an
UnreachableError that was `sent`, the effect is unknown until the object has been read back.
"""

from collections.abc import Mapping

import msgspec

_MAX_MESSAGE_LENGTH = 1000


class ApiError(Exception):
    """An answer of the server other than 2xx.

    `reason` is the API's word for it (`AlreadyExists`), `message` its sentence for people,
    `retry_after_seconds` its Retry-After if there was one.
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
        """The object exists already, or has changed since it was read."""
        return self.status == 409

    @property
    def is_not_found(self) -> bool:
        """There is no such object, or no such kind."""
        return self.status == 404

    @property
    def is_gone(self) -> bool:
        """The resource version or the continue token is too old: list again."""
        return self.status == 410

    @property
    def is_refused(self) -> bool:
        """Unauthorized or forbidden."""
        return self.status in {401, 403}

    @property
    def is_busy(self) -> bool:
        """The server is overloaded or not available now: try again later."""
        if self.status in {429, 503}:
            return True
        return self.status in {500, 502, 504} and self.retry_after_seconds is not None

    @property
    def is_temporary(self) -> bool:
        """An error of the server, or of something behind it, that a retry may not meet again."""
        return self.status >= 500 or self.is_busy

    @property
    def may_have_happened(self) -> bool:
        """The server or a proxy gave up before the end: whether it had its effect is unknown."""
        return self.status in {408, 500, 502, 504}

    @property
    def may_be_under_way(self) -> bool:
        """A proxy or a timeout answered early: the request may have its effect later."""
        return self.status in {408, 502, 504}


class UnreachableError(Exception):
    """No answer, or an incomplete one.

    `sent`: the request may have reached the server, so that its effect is unknown.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(message)


class CredentialError(UnreachableError):
    """There is no usable credential, so that nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: float | None = None


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The Status object with which the API answers a failed request."""

    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: _Details | None = None


_status = msgspec.json.Decoder(Status)


def api_error(
    request: str, status: int, phrase: str, headers: Mapping[str, str], body: bytes
) -> ApiError:
    """The error for an answer other than 2xx, also if its body is not from the API server."""
    retry_after_seconds = _whole_seconds(headers.get("Retry-After"))
    try:
        said = _status.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # Not from the API server: a proxy, a load balancer or an authentication page.
        text = " ".join(body[:_MAX_MESSAGE_LENGTH].decode(errors="replace").split())
        reason, message = phrase or "Error", text or phrase
        return ApiError(status, reason, message, retry_after_seconds, request=request)
    if retry_after_seconds is None and said.details is not None:
        retry_after_seconds = said.details.retry_after_seconds
    reason = said.reason or phrase or "Error"
    message = (said.message or reason)[:_MAX_MESSAGE_LENGTH]
    return ApiError(status, reason, message, retry_after_seconds, request=request)


def watch_error(request: str, body: bytes) -> ApiError:
    """The error for the object of an ERROR event."""
    try:
        said = _status.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        said = Status()
    return api_error(request, said.code or 500, said.reason or "Error", {}, body)


def _whole_seconds(written: str | None) -> float | None:
    """Retry-After in seconds. Its other form, a date, is never sent by an API server."""
    if written is None or not written.isascii() or not written.isdigit():
        return None
    return float(written[:9])
