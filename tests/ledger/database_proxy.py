"""A proxy of the database that cuts connections: after a number of messages, or at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from psycopg import conninfo

# The message by which the server accepts a connection and ends each answer.
READY = b"Z"

Direction = Literal["asked", "answered"]


@dataclass
class DatabaseProxy:
    """The state of the proxy: which connections and messages pass."""

    url: str = ""
    open: bool = True
    # After this number of messages in this direction, all connections are cut.
    cut: tuple[Direction, int] | None = None
    # After this number of messages in this direction, nothing passes any more.
    stall: tuple[Direction, int] | None = None
    # Nothing passes, but connections stay open: as if the cable had been pulled.
    silent: bool = False
    passed: dict[Direction, list[bytes]] = field(
        default_factory=lambda: {"asked": [], "answered": []}
    )
    _connections: set[asyncio.StreamWriter] = field(default_factory=set)

    def count_from_here(self) -> None:
        self.passed = {"asked": [], "answered": []}

    def close(self) -> None:
        """Cut all connections, and refuse new ones."""
        self.open = False
        for writer in self._connections:
            writer.transport.abort()

    def reopen(self) -> None:
        self.open, self.cut, self.stall, self.silent = True, None, None, False

    def _passes(self, direction: Direction, message: bytes) -> bool:
        if self.cut is not None and (direction, len(self.passed[direction])) == self.cut:
            return False
        self.passed[direction].append(message[:1])
        return True

    async def forward(
        self, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Forward message by message; the first message of a client has no type."""
        begun = direction == "answered"
        try:
            while True:
                head = await reader.readexactly(5 if begun else 4)
                length = int.from_bytes(head[-4:]) - 4
                message = head + await reader.readexactly(length)
                if (direction, len(self.passed[direction])) == self.stall:
                    self.silent = True
                while self.silent:
                    await asyncio.sleep(0.01)
                if begun and not self._passes(direction, message):
                    return
                begun = True
                writer.write(message)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def proxied_database(url: str) -> AsyncIterator[DatabaseProxy]:
    """A port of loopback that leads to this database."""
    proxy = DatabaseProxy()
    parts = conninfo.conninfo_to_dict(url)
    socket = f"{parts['host']}/.s.PGSQL.5432"

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not proxy.open:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_unix_connection(socket)
        proxy._connections |= {writer, server_writer}
        try:
            asking = asyncio.create_task(proxy.forward("asked", reader, server_writer))
            answering = asyncio.create_task(proxy.forward("answered", server_reader, writer))
            await asyncio.wait({asking, answering}, return_when=asyncio.FIRST_COMPLETED)
            for one in (writer, server_writer):
                one.transport.abort()
            await asyncio.wait({asking, answering})
        finally:
            proxy._connections -= {writer, server_writer}

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        proxy.url = (
            f"postgresql://postgres@127.0.0.1:{port}/{parts['dbname']}"
            "?sslmode=disable&gssencmode=disable"
        )
        try:
            yield proxy
        finally:
            proxy.reopen()
            proxy.close()
            await asyncio.sleep(0.05)
