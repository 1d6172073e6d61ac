"""Where an API server is, how it proves itself, and who we are to it."""

from dataclasses import dataclass, field
from pathlib import Path

from afflux.kube.api.credentials import ANONYMOUS, Credentials

# Certificates and keys: their PEM text, or the file that holds it and may be replaced under us.
Pem = bytes | Path


@dataclass(frozen=True, slots=True)
class Connection:
    """What is needed to talk to one API server as one user.

    `server` is its address, as https://host:port with or without a path. Without a `ca` the
    system's certificate authorities are trusted. `origin` says where all of this was written, for
    messages. Nothing secret is in its repr.
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
    # Sent with every request: impersonation.
    headers: tuple[tuple[str, str], ...] = ()
