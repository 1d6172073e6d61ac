"""The inspection service on loopback, with the groups of `inspection_values`."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from inspection_values import Known

from afflux.ledger import directories
from afflux.web.authentication import Access, Authenticator, User
from afflux.web.inspection_pages import InspectionPages
from afflux.web.pages import Pages
from afflux.web.scheduler_metrics import Metrics


class TwoTokens:
    """Reviews: the token `good` may see team-a, `great` everything."""

    async def review_token(self, token: str) -> User | None:
        return User(token) if token in {"good", "great"} else None

    async def review_access(self, user: User, access: Access) -> bool:
        return user.name == "great" or access.namespace == "team-a"


@dataclass
class Service:
    url: str
    known: Known
    folder: Path
    authority: trustme.CA

    def kubeconfig(self, user: dict[str, str]) -> Path:
        """A kubeconfig for namespace team-a; its cluster is unreachable."""
        ca = self.folder / "ca.crt"
        self.authority.cert_pem.write_to_path(str(ca))
        cluster = {"server": "https://127.0.0.1:1", "certificate-authority": str(ca)}
        context = {"cluster": "c", "user": "u", "namespace": "team-a"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": context}],
            "current-context": "x",
        }
        path = self.folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return path


@contextmanager
def served(known: Known, folder: Path) -> Iterator[Service]:
    """The service in a separate thread."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    leaf = authority.issue_cert("127.0.0.1", "afflux-inspection.afflux-system.svc")
    cert, key = folder / "tls.crt", folder / "tls.key"
    leaf.cert_chain_pems[0].write_to_path(str(cert))
    leaf.private_key_pem.write_to_path(str(key))
    ports: list[int] = []
    listening, done = threading.Event(), threading.Event()

    async def serve() -> None:
        inspecting = InspectionPages(known, Authenticator(TwoTokens()))
        pages = Pages(
            Metrics().registry, live={}, ready={}, configuration={}, inspection=inspecting
        )
        async with pages:
            await pages.start("127.0.0.1", 0, str(cert), str(key))
            pages.trust_clients_of(authority.cert_pem.bytes())
            ports.append(pages.port)
            listening.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    listening.wait(30)
    yield Service(f"https://127.0.0.1:{ports[0]}", known, folder, authority)
    done.set()
    thread.join(30)


def keep_states_in(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default ledgers are looked for in this directory."""
    monkeypatch.setenv("XDG_STATE_HOME", directory)
    # Root ignores the variable.
    monkeypatch.setattr(directories, "ROOT_STATE_HOME", directory)
