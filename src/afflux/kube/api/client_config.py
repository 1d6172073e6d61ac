"""The address of an API server, its certificate authorities, and the credentials for it."""

from dataclasses import dataclass, field
from pathlib import Path

from afflux.kube.api.credentials import ANONYMOUS, Credentials

# Certificates and keys: PEM text, or a file with it, which may be replaced while we run.
Pem = bytes | Path


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """What is needed to talk to one API server as one user.

    `server` is its address, as https://host:port with or without a path. Without a `ca` the
    system's certificate authorities are trusted. `origin` names the source of the configuration in
    messages. The repr contains no secrets.
    """

    server: str
    origin: str
    ca: Pem | None = field(default=None, repr=False)
    client_certificate: Pem | None = field(default=None, repr=False)
    client_key: Pem | None = field(default=None, repr=False)
    credentials: Credentials = field(default=ANONYMOUS, repr=False)
    tls_server_name: str = ""
    insecure: bool = False
    # May hold a password.
    proxy_url: str = field(default="", repr=False)
    namespace: str = "default"
    compressed: bool = True
    # Sent with every request, for impersonation.
    headers: tuple[tuple[str, str], ...] = ()
