"""TLS to one API server: whom we trust, which certificate we show.

Verification is always on unless the connection says `insecure`. Files are looked at once a minute:
when one was replaced, connections from then on use the new content, and those that are open live
on.
"""

import os
import ssl
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from afflux.kube.api.connection import Connection, Pem
from afflux.kube.api.credentials import Credential
from afflux.model.errors import InputError

LOOK_AGAIN_SECONDS = 60.0

_Content = tuple[bytes | None, bytes | None, bytes | None]


class Tls:
    """The context for the next connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._content: _Content = (None, None, None)
        self._context: ssl.SSLContext | None = None
        self._shown: Credential | None = None
        self._look_again_at = 0.0

    def context(self, credential: Credential) -> ssl.SSLContext:
        """The context for a request with this credential; an InputError if it cannot be made."""
        now = time.monotonic()
        context = self._context
        if context is not None and credential is self._shown and now < self._look_again_at:
            return context
        try:
            content = self._read(credential)
            if context is None or content != self._content:
                context = _make(self._connection, content)
        except InputError:
            # A file that is being replaced; what was good a minute ago is used on.
            if context is None or credential is not self._shown:
                raise
        else:
            self._content = content
        self._context, self._shown = context, credential
        self._look_again_at = now + LOOK_AGAIN_SECONDS
        return context

    def _read(self, credential: Credential) -> _Content:
        connection = self._connection
        ca = _content(connection.ca, "certificate-authority", connection.origin)
        if credential.client_certificate is not None:
            return ca, credential.client_certificate, credential.client_key
        return (
            ca,
            _content(connection.client_certificate, "client-certificate", connection.origin),
            _content(connection.client_key, "client-key", connection.origin),
        )


def _content(pem: Pem | None, what: str, origin: str) -> bytes | None:
    if not isinstance(pem, Path):
        return pem
    try:
        return pem.read_bytes()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError(f"{origin}: {what}: {str(pem)!r}: {why}; expected a PEM file") from None


def _make(connection: Connection, content: _Content) -> ssl.SSLContext:
    ca, certificate, key = content
    field = f"{connection.origin}: certificate-authority"
    # With nothing to load the library would trust the system's authorities: that is for those who
    # name none, not for an empty file.
    if ca is not None and b"-----BEGIN" not in ca:
        raise InputError(f"{field}: no certificate in it; expected certificates in PEM form")
    try:
        # Between the certificates anything may stand, in any language.
        text = None if ca is None else ca.decode("ascii", errors="ignore")
        context = ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"{field}: {_why(error)}; expected certificates in PEM form") from None
    # As kubectl: any given certificate is an anchor, and the authorities of many clusters were
    # made without the extensions that the strict mode of newer Pythons asks for.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None and key is not None:
        _show(context, certificate, key, connection.origin)
    return context


def _show(context: ssl.SSLContext, certificate: bytes, key: bytes, origin: str) -> None:
    """Load our own certificate; the library takes files only."""
    try:
        # In one file, so that the key exists once. No prompt for a passphrase: nobody is there.
        with _file(certificate + b"\n" + key) as path:
            context.load_cert_chain(path, password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        raise InputError(
            f"{origin}: client-certificate, client-key: {_why(error)}; expected a certificate and "
            "its own key, without passphrase, in PEM form"
        ) from None


@contextmanager
def _file(content: bytes) -> Generator[str]:
    """A file with this content, in memory where the system can, else readable by us alone."""
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
