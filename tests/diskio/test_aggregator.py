"""The aggregator's page: what it takes, and what it refuses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from afflux.diskio.aggregator import MAX_BODY_BYTES, Aggregator
from afflux.diskio.driver_identity import (
    DriverIdentity,
    RefusedError,
    ReviewedToken,
    SharedToken,
)
from afflux.diskio.node_reports import ReportWriter
from afflux.kube.api.client import Api
from afflux.kube.live.access_review import AccessReviews
from afflux.web.pages import Pages
from kube_api.api_server import answer, run, serving

REPORT: dict[str, Any] = {
    "node": "n",
    "uid": "o",
    "sequence": 1,
    "observedGeneration": 1,
    "devices": {},
    "models": {},
}


class OfNode:
    """Tokens are names of nodes."""

    async def node_of(self, token: str) -> str | None:
        if token == "nobody":  # noqa: S105
            raise RefusedError(401, "not a driver")
        return token


class Server:
    def __init__(self, port: int, session: aiohttp.ClientSession, written: list[str]) -> None:
        self.written = written
        self._url = f"http://127.0.0.1:{port}/reports"
        self._session = session

    async def post(self, body: Any, sender: str | None = "n") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {sender}"} if sender is not None else {}
        sending = {"data": body} if isinstance(body, bytes) else {"json": body}
        async with self._session.post(self._url, headers=headers, **sending) as got:
            text = await got.text()
            return got.status, text


@asynccontextmanager
async def served(identity: DriverIdentity, max_nodes: int = 10) -> AsyncIterator[Server]:
    written: list[str] = []

    async def api_server(request: web.BaseRequest) -> web.StreamResponse:
        written.append(request.path)
        return answer({})

    async with serving(api_server) as config, Api(config) as api:
        aggregator = Aggregator(ReportWriter(api, "ns"), identity, max_nodes)
        pages = Pages(
            aggregator.registry,
            live={},
            ready={},
            configuration={},
            further=[aggregator],
            max_body_bytes=MAX_BODY_BYTES,
        )
        async with pages, aiohttp.ClientSession() as session:
            await pages.start("127.0.0.1", 0)
            writing = asyncio.create_task(aggregator.run())
            try:
                yield Server(pages.port, session, written)
            finally:
                writing.cancel()
                await asyncio.wait({writing})


def sent(**changes: Any) -> dict[str, Any]:
    return {"report": REPORT | changes}


def test_a_report_is_taken_and_written() -> None:
    async def test() -> None:
        async with served(OfNode()) as server:
            assert (await server.post(sent()))[0] == 202
            while len(server.written) < 2:
                await asyncio.sleep(0.01)
            path = "/apis/ioi.intel.com/v1/namespaces/ns/nodediskioinfos/n"
            assert server.written == [path, f"{path}/status"]
            status, text = await server.post(sent())
            assert (status, "a newer report" in text) == (409, True)

    run(test)


@pytest.mark.parametrize(
    ("body", "token", "status", "words"),
    [
        (sent(), None, 401, "no bearer token"),
        (sent(), "nobody", 401, "not a driver"),
        (sent(), "other-node", 403, "node: 'n', expected other-node"),
        (b"{", "n", 400, "cannot be read"),
        (b"[" * 10_000, "n", 400, "cannot be read"),
        (sent(sequence="x"), "n", 400, "cannot be read"),
        (sent(node="../../x"), "../../x", 400, "expected the name of a node"),
        (sent(node="a%2fb"), "a%2fb", 400, "expected the name of a node"),
        (sent(uid=""), "n", 400, "expected a uid"),
        (
            sent(
                devices={
                    str(n): {"name": "", "status": {"total": 1, "read": 1, "write": 1}}
                    for n in range(257)
                }
            ),
            "n",
            400,
            "at most 256 devices",
        ),
        (b"x" * (MAX_BODY_BYTES + 1), "n", 413, ""),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_report_of_this_driver_is_refused(
    body: Any, token: str | None, status: int, words: str
) -> None:
    async def test() -> None:
        async with served(OfNode()) as server:
            found, text = await server.post(body, token)
            assert found == status
            assert words in text
            assert server.written == []

    run(test)


def test_one_node_too_many_is_refused() -> None:
    async def test() -> None:
        async with served(OfNode(), max_nodes=1) as server:
            assert (await server.post(sent()))[0] == 202
            assert (await server.post(sent(node="m"), "m"))[0] == 503

    run(test)


def test_a_shared_token_may_be_replaced(tmp_path: Path) -> None:
    async def test() -> None:
        file = tmp_path / "token"
        file.write_text("first\n")
        identity = SharedToken(file)
        await identity.node_of("first")
        file.write_text("second\n")
        with pytest.raises(RefusedError):
            await identity.node_of("first")
        await identity.node_of("second")
        with pytest.raises(RefusedError):
            await identity.node_of("\udcff")

    run(test)


def test_a_reviewed_token_is_of_the_account_and_may_be_bound_to_a_node() -> None:
    asked: list[Any] = []

    async def api_server(request: web.BaseRequest) -> web.StreamResponse:
        spec = (await request.json())["spec"]
        asked.append(spec)
        name, _, node = spec["token"].partition("@")
        extra = {"authentication.kubernetes.io/node-name": [node]} if node else {}
        user = {"username": f"system:serviceaccount:ns:{name}", "extra": extra}
        return answer({"status": {"authenticated": name != "unknown", "user": user}})

    async def test() -> None:
        async with serving(api_server) as config, Api(config) as api:
            reviews = AccessReviews(api, ("afflux-disk-io",))
            identity = ReviewedToken(reviews, "system:serviceaccount:ns:driver", lambda: 0.0)
            assert await identity.node_of("driver@node-1") == "node-1"
            assert await identity.node_of("driver") is None
            for token, words in (("other", "expected system:serv"), ("unknown", "not valid for")):
                with pytest.raises(RefusedError, match=words):
                    await identity.node_of(token)
            assert {tuple(spec["audiences"]) for spec in asked} == {("afflux-disk-io",)}
            before = len(asked)
            await identity.node_of("driver@node-1")
            assert len(asked) == before

    run(test)
