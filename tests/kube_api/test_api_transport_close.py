"""A closed client leaves no open connection, whatever the server does."""

import socket
import threading
from contextlib import aclosing

from api_server import config_for, run, server_context

from afflux.kube.api.client import Api

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = b"5\r\nhello\r\n"


class SilentServer:
    """A server that begins a response, then sends nothing more and ignores close_notify."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.shut_down = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        accepted, _ = self._listening.accept()
        accepted.settimeout(30)
        with server_context().wrap_socket(accepted, server_side=True) as config:
            config.recv(1 << 16)
            config.sendall(HEAD + PIECE)
            # Below TLS: what is read is not answered.
            below = socket.socket(fileno=config.detach())
        below.settimeout(30)
        with below:
            while below.recv(1 << 16):
                pass
        self.shut_down.set()

    def end(self) -> None:
        self._thread.join()
        self._listening.close()


def test_the_connection_of_a_closed_watch_is_shut_down() -> None:
    server = SilentServer()

    async def test() -> None:
        async with (
            Api(config_for(server.port)) as api,
            aclosing(api.stream("/x", idle_timeout_seconds=30)) as pieces,
        ):
            assert await anext(pieces) == b"hello"
        # This blocks the event loop, as if it had ended.
        assert server.shut_down.wait(10)

    try:
        run(test)
    finally:
        server.end()
