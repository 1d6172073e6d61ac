"""TLS to one API server: trusted authorities and the client certificate.

Verification is always on unless the configuration says `insecure`. Files are read again at an
interval: new connections use the new content, open connections stay as they are.
"""

import os
import ssl
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from afflux.kube.api.client_config import ClientConfig, Pem
from afflux.kube.api.credentials import Credential
from afflux.model.errors import InputError

RELOAD_INTERVAL_SECONDS = 60.0

_Content = tuple[bytes | None, bytes | None, bytes | None]


class Tls:
    """The SSL context for new connections."""

    def __init__(
        self, config: ClientConfig, reload_interval_seconds: float = RELOAD_INTERVAL_SECONDS
    ) -> None:
        self._config = config
        self._reload_interval_seconds = reload_interval_seconds
        self._content: _Content = (None, None, None)
        self._context: ssl.SSLContext | None = None
        self._credential: Credential | None = None
        self._reload_at = 0.0

    def context(self, credential: Credential) -> ssl.SSLContext:
        """The context for a request with this credential; an InputError if it cannot be made."""
        now = time.monotonic()
        context = self._context
        if context is not None and credential is self._credential and now < self._reload_at:
            return context
        try:
            content = self._read(credential)
            if context is None or content != self._content:
                context = _make(self._config, content)
        except InputError:
            # A file is perhaps being replaced: the last good content stays in use.
            if context is None or credential is not self._credential:
                raise
        else:
            self._content = content
        self._context, self._credential = context, credential
        self._reload_at = now + self._reload_interval_seconds
        return context

    def _read(self, credential: Credential) -> _Content:
        config = self._config
        ca = _content(config.ca, "certificate-authority", config.origin)
        if credential.client_certificate is not None:
            return ca, credential.client_certificate, credential.client_key
        return (
            ca,
            _content(config.client_certificate, "client-certificate", config.origin),
            _content(config.client_key, "client-key", config.origin),
        )


def _content(pem: Pem | None, what: str, origin: str) -> bytes | None:
    if not isinstance(pem, Path):
        return pem
    try:
        return pem.read_bytes()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError(f"{origin}: {what}: {str(pem)!r}: {why}; expected a PEM file") from None


def _make(config: ClientConfig, content: _Content) -> ssl.SSLContext:
    ca, certificate, key = content
    field = f"{config.origin}: certificate-authority"
    # Without certificates the library would trust the system's authorities. That is right for a
    # configuration that names no authority, not for an empty file.
    if ca is not None and b"-----BEGIN" not in ca:
        raise InputError(f"{field}: no certificate in it; expected certificates in PEM form")
    try:
        # Any text may stand between the certificates.
        text = None if ca is None else ca.decode("ascii", errors="ignore")
        context = ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"{field}: {_why(error)}; expected certificates in PEM form") from None
    # As in kubectl, any given certificate is a trust anchor. The authorities of many clusters lack
    # the extensions that the strict mode of newer Pythons requires.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None and key is not None:
        _load_certificate(context, certificate, key, config.origin)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes, origin: str) -> None:
    """Load the client certificate; the library reads it from a file only."""
    try:
        # The empty password keeps the library from prompting for a passphrase.
        with _file(certificate + b"\n" + key) as path:
            context.load_cert_chain(path, password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        raise InputError(
            f"{origin}: client-certificate, client-key: {_why(error)}; expected a certificate and "
            "its own key, without passphrase, in PEM form"
        ) from None


@contextmanager
def _file(content: bytes) -> Generator[str]:
    """A file with this content: in memory where the system supports it, else a private one."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not usable").lower().replace("_", " ")
    return "not usable"
