"""A request is answered, refused with the server's words, or its fate is stated."""

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from api_server import answer, client_of, connection_to, refusal, run, serving, speaking, until

from afflux.kube.api.client import MERGE_PATCH, Api
from afflux.kube.api.errors import ApiError, UnreachableError

pytestmark = pytest.mark.slow


class Version(msgspec.Struct):
    major: str
    minor: str


async def caught(api: Api, method: str = "GET", **options: Any) -> Exception:
    """What a request fails with."""
    try:
        if method == "GET":
            await api.get("/x", Version)
        else:
            await api.send(method, "/x", {"a": 1}, **options)
    except (ApiError, UnreachableError) as error:
        return error
    pytest.fail("the request succeeded")


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


# --- No answer


def test_nobody_listens() -> None:
    async def test() -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        async with Api(connection_to(port)) as api:
            error = await caught(api, "POST")
            assert isinstance(error, UnreachableError)
            assert not error.sent
            assert str(error) == f"POST /x: cannot connect to 127.0.0.1:{port}: Connection refused"

    run(test)


def test_nobody_accepts() -> None:
    async def test() -> None:
        # A listener whose queue is full: connecting neither succeeds nor fails.
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            port = listener.getsockname()[1]
            waiting = [socket.socket() for _ in range(3)]
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
            try:
                async with Api(connection_to(port), timeout_seconds=0.5) as api:
                    error = await caught(api, "POST")
                    assert isinstance(error, UnreachableError)
                    assert not error.sent
            finally:
                for each in waiting:
                    each.close()

    run(test)


def test_a_slow_server_is_given_up_and_the_next_request_works() -> None:
    async def test() -> None:
        slow = True

        async def handle(request: web.Request) -> web.Response:
            if slow:
                await asyncio.sleep(60)
            return answer({"major": "1", "minor": "37"})

        async with client_of(handle) as api:
            error = await caught(api, "POST", timeout_seconds=0.3)
            assert isinstance(error, UnreachableError)
            assert error.sent
            assert str(error) == "POST /x: timed out"
            slow = False
            await api.get("/x", Version)

    run(test)


def test_an_answer_that_drips_is_given_up_as_well() -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.05)

        async with client_of(handle, timeout_seconds=0.5) as api:
            error = await caught(api)
            assert isinstance(error, UnreachableError)
            assert error.sent

    run(test)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"major": ',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"maj\r\n',
        b"nonsense\r\n\r\n",
    ],
)
def test_an_answer_that_ends_too_early(said: bytes) -> None:
    async def test() -> None:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            await writer.drain()
            writer.close()

        async with speaking(speak) as connection, Api(connection) as api:
            for method in ("GET", "POST"):
                error = await caught(api, method)
                assert isinstance(error, UnreachableError)
                assert error.sent

    run(test)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"major": 1, "minor": 2}', b"\xff", b"[" * 100_000])
def test_an_answer_that_makes_no_sense(body: bytes) -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            return web.Response(body=body)

        async with client_of(handle) as api:
            error = await caught(api)
            assert isinstance(error, UnreachableError)
            assert error.sent

    run(test)


def test_a_stream_is_handed_on_in_pieces_and_silence_ends_it() -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            assert request.headers["Accept-Encoding"] == "identity"
            response = web.StreamResponse()
            await response.prepare(request)
            for number in range(3):
                await response.write(b"%d" % number)
                await asyncio.sleep(0.05)
            await asyncio.sleep(60)
            return response

        async with client_of(handle, timeout_seconds=0.1) as api:
            got = bytearray()

            async def read() -> None:
                async for piece in api.stream("/x", silence_seconds=1.0):
                    got.extend(piece)

            with pytest.raises(UnreachableError) as raised:
                await read()
            assert got == b"012"
            assert raised.value.sent

    run(test)


def test_closing_ends_what_is_under_way() -> None:
    async def test() -> None:
        arrived = asyncio.Event()

        async def handle(request: web.Request) -> web.Response:
            arrived.set()
            await asyncio.sleep(60)
            return answer({})

        async with serving(handle) as connection:
            api = Api(connection)
            request = asyncio.create_task(caught(api, "POST"))
            await arrived.wait()
            await api.close()
            error = await request
            assert isinstance(error, UnreachableError)
            assert error.sent

    run(test)


def test_a_cancelled_request_does_not_block_its_place() -> None:
    async def test() -> None:
        arrived = 0

        async def handle(request: web.Request) -> web.Response:
            nonlocal arrived
            arrived += 1
            if arrived == 1:
                await asyncio.sleep(60)
            return answer({})

        async with client_of(handle, connections=1) as api:
            first = asyncio.create_task(api.send("POST", "/x", {}))
            await until(lambda: arrived == 1)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            await api.send("POST", "/x", {})

    run(test)


def test_a_cancellation_at_the_moment_of_the_timeout_is_not_lost() -> None:
    """Somebody's deadline and the request's own fall into one turn of the event loop."""

    async def test() -> None:
        arrived = asyncio.Event()

        async def handle(request: web.Request) -> web.Response:
            arrived.set()
            await asyncio.sleep(60)
            return answer({})

        async with client_of(handle, timeout_seconds=1.0) as api:
            request = asyncio.create_task(api.send("POST", "/x", {}))
            await arrived.wait()
            asyncio.get_running_loop().call_later(0.1, request.cancel)
            time.sleep(1.5)
            await asyncio.wait({request})
            assert request.cancelled()

    run(test)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux only")
def test_a_connection_asks_whether_the_other_end_is_alive() -> None:
    async def test() -> None:
        arrived = asyncio.Event()
        timers: list[str] = []

        async def handle(request: web.Request) -> web.Response:
            assert request.transport is not None
            port = request.transport.get_extra_info("peername")[1]
            arrived.set()
            # A moment later nothing is unconfirmed, and only one kind of timer can be left.
            await asyncio.sleep(0.5)
            for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
                _, local, _, state, _, timer, *_ = line.split()
                if int(local.split(":")[1], 16) == port and state == "01":
                    timers.append(timer.split(":")[0])
            return answer({})

        async with client_of(handle) as api:
            await api.send("POST", "/x", {})
        keepalive = "02"
        assert timers == [keepalive]

    run(test)
