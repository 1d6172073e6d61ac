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
from afflux.cycle.ledger_entries import LedgerBatch, RecoveredLedger
from afflux.ledger import encoding
from afflux.ledger.connection import AddressSource, Connection, LedgerConnection
from afflux.ledger.retention import Retention, Step
from afflux.ledger.statements import statement

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

_PUT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("put_provisional", ("provisional", "refused")),
    ("put_queue", ("waiting", "unsatisfiable")),
    ("put_running", ("starting", "running")),
)


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

    async def take_over(self, epoch: int | None) -> RecoveredLedger:
        """Make this process the only writer, and read the contents."""
        found: list[RecoveredLedger] = []

        async def move(connection: Connection) -> None:
            async with connection.transaction():
                milliseconds = str(int(self._timeouts.fence_seconds * 1000))
                await connection.execute(
                    statement("set_lock_timeout"), {"milliseconds": milliseconds}
                )
                fence = {"epoch": epoch, "holder": self._holder}
                ((taken,),) = await _rows(connection, "move_fence", fence)
                groups = await _rows(connection, "recover_groups")
                reservations = await _rows(connection, "recover_reservations")
                found.append(encoding.recovered(taken, groups, reservations))
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
        self._epoch, self._batches, self._unanswered = found[-1].epoch, 0, None
        self._retention.begin(monotonic())
        return found[-1]

    async def commit(self, batch: LedgerBatch) -> None:
        """Write the whole batch or nothing. An empty batch only checks that no other leads."""
        if self._epoch is None:
            raise LedgerError("a batch was committed before take_over")
        if self._unanswered not in (None, batch):
            raise ValueError("another batch was committed before the one without an answer")
        number = self._batches + 1
        message = "" if batch.is_empty() else f"turn {number} of epoch {self._epoch}"
        fence = {"epoch": self._epoch, "holder": self._holder, "batch": number, "message": message}
        writes = [("pass_fence", fence), *statements_of(batch, self._epoch)]
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

    async def close(self) -> None:
        await self._connection.close()


def statements_of(batch: LedgerBatch, epoch: int) -> list[Step]:
    """The statements that write a batch, in order, without those that would change nothing."""
    steps: list[Step] = []

    def add(name: str, rows: list[encoding.Row], **more: int) -> None:
        if rows:
            steps.append((name, {"rows": encoding.encoded(rows), **more}))

    add("insert_finished_groups", encoding.ended_groups(batch.ended))
    add("delete_groups", encoding.keys(dict.fromkeys(each.entry.name for each in batch.ended)))
    # Each group once: an upsert fails if it meets the same row twice.
    entries = {entry.name: entry for entry in batch.groups}.values()
    for name, states in _PUT:
        rows = encoding.groups(entry for entry in entries if entry.state in states)
        add(name, rows, epoch=epoch)
    if batch.reservations is not None:
        current = encoding.keys(each.group for each in batch.reservations)
        steps.append(("delete_other_reservations", {"rows": encoding.encoded(current)}))
        add("put_reservations", encoding.reservations(batch.reservations))
    add("insert_events", encoding.events(batch.events), epoch=epoch)
    return steps


async def _rows(
    connection: Connection, name: str, parameters: Mapping[str, Any] | None = None
) -> list[Any]:
    cursor = await connection.execute(statement(name), parameters)
    return await cursor.fetchall()
