"""How clients reach the service: plaintext, TLS, client certificates, tokens.

Plaintext is for loopback only, unless that was asked for explicitly.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import grpc

from afflux.model.errors import InputError

_MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SecurityOptions:
    """Files in PEM form, empty if there are none. With `client_ca_file` only clients with a
    certificate of that authority are let in; with `token_file` only those with a token of it."""

    insecure: bool = False
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    token_file: str = ""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listen_address(text: str) -> ListenAddress:
    """HOST:PORT, with an IPv6 address in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"--listen: {text!r:.80}, expected HOST:PORT such as 127.0.0.1:9090")
    return ListenAddress(host, int(port))


def server_credentials(
    address: ListenAddress, options: SecurityOptions
) -> grpc.ServerCredentials | None:
    """The credentials to listen with, None for plaintext; an InputError if that is not allowed."""
    if bool(options.cert_file) != bool(options.key_file):
        missing = "--tls-key-file" if options.cert_file else "--tls-cert-file"
        raise InputError(f"{missing}: missing, expected a certificate and its key together")
    if not options.cert_file:
        if options.client_ca_file:
            raise InputError("--client-ca-file: needs --tls-cert-file and --tls-key-file")
        if not address.is_loopback and not options.insecure:
            raise InputError(
                f"--listen: {address} is not on loopback; expected --tls-cert-file and"
                " --tls-key-file, or --insecure for plaintext"
            )
        return None
    if options.insecure:
        raise InputError("--insecure: together with --tls-cert-file; expected one of them")
    pair = _read(options.key_file, "--tls-key-file"), _read(options.cert_file, "--tls-cert-file")
    authorities = None
    if options.client_ca_file:
        authorities = _read(options.client_ca_file, "--client-ca-file")
    return grpc.ssl_server_credentials(
        [pair], root_certificates=authorities, require_client_auth=authorities is not None
    )


def tokens_of(options: SecurityOptions) -> tuple[bytes, ...]:
    """The tokens of the file, one a line; empty if every client is let in."""
    if not options.token_file:
        return ()
    lines = _read(options.token_file, "--token-file").splitlines()
    tokens = tuple(line.strip() for line in lines if line.strip())
    if not tokens or not all(each.isascii() for each in tokens):
        raise InputError(
            f"--token-file: {options.token_file!r:.200}, expected a token of ASCII characters in"
            " each line"
        )
    return tokens


def has_token(metadata: Sequence[tuple[str, str | bytes]], tokens: Sequence[bytes]) -> bool:
    """Whether the call carries one of the tokens."""
    stated = next((value for key, value in metadata if key == "authorization"), "")
    given = stated.encode() if isinstance(stated, str) else stated
    scheme, _, token = given.partition(b" ")
    # Every token is compared in full, so that the time says nothing about them.
    matches = [hmac.compare_digest(token, each) for each in tokens]
    return scheme.lower() == b"bearer" and any(matches)


def _read(path: str, option: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{option}: {path!r:.200}: {error.strerror or error}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise InputError(f"{option}: {path!r:.200}: {len(content)} bytes, expected 1 MiB at most")
    return content
