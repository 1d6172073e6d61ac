"""A request without an answer times out; the error says whether it may have been sent."""

import asyncio
import socket
from pathlib import Path

import pytest
from aiohttp import web
from api_server import answer, client_of, config_for, run, serving, speaking, until
from caught_requests import Version, caught

from afflux.kube.api.client import Api
from afflux.kube.api.errors import UnreachableError
from movable_clock import advance

pytestmark = pytest.mark.slow


def test_connection_refused() -> None:
    async def test() -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        async with Api(config_for(port)) as api:
            error = await caught(api, "POST")
            assert isinstance(error, UnreachableError)
            assert not error.sent
            assert str(error) == f"POST /x: cannot connect to 127.0.0.1:{port}: Connection refused"

    run(test)


def test_connecting_times_out() -> None:
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
                async with Api(config_for(port), timeout_seconds=0.5) as api:
                    error = await caught(api, "POST")
                    assert isinstance(error, UnreachableError)
                    assert not error.sent
            finally:
                for each in waiting:
                    each.close()

    run(test)


def test_a_slow_response_times_out_and_the_next_request_works() -> None:
    async def test() -> None:
        slow, arrived = True, asyncio.Event()

        async def handle(request: web.Request) -> web.Response:
            arrived.set()
            if slow:
                await asyncio.Event().wait()
            return answer({"major": "1", "minor": "37"})

        async with client_of(handle) as api:
            request = asyncio.create_task(caught(api, "POST", timeout_seconds=60))
            await arrived.wait()
            await advance(61)
            error = await request
            assert isinstance(error, UnreachableError)
            assert error.sent
            assert str(error) == "POST /x: timed out"
            slow = False
            await api.get("/x", Version)

    run(test)


def test_a_response_that_never_ends_times_out() -> None:
    async def test() -> None:
        written = 0

        async def handle(request: web.Request) -> web.StreamResponse:
            nonlocal written
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b" ")
                written += 1
                await asyncio.sleep(0.05)

        async with client_of(handle, timeout_seconds=60) as api:
            request = asyncio.create_task(caught(api))
            await until(lambda: written >= 3)
            await advance(61)
            error = await request
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
def test_an_incomplete_response_is_an_unreachable_error(said: bytes) -> None:
    async def test() -> None:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            await writer.drain()
            writer.close()

        async with speaking(speak) as config, Api(config) as api:
            for method in ("GET", "POST"):
                error = await caught(api, method)
                assert isinstance(error, UnreachableError)
                assert error.sent

    run(test)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"major": 1, "minor": 2}', b"\xff", b"[" * 100_000])
def test_an_undecodable_response_is_an_unreachable_error(body: bytes) -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            return web.Response(body=body)

        async with client_of(handle) as api:
            error = await caught(api)
            assert isinstance(error, UnreachableError)
            assert error.sent

    run(test)


def test_a_stream_yields_chunks_and_times_out_when_idle() -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            assert request.headers["Accept-Encoding"] == "identity"
            response = web.StreamResponse()
            await response.prepare(request)
            for number in range(3):
                await response.write(b"%d" % number)
                await until(lambda number=number: len(got) > number)
                # Longer than the timeout of a request, shorter than that of an idle stream.
                await advance(60)
            await asyncio.Event().wait()
            return response

        got = bytearray()
        async with client_of(handle, timeout_seconds=50) as api:

            async def read() -> None:
                async for piece in api.stream("/x", idle_timeout_seconds=100):
                    got.extend(piece)

            reading = asyncio.create_task(read())
            await until(lambda: len(got) == 3)
            await advance(102)
            with pytest.raises(UnreachableError) as raised:
                await reading
            assert got == b"012"
            assert raised.value.sent

    run(test)


def test_closing_the_client_fails_requests_in_flight() -> None:
    async def test() -> None:
        arrived = asyncio.Event()

        async def handle(request: web.Request) -> web.Response:
            arrived.set()
            await asyncio.sleep(60)
            return answer({})

        async with serving(handle) as config:
            api = Api(config)
            request = asyncio.create_task(caught(api, "POST"))
            await arrived.wait()
            await api.close()
            error = await request
            assert isinstance(error, UnreachableError)
            assert error.sent

    run(test)


def test_a_cancelled_request_frees_its_slot() -> None:
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
    """A deadline of the caller and the timeout of the request end in one turn of the event loop."""

    async def test() -> None:
        arrived = asyncio.Event()

        async def handle(request: web.Request) -> web.Response:
            arrived.set()
            await asyncio.sleep(60)
            return answer({})

        async with client_of(handle, timeout_seconds=60) as api:
            request = asyncio.create_task(api.send("POST", "/x", {}))
            await arrived.wait()
            asyncio.get_running_loop().call_later(30, request.cancel)
            await advance(90)
            await asyncio.wait({request})
            assert request.cancelled()

    run(test)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux only")
def test_a_connection_asks_whether_the_other_end_is_alive() -> None:
    async def test() -> None:
        keepalive = "02"

        def timers(port: int) -> list[str]:
            lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            return [
                timer.split(":")[0]
                for _, local, _, state, _, timer, *_ in lines
                if int(local.split(":")[1], 16) == port and state == "01"
            ]

        async def handle(request: web.Request) -> web.Response:
            assert request.transport is not None
            port = request.transport.get_extra_info("peername")[1]
            # Soon all data are acknowledged, and only one kind of timer can be left.
            await until(lambda: timers(port) == [keepalive])
            return answer({})

        async with client_of(handle) as api:
            # Without the timer, the answer is an error.
            await api.send("POST", "/x", {}, timeout_seconds=60)

    run(test)
