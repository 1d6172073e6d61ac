"""A request that gets no answer ends in time, and it is said whether it may have arrived."""

import asyncio
import socket
import time
from pathlib import Path

import pytest
from aiohttp import web
from api_server import answer, client_of, connection_to, run, serving, speaking, until
from caught_requests import Version, caught

from afflux.kube.api.client import Api
from afflux.kube.api.errors import UnreachableError

pytestmark = pytest.mark.slow


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
