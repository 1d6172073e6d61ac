"""Requests, responses, error responses and retries of the client."""

import asyncio

import pytest
from aiohttp import web
from api_server import answer, api_error, client_of, run, until
from caught_requests import Version, caught

from afflux.kube.api.client import MERGE_PATCH
from afflux.kube.api.errors import ApiError
from movable_clock import advance

pytestmark = pytest.mark.slow


# --- Requests and responses


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
def test_bodies_are_bytes_or_encoded_as_json(body: object, expected: bytes) -> None:
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


def test_a_connection_is_reused() -> None:
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


def test_requests_in_flight_are_limited_and_queueing_does_not_count_towards_the_timeout() -> None:
    async def test() -> None:
        in_flight = max_in_flight = 0
        release = asyncio.Event()

        async def handle(request: web.Request) -> web.Response:
            nonlocal in_flight, max_in_flight
            in_flight += 1
            max_in_flight = max(max_in_flight, in_flight)
            await release.wait()
            await asyncio.sleep(0.01)
            in_flight -= 1
            return answer({})

        def send(number: int, timeout_seconds: float) -> list[asyncio.Task[None]]:
            sending = (
                api.send("POST", "/x", {}, timeout_seconds=timeout_seconds) for _ in range(number)
            )
            return [asyncio.create_task(each) for each in sending]

        async with client_of(handle, connections=3) as api:
            slow = send(3, timeout_seconds=300)
            await until(lambda: in_flight == 3)
            queued = send(30, timeout_seconds=60)
            await asyncio.sleep(0)
            # The requests in the queue wait for longer than their timeout.
            await advance(90)
            await asyncio.sleep(0.01)
            release.set()
            await asyncio.gather(*slow, *queued)
        assert max_in_flight == 3

    run(test)


def test_qps_and_burst_limit_requests() -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            return answer({})

        async with client_of(handle, qps=20.0, burst=5) as api:
            begun = asyncio.get_running_loop().time()
            await asyncio.gather(*(api.send("POST", "/x", {}) for _ in range(15)))
            assert asyncio.get_running_loop().time() - begun >= 0.45

    run(test)


# --- Error responses


def test_an_api_error_has_the_reason_and_message_of_the_server() -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            return answer(api_error(409, "AlreadyExists", 'pods "x" already exists'), status=409)

        async with client_of(handle) as api:
            error = await caught(api, "POST")
            assert isinstance(error, ApiError)
            assert (error.status, error.reason) == (409, "AlreadyExists")
            assert error.message == 'pods "x" already exists'
            assert error.retry_after_seconds is None
            assert error.is_conflict
            others = ("is_not_found", "is_gone", "is_refused", "is_busy", "may_have_happened")
            assert not any(getattr(error, other) for other in others)
            assert str(error) == 'POST /x: 409 AlreadyExists: pods "x" already exists'

    run(test)


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (404, "is_not_found"),
        (410, "is_gone"),
        (401, "is_refused"),
        (403, "is_refused"),
        (429, "is_busy"),
        (503, "is_busy"),
        (500, "may_have_happened"),
        (504, "may_have_happened"),
    ],
)
def test_properties_of_an_api_error_by_status(status: int, says: str) -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            return answer(api_error(status, "Why"), status=status)

        async with client_of(handle) as api:
            assert getattr(await caught(api, "POST"), says)

    run(test)


@pytest.mark.parametrize("body", [b"<html>Bad\nGateway</html>", b"", b"[1]", b"\xff\xfe", b"{"])
def test_an_error_response_without_a_status_object(body: bytes) -> None:
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


def test_a_write_to_a_busy_server_raises_with_retry_after() -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            if request.path == "/x":
                return answer(api_error(429, "TooManyRequests"), status=429, Retry_After="7")
            return answer(api_error(500, "ServerTimeout", retryAfterSeconds=3), status=500)

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
def test_a_busy_server_is_retried_after_its_retry_after(status: int) -> None:
    async def test() -> None:
        times: list[float] = []

        async def handle(request: web.Request) -> web.Response:
            times.append(asyncio.get_running_loop().time())
            if len(times) < 3:
                after = "1" if len(times) == 1 else "0"
                return answer(api_error(status, "Busy"), status=status, Retry_After=after)
            assert await request.read() == b""
            return answer({"major": "1", "minor": "37"})

        async with client_of(handle) as api:
            await api.get("/x", Version)
        assert len(times) == 3
        assert times[1] - times[0] >= 1.0
        assert times[2] - times[1] >= 0.1

    run(test)


def test_a_503_without_retry_after_is_not_retried() -> None:
    async def test() -> None:
        asked = 0

        async def handle(request: web.Request) -> web.Response:
            nonlocal asked
            asked += 1
            return answer(api_error(503, "ServiceUnavailable"), status=503)

        async with client_of(handle) as api:
            await caught(api)
        assert asked == 1

    run(test)
