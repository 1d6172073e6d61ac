"""TLS of the pages: the server certificate and the client authorities; both can change."""

import asyncio
import logging
import ssl
from pathlib import Path

from afflux.model.errors import InputError

RELOAD_INTERVAL_SECONDS = 60.0

_log = logging.getLogger(__name__)


class ServerTls:
    """The TLS context of the listening socket; new connections always use the newest files.

    A client certificate of an unknown authority makes the handshake fail. A client without a
    certificate is accepted, and has to send a token.
    """

    def __init__(self, cert_file: str, key_file: str) -> None:
        """An InputError if the certificate cannot be used."""
        self._cert_file, self._key_file = cert_file, key_file
        self._authorities = b""
        self.context = self._with_authorities(b"")
        # Authorities can be added to a context, but not removed. Therefore each new connection
        # switches to the newest context.
        self._newest = self.context
        self.context.sni_callback = self._switch_context

    def trust_clients_of(self, authorities: bytes) -> None:
        """Accept client certificates of these authorities only; see Pages.trust_clients_of."""
        if authorities == self._authorities:
            return
        self._newest = self._with_authorities(authorities)
        self._authorities = authorities
        # Whether to request a certificate is decided before the connection switches.
        self.context.verify_mode = self._newest.verify_mode

    async def reload(self, interval_seconds: float) -> None:
        """Check the files at this interval; new connections use a replaced certificate."""
        files = self._cert_file, self._key_file
        loaded = await asyncio.to_thread(_modified_at, *files)
        while True:
            await asyncio.sleep(interval_seconds)
            stamp = await asyncio.to_thread(_modified_at, *files)
            if stamp == loaded:
                continue
            try:
                # In a new context: files that do not match would break the one in use.
                self._newest = self._with_authorities(self._authorities)
            except InputError as error:
                # Perhaps only one of the two files has been replaced yet.
                _log.warning("the old certificate stays: %s", error)
            else:
                loaded = stamp

    def _with_authorities(self, authorities: bytes) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        _load(context, self._cert_file, self._key_file)
        # A resumed session would skip the check of the client certificate.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        # As in the API server: any given certificate is a trust anchor, and many lack the
        # extensions that Python's strict mode requires. All contexts have the same flags, because
        # they apply before the connection switches.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if authorities:
            _load_authorities(context, authorities)
        return context

    def _switch_context(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._newest


def _load(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    try:
        context.load_cert_chain(cert_file, key_file)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(
            f"serving.certFile: {cert_file!r:.200}, keyFile: {key_file!r:.200}: {why};"
            " expected a PEM certificate chain and its private key"
        ) from None


def _load_authorities(context: ssl.SSLContext, authorities: bytes) -> None:
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii", errors="ignore"))
    except (ssl.SSLError, ValueError):
        raise InputError(
            "the authorities of clients cannot be used; expected certificates in PEM form"
        ) from None
    context.verify_mode = ssl.CERT_OPTIONAL


def _modified_at(*files: str) -> tuple[int, ...]:
    stamps: list[int] = []
    for file in files:
        try:
            stamps.append(Path(file).stat().st_mtime_ns)
        except OSError:
            stamps.append(0)
    return tuple(stamps)
