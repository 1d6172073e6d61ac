"""The connection of the ledger: opened when it is needed, closed after every error."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import psycopg
from psycopg import conninfo

from afflux.cycle.interfaces import DeposedError, LedgerError, LedgerUnavailableError
from afflux.ledger.migrations import migrate
from afflux.ledger.statements import statement
from afflux.model.errors import InputError

Connection = psycopg.AsyncConnection[Any]
AddressSource = Callable[[], Awaitable[str]]

# A lost server is noticed within half a minute, not after the two hours that TCP takes by default.
_DEFAULTS = {
    "application_name": "afflux",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_IDLE_TIMEOUT_MILLISECONDS = "10000"
# Error codes that the functions of the schema raise.
_DEPOSED = "AF001"
_ALREADY_WRITTEN = "AF002"
# read_only_sql_transaction: a standby, or one that is being promoted.
_READ_ONLY = "25006"


def check_url(url: str) -> None:
    """Raises an InputError for a malformed URL, without its text, which may hold a password."""
    try:
        conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise InputError(
            "ledger.url: cannot be understood, expected postgresql://USER@HOST/DATABASE"
        ) from None


class LedgerConnection:
    """At most one open connection to the database at `address`, with an up-to-date schema."""

    def __init__(self, address: AddressSource) -> None:
        self._address = address
        self._connection: Connection | None = None

    async def connection(self) -> Connection:
        """The open connection, or a new one."""
        if self._connection is not None and not self._connection.closed:
            return self._connection
        # Options in the address override the defaults.
        given = conninfo.conninfo_to_dict(await self._address())
        target = conninfo.make_conninfo("", **{**_DEFAULTS, **given})
        # Bounded by connect_timeout. Everything later is bounded by `run`, which shuts the socket.
        connect = psycopg.AsyncConnection.connect(target, autocommit=True)
        self._connection = connection = await connect
        try:
            await connection.execute(
                statement("set_session_options"), {"milliseconds": _IDLE_TIMEOUT_MILLISECONDS}
            )
            await migrate(connection)
        except BaseException:
            await self.close()
            raise
        return connection

    async def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()

    async def run(
        self, work: Callable[[Connection], Awaitable[None]], timeout_seconds: float
    ) -> None:
        """Run `work` with the connection; every failure is raised as a LedgerError.

        After a failure the connection is closed, and the server ends what was running when it
        notices that.
        """
        began = monotonic()
        timer = asyncio.get_running_loop().call_later(timeout_seconds, self._shut_down_socket)
        try:
            await work(await self.connection())
        except asyncio.CancelledError:
            await self.close()
            raise
        except psycopg.Error as error:
            await self.close()
            if error.sqlstate == _ALREADY_WRITTEN:
                return
            if monotonic() - began >= timeout_seconds:
                raise LedgerUnavailableError(f"no answer within {timeout_seconds:g} s") from error
            raise _ledger_error(error) from error
        except (OSError, InputError) as error:
            # An InputError means that the embedded server does not start again. It ran before, so
            # the scheduler goes on until an administrator has repaired it.
            await self.close()
            raise LedgerUnavailableError(str(error)) from error
        finally:
            timer.cancel()

    def _shut_down_socket(self) -> None:
        """Make the pending call fail. Cancelling it would send a cancel request to the server and
        wait for the answer to that."""
        connection = self._connection
        if connection is not None and not connection.closed:
            # psycopg owns the descriptor, so that only a duplicate may be closed here.
            duplicate = socket.socket(fileno=os.dup(connection.fileno()))
            with suppress(OSError), duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)


def _ledger_error(error: psycopg.Error) -> LedgerError:
    message = str(error).strip().partition("\n")[0] or type(error).__name__
    if error.sqlstate == _DEPOSED:
        return DeposedError(message)
    unavailable = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if unavailable or error.sqlstate == _READ_ONLY:
        return LedgerUnavailableError(message)
    return LedgerError(message)
