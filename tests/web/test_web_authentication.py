"""The inspection service: who is let in, and what becomes of the others.

Here the API server is somebody who knows two tokens; tests/live/test_inspection.py has a real one.
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


# --- By their credentials


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


def test_client_certificates(tmp_path: Path) -> None:
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


def test_impersonation_is_refused(tmp_path: Path) -> None:
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


def test_without_reviews_no_request_is_authenticated(tmp_path: Path) -> None:
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


# --- Strangers


def test_unknown_tokens_do_not_block_known_ones(tmp_path: Path) -> None:
    """Tokens that are nobody's, which the API server is slow to say."""

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
            # Whom the API server has just named is known, and others come from elsewhere.
            assert (await served.get(QUEUE, "alices")).status == 200
            assert (await served.get(QUEUE, "roots", address="127.0.0.2")).status == 200
            served.reviewer.hold.set()
            late = await asyncio.gather(*strangers)
            assert [reply.status for reply in late].count(401) == MAX_UNKNOWN_PER_ADDRESS
            # And there is room again.
            assert (await served.get(QUEUE, "roots")).status == 200

    run(test)


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


async def strangers_in_all_places(served: Service) -> list[asyncio.Task[Reply]]:
    """As many as are asked about at a time of this address, and nobody says whose tokens theirs
    are."""
    served.reviewer.hold = asyncio.Event()
    strangers = [
        asyncio.create_task(served.get(QUEUE, f"stranger-{number}"))
        for number in range(MAX_UNKNOWN_PER_ADDRESS)
    ]
    while served.reviewer.held < MAX_UNKNOWN_PER_ADDRESS:
        await asyncio.sleep(0.01)
    return strangers


async def go_on(served: Service, strangers: list[asyncio.Task[Reply]]) -> None:
    assert served.reviewer.hold is not None
    served.reviewer.hold.set()
    assert {reply.status for reply in await asyncio.gather(*strangers)} == {401}


def test_a_known_token_is_reviewed_again_without_the_limit(tmp_path: Path) -> None:
    async def test() -> None:
        clock = Clock()
        async with service(tmp_path, clock=clock) as served:
            assert (await served.get(QUEUE, "alices")).status == 200
            clock.seconds += CACHE_TTL_SECONDS + 1
            strangers = await strangers_in_all_places(served)
            assert (await served.get(QUEUE, "roots")).refusal == (429, "TooManyRequests")
            assert (await served.get(QUEUE, "alices")).status == 200
            # All the same the API server was asked again whose token it is.
            assert served.reviewer.tokens.count("alices") == 2
            await go_on(served, strangers)

    run(test)


def test_invalid_tokens_do_not_evict_known_ones(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path, max_cache_entries=4) as served:
            assert (await served.get(QUEUE, "alices")).status == 200
            for number in range(8):
                assert (await served.get(QUEUE, f"nonsense-{number}")).status == 401
            assert (await served.get(QUEUE, "alices")).status == 200
            assert served.reviewer.tokens.count("alices") == 1
            # Of nonsense only so much is remembered.
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
            # Like theirs it is asked about once more, in their turn, and that is remembered.
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
            strangers = await strangers_in_all_places(served)
            assert (await served.get(QUEUE, "alices")).refusal == (429, "TooManyRequests")
            await go_on(served, strangers)

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
            # Nor does anybody go on asking.
            assert served.reviewer.held == 0
            assert (await served.get(QUEUE, "alices")).status == 200

    run(test)
