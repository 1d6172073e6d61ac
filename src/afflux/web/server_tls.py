"""TLS of the pages: our certificate, and whose clients are believed. Both change while we run."""

import asyncio
import logging
import ssl
from pathlib import Path

from afflux.model.errors import InputError

RELOAD_SECONDS = 60.0

_log = logging.getLogger(__name__)


class Handshakes:
    """The context of the listening socket, for new connections always the newest of everything.

    A client that shows a certificate of somebody else is refused by the handshake itself: the
    library knows no other way. One that shows none is let in, to be asked for a token.
    """

    def __init__(self, cert_file: str, key_file: str) -> None:
        """An InputError if the certificate cannot be used."""
        self._cert_file, self._key_file = cert_file, key_file
        self._authorities = b""
        self.context = self._with_authorities(b"")
        # Whose clients are believed can be added to a context, but not taken away from it: every
        # connection is handed to the newest one when it begins.
        self._newest = self.context
        self.context.sni_callback = self._hand_over

    def trust(self, authorities: bytes) -> None:
        """Believe the clients of these, PEM, and of nobody else; see Pages.trust_clients_of."""
        if authorities == self._authorities:
            return
        self._newest = self._with_authorities(authorities)
        self._authorities = authorities
        # Whether to ask for a certificate is decided before the connection is handed over.
        self.context.verify_mode = self._newest.verify_mode

    async def keep_fresh(self, seconds: float) -> None:
        """Certificates are replaced while we run; new connections get the new one."""
        files = self._cert_file, self._key_file
        loaded = await asyncio.to_thread(_stamp, *files)
        while True:
            await asyncio.sleep(seconds)
            stamp = await asyncio.to_thread(_stamp, *files)
            if stamp == loaded:
                continue
            try:
                # Into a new one: a pair that does not match would spoil the one in use.
                self._newest = self._with_authorities(self._authorities)
            except InputError as error:
                # Perhaps one of the two has not been replaced yet: the next look will tell.
                _log.warning("the old certificate stays: %s", error)
            else:
                loaded = stamp

    def _with_authorities(self, authorities: bytes) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        _load(context, self._cert_file, self._key_file)
        # A session that is resumed is not asked again who it is; so none is.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        # As API servers do: any given certificate is an anchor, and many were made without the
        # extensions that the strict mode of newer Pythons asks for. These too are settled before
        # the connection is handed over, so that they are the same in all contexts.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if authorities:
            _believe(context, authorities)
        return context

    def _hand_over(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
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


def _believe(context: ssl.SSLContext, authorities: bytes) -> None:
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii", errors="ignore"))
    except (ssl.SSLError, ValueError):
        raise InputError(
            "the authorities of clients cannot be used; expected certificates in PEM form"
        ) from None
    context.verify_mode = ssl.CERT_OPTIONAL


def _stamp(*files: str) -> tuple[int, ...]:
    stamps: list[int] = []
    for file in files:
        try:
            stamps.append(Path(file).stat().st_mtime_ns)
        except OSError:
            stamps.append(0)
    return tuple(stamps)
