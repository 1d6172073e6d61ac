"""Who we are: tokens and passwords, fixed or in files that are replaced under us.

A source of credentials is asked before every request, so `current` has to be quick when nothing
has changed, and is told when the server did not accept what it gave.
"""

import time
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from afflux.kube.api.errors import CredentialError

# The kubelet replaces a token when a fifth of its life is left, at least two minutes.
REREAD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Credential:
    """What a request is sent with. Two of the same content are still two: identity counts."""

    authorization: str = field(default="", repr=False)
    client_certificate: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)


class Credentials(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """What to send now; a CredentialError if there is nothing."""
        ...

    def refused(self, credential: Credential) -> None:
        """The server answered 401 to a request with this credential."""
        ...


class Fixed:
    """A credential that never changes."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        """Always the same."""
        return self._credential

    def refused(self, credential: Credential) -> None:
        """There is no other."""


ANONYMOUS = Fixed(Credential())


def bearer(token: str) -> Credential:
    """A token as it is sent."""
    return Credential(authorization=f"Bearer {token}")


def basic(username: str, password: str) -> Credential:
    """Name and password as they are sent."""
    return Credential("Basic " + b64encode(f"{username}:{password}".encode()).decode())


class TokenFile:
    """A token in a file, read again when a minute has passed or the server refused it.

    While the file cannot be read, the last token that could is used on.
    """

    def __init__(self, path: Path, fallback: str = "") -> None:
        self._path = path
        self._token = fallback
        self._credential = bearer(fallback) if fallback else None
        self._read_at = -REREAD_SECONDS

    async def current(self) -> Credential:
        """The token in the file."""
        now = time.monotonic()
        credential = self._credential
        if credential is not None and now - self._read_at < REREAD_SECONDS:
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
        """Read the file again before the next request."""
        if credential is self._credential:
            self._read_at = -REREAD_SECONDS


def read_token(path: Path) -> str:
    """The token in this file."""
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
