"""The ledger in PostgreSQL: one transaction for each turn, under the fence.

All statements of a turn go out together, without waiting for the answers in between, and the first
one passes the fence: if it fails, none of the others counts. Together they are a transaction,
without a BEGIN and a COMMIT, which would cost as much as the statements between them.
"""

import logging
from collections.abc import Mapping
from time import monotonic
from typing import Any
from uuid import uuid4

from psycopg.errors import LockNotAvailable

from afflux.cycle.entries import Recovered, Turn
from afflux.cycle.ports import LedgerAwayError, LedgerError
from afflux.ledger import rows
from afflux.ledger.connecting import Address, Connecting, Connection
from afflux.ledger.forgetting import USUAL_DAYS, Forgetting, Step
from afflux.ledger.statements import statement

# A turn takes milliseconds. One that takes longer than this has lost its server.
LONGEST_TURN_SECONDS = 30.0
# Reading everything back, and perhaps bringing the schema up to date before.
LONGEST_TAKE_OVER_SECONDS = 300.0
# A leader that was stopped in the middle of a turn holds the fence, and no server notices.
LONGEST_HOLD_SECONDS = 5.0

_log = logging.getLogger(__name__)

_PUT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("put_provisional", ("provisional", "refused")),
    ("put_queue", ("waiting", "unsatisfiable")),
    ("put_running", ("starting", "running")),
)


class PostgresLedger:
    """A ledger, as the cycle knows it, in the database at `address`.

    `address` is asked whenever a connection has to be made: an embedded server may first have to
    be started. Groups that have been over for `history_days` are forgotten.
    """

    def __init__(self, address: Address, history_days: int = USUAL_DAYS) -> None:
        self._connecting = Connecting(address)
        self._forgetting = Forgetting(history_days)
        self._holder = uuid4().hex
        self._epoch: int | None = None
        self._turns = 0
        # Offered, without an answer: it may have been written.
        self._unanswered: Turn | None = None

    async def take_over(self, epoch: int | None) -> Recovered:
        """Become the only one who may write, and read what is there."""
        found: list[Recovered] = []

        async def move(connection: Connection) -> None:
            async with connection.transaction():
                patience = {"milliseconds": str(int(LONGEST_HOLD_SECONDS * 1000))}
                await connection.execute(statement("wait_no_longer_than"), patience)
                fence = {"epoch": epoch, "holder": self._holder}
                ((taken,),) = await _rows(connection, "move_fence", fence)
                found.append(await _recovered(connection, taken))
                await connection.execute(statement("notify"), {"message": f"epoch {taken} leads"})

        async def work(connection: Connection) -> None:
            try:
                await move(connection)
            except LockNotAvailable:
                _log.warning("whoever led before holds the ledger and does not move: ended")
                await connection.execute(statement("end_holders"))
                await move(connection)

        await self._connecting.attempt(work, LONGEST_TAKE_OVER_SECONDS)
        self._epoch, self._turns, self._unanswered = found[-1].epoch, 0, None
        self._forgetting.begin(monotonic())
        return found[-1]

    async def commit(self, turn: Turn) -> None:
        """Write all of a turn or nothing; an empty one shows that nobody else has taken over."""
        if self._epoch is None:
            raise LedgerError("a turn came before anybody took over")
        if self._unanswered not in (None, turn):
            raise ValueError("another turn was offered before the one without an answer")
        number = self._turns + 1
        message = "" if turn.is_empty() else f"turn {number} of epoch {self._epoch}"
        fence = {
            "epoch": self._epoch,
            "holder": self._holder,
            "turn": number,
            "message": message,
        }
        written = [("pass_fence", fence), *steps_of(turn, self._epoch)]
        forgotten = self._forgetting.steps(monotonic())

        async def work(connection: Connection) -> None:
            # The server commits when it reads the one Sync at the end. After an error it skips all
            # that follows, and the connection is given up.
            async with connection.pipeline():
                for name, parameters in written:
                    await connection.execute(statement(name), parameters)
                answers = [
                    await connection.execute(statement(name), parameters)
                    for name, parameters in forgotten
                ]
            if answers:
                self._forgetting.forgot([each.rowcount for each in answers], monotonic())

        self._unanswered = turn
        try:
            await self._connecting.attempt(work, LONGEST_TURN_SECONDS)
        except LedgerAwayError:
            raise
        except LedgerError:
            # Refused: it has certainly not been written.
            self._unanswered = None
            raise
        self._unanswered = None
        self._turns = number

    async def close(self) -> None:
        """Let the connection go."""
        await self._connecting.close()


def steps_of(turn: Turn, epoch: int) -> list[Step]:
    """The statements that write a turn, in order, without those that would change nothing."""
    steps: list[Step] = []

    def step(name: str, found: list[rows.Row], **more: int) -> None:
        if found:
            steps.append((name, {"rows": rows.encoded(found), **more}))

    step("record_finished", rows.gone(turn.gone))
    step("forget", rows.named(dict.fromkeys(each.entry.name for each in turn.gone)))
    # Each group once: an upsert cannot meet the same row twice.
    entries = {entry.name: entry for entry in turn.groups}.values()
    for name, states in _PUT:
        here = rows.groups(entry for entry in entries if entry.state in states)
        step(name, here, epoch=epoch)
    if turn.promises is not None:
        held = rows.named(each.group for each in turn.promises)
        steps.append(("drop_promises", {"rows": rows.encoded(held)}))
        step("put_promises", rows.promises(turn.promises))
    step("record_events", rows.events(turn.events), epoch=epoch)
    return steps


async def _recovered(connection: Connection, epoch: int) -> Recovered:
    return rows.recovered(
        epoch,
        await _rows(connection, "recover_groups"),
        await _rows(connection, "recover_promises"),
    )


async def _rows(
    connection: Connection, name: str, parameters: Mapping[str, Any] | None = None
) -> list[Any]:
    cursor = await connection.execute(statement(name), parameters)
    return await cursor.fetchall()
