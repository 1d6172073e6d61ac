"""The client configuration of a program that runs in a pod: its service account."""

import os
from pathlib import Path

from afflux.kube.api.client_config import ClientConfig
from afflux.kube.api.credentials import TokenFile, read_token
from afflux.kube.api.errors import CredentialError
from afflux.kube.api.http_proxy import proxy_for
from afflux.model.errors import InputError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(service_account: Path = SERVICE_ACCOUNT) -> ClientConfig | None:
    """The configuration that the kubelet provides to a pod, or None outside of a cluster."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        return None
    origin = "in-cluster"
    if not port.isdigit():
        raise InputError(f"{origin}: $KUBERNETES_SERVICE_PORT: {port!r:.80}, expected a number")
    token, ca, namespace = (service_account / name for name in ("token", "ca.crt", "namespace"))
    try:
        read_token(token)
    except CredentialError as error:
        raise InputError(f"{origin}: {error}") from None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ClientConfig(
        server=server,
        origin=origin,
        # Without the file the system's authorities are trusted, as with kubectl.
        ca=ca if ca.exists() else None,
        credentials=TokenFile(token),
        proxy_url=proxy_for(server),
        namespace=_text(namespace) or "default",
    )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
