"""Authentication of the inspection service: tokens, client certificates, limits on reviews.

The API server is a fake that knows two tokens; tests/live/test_inspection.py uses a real one.
"""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from inspection_service import QUEUE, Reply, Service, certificate, new_authority, run, service

from afflux.cycle.inspection_types import ROOT
from afflux.model.errors import InputError
from afflux.web.authentication import (
    CACHE_TTL_SECONDS,
    KNOWN_TTL_SECONDS,
    MAX_UNKNOWN,
    MAX_UNKNOWN_PER_ADDRESS,
    ReviewError,
    User,
)
from afflux.web.inspection_pages import MAX_IN_FLIGHT

pytestmark = pytest.mark.slow


# --- Credentials


def test_a_token_gives_the_access_of_its_user(tmp_path: Path) -> None:
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
            # A user of one namespace may see neither another one nor all of them.
            elsewhere = await served.get(f"{ROOT}/namespaces/team-b/queue", "alices")
            assert elsewhere.refusal == (403, "Forbidden")
            assert "expected a RoleBinding there" in elsewhere.body["message"]
            everywhere = await served.get(f"{ROOT}/queue", "alices")
            assert everywhere.refusal == (403, "Forbidden")
            assert "(-n)" in everywhere.body["message"]
            assert (await served.get(f"{ROOT}/queue", "roots")).status == 200
            # Long tokens are reviewed too.
            assert (await served.get(QUEUE, "x" * 20_000)).refusal == (401, "Unauthorized")
            # The name of the scheme is not case-sensitive.
            assert (await served.get(QUEUE, Authorization="bearer alices")).status == 200

    run(test)


