"""An inspection service with one group, and a fake API server that knows two tokens."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import trustme

from afflux.cycle.inspection_types import (
    ROOT,
    GroupDetails,
    GroupMeta,
    HistoryList,
    ListMeta,
    ListQuery,
    QueueLine,
    QueueList,
    ReservationList,
    to_datetime,
)
from afflux.web.authentication import MAX_CACHE_ENTRIES, Access, Authenticator, User
from afflux.web.inspection_pages import InspectionPages
from afflux.web.pages import Pages
from afflux.web.scheduler_metrics import Metrics
from movable_clock import run_on_movable_loop

NOW = to_datetime(1_800_000_000)
META = ListMeta(time=NOW)
LINE = QueueLine(
    namespace="team-a",
    name="train",
    queue="default",
    position=1,
    size=4,
    present=4,
    priority=0,
    state="waiting",
    waiting_since=to_datetime(1_799_999_688),
    run_seconds=3600.0,
    promised=True,
    expected_start=to_datetime(1_800_000_312.5),
    reason="0/5 nodes are available: 5 Insufficient cpu.",
    full_name="train",
    waiting=4,
)
DETAILS = GroupDetails(
    metadata=GroupMeta(time=NOW, members=0, events=0),
    namespace="team-a",
    name="train",
    queue="default",
    position=1,
    size=4,
    priority=0,
    state="waiting",
    reason="",
    created=NOW,
    ready=NOW,
    started=None,
    until=None,
    ended=None,
    how=None,
    run_seconds=None,
    promised=False,
    expected_start=None,
    witness=(),
    members=(),
    events=(),
)


class Answers:
    """An inspection with one group; it records the queries."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.problem: Exception | None = None
        self.hold: asyncio.Event | None = None
        self.held = 0

    async def _ask(self, asked: object) -> None:
        self.asked.append(asked)
        if self.hold is not None:
            self.held += 1
            try:
                await self.hold.wait()
            finally:
                self.held -= 1
        if self.problem is not None:
            raise self.problem

    async def queue(self, asked: ListQuery) -> QueueList:
        await self._ask(asked)
        return QueueList(metadata=META, items=(LINE,))

    async def reservations(self, asked: ListQuery) -> ReservationList:
        await self._ask(asked)
        return ReservationList(metadata=META, items=())

    async def history(self, asked: ListQuery) -> HistoryList:
        await self._ask(asked)
        return HistoryList(metadata=META, items=())

    async def group(self, namespace: str, name: str) -> GroupDetails | None:
        await self._ask((namespace, name))
        return DETAILS if (namespace, name) == ("team-a", "train") else None


class Reviewer:
    """Reviews: the group devs may see team-a, the group admins everything."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.accesses: list[tuple[User, Access]] = []
        self.names = {"alices": "alice", "roots": "root"}
        self.problem: Exception | None = None
        # Reviews of tokens `stranger-...` wait for this event; then the token is rejected.
        self.hold: asyncio.Event | None = None
        self.held = 0

    async def review_token(self, token: str) -> User | None:
        self.tokens.append(token)
        if self.problem is not None:
            raise self.problem
        if self.hold is not None and token.startswith("stranger"):
            self.held += 1
            try:
                await self.hold.wait()
            finally:
                self.held -= 1
        groups = {"alice": ("devs",), "root": ("admins",)}
        name = self.names.get(token)
        return User(name, groups=groups[name]) if name else None

    async def review_access(self, user: User, access: Access) -> bool:
        self.accesses.append((user, access))
        return "admins" in user.groups or ("devs" in user.groups and access.namespace == "team-a")


@dataclass
class Reply:
    status: int
    body: Any
    headers: Any

    @property
    def refusal(self) -> tuple[int, str]:
        """Status code and reason of a refusal, which must be a `Status` as from the API server."""
        assert self.body["kind"] == "Status"
        assert self.body["apiVersion"] == "v1"
        assert self.body["status"] == "Failure"
        assert self.body["code"] == self.status
        assert "expected" in self.body["message"] or self.status >= 404
        return self.status, self.body["reason"]


@dataclass
class Service:
    """The pages under test, and requests to them."""

    pages: Pages
    answers: Answers
    reviewer: Reviewer
    server: trustme.CA
    scheme: str = "https"
    contexts: dict[str, ssl.SSLContext] = field(default_factory=dict)

    async def get(
        self,
        path: str,
        token: str | None = None,
        *,
        client: trustme.LeafCert | None = None,
        method: str = "GET",
        address: str = "127.0.0.1",
        **headers: str,
    ) -> Reply:
        context = ssl.create_default_context()
        self.server.configure_trust(context)
        if client is not None:
            client.configure_cert(context)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        url = f"{self.scheme}://127.0.0.1:{self.pages.port}{path}"
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(local_addr=(address, 0))
            ) as session,
            session.request(method, url, headers=headers, ssl=context) as response,
        ):
            text = await response.text()
            is_json = response.content_type == "application/json" and text
            return Reply(response.status, json.loads(text) if is_json else text, response.headers)


@asynccontextmanager
async def service(
    folder: Path,
    *,
    tls: bool = True,
    timeout_seconds: float = 10.0,
    max_cache_entries: int = MAX_CACHE_ENTRIES,
    stranger_seconds: float = 10.0,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Service]:
    answers, reviewer = Answers(), Reviewer()
    pages = Pages(
        Metrics().registry,
        live={},
        ready={},
        configuration={},
        inspection=InspectionPages(
            answers,
            Authenticator(
                reviewer,
                clock,
                review_timeout_seconds=stranger_seconds,
                max_cache_entries=max_cache_entries,
            ),
            timeout_seconds=timeout_seconds,
        ),
    )
    authority = new_authority()
    leaf = authority.issue_cert("127.0.0.1")
    cert, key = folder / "tls.crt", folder / "tls.key"
    leaf.cert_chain_pems[0].write_to_path(str(cert))
    leaf.private_key_pem.write_to_path(str(key))
    async with pages:
        await pages.start("127.0.0.1", 0, *((str(cert), str(key)) if tls else ()))
        yield Service(pages, answers, reviewer, authority, "https" if tls else "http")


def new_authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


def certificate(authority: trustme.CA, user: str, group: str | None = None) -> trustme.LeafCert:
    return authority.issue_cert("x.invalid", common_name=user, organization_name=group)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(300):
            await test()

    run_on_movable_loop(bounded())


QUEUE = f"{ROOT}/namespaces/team-a/queue"
