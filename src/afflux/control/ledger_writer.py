"""LedgerWriter: writes every decision to the ledger before it is carried out.

Every cycle makes a batch: changed groups, intended binds, results of earlier binds. A cycle with
placements waits until its batch is written. What becomes known later (results of binds, why groups
wait) is written with the batch of the next cycle, or a little later if no cycle follows. While the
ledger is away, batches are merged and written when it is back; the configuration says whether
binding waits for that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic, time
from typing import Literal

from afflux.control.adapter import TaskLocator
from afflux.control.backoff import Backoff
from afflux.control.take_over import read_ledger, reconcile
from afflux.cycle.interfaces import DeposedError, Ledger, LedgerError
from afflux.cycle.ledger_entries import LedgerBatch, ReservationEntry, merged
from afflux.cycle.loop import Cycle, Outcome
from afflux.groups.register import GroupRegister
from afflux.model.reservation import Reservation

WhenAway = Literal["wait", "continue"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LedgerTiming:
    """Pauses and time limits of a ledger writer."""

    initial_backoff_seconds: float = 0.2
    max_backoff_seconds: float = 5.0
    # With `when_away: continue`: how long a cycle waits before the ledger counts as away.
    answer_timeout_seconds: float = 10.0
    # A batch that no cycle waits for, and that changes no place in the queue, is written after this
    # time, together with what has come meanwhile.
    linger_seconds: float = 0.1
    # What becomes known after the batch of a cycle is written after this time, unless the batch of
    # another cycle takes it along. Longer than the cycles of a busy cluster, so that these do not
    # wait for further batches.
    max_delay_seconds: float = 1.0
    # For the last batch, when the process ends.
    last_batch_timeout_seconds: float = 3.0


DEFAULT_TIMING = LedgerTiming()


class LedgerWriter:
    """Writes one leader's ledger. The control loop calls all methods except `take_over` and
    `run`."""

    def __init__(
        self,
        ledger: Ledger,
        register: GroupRegister,
        *,
        when_away: WhenAway = "wait",
        now_seconds: Callable[[], float] = time,
        timing: LedgerTiming = DEFAULT_TIMING,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ledger = ledger
        self._register = register
        register.changes.on_change = self._queue_later
        self._when_away = when_away
        self._now_seconds = now_seconds
        self._timing = timing
        self._sleep = sleep
        self._reservations: tuple[ReservationEntry, ...] = ()
        # The batch being written, and the changes since.
        self._in_flight: LedgerBatch | None = None
        self._pending = LedgerBatch()
        self._has_work = asyncio.Event()
        self._is_urgent = asyncio.Event()
        self._is_written = asyncio.Event()
        self._is_written.set()
        self._is_answered = asyncio.Event()
        self._away_since: float | None = None
        # Makes a batch without a cycle.
        self._timer: asyncio.TimerHandle | None = None

    async def take_over(
        self, cycle: Cycle, tasks: TaskLocator, epoch: int | None, lease_seconds: float
    ) -> None:
        """Become the writer of the ledger and continue where the last leader stopped.

        The adapter must have synced. `epoch` is that of the leader, None if it was not elected.
        This waits for a ledger that is away, even with `when_away: continue`: only the ledger knows
        the order of the queue.
        """
        recovered = await read_ledger(
            self._ledger, epoch, lease_seconds, self._backoff(), self._sleep
        )
        self._reservations = recovered.reservations
        await reconcile(recovered, self._register, tasks, cycle)

    def _backoff(self) -> Backoff:
        return Backoff(self._timing.initial_backoff_seconds, self._timing.max_backoff_seconds)

    # --- Calls of the control loop

    async def write_decision(self, outcome: Outcome) -> None:
        """Write the decision of a cycle; returns when its placements may be bound."""
        self._queue(self._make_batch(outcome.reservations))
        if not outcome.placements or self._is_written.is_set():
            return
        self._is_urgent.set()
        if self._when_away == "wait":
            await self.wait_written()
            return
        try:
            async with asyncio.timeout(self._timing.answer_timeout_seconds):
                await self._is_answered.wait()
        except TimeoutError:
            self._report_away(f"no answer within {self._timing.answer_timeout_seconds:g} s")

    # --- Writing

    async def run(self) -> None:
        """Write batches until cancelled. Raises DeposedError if another replica leads."""
        backoff = self._backoff()
        while True:
            await self._has_work.wait()
            await self._wait_for_more()
            try:
                await self._write_batches()
            except DeposedError:
                raise
            except LedgerError as error:
                self._report_away(str(error))
                await self._sleep(backoff.wait_seconds())
            else:
                backoff.reset()

    async def finish(self) -> None:
        """Write the last batch, unless this takes too long."""
        self._queue(self._make_batch(None))
        try:
            async with asyncio.timeout(self._timing.last_batch_timeout_seconds):
                await self._write_batches()
        except (LedgerError, TimeoutError) as error:
            _log.warning("the last batch was not written: %s", str(error) or "no time left")

    async def wait_written(self) -> None:
        """Wait until all batches are written."""
        if not self._is_written.is_set():
            self._is_urgent.set()
        await self._is_written.wait()

    async def _wait_for_more(self) -> None:
        """Collect more changes, as each batch costs a round trip and a disk write, unless a cycle
        waits."""
        try:
            async with asyncio.timeout(self._timing.linger_seconds):
                await self._is_urgent.wait()
        except TimeoutError:
            pass

    async def _write_batches(self) -> None:
        while self._in_flight is not None or not self._pending.is_empty():
            if self._in_flight is None:
                self._in_flight, self._pending = self._pending, LedgerBatch()
            await self._ledger.commit(self._in_flight)
            self._in_flight = None
        self._has_work.clear()
        self._is_urgent.clear()
        self._is_written.set()
        self._is_answered.set()
        if self._away_since is not None:
            _log.info("the ledger is back after %.1f s", monotonic() - self._away_since)
            self._away_since = None

    def _report_away(self, why: str) -> None:
        if self._away_since is None:
            self._away_since = monotonic()
            doing = "goes on" if self._when_away == "continue" else "waits"
            _log.error("the ledger is away, scheduling %s: %s", doing, why)
        self._is_answered.set()

    def _queue_later(self) -> None:
        """Queue what has changed also if no cycle follows."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._timing.max_delay_seconds, self._queue_changes)

    def _queue_changes(self) -> None:
        self._queue(self._make_batch(None))

    def _queue(self, batch: LedgerBatch) -> None:
        if batch.is_empty():
            return
        self._pending = merged(self._pending, batch)
        self._has_work.set()
        if self._register.changes.changed_places:
            self._is_urgent.set()
        self._is_written.clear()
        if self._away_since is None:
            self._is_answered.clear()

    def _make_batch(self, reservations: tuple[Reservation, ...] | None) -> LedgerBatch:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        groups, ended, events = self._register.changes.take(self._now_seconds())
        entries = None if reservations is None else tuple(self._entries(reservations))
        if entries == self._reservations:
            entries = None
        elif entries is not None:
            self._reservations = entries
        return LedgerBatch(tuple(ended), tuple(groups), entries, tuple(events))

    def _entries(self, reservations: Iterable[Reservation]) -> Iterator[ReservationEntry]:
        for each in reservations:
            key = self._register.group_of_start(each.group)
            if key is not None:
                yield ReservationEntry(key, each)
