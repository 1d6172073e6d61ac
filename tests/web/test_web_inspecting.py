"""The inspection service: who is let in, what they get, and what becomes of the others.

Here the API server is somebody who knows two tokens; tests/live/test_inspection.py has a real one.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
import uvloop

from afflux.cycle.inspection import (
    MOST_LINES,
    ROOT,
    Asked,
    GroupDetails,
    GroupMeta,
    HistoryList,
    InspectionError,
    ListMeta,
    QueueLine,
    QueueList,
    ReservationList,
    at,
)
from afflux.cycle.phases import NOT_RUNNING
from afflux.model.errors import InputError
from afflux.web.authenticating import (
    MOST_STRANGERS,
    MOST_STRANGERS_OF_ONE,
    Access,
    Gate,
    ReviewError,
    User,
)
from afflux.web.inspecting import MOST_AT_ONCE, Inspecting
from afflux.web.metrics import Metrics
from afflux.web.serving import Pages

pytestmark = pytest.mark.slow

NOW = at(1_800_000_000)
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
    waiting_since=at(1_799_999_688),
    run_seconds=3600.0,
    promised=True,
    expected_start=at(1_800_000_312.5),
    reason="0/5 nodes are available: 5 Insufficient cpu.",
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
    """An inspection that has one group, and knows what it was asked."""

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

    async def queue(self, asked: Asked) -> QueueList:
        await self._ask(asked)
        return QueueList(metadata=META, items=(LINE,))

    async def reservations(self, asked: Asked) -> ReservationList:
        await self._ask(asked)
        return ReservationList(metadata=META, items=())

    async def history(self, asked: Asked) -> HistoryList:
        await self._ask(asked)
        return HistoryList(metadata=META, items=())

    async def group(self, namespace: str, name: str) -> GroupDetails | None:
        await self._ask((namespace, name))
        return DETAILS if (namespace, name) == ("team-a", "train") else None


class Reviewer:
    """Alice may look at team-a, the administrators at everything."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.accesses: list[tuple[User, Access]] = []
        self.problem: Exception | None = None
        # Set when it says of the tokens of strangers that they are nobody's.
        self.hold: asyncio.Event | None = None
        self.held = 0

    async def user_of(self, token: str) -> User | None:
        self.tokens.append(token)
        if self.problem is not None:
            raise self.problem
        if self.hold is not None and token.startswith("stranger"):
            self.held += 1
            try:
                await self.hold.wait()
            finally:
                self.held -= 1
        names = {"alices": "alice", "roots": "root"}
        groups = {"alice": ("devs",), "root": ("admins",)}
        name = names.get(token)
        return User(name, groups=groups[name]) if name else None

    async def may(self, user: User, access: Access) -> bool:
        self.accesses.append((user, access))
        return "admins" in user.groups or ("devs" in user.groups and access.namespace == "team-a")


@dataclass
class Reply:
    status: int
    body: Any
    headers: Any

    @property
    def refusal(self) -> tuple[int, str]:
        """The status and the reason of a refusal in the API's own form."""
        assert self.body["kind"] == "Status"
        assert self.body["apiVersion"] == "v1"
        assert self.body["status"] == "Failure"
        assert self.body["code"] == self.status
        assert "expected" in self.body["message"] or self.status >= 404
        return self.status, self.body["reason"]


