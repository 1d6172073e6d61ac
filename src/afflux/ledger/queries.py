"""Queries of people to the ledger: the queue, one group, reservations, history.

The statements are in sql/inspection.sql. They use connections of their own, in read-only
transactions that see one snapshot and end after a few seconds, so that queries cannot delay the
scheduler. The token of the next page is the sort key of the last line: lines that come or go
between two pages neither repeat others nor hide them.
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
from typing import Any, Self, cast

import psycopg
from psycopg.rows import DictRow, dict_row

from afflux.cycle.inspection_types import (
    MAX_EVENTS,
    MAX_LINES,
    MAX_MACHINES,
    MAX_MEMBERS,
    GroupDetails,
    HistoryList,
    InspectionError,
    ListMeta,
    ListQuery,
    QueueList,
    ReservationList,
    to_datetime,
)
from afflux.ledger.query_rows import (
    Namesakes,
    Row,
    StoredEvents,
    ended_group,
    history_line,
    present_group,
    queue_line,
    reservation,
)
from afflux.ledger.statements import parse
from afflux.model.errors import InputError

# Further queries wait for one of them.
MAX_CONNECTIONS = 2
STATEMENT_TIMEOUT_SECONDS = 5.0
CONNECT_TIMEOUT_SECONDS = 5

Connection = psycopg.AsyncConnection[DictRow]
Parameters = Mapping[str, object]


class LedgerInspection:
    """Answers from the database at this address, which may hold a password."""

    def __init__(
        self,
        address: str | Callable[[], Awaitable[str]],
        *,
        statement_timeout_seconds: float = STATEMENT_TIMEOUT_SECONDS,
    ) -> None:
        """`address` may be a function, which is called for every new connection."""
        self._address = address
        self._statement_timeout_seconds = statement_timeout_seconds
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: list[Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    # --- Lists

    async def queue(self, query: ListQuery) -> QueueList:
        kinds = (str, int, int, float, str)
        key = _sort_key(query, kinds) or (None,) * len(kinds)
        names = ("queue", "rank", "priority", "seconds", "key")
        after = {f"after_{name}": value for name, value in zip(names, key, strict=True)}
        async with self._snapshot() as snapshot:
            rows = await _rows(snapshot, "queue_lines", _filters(query) | after)
        last = rows[-1] if rows else {}
        return QueueList(
            metadata=_list_meta(rows, lambda: (
                last["queue"], last["rank"], -last["priority"], last["since_seconds"], last["key"],
            )),
            items=tuple(queue_line(row) for row in rows),
        )  # fmt: skip

    async def reservations(self, query: ListQuery) -> ReservationList:
        key = _sort_key(query, (float, str)) or (None, None)
        after = {"after_start": key[0], "after_key": key[1], "max": MAX_MACHINES}
        async with self._snapshot() as snapshot:
            rows = await _rows(snapshot, "reservation_lines", _filters(query) | after)
        last = rows[-1] if rows else {}
        return ReservationList(
            metadata=_list_meta(rows, lambda: (last["sort_start"], last["start_key"])),
            items=tuple(reservation(row) for row in rows),
        )

    async def history(self, query: ListQuery) -> HistoryList:
        key = _sort_key(query, (float, int)) or (None, None)
        after = {"after_ended": key[0], "after_id": key[1], "max": MAX_MACHINES}
        async with self._snapshot() as snapshot:
            rows = await _rows(snapshot, "history_lines", _filters(query) | after)
        shown = rows[: min(query.limit, MAX_LINES)]
        now = to_datetime(time.time())
        if len(rows) == len(shown):
            meta = ListMeta(time=now)
        else:
            last = shown[-1]
            continue_token = _token((last["ended_seconds"], last["id"]))
            # History is kept for years: counting it would take longer than reading a page.
            meta = ListMeta(time=now, continue_token=continue_token, remaining_item_count=None)
        return HistoryList(metadata=meta, items=tuple(history_line(row) for row in shown))

    # --- One group

    async def group(self, namespace: str, name: str) -> GroupDetails | None:
        """One group: the present one of this name, or the one that ended last.

        A pod without a group answers to its own name if no group has it, and always to the default
        name of its group.
        """
        asked = {"namespace": namespace, "name": name}
        async with self._snapshot() as snapshot:
            if present := await _rows(snapshot, "present_namesakes", asked):
                return await _present(snapshot, namespace, present)
            if ended := await _rows(snapshot, "ended_namesakes", asked):
                return await _ended(snapshot, namespace, ended)
        return None

    # --- Connections

    @asynccontextmanager
    async def _snapshot(self) -> AsyncGenerator[Connection]:
        """A read-only transaction; an InspectionError if the database does not answer."""
        async with self._slots:
            connection = await self._connected()
            try:
                async with connection.transaction():
                    milliseconds = f"{self._statement_timeout_seconds * 1000:.0f}"
                    await _rows(
                        connection, "set_transaction_options", {"milliseconds": milliseconds}
                    )
                    yield connection
            except psycopg.Error as error:
                raise InspectionError(self._reason(error)) from None
            finally:
                if connection.closed or connection.broken:
                    await connection.close()
                else:
                    self._idle.append(connection)

    async def _connected(self) -> Connection:
        """An open connection; an idle one may be dead because the server was restarted."""
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.execute(b"SELECT 1")
            except psycopg.Error:
                await connection.close()
            else:
                return connection
        address = (
            self._address if isinstance(self._address, str) else await _resolved(self._address)
        )
        try:
            connection = await psycopg.AsyncConnection[DictRow].connect(
                address,
                row_factory=dict_row,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_SECONDS,
                application_name="afflux-inspection",
            )
        except psycopg.ProgrammingError:
            # The message of the library contains the address, and with it the password.
            raise InputError(
                "database: not an address; expected postgresql://user@host:port/name"
            ) from None
        except psycopg.Error as error:
            raise InspectionError(f"the ledger cannot be reached: {_first_line(error)}") from None
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.set_read_only(True)
        return connection

    def _reason(self, error: psycopg.Error) -> str:
        timeout = self._statement_timeout_seconds
        match error:
            case psycopg.errors.UndefinedTable() | psycopg.errors.InvalidSchemaName():
                return "this database holds no ledger; expected one that afflux has written to"
            case psycopg.errors.UndefinedColumn() | psycopg.errors.UndefinedFunction():
                return (
                    "the schema of the ledger is not that of this version of afflux; expected the"
                    " version of the scheduler that writes it"
                )
            case psycopg.errors.InsufficientPrivilege():
                return (
                    "the ledger may not be read by this user of the database; expected USAGE on the"
                    " schema afflux and SELECT on its tables"
                )
            case psycopg.errors.QueryCanceled():
                return f"the ledger did not answer within {timeout:g} s; ask again, for less"
            case _:
                return f"the ledger does not answer: {_first_line(error)}"


async def _resolved(address: Callable[[], Awaitable[str]]) -> str:
    """The address. An embedded server that does not start is not an error in the query."""
    try:
        return await address()
    except InputError as error:
        raise InspectionError(f"the ledger does not answer: {error}") from None


@cache
def _statements() -> dict[str, bytes]:
    return parse((files("afflux.ledger") / "sql" / "inspection.sql").read_text("utf-8"))


async def _rows(connection: Connection, name: str, values: Parameters) -> list[dict[str, Any]]:
    cursor = await connection.execute(_statements()[name], values)
    return await cursor.fetchall()


def _first_line(error: psycopg.Error) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


# --- One group


async def _present(snapshot: Connection, namespace: str, namesakes: Sequence[Row]) -> GroupDetails:
    """The first of these groups, and the full name of the other if there is one."""
    key = {"key": namesakes[0]["key"]}
    limited = key | {"max": MAX_MEMBERS}
    (row,) = await _rows(snapshot, "group_present", key)
    return present_group(
        Namesakes(namespace, _other(namesakes)),
        row,
        await _rows(snapshot, "group_members", limited),
        await _rows(snapshot, "group_witness", limited),
        await _events(snapshot, namespace, row),
    )


async def _ended(snapshot: Connection, namespace: str, namesakes: Sequence[Row]) -> GroupDetails:
    """The same for groups of the history."""
    (row,) = await _rows(snapshot, "group_ended", {"id": namesakes[0]["id"], "max": MAX_MEMBERS})
    events = await _events(snapshot, namespace, row)
    return ended_group(Namesakes(namespace, _other(namesakes)), row, events)


def _other(namesakes: Sequence[Row]) -> str | None:
    return namesakes[1]["full_name"] if len(namesakes) > 1 else None


async def _events(snapshot: Connection, namespace: str, row: Row) -> StoredEvents:
    """The latest events of a group, and how many there are."""
    key = {
        "key": row["key"],
        "namespace": namespace,
        "called": row["alone"] or row["full_name"],
        "created_seconds": row["created_seconds"],
    }
    (counted,) = await _rows(snapshot, "count_group_events", key)
    latest = await _rows(snapshot, "group_events", key | {"max": MAX_EVENTS})
    return StoredEvents(latest, counted["event_count"])


# --- Pages


def _filters(query: ListQuery) -> dict[str, object]:
    return {
        "namespace": query.namespace,
        "queue": query.queue,
        "states": list(query.states),
        "limit": min(query.limit, MAX_LINES),
    }


def _list_meta(rows: Sequence[Row], last_key: Callable[[], tuple[object, ...]]) -> ListMeta:
    """The metadata of a page; every row has the number of lines from this page on."""
    remaining = cast("int", rows[0]["remaining"]) - len(rows) if rows else 0
    return ListMeta(
        time=to_datetime(time.time()),
        continue_token=_token(last_key()) if remaining else "",
        remaining_item_count=remaining,
    )


def _token(key: tuple[object, ...]) -> str:
    return urlsafe_b64encode(json.dumps(key).encode()).decode()


def _sort_key(query: ListQuery, kinds: tuple[type, ...]) -> tuple[object, ...] | None:
    """The sort key of the last line of the page before, None for the first page."""
    if not query.continue_token:
        return None
    try:
        key: object = json.loads(urlsafe_b64decode(query.continue_token))
    except (ValueError, binascii.Error, RecursionError):
        key = None
    if isinstance(key, list):
        values = cast("list[object]", key)
        if [type(value) for value in values] == list(kinds) and all(map(_can_be_stored, values)):
            return tuple(values)
    raise InputError(
        f"continue: {query.continue_token!r:.80}, expected what the page before has in its metadata"
    )


def _can_be_stored(value: object) -> bool:
    """PostgreSQL rejects zero bytes, lone surrogates and integers of more than 64 bits."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if not isinstance(value, str):
        return True
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False