def test_a_client_certificate_gives_the_access_of_its_user(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            clients, others = new_authority(), new_authority()
            alice = certificate(clients, "alice", "devs")
            # Without a trusted authority, client certificates are ignored.
            assert (await served.get(QUEUE, client=alice)).refusal == (401, "Unauthorized")
            served.pages.trust_clients_of(clients.cert_pem.bytes())
            assert (await served.get(QUEUE, client=alice)).status == 200
            user, _ = served.reviewer.accesses[-1]
            assert user == User("alice", groups=("devs", "system:authenticated"))
            assert served.reviewer.tokens == []
            bob = certificate(clients, "bob")
            assert (await served.get(QUEUE, client=bob)).refusal == (403, "Forbidden")
            # A certificate of another authority ends the connection.
            with pytest.raises(aiohttp.ClientConnectionError):
                await served.get(QUEUE, client=certificate(others, "alice", "devs"))
            # Tokens are still accepted, and the open pages need no credentials.
            assert (await served.get(QUEUE, "alices")).status == 200
            assert (await served.get("/livez")).body == "ok"
            # The authority is replaced: certificates of the old one are rejected.
            served.pages.trust_clients_of(others.cert_pem.bytes())
            with pytest.raises(aiohttp.ClientConnectionError):
                await served.get(QUEUE, client=alice)
            reply = await served.get(QUEUE, client=certificate(others, "alice", "devs"))
            assert reply.status == 200

    run(test)


def test_invalid_authorities_do_not_replace_valid_ones(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            clients = new_authority()
            served.pages.trust_clients_of(clients.cert_pem.bytes())
            with pytest.raises(InputError, match="expected certificates in PEM form"):
                served.pages.trust_clients_of(b"nonsense")
            alice = certificate(clients, "alice", "devs")
            assert (await served.get(QUEUE, client=alice)).status == 200

    run(test)


def test_requests_without_tls_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path, tls=False) as served:
            reply = await served.get(QUEUE, "roots")
            assert reply.refusal == (403, "Forbidden")
            assert "serving.certFile" in reply.body["message"]
            assert served.reviewer.tokens == []
            assert served.answers.asked == []

    run(test)


def test_impersonation_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            reply = await served.get(QUEUE, "alices", **{"Impersonate-User": "root"})
            assert reply.refusal == (400, "BadRequest")
            assert served.answers.asked == []

    run(test)


def test_reviews_are_cached(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            for _ in range(3):
                assert (await served.get(QUEUE, "alices")).status == 200
                assert (await served.get(QUEUE, "nobodys")).status == 401
            assert sorted(served.reviewer.tokens) == ["alices", "nobodys"]
            assert len(served.reviewer.accesses) == 1

    run(test)


def test_without_reviews_no_request_is_authenticated(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            served.reviewer.problem = ReviewError("the API server cannot be asked who you are")
            reply = await served.get(QUEUE, "alices")
            assert reply.refusal == (503, "ServiceUnavailable")
            assert "cannot be asked who you are" in reply.body["message"]
            # The failure is not cached.
            served.reviewer.problem = None
            assert (await served.get(QUEUE, "alices")).status == 200

    run(test)


# --- Unknown tokens


def test_unknown_tokens_do_not_block_known_ones(tmp_path: Path) -> None:
    """The API server is slow to reject unknown tokens."""

    async def test() -> None:
        async with service(tmp_path) as served:
            assert (await served.get(QUEUE, "alices")).status == 200
            served.reviewer.hold = asyncio.Event()
            strangers = [
                asyncio.create_task(served.get(QUEUE, f"stranger-{number}"))
                for number in range(MAX_IN_FLIGHT + 5)
            ]
            sent_away = len(strangers) - MAX_UNKNOWN_PER_ADDRESS
            done: set[asyncio.Task[Reply]] = set()
            while len(done) < sent_away:
                done = {task for task in strangers if task.done()}
                await asyncio.sleep(0.01)
            assert {task.result().refusal for task in done} == {(429, "TooManyRequests")}
            assert served.reviewer.held == MAX_UNKNOWN_PER_ADDRESS
            # A known token, and an unknown one from another address, are accepted.
            assert (await served.get(QUEUE, "alices")).status == 200
            assert (await served.get(QUEUE, "roots", address="127.0.0.2")).status == 200
            served.reviewer.hold.set()
            late = await asyncio.gather(*strangers)
            assert [reply.status for reply in late].count(401) == MAX_UNKNOWN_PER_ADDRESS
            # The limit is free again.
            assert (await served.get(QUEUE, "roots")).status == 200

    run(test)


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


async def unanswered_reviews(served: Service) -> list[asyncio.Task[Reply]]:
    """As many unanswered reviews of unknown tokens as one address may have."""
    served.reviewer.hold = asyncio.Event()
    strangers = [
        asyncio.create_task(served.get(QUEUE, f"stranger-{number}"))
        for number in range(MAX_UNKNOWN_PER_ADDRESS)
    ]
    while served.reviewer.held < MAX_UNKNOWN_PER_ADDRESS:
        await asyncio.sleep(0.01)
    return strangers


async def answer_reviews(served: Service, strangers: list[asyncio.Task[Reply]]) -> None:
    assert served.reviewer.hold is not None
    served.reviewer.hold.set()
    assert {reply.status for reply in await asyncio.gather(*strangers)} == {401}


def test_a_known_token_is_reviewed_again_without_the_limit(tmp_path: Path) -> None:
    async def test() -> None:
        clock = Clock()
        async with service(tmp_path, clock=clock) as served:
            assert (await served.get(QUEUE, "alices")).status == 200
            clock.seconds += CACHE_TTL_SECONDS + 1
            strangers = await unanswered_reviews(served)
            assert (await served.get(QUEUE, "roots")).refusal == (429, "TooManyRequests")
            assert (await served.get(QUEUE, "alices")).status == 200
            # The API server has reviewed the token again.
            assert served.reviewer.tokens.count("alices") == 2
            await answer_reviews(served, strangers)

    run(test)


def test_invalid_tokens_do_not_evict_known_ones(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path, max_cache_entries=4) as served:
            assert (await served.get(QUEUE, "alices")).status == 200
            for number in range(8):
                assert (await served.get(QUEUE, f"nonsense-{number}")).status == 401
            assert (await served.get(QUEUE, "alices")).status == 200
            assert served.reviewer.tokens.count("alices") == 1
            # Rejected tokens are cached in a bounded number.
            assert (await served.get(QUEUE, "nonsense-0")).status == 401
            assert served.reviewer.tokens.count("nonsense-0") == 2

    run(test)


def test_a_revoked_token_becomes_unknown(tmp_path: Path) -> None:
    async def test() -> None:
        clock = Clock()
        async with service(tmp_path, clock=clock) as served:
            assert (await served.get(QUEUE, "alices")).status == 200
            del served.reviewer.names["alices"]
            clock.seconds += CACHE_TTL_SECONDS + 1
            assert (await served.get(QUEUE, "alices")).refusal == (401, "Unauthorized")
            # It is reviewed once more as an unknown token, and the rejection is cached.
            for _ in range(3):
                assert (await served.get(QUEUE, "alices")).refusal == (401, "Unauthorized")
            assert served.reviewer.tokens.count("alices") == 3

    run(test)


def test_a_token_not_seen_for_an_hour_becomes_unknown(tmp_path: Path) -> None:
    async def test() -> None:
        clock = Clock()
        async with service(tmp_path, clock=clock) as served:
            assert (await served.get(QUEUE, "alices")).status == 200
            clock.seconds += KNOWN_TTL_SECONDS + 1
            strangers = await unanswered_reviews(served)
            assert (await served.get(QUEUE, "alices")).refusal == (429, "TooManyRequests")
            await answer_reviews(served, strangers)

    run(test)


def test_reviews_of_unknown_tokens_are_bounded_in_total(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path, stranger_seconds=0.5) as served:
            served.reviewer.hold = asyncio.Event()
            strangers = [
                served.get(QUEUE, f"stranger-{number}", address=f"127.0.1.{number}")
                for number in range(MAX_UNKNOWN + 4)
            ]
            found = [reply.refusal for reply in await asyncio.gather(*strangers)]
            assert found.count((429, "TooManyRequests")) == 4
            assert found.count((503, "ServiceUnavailable")) == MAX_UNKNOWN
            # No review is left.
            assert served.reviewer.held == 0
            assert (await served.get(QUEUE, "alices")).status == 200

    run(test)
