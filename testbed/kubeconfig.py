"""Self-contained kubeconfigs, with certificates and tokens inside."""

import base64
import json
from pathlib import Path

from testbed.certificates import Certificate


def write_for_certificate(path: Path, url: str, authority: Path, client: Certificate) -> Path:
    """A kubeconfig for a user with a client certificate."""
    user = {
        "client-certificate-data": _base64(client.certificate),
        "client-key-data": _base64(client.key),
    }
    return _write(path, url, authority, user)


def write_for_token(path: Path, url: str, authority: Path, token: str) -> Path:
    """A kubeconfig for a user with a token, such as a service account."""
    return _write(path, url, authority, {"token": token})


def _write(path: Path, url: str, authority: Path, user: dict[str, str]) -> Path:
    cluster = {"server": url, "certificate-authority-data": _base64(authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": path.stem, "user": user}],
        "contexts": [
            {"name": "testbed", "context": {"cluster": "testbed", "user": path.stem}},
        ],
        "current-context": "testbed",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=2))  # JSON is YAML
    return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
