"""The service account inside a cluster, and HTTP proxies."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiohttp import web
from api_server import AUTHORITY_PEM, answer, run, server_context, serving

from afflux.kube.api.client import Api
from afflux.kube.api.credentials import StaticCredentials, bearer
from afflux.kube.api.errors import UnreachableError
from afflux.kube.api.http_proxy import proxy_for
from afflux.kube.api.in_cluster import in_cluster
from afflux.model.errors import InputError


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)


# --- In a cluster


def test_outside_of_a_cluster_there_is_no_configuration() -> None:
    assert in_cluster() is None


def test_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        seen: list[str] = []

        async def handle(request: web.Request) -> web.Response:
            seen.append(request.headers["Authorization"])
            if seen[-1] == "Bearer old":
                return web.Response(status=401)
            return answer({})

        (tmp_path / "token").write_text("old")
        (tmp_path / "ca.crt").write_bytes(AUTHORITY_PEM)
        (tmp_path / "namespace").write_text("afflux-system\n")
        async with serving(handle) as there:
            monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            monkeypatch.setenv("KUBERNETES_SERVICE_PORT", there.server.rsplit(":", 1)[1])
            config = in_cluster(tmp_path)
            assert config is not None
            assert config.server == there.server
            assert config.namespace == "afflux-system"
            async with Api(config) as api:
                await config.credentials.current()
                # The kubelet replaces the token.
                (tmp_path / "token").write_text("new")
                await api.send("POST", "/x", {})
            assert seen == ["Bearer old", "Bearer new"]

    run(test)


def test_an_ipv6_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("t")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    config = in_cluster(tmp_path)
    assert config is not None
    assert config.server == "https://[fd00::1]:443"
    assert config.namespace == "default"


def test_incomplete_service_accounts_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "tcp://10.0.0.1:443")
    with pytest.raises(InputError, match=r"\$KUBERNETES_SERVICE_PORT: .*, expected a number"):
        in_cluster(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(InputError, match="token: No such file or directory"):
        in_cluster(tmp_path)


# --- Through a proxy


@dataclass
class Proxy:
    """A proxy that supports only CONNECT and records the requests."""

    url: str = ""
    refuses: bool = False
    heads: list[str] = field(default_factory=list)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            method, target, _ = head.split(" ", 2)
            assert method == "CONNECT"
            if self.refuses:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                await writer.drain()
                return
            host, port = target.rsplit(":", 1)
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pour(reader, far_writer), _pour(far_reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def proxying(*, over_tls: bool = False, refuses: bool = False) -> AsyncIterator[Proxy]:
    proxy = Proxy(refuses=refuses)
    context = server_context("127.0.0.1") if over_tls else None
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    scheme = "https" if over_tls else "http"
    proxy.url = f"{scheme}://us:top-secret@127.0.0.1:{port}"
    async with server:
        yield proxy


async def through(proxy: Proxy) -> list[str]:
    """Send a request through the proxy; returns what the server saw."""
    seen: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        assert "Proxy-Authorization" not in request.headers
        return answer({})

    # A name that only the certificate knows: the proxy gets us there, TLS is to the server.
    context = server_context("api.example")
    async with serving(
        handle, context, credentials=StaticCredentials(bearer("for-the-server"))
    ) as there:
        config = replace(there, proxy_url=proxy.url, tls_server_name="api.example")
        async with Api(config) as api:
            for _ in range(2):
                await api.send("POST", "/x", {})
    return seen


@pytest.mark.parametrize("over_tls", [False, True])
def test_a_proxy_sees_no_credentials(over_tls: bool) -> None:
    async def test() -> None:
        async with proxying(over_tls=over_tls) as proxy:
            assert await through(proxy) == ["Bearer for-the-server"] * 2
            (head,) = proxy.heads
            assert "for-the-server" not in head
            credential = head.split("Proxy-Authorization: Basic ")[1].split("\r\n")[0]
            assert b64decode(credential) == b"us:top-secret"

    run(test)


def test_a_proxy_that_refuses_or_cannot_be_reached() -> None:
    async def test() -> None:
        async with proxying(refuses=True) as proxy:
            with pytest.raises(UnreachableError) as raised:
                await through(proxy)
            assert not raised.value.sent
            assert str(raised.value) == (
                "POST /x: the proxy refuses: 407 Proxy Authentication Required"
            )
        with pytest.raises(UnreachableError) as raised:
            await through(proxy)
        assert not raised.value.sent
        assert str(raised.value).startswith("POST /x: cannot connect to the proxy: ")
        assert "top-secret" not in str(raised.value)

    run(test)


@pytest.mark.parametrize(
    ("server", "exceptions", "expected"),
    [
        ("https://10.0.0.1:6443", "", "http://p:1"),
        ("http://10.0.0.1:6443", "", ""),
        ("https://127.0.0.1:6443", "", ""),
        ("https://localhost:6443", "", ""),
        ("https://[::1]:6443", "", ""),
        ("https://10.0.0.1:6443", "10.0.0.1", ""),
        ("https://10.0.0.1:6443", "10.0.0.1:6443", ""),
        ("https://10.0.0.1:6443", "10.0.0.1:1", "http://p:1"),
        ("https://10.0.0.1:6443", "a, 10.0.0.0/8", ""),
        ("https://10.0.0.1:6443", "192.168.0.0/16,junk/99", "http://p:1"),
        ("https://[fd00::1]:6443", "[fd00::1]", ""),
        ("https://[fd00::1]:6443", "fd00::/8", ""),
        ("https://API.example.org", "example.org", ""),
        ("https://example.org", "example.org:443", ""),
        ("https://example.org", ".example.org", "http://p:1"),
        ("https://api.example.org", ".example.org", ""),
        ("https://api.example.org", "*.example.org", ""),
        ("https://notexample.org", "example.org", "http://p:1"),
        ("https://example.org", "*", ""),
    ],
)
def test_no_proxy_matches_as_in_go(
    monkeypatch: pytest.MonkeyPatch, server: str, exceptions: str, expected: str
) -> None:
    monkeypatch.setenv("https_proxy", "p:1")
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert proxy_for(server) == expected


@pytest.mark.parametrize("written", ["socks5://us:secret@a:1", "ftp://us:secret@a", "http://:1"])
def test_unusable_proxy_urls_are_errors(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", written)
    with pytest.raises(InputError) as raised:
        proxy_for("https://10.0.0.1")
    assert str(raised.value).startswith("$HTTPS_PROXY: ")
    assert "secret" not in str(raised.value)
