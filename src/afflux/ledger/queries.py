"""The ledger read for people: the queue, one group, reservations, history.

The statements are in sql/inspection.sql. They read over connections of their own, in transactions
that cannot write, see one moment of the ledger and end after a few seconds, so that nobody who
looks can hold up the scheduler. A page ends with the place of its last line in the order, by which
the next one begins: lines that come and go between two pages make none twice and none missing.
"""

import asyncio
import binascii
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from types import TracebackType
from typing import Any, Self, cast

import psycopg
from psycopg.rows import DictRow, dict_row

from afflux.cycle.inspection import (
    MOST_EVENTS,
    MOST_LINES,
    MOST_MACHINES,
    MOST_MEMBERS,
    Asked,
    GroupDetails,
    HistoryList,
    InspectionError,
    ListMeta,
    QueueList,
    ReservationList,
    at,
)
from afflux.ledger.inspected import Row, finished, past, present, queue_line, reservation
from afflux.ledger.statements import named
from afflux.model.errors import InputError

# At most so many at once; the others wait.
CONNECTIONS = 2
STATEMENT_SECONDS = 5.0
CONNECT_SECONDS = 5

Connection = psycopg.AsyncConnection[DictRow]
Parameters = Mapping[str, object]


class LedgerInspection:
    """Answers from the database at this address, which may hold a password."""

    def __init__(self, address: str | Callable[[], Awaitable[str]]) -> None:
        """The address, or how to find it out, which is done anew for every connection."""
        self._address = address
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._idle: list[Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what is open."""
        while self._idle:
            await self._idle.pop().close()

    # --- Lists

    async def queue(self, asked: Asked) -> QueueList:
        """Who waits."""
        kinds = (str, int, int, float, str, str)
        place = _place(asked, kinds) or (None,) * len(kinds)
        names = ("queue", "rank", "priority", "seconds", "namespace", "name")
        after = {f"after_{name}": value for name, value in zip(names, place, strict=True)}
        async with self._moment() as moment:
            rows = await _rows(moment, "queue_lines", _which(asked) | after)
        last = rows[-1] if rows else {}
        return QueueList(
            metadata=_counted(rows, lambda: (
                last["queue"], last["rank"], -last["priority"], last["since_seconds"],
                last["namespace"], last["name"],
            )),
            items=tuple(queue_line(row) for row in rows),
        )  # fmt: skip

    async def reservations(self, asked: Asked) -> ReservationList:
        """Who was promised what."""
        place = _place(asked, (float, str, str)) or (None,) * 3
        names = ("after_place", "after_namespace", "after_name")
        after = dict(zip(names, place, strict=True)) | {"most": MOST_MACHINES}
        async with self._moment() as moment:
            rows = await _rows(moment, "reservation_lines", _which(asked) | after)
        last = rows[-1] if rows else {}
        return ReservationList(
            metadata=_counted(rows, lambda: (last["place"], last["namespace"], last["name"])),
            items=tuple(reservation(row) for row in rows),
        )

    async def history(self, asked: Asked) -> HistoryList:
        """Who has ended."""
        place = _place(asked, (float, int)) or (None, None)
        after = {"after_ended": place[0], "after_id": place[1], "most": MOST_MACHINES}
        async with self._moment() as moment:
            rows = await _rows(moment, "history_lines", _which(asked) | after)
        shown = rows[: min(asked.limit, MOST_LINES)]
        now = at(time.time())
        if len(rows) == len(shown):
            meta = ListMeta(time=now)
        else:
            last = shown[-1]
            resume = _token((last["ended_seconds"], last["id"]))
            # History is kept for years: to count it would take longer than to read a page of it.
            meta = ListMeta(time=now, resume=resume, remaining_item_count=None)
        return HistoryList(metadata=meta, items=tuple(finished(row) for row in shown))

    # --- One group

    async def group(self, namespace: str, name: str) -> GroupDetails | None:
        """One group, as it stands or as it ended."""
        which = {"namespace": namespace, "name": name}
        many = which | {"most": MOST_MEMBERS}
        async with self._moment() as moment:
            events = await _rows(moment, "group_events", which | {"most": MOST_EVENTS})
            counted = await _rows(moment, "count_group_events", which)
            event_count = cast("int", counted[0]["event_count"])
            there = await _rows(moment, "group_present", which)
            if not there:
                gone = await _rows(moment, "group_past", many)
                return past((namespace, name), gone[0], (events, event_count)) if gone else None
            members = await _rows(moment, "group_members", many)
            witness = await _rows(moment, "group_witness", many)
        return present((namespace, name), there[0], members, witness, (events, event_count))

    # --- Connections

    @asynccontextmanager
    async def _moment(self) -> AsyncGenerator[Connection]:
        """A transaction that sees one moment; an InspectionError if there is none to be had."""
        async with self._slots:
            connection = await self._connected()
            try:
                async with connection.transaction():
                    milliseconds = f"{STATEMENT_SECONDS * 1000:.0f}"
                    await _rows(connection, "settle_down", {"milliseconds": milliseconds})
                    yield connection
            except psycopg.Error as error:
                raise InspectionError(_why(error)) from None
            finally:
                if connection.closed or connection.broken:
                    await connection.close()
                else:
                    self._idle.append(connection)

    async def _connected(self) -> Connection:
        """One that works: the server may have gone and come back since the last question."""
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.execute(b"SELECT 1")
            except psycopg.Error:
                await connection.close()
            else:
                return connection
        address = self._address if isinstance(self._address, str) else await _found(self._address)
        try:
            connection = await psycopg.AsyncConnection[DictRow].connect(
                address,
                row_factory=dict_row,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                application_name="afflux-inspection",
            )
        except psycopg.ProgrammingError:
            # The library's words repeat the address, and with it the password.
            raise InputError(
                "database: not an address; expected postgresql://user@host:port/name"
            ) from None
        except psycopg.Error as error:
            raise InspectionError(f"the ledger cannot be reached: {_first_line(error)}") from None
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.set_read_only(True)
        return connection


async def _found(address: Callable[[], Awaitable[str]]) -> str:
    """Where it is; a server of our own that does not start again is not the fault of who asks."""
    try:
        return await address()
    except InputError as error:
        raise InspectionError(f"the ledger does not answer: {error}") from None


@cache
def _statements() -> dict[str, bytes]:
    return named((files("afflux.ledger") / "sql" / "inspection.sql").read_text("utf-8"))


async def _rows(connection: Connection, name: str, values: Parameters) -> list[dict[str, Any]]:
    cursor = await connection.execute(_statements()[name], values)
    return await cursor.fetchall()


def _why(error: psycopg.Error) -> str:
    match error:
        case psycopg.errors.UndefinedTable() | psycopg.errors.InvalidSchemaName():
            return "this database holds no ledger; expected one that afflux has written to"
        case psycopg.errors.InsufficientPrivilege():
            return (
                "the ledger may not be read by this user of the database; expected USAGE on the"
                " schema afflux and SELECT on its tables"
            )
        case psycopg.errors.QueryCanceled():
            return f"the ledger did not answer within {STATEMENT_SECONDS:g} s; ask again, for less"
        case _:
            return f"the ledger does not answer: {_first_line(error)}"


def _first_line(error: psycopg.Error) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


# --- Pages


def _which(asked: Asked) -> dict[str, object]:
    return {
        "namespace": asked.namespace,
        "queue": asked.queue,
        "states": list(asked.states),
        "limit": min(asked.limit, MOST_LINES),
    }


def _counted(rows: Sequence[Row], place: Callable[[], tuple[object, ...]]) -> ListMeta:
    """What stands above these lines, the first of which knows how many there would be."""
    remaining = cast("int", rows[0]["remaining"]) - len(rows) if rows else 0
    return ListMeta(
        time=at(time.time()),
        resume=_token(place()) if remaining else "",
        remaining_item_count=remaining,
    )


def _token(place: tuple[object, ...]) -> str:
    return urlsafe_b64encode(json.dumps(place).encode()).decode()


def _place(asked: Asked, kinds: tuple[type, ...]) -> tuple[object, ...] | None:
    """Where the page before ended, None for the first."""
    if not asked.resume:
        return None
    try:
        place: object = json.loads(urlsafe_b64decode(asked.resume))
    except (ValueError, binascii.Error, RecursionError):
        place = None
    if isinstance(place, list):
        values = cast("list[object]", place)
        if [type(value) for value in values] == list(kinds) and all(map(_can_be_stored, values)):
            return tuple(values)
    raise InputError(
        f"continue: {asked.resume!r:.80}, expected what the page before has in its metadata"
    )


def _can_be_stored(value: object) -> bool:
    """PostgreSQL knows neither zero bytes nor halves of characters, nor numbers of any length."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if not isinstance(value, str):
        return True
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False
