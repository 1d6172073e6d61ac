"""Credentials for an API server: fixed tokens and passwords, and tokens in files that change.

The client calls `current` before every request, so that it must be fast when nothing has changed.
It calls `refused` when the server answers 401.
"""

import math
import time
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from afflux.kube.api.errors import CredentialError

# The kubelet replaces a token when a fifth of its lifetime is left, at least two minutes.
REREAD_INTERVAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Credential:
    """What a request is sent with. Compared by identity, not by content."""

    authorization: str = field(default="", repr=False)
    client_certificate: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)


class Credentials(Protocol):
    async def current(self) -> Credential:
        """The credential to send; raises a CredentialError if there is none."""
        ...

    def refused(self, credential: Credential) -> None:
        """The server answered 401 to a request with this credential."""


class StaticCredentials:
    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential

    def refused(self, credential: Credential) -> None:
        """Does nothing: there is no other credential."""


ANONYMOUS = StaticCredentials(Credential())


def bearer(token: str) -> Credential:
    return Credential(authorization=f"Bearer {token}")


def basic(username: str, password: str) -> Credential:
    return Credential("Basic " + b64encode(f"{username}:{password}".encode()).decode())


class TokenFile:
    """A token in a file, read again after an interval or when the server refused it.

    While the file cannot be read, the last token that was read stays in use.
    """

    def __init__(
        self,
        path: Path,
        fallback: str = "",
        *,
        reread_interval_seconds: float = REREAD_INTERVAL_SECONDS,
    ) -> None:
        self._path = path
        self._reread_interval_seconds = reread_interval_seconds
        self._token = fallback
        self._credential = bearer(fallback) if fallback else None
        self._read_at = -math.inf

    async def current(self) -> Credential:
        now = time.monotonic()
        credential = self._credential
        if credential is not None and now - self._read_at < self._reread_interval_seconds:
            return credential
        try:
            token = read_token(self._path)
        except CredentialError:
            if credential is None:
                raise
            token = self._token
        self._read_at = now
        if credential is None or token != self._token:
            self._token, credential = token, bearer(token)
            self._credential = credential
        return credential

    def refused(self, credential: Credential) -> None:
        """Reads the file again before the next request."""
        if credential is self._credential:
            self._read_at = -math.inf


def read_token(path: Path) -> str:
    try:
        token = path.read_text(encoding="ascii").strip()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CredentialError(f"{path}: {why}; expected a file with a token") from None
    except UnicodeDecodeError:
        raise CredentialError(f"{path}: not ASCII text; expected a token") from None
    if not token:
        raise CredentialError(f"{path}: empty; expected a token")
    if not token.isprintable():
        raise CredentialError(f"{path}: more than one line; expected a token")
    return token