@dataclass
class Service:
    """The pages under test, and those who ask them."""

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
    patience_seconds: float = 10.0,
    stranger_seconds: float = 10.0,
) -> AsyncIterator[Service]:
    answers, reviewer = Answers(), Reviewer()
    pages = Pages(
        Metrics().registry,
        live={},
        ready={},
        configuration={},
        inspecting=Inspecting(
            answers,
            Gate(reviewer, patience_seconds=stranger_seconds),
            patience_seconds=patience_seconds,
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
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


QUEUE = f"{ROOT}/namespaces/team-a/queue"


# --- What is answered


def test_the_queue_is_a_list_as_the_api_has_them(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            reply = await served.get(QUEUE, "alices")
            assert reply.status == 200
            assert reply.body == {
                "kind": "QueueList",
                "apiVersion": "inspect.afflux.dev/v1alpha1",
                "metadata": {
                    "time": "2027-01-15T08:00:00Z",
                    "continue": "",
                    "remainingItemCount": 0,
                },
                "items": [
                    {
                        "namespace": "team-a",
                        "name": "train",
                        "queue": "default",
                        "position": 1,
                        "size": 4,
                        "present": 4,
                        "priority": 0,
                        "state": "waiting",
                        "waitingSince": "2027-01-15T07:54:48Z",
                        "runSeconds": 3600.0,
                        "promised": True,
                        "expectedStart": "2027-01-15T08:05:12.500000Z",
                        "reason": "0/5 nodes are available: 5 Insufficient cpu.",
                    }
                ],
            }
            assert reply.headers["Cache-Control"] == "no-store"
            assert served.answers.asked == [Asked(namespace="team-a")]

    run(test)


@pytest.mark.parametrize(
    ("what", "kind"),
    [("queue", "QueueList"), ("reservations", "ReservationList"), ("history", "HistoryList")],
)
def test_every_list_is_of_one_namespace_or_of_all(tmp_path: Path, what: str, kind: str) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            for path, namespace in ((f"/namespaces/x/{what}", "x"), (f"/{what}", None)):
                query = "?limit=7&continue=abc&queue=night"
                reply = await served.get(f"{ROOT}{path}{query}", "roots")
                assert (reply.status, reply.body["kind"]) == (200, kind)
                assert served.answers.asked[-1] == Asked(
                    namespace=namespace, queue="night", limit=7, resume="abc"
                )

    run(test)


def test_the_queue_can_be_asked_for_states(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            await served.get(f"{QUEUE}?state=running,waiting", "alices")
            assert served.answers.asked[-1].states == ("waiting", "running")
            assert Asked(namespace=None).states == NOT_RUNNING

    run(test)


def test_one_group(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            reply = await served.get(f"{ROOT}/namespaces/team-a/groups/train", "alices")
            assert reply.status == 200
            assert reply.body["kind"] == "GroupDetails"
            assert reply.body["name"] == "train"
            assert reply.body["until"] is None
            assert served.reviewer.accesses[-1][1] == Access("get", "team-a", "train")
            missing = await served.get(f"{ROOT}/namespaces/team-a/groups/no", "alices")
            assert missing.refusal == (404, "NotFound")
            assert missing.body["message"] == "there is no group 'no' in namespace 'team-a'"

    run(test)


def test_whether_a_group_exists_is_not_told_to_those_who_may_not_see_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            for name in ("train", "no"):
                reply = await served.get(f"{ROOT}/namespaces/team-b/groups/{name}", "alices")
                assert reply.refusal == (403, "Forbidden")
            assert served.answers.asked == []

    run(test)


# --- Who is let in


def test_tokens(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            assert (await served.get(QUEUE)).refusal == (401, "Unauthorized")
            assert (await served.get(QUEUE, "nobodys")).refusal == (401, "Unauthorized")
            assert (await served.get(QUEUE, "")).refusal == (401, "Unauthorized")
            basic = await served.get(QUEUE, Authorization="Basic YTpi")
            assert basic.refusal == (401, "Unauthorized")
            assert basic.headers["WWW-Authenticate"] == 'Bearer realm="afflux"'
            assert served.answers.asked == []
            assert (await served.get(QUEUE, "alices")).status == 200
            # A user of one namespace does not see the others, nor all of them at once.
            elsewhere = await served.get(f"{ROOT}/namespaces/team-b/queue", "alices")
            assert elsewhere.refusal == (403, "Forbidden")
            assert "expected a RoleBinding there" in elsewhere.body["message"]
            everywhere = await served.get(f"{ROOT}/queue", "alices")
            assert everywhere.refusal == (403, "Forbidden")
            assert "(-n)" in everywhere.body["message"]
            assert (await served.get(f"{ROOT}/queue", "roots")).status == 200
            # Some tokens are long.
            assert (await served.get(QUEUE, "x" * 20_000)).refusal == (401, "Unauthorized")
            # Case does not matter in the name of a scheme.
            assert (await served.get(QUEUE, Authorization="bearer alices")).status == 200

    run(test)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_client_certificates(tmp_path: Path, loop: str) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            clients, others = new_authority(), new_authority()
            alice = certificate(clients, "alice", "devs")
            # Before anybody is trusted nobody is asked, and a certificate says nothing.
            assert (await served.get(QUEUE, client=alice)).refusal == (401, "Unauthorized")
            served.pages.trust_clients_of(clients.cert_pem.bytes())
            assert (await served.get(QUEUE, client=alice)).status == 200
            user, _ = served.reviewer.accesses[-1]
            assert user == User("alice", groups=("devs", "system:authenticated"))
            assert served.reviewer.tokens == []
            bob = certificate(clients, "bob")
            assert (await served.get(QUEUE, client=bob)).refusal == (403, "Forbidden")
            # A certificate of somebody else: there is not even a connection.
            with pytest.raises(aiohttp.ClientConnectionError):
                await served.get(QUEUE, client=certificate(others, "alice", "devs"))
            # Those without one are let in as before, and everybody to the open pages.
            assert (await served.get(QUEUE, "alices")).status == 200
            assert (await served.get("/livez")).body == "ok"
            # The authority is replaced: the old one counts no longer.
            served.pages.trust_clients_of(others.cert_pem.bytes())
            with pytest.raises(aiohttp.ClientConnectionError):
                await served.get(QUEUE, client=alice)
            reply = await served.get(QUEUE, client=certificate(others, "alice", "devs"))
            assert reply.status == 200

    if loop == "uvloop":
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(asyncio.wait_for(test(), 60))
    else:
        run(test)


def test_authorities_that_cannot_be_used_leave_the_old_ones(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            clients = new_authority()
            served.pages.trust_clients_of(clients.cert_pem.bytes())
            with pytest.raises(InputError, match="expected certificates in PEM form"):
                served.pages.trust_clients_of(b"nonsense")
            alice = certificate(clients, "alice", "devs")
            assert (await served.get(QUEUE, client=alice)).status == 200

    run(test)


def test_nothing_is_answered_in_the_clear(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path, tls=False) as served:
            reply = await served.get(QUEUE, "roots")
            assert reply.refusal == (403, "Forbidden")
            assert "serving.certFile" in reply.body["message"]
            assert served.reviewer.tokens == []
            assert served.answers.asked == []

    run(test)


def test_nobody_is_impersonated(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            reply = await served.get(QUEUE, "alices", **{"Impersonate-User": "root"})
            assert reply.refusal == (400, "BadRequest")
            assert served.answers.asked == []

    run(test)


def test_reviews_hold_for_a_while(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            for _ in range(3):
                assert (await served.get(QUEUE, "alices")).status == 200
                assert (await served.get(QUEUE, "nobodys")).status == 401
            assert sorted(served.reviewer.tokens) == ["alices", "nobodys"]
            assert len(served.reviewer.accesses) == 1

    run(test)


def test_if_nobody_can_say_who_asks_nobody_is_let_in(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            served.reviewer.problem = ReviewError("the API server cannot be asked who you are")
            reply = await served.get(QUEUE, "alices")
            assert reply.refusal == (503, "ServiceUnavailable")
            assert "cannot be asked who you are" in reply.body["message"]
            # And that is not remembered.
            served.reviewer.problem = None
            assert (await served.get(QUEUE, "alices")).status == 200

    run(test)


# --- What cannot be asked


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        (f"{QUEUE}?limit=0", f"limit: '0', expected a whole number from 1 to {MOST_LINES}"),
        (f"{QUEUE}?limit={MOST_LINES + 1}", "expected a whole number"),
        (f"{QUEUE}?limit=1e3", "expected a whole number"),
        (f"{QUEUE}?limit=٣", "expected a whole number"),
        (f"{QUEUE}?continue={'a' * 3000}", "continue: too long, expected"),
        (f"{QUEUE}?queue=a%00b", "queue: 'a\\x00b', expected a queue's name"),
        (f"{QUEUE}?state=finished", "state: 'finished', expected some of: provisional"),
        (f"{QUEUE}?watch=true", "'watch': no such parameter, expected one of: limit"),
        (f"{ROOT}/namespaces/team-a/history?state=running", "'state': no such parameter"),
        (f"{ROOT}/namespaces/Team_A/queue", "namespace: 'Team_A', expected a namespace's name"),
        (f"{ROOT}/namespaces/team-a/groups/a%2Fb", "name: 'a/b', expected a group's name"),
    ],
)
def test_wrong_questions_are_told_what_was_expected(
    tmp_path: Path, path: str, complaint: str
) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            reply = await served.get(path, "roots")
            assert reply.refusal == (400, "BadRequest")
            assert complaint in reply.body["message"]
            assert served.answers.asked == []

    run(test)


@pytest.mark.parametrize("path", ["/apis", "/apis/", ROOT, f"{ROOT}/pods", "/apis/apps/v1/x"])
def test_other_pages_are_not_there(tmp_path: Path, path: str) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            assert (await served.get(path)).refusal == (401, "Unauthorized")
            reply = await served.get(path, "alices")
            assert reply.refusal == (404, "NotFound")
            assert "/namespaces/NAMESPACE/groups/NAME" in reply.body["message"]

    run(test)


def test_nothing_can_be_changed(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                reply = await served.get(QUEUE, "roots", method=method)
                assert reply.refusal == (405, "MethodNotAllowed")
            assert (await served.get(QUEUE, "roots", method="HEAD")).status == 200

    run(test)


# --- Load and trouble


def test_a_hundred_who_look_at_the_same_cost_one_look(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            served.answers.hold = asyncio.Event()
            asking = [asyncio.create_task(served.get(QUEUE, "alices")) for _ in range(20)]
            while not served.answers.asked:
                await asyncio.sleep(0.01)
            served.answers.hold.set()
            assert [reply.status for reply in await asyncio.gather(*asking)] == [200] * 20
            assert len(served.answers.asked) == 1
            # What is remembered is never shown to somebody else without asking whether they may.
            assert (await served.get(QUEUE, "nobodys")).status == 401

    run(test)


def test_more_than_can_be_answered_are_sent_away(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            served.answers.hold = asyncio.Event()
            asking = [
                asyncio.create_task(served.get(QUEUE, "alices")) for _ in range(MOST_AT_ONCE + 5)
            ]
            done, waiting = await asyncio.wait(asking, timeout=20, return_when="FIRST_COMPLETED")
            while len(done) < 5:
                more, waiting = await asyncio.wait(waiting, return_when="FIRST_COMPLETED")
                done |= more
            for task in done:
                assert task.result().refusal == (429, "TooManyRequests")
                assert task.result().headers["Retry-After"] == "1"
            # Probes and metrics are not affected.
            assert (await served.get("/livez")).body == "ok"
            served.answers.hold.set()
            assert {reply.status for reply in await asyncio.gather(*waiting)} == {200}

    run(test)


def test_strangers_cannot_keep_out_those_who_are_known(tmp_path: Path) -> None:
    """Tokens that are nobody's, which the API server is slow to say."""

    async def test() -> None:
        async with service(tmp_path) as served:
            assert (await served.get(QUEUE, "alices")).status == 200
            served.reviewer.hold = asyncio.Event()
            strangers = [
                asyncio.create_task(served.get(QUEUE, f"stranger-{number}"))
                for number in range(MOST_AT_ONCE + 5)
            ]
            sent_away = len(strangers) - MOST_STRANGERS_OF_ONE
            done: set[asyncio.Task[Reply]] = set()
            while len(done) < sent_away:
                done = {task for task in strangers if task.done()}
                await asyncio.sleep(0.01)
            assert {task.result().refusal for task in done} == {(429, "TooManyRequests")}
            assert served.reviewer.held == MOST_STRANGERS_OF_ONE
            # Whom the API server has just named is known, and others come from elsewhere.
            assert (await served.get(QUEUE, "alices")).status == 200
            assert (await served.get(QUEUE, "roots", address="127.0.0.2")).status == 200
            served.reviewer.hold.set()
            late = await asyncio.gather(*strangers)
            assert [reply.status for reply in late].count(401) == MOST_STRANGERS_OF_ONE
            # And there is room again.
            assert (await served.get(QUEUE, "roots")).status == 200

    run(test)


def test_strangers_everywhere_are_not_asked_about_without_end(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path, stranger_seconds=0.5) as served:
            served.reviewer.hold = asyncio.Event()
            strangers = [
                served.get(QUEUE, f"stranger-{number}", address=f"127.0.1.{number}")
                for number in range(MOST_STRANGERS + 4)
            ]
            found = [reply.refusal for reply in await asyncio.gather(*strangers)]
            assert found.count((429, "TooManyRequests")) == 4
            assert found.count((503, "ServiceUnavailable")) == MOST_STRANGERS
            # Nor does anybody go on asking.
            assert served.reviewer.held == 0
            assert (await served.get(QUEUE, "alices")).status == 200

    run(test)


def test_an_answer_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path, patience_seconds=0.2) as served:
            served.answers.hold = asyncio.Event()
            for limit in (1, 2, 3):
                reply = await served.get(f"{QUEUE}?limit={limit}", "alices")
                assert reply.refusal == (504, "Timeout")
            await asyncio.sleep(0.1)
            # Nor does anybody go on looking for it: what nobody waits for would pile up.
            assert len(served.answers.asked) == 3
            assert served.answers.held == 0

    run(test)


@pytest.mark.parametrize(
    ("problem", "refusal"),
    [
        (InspectionError("the ledger cannot be reached: refused"), (503, "ServiceUnavailable")),
        (InputError("continue: 'x', expected what the page before has"), (400, "BadRequest")),
        (ZeroDivisionError("secret"), (500, "InternalError")),
    ],
)
def test_trouble_is_told_and_forgotten(
    tmp_path: Path, problem: Exception, refusal: tuple[int, str]
) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            served.answers.problem = problem
            reply = await served.get(QUEUE, "alices")
            assert reply.refusal == refusal
            assert "secret" not in reply.body["message"]
            served.answers.problem = None
            assert (await served.get(QUEUE, "alices")).status == 200

    run(test)
