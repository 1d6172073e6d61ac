"""A request is answered, or refused with the server's words."""

import asyncio

import pytest
from aiohttp import web
from api_server import answer, client_of, refusal, run
from caught_requests import Version, caught

from afflux.kube.api.client import MERGE_PATCH
from afflux.kube.api.errors import ApiError

pytestmark = pytest.mark.slow


# --- What is sent, what comes back


def test_an_answer_is_decoded_into_the_callers_struct() -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            assert request.path == "/version"
            assert request.query["a"] == "b=c,d e"
            assert request.headers["Accept"] == "application/json"
            assert request.headers["User-Agent"].startswith("afflux/")
            assert "Cookie" not in request.headers
            return answer({"major": "1", "minor": "37", "more": 3}, Set_Cookie="a=b")

        async with client_of(handle) as api:
            for _ in range(2):
                got = await api.get("/version", Version, {"a": "b=c,d e"})
                assert got == Version("1", "37")

    run(test)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"as": "is"}', b'{"as": "is"}'),
        ({"a": 1}, b'{"a":1}'),
        (Version("1", "2"), b'{"major":"1","minor":"2"}'),
        (None, b""),
    ],
)
def test_bodies_are_bytes_or_anything_that_json_can_be_made_of(
    body: object, expected: bytes
) -> None:
    async def test() -> None:
        got: list[tuple[str, bytes]] = []

        async def handle(request: web.Request) -> web.Response:
            got.append((request.headers.get("Content-Type", ""), await request.read()))
            return answer({"major": "1", "minor": "2"}, status=201)

        async with client_of(handle) as api:
            assert await api.send("POST", "/x", body) is None
            sent = await api.send("PATCH", "/x", body, answer=Version, content_type=MERGE_PATCH)
            assert sent == Version("1", "2")
        assert got == [("application/json", expected), (MERGE_PATCH, expected)]

    run(test)


def test_one_connection_serves_many_requests() -> None:
    async def test() -> None:
        peers: set[object] = set()

        async def handle(request: web.Request) -> web.Response:
            assert request.transport is not None
            peers.add(request.transport.get_extra_info("peername"))
            return answer({}, status=404 if request.method == "DELETE" else 200)

        async with client_of(handle) as api:
            for _ in range(5):
                await api.send("POST", "/x", {})
                with pytest.raises(ApiError):
                    await api.send("DELETE", "/x", None)
        assert len(peers) == 1

    run(test)


def test_no_more_requests_than_allowed_are_under_way_and_queueing_is_not_timed() -> None:
    async def test() -> None:
        now = most = 0

        async def handle(request: web.Request) -> web.Response:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.1)
            now -= 1
            return answer({})

        async with client_of(handle, connections=3, timeout_seconds=2.0) as api:
            # Thirty one after the other take longer than one of them may.
            await asyncio.gather(*(api.send("POST", "/x", {}) for _ in range(90)))
        assert most == 3

    run(test)


def test_requests_per_second_are_bound_when_asked_for() -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            return answer({})

        async with client_of(handle, qps=20.0, burst=5) as api:
            begun = asyncio.get_running_loop().time()
            await asyncio.gather(*(api.send("POST", "/x", {}) for _ in range(15)))
            assert asyncio.get_running_loop().time() - begun >= 0.45

    run(test)


# --- Refusals


def test_a_refusal_has_the_servers_words() -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            return answer(refusal(409, "AlreadyExists", 'pods "x" already exists'), status=409)

        async with client_of(handle) as api:
            error = await caught(api, "POST")
            assert isinstance(error, ApiError)
            assert (error.status, error.reason) == (409, "AlreadyExists")
            assert error.message == 'pods "x" already exists'
            assert error.retry_after_seconds is None
            assert error.is_conflict
            others = ("is_missing", "is_gone", "is_refused", "is_busy", "may_have_happened")
            assert not any(getattr(error, other) for other in others)
            assert str(error) == 'POST /x: 409 AlreadyExists: pods "x" already exists'

    run(test)


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (404, "is_missing"),
        (410, "is_gone"),
        (401, "is_refused"),
        (403, "is_refused"),
        (429, "is_busy"),
        (503, "is_busy"),
        (500, "may_have_happened"),
        (504, "may_have_happened"),
    ],
)
def test_what_a_refusal_means(status: int, says: str) -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            return answer(refusal(status, "Why"), status=status)

        async with client_of(handle) as api:
            assert getattr(await caught(api, "POST"), says)

    run(test)


@pytest.mark.parametrize("body", [b"<html>Bad\nGateway</html>", b"", b"[1]", b"\xff\xfe", b"{"])
def test_a_refusal_by_something_that_is_no_api_server(body: bytes) -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            return web.Response(status=502, body=body)

        async with client_of(handle) as api:
            error = await caught(api, "POST")
            assert isinstance(error, ApiError)
            assert (error.status, error.reason) == (502, "Bad Gateway")
            assert "\n" not in str(error)

    run(test)


def test_redirects_are_not_followed() -> None:
    async def test() -> None:
        asked: list[str] = []

        async def handle(request: web.Request) -> web.Response:
            asked.append(request.path)
            return web.Response(status=307, headers={"Location": "/elsewhere"})

        async with client_of(handle) as api:
            for method in ("GET", "POST"):
                error = await caught(api, method)
                assert isinstance(error, ApiError)
                assert error.status == 307
        assert asked == ["/x", "/x"]

    run(test)


def test_a_write_to_a_busy_server_says_when_to_come_back() -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            if request.path == "/x":
                return answer(refusal(429, "TooManyRequests"), status=429, Retry_After="7")
            return answer(refusal(500, "ServerTimeout", retryAfterSeconds=3), status=500)

        async with client_of(handle) as api:
            error = await caught(api, "POST")
            assert isinstance(error, ApiError)
            assert error.retry_after_seconds == 7
            assert error.is_busy
            with pytest.raises(ApiError) as raised:
                await api.send("POST", "/other", {})
            assert raised.value.retry_after_seconds == 3
            assert raised.value.is_busy

    run(test)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_busy_server_is_waited_for(method: str, status: int) -> None:
    async def test() -> None:
        times: list[float] = []

        async def handle(request: web.Request) -> web.Response:
            times.append(asyncio.get_running_loop().time())
            if len(times) < 3:
                after = "1" if len(times) == 1 else "0"
                return answer(refusal(status, "Busy"), status=status, Retry_After=after)
            assert await request.read() == (b"" if method == "GET" else b'{"a":1}')
            return answer({"major": "1", "minor": "37"})

        async with client_of(handle) as api:
            if method == "GET":
                await api.get("/x", Version)
            else:
                await api.send(method, "/x", {"a": 1}, retry=True)
        assert len(times) == 3
        assert times[1] - times[0] >= 1.0
        assert times[2] - times[1] >= 0.1

    run(test)


def test_a_server_that_is_down_and_does_not_ask_for_patience_is_not_waited_for() -> None:
    async def test() -> None:
        asked = 0

        async def handle(request: web.Request) -> web.Response:
            nonlocal asked
            asked += 1
            return answer(refusal(503, "ServiceUnavailable"), status=503)

        async with client_of(handle) as api:
            await caught(api)
        assert asked == 1

    run(test)
