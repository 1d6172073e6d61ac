"""The ledger in PostgreSQL: one transaction for each batch, guarded by a fencing token.

All statements of a batch are sent in one pipeline. The first one checks the fence; if it fails, the
server skips the others. Together they are one transaction without BEGIN and COMMIT, which would
cost as much as the statements between them.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import uuid4

from psycopg.errors import LockNotAvailable

from afflux.cycle.interfaces import LedgerError, LedgerUnavailableError
from afflux.cycle.ledger_entries import LedgerBatch, RecoveredLedger, merged_changes
from afflux.groups.group_id import GroupKey
from afflux.groups.states import GroupState
from afflux.ledger import encoding
from afflux.ledger.connection import AddressSource, Connection, LedgerConnection
from afflux.ledger.retention import Retention, Step
from afflux.ledger.statements import statement
from afflux.ledger.stored_members import NO_MEMBERS, StoredMembers, with_change

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LedgerTimeouts:
    """When the database counts as unavailable."""

    # A batch takes milliseconds.
    batch_seconds: float = 30.0
    # Includes migrations, and reading all groups.
    take_over_seconds: float = 300.0
    # An old leader that was suspended during a batch keeps the fence locked, and PostgreSQL does
    # not notice. After this time its session is terminated.
    fence_seconds: float = 5.0


DEFAULT_TIMEOUTS = LedgerTimeouts()

# The statement that writes a group in each state.
_PUT: Mapping[GroupState, str] = {
    "provisional": "put_provisional",
    "refused": "put_provisional",
    "waiting": "put_queue",
    "unsatisfiable": "put_queue",
    "starting": "put_running",
    "running": "put_running",
}


class PostgresLedger:
    """The cycle's ledger, in the database at `address`.

    `address` is called for every new connection: it may first start the embedded server.
    `retention` says which history is deleted, and when.
    """

    def __init__(
        self,
        address: AddressSource,
        retention: Retention | None = None,
        timeouts: LedgerTimeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._connection = LedgerConnection(address)
        self._retention = retention or Retention()
        self._timeouts = timeouts
        self._holder = uuid4().hex
        self._epoch: int | None = None
        self._batches = 0
        # Sent without an answer: it may have been written.
        self._unanswered: LedgerBatch | None = None
        # The members of all groups, as they were written.
        self._members: dict[GroupKey, StoredMembers] = {}

    async def take_over(self, epoch: int | None) -> RecoveredLedger:
        """Make this process the only writer, and read the contents."""
        found: list[tuple[RecoveredLedger, dict[GroupKey, StoredMembers]]] = []

        async def move(connection: Connection) -> None:
            async with connection.transaction():
                milliseconds = str(int(self._timeouts.fence_seconds * 1000))
                await connection.execute(
                    statement("set_lock_timeout"), {"milliseconds": milliseconds}
                )
                fence = {"epoch": epoch, "holder": self._holder}
                ((taken,),) = await _rows(connection, "move_fence", fence)
                groups = await _rows(connection, "recover_groups")
                chunks = await _rows(connection, "recover_member_chunks")
                reservations = await _rows(connection, "recover_reservations")
                found.append(encoding.recovered(taken, groups, chunks, reservations))
                await connection.execute(statement("notify"), {"message": f"epoch {taken} leads"})

        async def work(connection: Connection) -> None:
            try:
                await move(connection)
            except LockNotAvailable:
                _log.warning(
                    "the former leader has kept the fence of the ledger locked for %g s: its"
                    " session is terminated",
                    self._timeouts.fence_seconds,
                )
                await connection.execute(statement("terminate_fence_holders"))
                await move(connection)

        await self._connection.run(work, self._timeouts.take_over_seconds)
        recovered, self._members = found[-1]
        self._epoch, self._batches, self._unanswered = recovered.epoch, 0, None
        self._retention.begin(monotonic())
        return recovered

    async def commit(self, batch: LedgerBatch) -> None:
        """Write the whole batch or nothing. An empty batch only checks that no other leads."""
        if self._epoch is None:
            raise LedgerError("a batch was committed before take_over")
        if self._unanswered not in (None, batch):
            raise ValueError("another batch was committed before the one without an answer")
        number = self._batches + 1
        message = "" if batch.is_empty() else f"turn {number} of epoch {self._epoch}"
        fence = {"epoch": self._epoch, "holder": self._holder, "batch": number, "message": message}
        steps, written = statements_of(batch, self._epoch, self._members)
        writes = [("pass_fence", fence), *steps]
        deletions = self._retention.steps(monotonic())

        async def work(connection: Connection) -> None:
            # The server commits when it reads the Sync at the end. After an error it skips the
            # rest, and the connection is closed.
            async with connection.pipeline():
                for name, parameters in writes:
                    await connection.execute(statement(name), parameters)
                answers = [
                    await connection.execute(statement(name), parameters)
                    for name, parameters in deletions
                ]
            if answers:
                self._retention.deleted([each.rowcount for each in answers], monotonic())

        self._unanswered = batch
        try:
            await self._connection.run(work, self._timeouts.batch_seconds)
        except LedgerUnavailableError:
            raise
        except LedgerError:
            # The database refused the batch: it has not been written.
            self._unanswered = None
            raise
        self._unanswered = None
        self._batches = number
        for key, members in written.items():
            if members is None:
                self._members.pop(key, None)
            else:
                self._members[key] = members

    async def close(self) -> None:
        await self._connection.close()


def statements_of(
    batch: LedgerBatch, epoch: int, stored: Mapping[GroupKey, StoredMembers]
) -> tuple[list[Step], dict[GroupKey, StoredMembers | None]]:
    """The statements that write a batch, in order, without those that would change nothing; and the
    members that are stored when they are written, None for ended groups."""
    steps: list[Step] = []
    written: dict[GroupKey, StoredMembers | None] = {}

    def add(name: str, rows: list[encoding.Row], **more: int) -> None:
        if rows:
            steps.append((name, {"rows": encoding.encoded(rows), **more}))

    add("insert_finished_groups", encoding.ended_groups(batch.ended))
    written.update((each.entry.id.key, None) for each in batch.ended)
    add("delete_groups", encoding.keys(written))
    in_chunks = [key for key in written if len(stored.get(key, NO_MEMBERS).chunks) > 1]
    add("delete_member_chunks", encoding.keys(in_chunks))
    rows: dict[str, list[encoding.Row]] = {name: [] for name in _PUT.values()}
    chunk_rows: list[encoding.Row] = []
    # Each group once: an upsert fails if it meets the same row twice.
    for change in merged_changes(batch.groups):
        key = change.entry.id.key
        before = NO_MEMBERS if key in written else stored.get(key, NO_MEMBERS)
        members, changed = with_change(before, change)
        rows[_PUT[change.entry.state]].append(encoding.group(change.entry, members))
        chunk_rows += (encoding.member_chunk(key, members, n) for n in changed if n > 0)
        written[key] = members
    for name, group_rows in rows.items():
        add(name, group_rows, epoch=epoch)
    add("put_member_chunks", chunk_rows)
    if batch.reservations is not None:
        current = encoding.reservations(batch.reservations)
        kept = [{"start_key": row["start_key"]} for row in current]
        steps.append(("delete_other_reservations", {"rows": encoding.encoded(kept)}))
        add("put_reservations", current)
    add("insert_events", encoding.events(batch.events), epoch=epoch)
    return steps, written


async def _rows(
    connection: Connection, name: str, parameters: Mapping[str, Any] | None = None
) -> list[Any]:
    cursor = await connection.execute(statement(name), parameters)
    return await cursor.fetchall()
