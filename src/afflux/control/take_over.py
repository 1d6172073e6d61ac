"""Taking over: a new leader reads the ledger, then asks the cluster, which is authoritative.

The ledger has the order of the queue, reservations, and which tasks the last leader was about to
start. Nothing is scheduled until it is known of each of these whether it was started: otherwise
one could be placed a second time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from time import monotonic

from afflux.control.adapter import TaskLocator
from afflux.control.backoff import Backoff
from afflux.cycle.interfaces import DeposedError, LaterSchemaError, Ledger, LedgerError
from afflux.cycle.ledger_entries import BindIntent, RecoveredLedger
from afflux.cycle.loop import Cycle
from afflux.groups.entries import RecordedGroup
from afflux.groups.register import GroupRegister
from afflux.model.reservation import Reservation

# Tasks that the cluster is asked about at the same time.
MAX_CONCURRENT_READS = 16
# Further differences between ledger and cluster are only counted.
MAX_LOGGED_DIFFERENCES = 20

_log = logging.getLogger(__name__)


async def read_ledger(
    ledger: Ledger,
    epoch: int | None,
    lease_seconds: float,
    backoff: Backoff,
    sleep: Callable[[float], Awaitable[None]],
) -> RecoveredLedger:
    """Become the only process that writes the ledger, with retries; what the ledger contains.

    Raises a LaterSchemaError if a later version has written the ledger: only that one may lead.
    """
    refused_at = None
    while True:
        try:
            return await ledger.take_over(epoch)
        except LaterSchemaError:
            raise
        except DeposedError as error:
            # Another leader would have ended our term by now. So the Lease was recreated and
            # its transitions count from zero again, while the ledger keeps its epoch.
            refused_at = refused_at or monotonic()
            if monotonic() - refused_at > lease_seconds:
                _log.warning("%s, but the lease is ours: taking the next epoch", error)
                epoch = None
        except LedgerError as error:
            _log.error("the ledger cannot be taken over: %s", error)
        await sleep(backoff.wait_seconds())


async def reconcile(
    recovered: RecoveredLedger, register: GroupRegister, tasks: TaskLocator, cycle: Cycle
) -> None:
    """Continue from what the ledger contains, corrected by what the cluster says."""
    await _locate_sent(recovered.intents, tasks)
    register.restore(recovered.groups)
    _note_differences(recovered, register, tasks)
    _resolve_intents(recovered.intents, register, tasks)
    groups = {each.entry.id.key: each for each in recovered.groups}
    reservations = [
        each.reservation
        for each in recovered.reservations
        if _is_valid(each.reservation, groups.get(each.group), tasks)
    ]
    cycle.restore(reservations)
    _log.info(
        "epoch %s of the ledger: %s groups, %s reservations (%s still valid), %s open intents",
        recovered.epoch,
        len(recovered.groups),
        len(recovered.reservations),
        len(reservations),
        len(recovered.intents),
    )


async def _locate_sent(intents: Sequence[BindIntent], tasks: TaskLocator) -> None:
    """Ask the cluster about the tasks that the last leader was about to start and that have not
    been seen to start."""
    in_doubt = [each for each in intents if tasks.observed(each.uid, each.pod).is_pending]
    if not in_doubt:
        return
    _log.warning(
        "nothing is scheduled until it is known of %s pods whether the last leader bound them",
        len(in_doubt),
    )
    slots = asyncio.Semaphore(MAX_CONCURRENT_READS)

    async def locate(intent: BindIntent) -> None:
        async with slots:
            await tasks.locate(intent.uid, intent.pod)

    await asyncio.gather(*(locate(intent) for intent in in_doubt))


def _resolve_intents(
    intents: Sequence[BindIntent], register: GroupRegister, tasks: TaskLocator
) -> None:
    """Record the results of the last leader's intended binds."""
    for intent in intents:
        machine = tasks.observed(intent.uid, intent.pod).machine
        if machine is not None:
            register.bound(intent.uid, machine)
        else:
            register.not_bound(intent.uid, "it was not bound when its leader ended")


def _is_valid(reservation: Reservation, group: RecordedGroup | None, tasks: TaskLocator) -> bool:
    """Whether all tasks with a reserved machine still wait."""
    members = group.members if group is not None else ()
    where = {each.uid: tasks.observed(each.uid, each.name) for each in members}
    pending = {uid for uid, found in where.items() if found.is_pending}
    return bool(pending) and all(uid in pending for uid, _ in reservation.machines)


def _note_differences(
    recovered: RecoveredLedger, register: GroupRegister, tasks: TaskLocator
) -> None:
    """Log and record where ledger and cluster disagree; the cluster is authoritative."""
    intended = {intent.uid for intent in recovered.intents}
    count = 0
    for group in recovered.groups:
        for said in _differences(group, intended, tasks):
            register.note(group.entry.id.key, "Corrected", said)
            if count < MAX_LOGGED_DIFFERENCES:
                _log.warning("group %s: %s", group.entry.id.shown, said)
            count += 1
    if count:
        _log.warning("ledger and cluster disagree %s times; the cluster is right", count)


def _differences(
    group: RecordedGroup, intended: Collection[str], tasks: TaskLocator
) -> Iterator[str]:
    any_exists = False
    for member in group.members:
        where = tasks.observed(member.uid, member.name)
        any_exists = any_exists or where.exists
        agrees = where.machine == (member.machine or None)
        if not where.exists or agrees or member.uid in intended:
            continue
        theirs = f"on {where.machine}" if where.machine else "not bound"
        ours = f"on {member.machine}" if member.machine else "not bound"
        yield f"pod {member.name} is {theirs}; the ledger says that it is {ours}"
    if not any_exists:
        yield "none of its pods is there"
