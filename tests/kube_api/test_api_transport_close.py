"""A client that is closed leaves no connection behind, whatever its server does."""

import socket
import threading
from contextlib import aclosing

from api_server import connection_to, run, server_context

from afflux.kube.api.client import Api

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = b"5\r\nhello\r\n"


class Mute:
    """A server that begins an answer and then neither says anything nor answers a farewell."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.hung_up = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        accepted, _ = self._listening.accept()
        accepted.settimeout(30)
        with server_context().wrap_socket(accepted, server_side=True) as connection:
            connection.recv(1 << 16)
            connection.sendall(HEAD + PIECE)
            # Below TLS: what is read is not answered.
            below = socket.socket(fileno=connection.detach())
        below.settimeout(30)
        with below:
            while below.recv(1 << 16):
                pass
        self.hung_up.set()

    def end(self) -> None:
        self._thread.join()
        self._listening.close()


def test_a_watch_that_was_left_is_hung_up_on() -> None:
    server = Mute()

    async def test() -> None:
        async with (
            Api(connection_to(server.port)) as api,
            aclosing(api.stream("/x", silence_seconds=30)) as pieces,
        ):
            assert await anext(pieces) == b"hello"
        # The loop stands still here, as if it had ended.
        assert server.hung_up.wait(10)

    try:
        run(test)
    finally:
        server.end()
