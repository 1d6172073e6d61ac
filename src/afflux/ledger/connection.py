"""The one connection: made when it is needed, given up when something is wrong with it."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import psycopg
from psycopg import conninfo

from afflux.cycle.ports import DeposedError, LedgerAwayError, LedgerError
from afflux.ledger.migrating import migrate
from afflux.ledger.statements import statement
from afflux.model.errors import InputError

Connection = psycopg.AsyncConnection[Any]
Address = Callable[[], Awaitable[str]]

# A server that is gone is noticed within half a minute, not within the two hours of TCP.
_DEFAULTS = {
    "application_name": "afflux",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_LONGEST_SILENCE_MILLISECONDS = "10000"
# As the schema's functions say it.
_DEPOSED = "AF001"
_ALREADY_WRITTEN = "AF002"
# A server that only answers questions, as a standby does while it is being promoted.
_READ_ONLY = "25006"


def check_url(url: str) -> None:
    """An InputError if nobody could connect to this; it does not repeat what may be a password."""
    try:
        conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise InputError(
            "ledger.url: cannot be understood, expected postgresql://USER@HOST/DATABASE"
        ) from None


class Connecting:
    """At most one connection to the database at `address`, with the schema up to date."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: Connection | None = None

    async def connection(self) -> Connection:
        """The one that is there, or a new one."""
        if self._connection is not None and not self._connection.closed:
            return self._connection
        # What the address says itself comes first.
        given = conninfo.conninfo_to_dict(await self._address())
        target = conninfo.make_conninfo("", **{**_DEFAULTS, **given})
        # What cannot be had within connect_timeout is away; the rest can be hung up on.
        connect = psycopg.AsyncConnection.connect(target, autocommit=True)
        self._connection = connection = await connect
        try:
            await connection.execute(
                statement("settle_in"), {"milliseconds": _LONGEST_SILENCE_MILLISECONDS}
            )
            await migrate(connection)
        except BaseException:
            await self.close()
            raise
        return connection

    async def close(self) -> None:
        """Give it up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await _closed(connection)

    async def attempt(self, work: Callable[[Connection], Awaitable[None]], seconds: float) -> None:
        """Do something in so much time; whatever goes wrong becomes an error of a ledger.

        After one the connection is given up: what it was doing is over at the latest when the
        server notices that.
        """
        began = monotonic()
        hanging_up = asyncio.get_running_loop().call_later(seconds, self._hang_up)
        try:
            await work(await self.connection())
        except asyncio.CancelledError:
            await self.close()
            raise
        except psycopg.Error as error:
            await self.close()
            if error.sqlstate == _ALREADY_WRITTEN:
                return
            if monotonic() - began >= seconds:
                raise LedgerAwayError(f"no answer within {seconds:g} s") from error
            raise _understood(error) from error
        except (OSError, InputError) as error:
            # The second: a server of our own does not start again. That may have to be seen to by
            # somebody, but is no reason to end: it ran when we began.
            await self.close()
            raise LedgerAwayError(str(error)) from error
        finally:
            hanging_up.cancel()

    def _hang_up(self) -> None:
        """End the conversation. To cancel whoever waits for an answer would first ask the server,
        politely, to stop, and wait for that answer, too."""
        connection = self._connection
        if connection is not None and not connection.closed:
            # The number is psycopg's: it must not be closed with the object.
            line = socket.socket(fileno=os.dup(connection.fileno()))
            with suppress(OSError), line:
                line.shutdown(socket.SHUT_RDWR)


def _understood(error: psycopg.Error) -> LedgerError:
    message = str(error).strip().partition("\n")[0] or type(error).__name__
    if error.sqlstate == _DEPOSED:
        return DeposedError(message)
    away = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if away or error.sqlstate == _READ_ONLY:
        return LedgerAwayError(message)
    return LedgerError(message)


async def _closed(connection: Connection) -> None:
    with suppress(psycopg.Error, OSError):
        await connection.close()
