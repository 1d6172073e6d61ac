"""Credentials from a program: exec plugins (client.authentication.k8s.io).

The program gets its input in an environment variable and prints an ExecCredential: a token, or a
certificate with its key, and the time when they expire. Concurrent requests share one run. The
program runs again when its credential has expired or was refused. Its standard error is ours, as
with kubectl; our own messages never contain what it prints.
"""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from afflux.kube.api.credentials import Credential
from afflux.kube.api.errors import CredentialError

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")

# A credential is used for at least this long, even if it is expired or refused, so that a bad
# program or server does not make us run the program for every request.
MIN_LIFETIME_SECONDS = 1.0
# After a failure, requests get the same error for this long, without another run.
FAILURE_SECONDS = 2.0
# How long to wait for the output of a killed program: a child of it may keep it open.
_KILL_TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Program:
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


Clock = Callable[[], float]

_printed = msgspec.json.Decoder(_ExecCredential)


class ExecPlugin:
    """Credentials that a program prints.

    `clock` gives seconds since 1970, `monotonic_clock` measures intervals.
    """

    def __init__(
        self, program: Program, *, clock: Clock = time.time, monotonic_clock: Clock = time.monotonic
    ) -> None:
        self._program = program
        self._clock = clock
        self._monotonic_clock = monotonic_clock
        self._running = asyncio.Lock()
        self._credential: Credential | None = None
        self._run_at = 0.0
        # In seconds since 1970, as the program says; None means never.
        self._expires_at: float | None = None
        self._failure = ""
        self._failed_at = 0.0

    async def current(self) -> Credential:
        """The credential of the last run, or of a new one."""
        credential = self._credential
        if credential is not None and self._is_good():
            return credential
        async with self._running:
            # Another request may have run the program while this one waited.
            credential = self._credential
            if credential is not None and self._is_good():
                return credential
            if self._failure and self._monotonic_clock() - self._failed_at < FAILURE_SECONDS:
                raise CredentialError(self._failure)
            try:
                printed = await _run(self._program)
                credential, expires_at = _credential_of(self._program, printed)
            except CredentialError as error:
                self._failure, self._failed_at = str(error), self._monotonic_clock()
                raise
            self._failure = ""
            self._credential, self._expires_at = credential, expires_at
            self._run_at = self._monotonic_clock()
            return credential

    def refused(self, credential: Credential) -> None:
        """Runs the program again before the next request."""
        if credential is self._credential:
            self._expires_at = 0.0

    def _is_good(self) -> bool:
        if self._expires_at is None or self._clock() < self._expires_at:
            return True
        return self._monotonic_clock() - self._run_at < MIN_LIFETIME_SECONDS


async def _run(program: Program) -> bytes:
    """What the program prints."""
    interactive = _is_interactive(program)
    spec: dict[str, object] = {"interactive": interactive}
    if program.cluster is not None:
        spec["cluster"] = program.cluster
    info = {"apiVersion": program.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    try:
        process = await asyncio.create_subprocess_exec(
            program.command,
            *program.args,
            stdin=None if interactive else DEVNULL,
            stdout=PIPE,
            env={**os.environ, **program.env, **environment},
            # A session of its own lets us kill its children too; a terminal works in ours only.
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
    """Kill a program that still runs, and wait for its end."""
    with suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(_KILL_TIMEOUT_SECONDS):
            await process.communicate()


def _is_interactive(program: Program) -> bool:
    if program.interactive_mode == "Never":
        return False
    terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if program.interactive_mode == "Always" and not terminal:
        raise program.error("interactiveMode: 'Always', expected a terminal as standard input")
    return terminal


def _credential_of(program: Program, printed: bytes) -> tuple[Credential, float | None]:
    try:
        answer = _printed.decode(printed)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # Without the decoder's message, which could quote a secret.
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
