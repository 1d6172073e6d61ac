"""A way to the database that can be cut: after so many messages in either direction, or at will."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from psycopg import conninfo

# What the server says to accept a connection, and the end of its answer to anything.
READY = b"Z"

Direction = Literal["asked", "answered"]


@dataclass
class Way:
    """Who goes through, and how far."""

    url: str = ""
    open: bool = True
    # Counted from the next message on: so many of this direction pass, then all is cut.
    cut: tuple[Direction, int] | None = None
    # Counted in the same way: so many pass, and then it is silent.
    stall: tuple[Direction, int] | None = None
    # Nothing passes, but nobody is told: as if the cable had been pulled.
    silent: bool = False
    passed: dict[Direction, list[bytes]] = field(
        default_factory=lambda: {"asked": [], "answered": []}
    )
    _connections: set[asyncio.StreamWriter] = field(default_factory=set)

    def count_from_here(self) -> None:
        self.passed = {"asked": [], "answered": []}

    def close(self) -> None:
        """Cut what is there, and let nobody in."""
        self.open = False
        for writer in self._connections:
            writer.transport.abort()

    def let_in(self) -> None:
        self.open, self.cut, self.stall, self.silent = True, None, None, False

    def _passes(self, direction: Direction, message: bytes) -> bool:
        if self.cut is not None and (direction, len(self.passed[direction])) == self.cut:
            return False
        self.passed[direction].append(message[:1])
        return True

    async def forward(
        self, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Message by message; the first of a client has no type."""
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
async def way_to(url: str) -> AsyncIterator[Way]:
    """A port of loopback behind which this database is."""
    way = Way()
    parts = conninfo.conninfo_to_dict(url)
    socket = f"{parts['host']}/.s.PGSQL.5432"

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not way.open:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_unix_connection(socket)
        way._connections |= {writer, server_writer}
        try:
            asking = asyncio.create_task(way.forward("asked", reader, server_writer))
            answering = asyncio.create_task(way.forward("answered", server_reader, writer))
            await asyncio.wait({asking, answering}, return_when=asyncio.FIRST_COMPLETED)
            for one in (writer, server_writer):
                one.transport.abort()
            await asyncio.wait({asking, answering})
        finally:
            way._connections -= {writer, server_writer}

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        way.url = (
            f"postgresql://postgres@127.0.0.1:{port}/{parts['dbname']}"
            "?sslmode=disable&gssencmode=disable"
        )
        try:
            yield way
        finally:
            way.let_in()
            way.close()
            await asyncio.sleep(0.05)
