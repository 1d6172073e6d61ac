"""The ledger in PostgreSQL: one transaction for each turn, under the fence.

All statements of a turn go out together, without waiting for the answers in between, and the first
one passes the fence: if it fails, none of the others counts.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

from afflux.cycle.entries import GroupEntry, Intent, MemberEntry, Recovered, Turn
from afflux.cycle.ports import LedgerAwayError, LedgerError
from afflux.ledger import columns
from afflux.ledger.connecting import Address, Connecting, Connection
from afflux.ledger.statements import statement
from afflux.model.promise import Promise

# A turn takes milliseconds. One that takes longer than this has lost its server.
LONGEST_TURN_SECONDS = 30.0
# Reading everything back, and perhaps bringing the schema up to date before.
LONGEST_TAKE_OVER_SECONDS = 300.0
DAYS_OF_EVENTS = 30
# So many turns after one another old events are looked for again.
TURNS_BETWEEN_CLEANINGS = 10_000

Step = tuple[str, columns.Parameters]

_PUT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("put_provisional", ("provisional", "refused")),
    ("put_queue", ("waiting", "unsatisfiable", "starting")),
    ("put_running", ("running",)),
)


class PostgresLedger:
    """A ledger, as the cycle knows it, in the database at `address`.

    `address` is asked whenever a connection has to be made: an embedded server may first have to
    be started.
    """

    def __init__(self, address: Address) -> None:
        self._connecting = Connecting(address)
        self._holder = uuid4().hex
        self._epoch: int | None = None
        self._turns = 0
        # Offered, without an answer: it may have been written.
        self._unanswered: Turn | None = None

    async def take_over(self, epoch: int | None) -> Recovered:
        """Become the only one who may write, and read what is there."""
        found: list[Recovered] = []

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                fence = {"epoch": epoch, "holder": self._holder}
                ((taken,),) = await _rows(connection, "move_fence", fence)
                found.append(await _recovered(connection, taken))
                await connection.execute(
                    statement("forget_old_events"), {"days": DAYS_OF_EVENTS}
                )
                await connection.execute(
                    statement("notify"), {"message": f"epoch {taken} leads"}
                )

        await self._connecting.attempt(work, LONGEST_TAKE_OVER_SECONDS)
        self._epoch, self._turns, self._unanswered = found[-1].epoch, 0, None
        return found[-1]

    async def commit(self, turn: Turn) -> None:
        """Write all of a turn or nothing; an empty one shows that nobody else has taken over."""
        if self._epoch is None:
            raise LedgerError("a turn came before anybody took over")
        if self._unanswered not in (None, turn):
            raise ValueError("another turn was offered before the one without an answer")
        number = self._turns + 1
        fence = {"epoch": self._epoch, "holder": self._holder, "turn": number}
        steps = [("pass_fence", fence), *steps_of(turn, self._epoch)]
        if number % TURNS_BETWEEN_CLEANINGS == 0:
            steps.append(("forget_old_events", {"days": DAYS_OF_EVENTS}))
        if not turn.is_empty():
            steps.append(("notify", {"message": f"turn {number} of epoch {self._epoch}"}))

        async def work(connection: Connection) -> None:
            async with connection.pipeline(), connection.transaction():
                for name, parameters in steps:
                    await connection.execute(statement(name), parameters)

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
    if settled := [each.uid for each in turn.outcomes if each.verdict != "unknown"]:
        steps.append(("settle", {"uids": settled}))
    if unknown := [outcome for outcome in turn.outcomes if outcome.verdict == "unknown"]:
        reasons = [columns.text(outcome.reason) for outcome in unknown]
        uids = [outcome.uid for outcome in unknown]
        steps.append(("settle_unknown", {"uids": uids, "reasons": reasons}))
    if turn.gone:
        steps.append(("record_finished", columns.gone(turn.gone)))
        gone = columns.names(dict.fromkeys(each.entry.name for each in turn.gone))
        steps += [
            (name, gone)
            for name in ("forget_groups", "forget_pods", "forget_promises", "forget_intents")
        ]
    steps += _groups(_last_of_each(turn.groups))
    if bound := {each.uid: each.machine for each in turn.outcomes if each.verdict == "bound"}:
        steps.append(("place_pods", {"uids": list(bound), "machines": list(bound.values())}))
    if turn.promises is not None:
        held = columns.promises(turn.promises)
        steps.append(("drop_promises", columns.names(each.group for each in turn.promises)))
        if turn.promises:
            steps.append(("put_promises", held))
    if turn.intents:
        steps.append(("put_intents", {**columns.intents(turn.intents), "epoch": epoch}))
    if turn.events:
        steps.append(("record_events", {**columns.events(turn.events), "epoch": epoch}))
    return steps


def _last_of_each(entries: Iterable[GroupEntry]) -> list[GroupEntry]:
    """One entry for each group: an upsert cannot meet the same row twice."""
    return list({entry.name: entry for entry in entries}.values())


def _groups(entries: Sequence[GroupEntry]) -> list[Step]:
    if not entries:
        return []
    steps: list[Step] = [("move_groups", columns.homes(entries))]
    for name, states in _PUT:
        if here := [entry for entry in entries if entry.state in states]:
            steps.append((name, columns.groups(here)))
    if changed := [entry for entry in entries if entry.members is not None]:
        members = columns.pods(changed)
        whose = columns.names(entry.name for entry in changed)
        steps.append(("drop_pods", {**whose, "uids": members["uids"]}))
        if members["uids"]:
            steps.append(("put_pods", members))
    return steps


async def _recovered(connection: Connection, epoch: int) -> Recovered:
    members: dict[tuple[str, str], list[MemberEntry]] = {}
    for space, group, uid, name, machine in await _rows(connection, "recover_pods"):
        member = MemberEntry(uid, columns.joined(space, name), machine)
        members.setdefault((space, group), []).append(member)
    groups = tuple(
        GroupEntry(
            name=columns.joined(space, name),
            queue=queue,
            size=size,
            priority=priority,
            ready_seconds=ready,
            run_seconds=run,
            state=state,
            reason=reason,
            created_seconds=created,
            members=tuple(members.get((space, name), ())),
            started_seconds=started,
            until_seconds=until,
        )
        for (
            space,
            name,
            state,
            queue,
            size,
            priority,
            created,
            ready,
            run,
            started,
            until,
            reason,
        ) in await _rows(connection, "recover_groups")
    )
    promises = tuple(
        Promise(columns.joined(space, name), start, tuple(zip(uids, machines, strict=True)))
        for space, name, start, uids, machines in await _rows(connection, "recover_promises")
    )
    intents = tuple(
        Intent(uid, columns.joined(space, pod), columns.joined(space, group), machine, epoch_)
        for uid, space, pod, group, machine, epoch_ in await _rows(connection, "recover_intents")
    )
    return Recovered(epoch, groups, promises, intents)


async def _rows(
    connection: Connection, name: str, parameters: columns.Parameters | None = None
) -> list[Any]:
    cursor = await connection.execute(statement(name), parameters)
    return await cursor.fetchall()
