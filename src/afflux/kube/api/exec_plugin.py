"""Credentials from a program: the exec plugins of client.authentication.k8s.io.

The program is told what is asked for in an environment variable and prints an ExecCredential: a
token, or a certificate with its key, and until when they are good. It is run once for everybody who
asks at the same time, and again when its credential has expired or was refused. What it has to say
to people goes to our standard error, as with kubectl; nothing it prints is in our messages.
"""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from afflux.kube.api.credentials import Credential
from afflux.kube.api.errors import CredentialError

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")

# A credential is good for so long, whatever it or the server says: a program that prints expired
# ones, or a server that refuses all, must not make us run it for every request.
_SHORTEST_LIFE_SECONDS = 1.0
# So long after a failure everybody who asks is told the same.
_FAILURE_SECONDS = 2.0
# How long an ended program may keep its output open: something it started may have escaped.
_END_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Program:
    """What to run and how."""

    origin: str
    command: str
    api_version: str
    interactive_mode: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    install_hint: str = ""
    cluster: Mapping[str, object] | None = field(default=None, repr=False)
    timeout_seconds: float = 60.0

    def error(self, problem: str) -> CredentialError:
        """What is wrong with it."""
        return CredentialError(f"{self.origin}: {self.command!r:.200}: {problem}")


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    expiration_timestamp: datetime | None = None
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


_printed = msgspec.json.Decoder(_ExecCredential)


class ExecPlugin:
    """A source of credentials that runs a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._running = asyncio.Lock()
        self._credential: Credential | None = None
        self._run_at = 0.0
        # In seconds since 1970, as the program says it; None is for ever.
        self._expires_at: float | None = None
        self._failure = ""
        self._failed_at = 0.0

    async def current(self) -> Credential:
        """The credential of the last run, or of a new one."""
        credential = self._credential
        if credential is not None and self._is_good():
            return credential
        async with self._running:
            # Somebody else may have run it while we waited.
            credential = self._credential
            if credential is not None and self._is_good():
                return credential
            if self._failure and time.monotonic() - self._failed_at < _FAILURE_SECONDS:
                raise CredentialError(self._failure)
            try:
                printed = await _run(self._program)
                credential, expires_at = _understood(self._program, printed)
            except CredentialError as error:
                self._failure, self._failed_at = str(error), time.monotonic()
                raise
            self._failure = ""
            self._credential, self._expires_at = credential, expires_at
            self._run_at = time.monotonic()
            return credential

    def refused(self, credential: Credential) -> None:
        """Run the program again before the next request."""
        if credential is self._credential:
            self._expires_at = 0.0

    def _is_good(self) -> bool:
        if self._expires_at is None or time.time() < self._expires_at:
            return True
        return time.monotonic() - self._run_at < _SHORTEST_LIFE_SECONDS


async def _run(program: Program) -> bytes:
    """What the program prints."""
    interactive = _is_interactive(program)
    spec: dict[str, object] = {"interactive": interactive}
    if program.cluster is not None:
        spec["cluster"] = program.cluster
    info = {"apiVersion": program.api_version, "kind": "ExecCredential", "spec": spec}
    told = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    try:
        process = await asyncio.create_subprocess_exec(
            program.command,
            *program.args,
            stdin=None if interactive else DEVNULL,
            stdout=PIPE,
            env={**os.environ, **program.env, **told},
            # So that what it started can be ended with it; but a terminal is for our own session.
            start_new_session=not interactive,
        )
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "cannot be run"
        hint = f"; {program.install_hint}" if program.install_hint else ""
        raise program.error(f"{why}, expected a program{hint}") from None
    try:
        async with asyncio.timeout(program.timeout_seconds):
            printed, _ = await process.communicate()
    except TimeoutError:
        problem = f"still running after {program.timeout_seconds:g} seconds, ended"
        raise program.error(problem) from None
    finally:
        if process.returncode is None:
            await _end(process, group=not interactive)
    if process.returncode != 0:
        raise program.error(f"exit code {process.returncode}, expected 0; see what it printed")
    return printed


async def _end(process: Process, *, group: bool) -> None:
    """End a program that still runs, and let the event loop notice."""
    with suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await process.communicate()


def _is_interactive(program: Program) -> bool:
    if program.interactive_mode == "Never":
        return False
    terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if program.interactive_mode == "Always" and not terminal:
        raise program.error("interactiveMode: 'Always', expected a terminal as standard input")
    return terminal


def _understood(program: Program, printed: bytes) -> tuple[Credential, float | None]:
    try:
        answer = _printed.decode(printed)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # Not in the decoder's words: it might quote what was printed.
        raise program.error("printed something else, expected an ExecCredential as JSON") from None
    if answer.kind != "ExecCredential" or answer.api_version != program.api_version:
        raise program.error(
            f"printed {answer.kind!r:.80} of {answer.api_version!r:.80}, expected ExecCredential "
            f"of {program.api_version}"
        )
    status = answer.status or _Status()
    certificate, key = status.client_certificate_data, status.client_key_data
    if bool(certificate) != bool(key):
        raise program.error("printed only one of certificate and key, expected both or none")
    if not (status.token or certificate):
        raise program.error("printed no credential, expected a token or a certificate and its key")
    if status.token and not (status.token.isascii() and status.token.isprintable()):
        raise program.error("printed a token that is not plain ASCII on one line")
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        expires = expires.replace(tzinfo=UTC)
    credential = Credential(
        authorization=f"Bearer {status.token}" if status.token else "",
        client_certificate=certificate.encode() if certificate else None,
        client_key=key.encode() if key else None,
    )
    return credential, None if expires is None else expires.timestamp()
