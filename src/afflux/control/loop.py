"""The control loop: runs cycles back to back while there is work and sleeps otherwise.

The cycle runs in a thread of its own, so that the adapter reads reports and sends orders meanwhile.
Everything else happens in the event loop: the adapter is drained before a cycle and gets its
placements after it, never during one.
"""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from time import monotonic, time
from typing import ParamSpec, TypeVar

from afflux.control.adapter import LiveAdapter, Reports
from afflux.control.announcements import Announcements
from afflux.control.ledger_writer import LedgerWriter
from afflux.control.violation_announcements import ViolationAnnouncements
from afflux.cycle.decision import Decision
from afflux.cycle.events import GroupReady
from afflux.cycle.loop import Cycle, Outcome
from afflux.model.placement import Placement
from afflux.web.scheduler_metrics import CyclePhase, Metrics
from afflux.web.watchdog import Watchdog

# While orders wait to be sent, another cycle would only lengthen their queue. The next cycle
# waits for them at most this long.
MAX_BATCHING_SECONDS = 0.1
# A cycle that placed no task is followed by a pause as long as itself, at most this: small amounts
# of room that become free while thousands of tasks wait must not keep a core busy for nothing.
MAX_IDLE_PAUSE_SECONDS = 1.0
# The pause after an error of the planner or of a policy.
ERROR_PAUSE_SECONDS = 5.0
# At most so many groups or objects with errors are logged by name in one cycle.
MAX_LOGGED = 10

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)


class ControlLoop:
    """Runs the cycles of one cluster. With a `ledger_writer`, the ledger is written first."""

    def __init__(
        self,
        adapter: LiveAdapter,
        cycle: Cycle,
        announcements: Announcements,
        *,
        metrics: Metrics,
        watchdog: Watchdog,
        violation_announcements: ViolationAnnouncements | None = None,
        ledger_writer: LedgerWriter | None = None,
        error_pause_seconds: float = ERROR_PAUSE_SECONDS,
    ) -> None:
        self._adapter = adapter
        self._cycle = cycle
        self._announcements = announcements
        self._violation_announcements = violation_announcements
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cycle")
        self._watchdog = watchdog
        self._ledger_writer = ledger_writer
        self._error_pause_seconds = error_pause_seconds
        self._idle_pause_seconds = 0.0
        self._placing_rounds = 0
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, begin: Callable[[Cycle], Awaitable[None]] | None = None) -> None:
        """Run cycles until cancelled; the first waits until the adapter has synced, and for
        `begin`."""
        await self._adapter.synced()
        if begin is not None:
            await begin(self._cycle)
        # The objects that exist now live long; the garbage collector need not visit them again.
        gc.collect()
        gc.freeze()
        while True:
            await self._adapter.wait_for_reports()
            await self._pause()
            await self._run_cycle()

    async def _pause(self) -> None:
        if self._idle_pause_seconds:
            await asyncio.sleep(self._idle_pause_seconds)
        try:
            async with asyncio.timeout(MAX_BATCHING_SECONDS):
                await self._adapter.orders_sent()
        except TimeoutError:
            pass

    async def _run_cycle(self) -> None:
        began = monotonic()
        self._watchdog.begin()
        try:
            outcome = await self._drain_and_decide(began)
            self._handle_faults(outcome)
            self._log_placements(outcome.placements)
            self._adapter.assume(outcome)
            self._adapter.place(await self._reserve(outcome), outcome.rests_on)
            self._adapter.evict(outcome.evictions, outcome.nominations)
            self._idle_pause_seconds = 0.0
            if outcome.decision is not None:
                reasons = await self._reasons()
                self._report(outcome.decision, monotonic() - began, reasons)
                self._report_missed_reservations(outcome)
            await self._report_violations()
        except Exception:
            # The cluster is unchanged and only the plan is lost; the next cycle plans again.
            _log.exception("a cycle failed; the next one is in %s s", self._error_pause_seconds)
            self._metrics.failed("error", "", [monotonic() - began])
            await asyncio.sleep(self._error_pause_seconds)
            self._adapter.wake()
        finally:
            self._watchdog.end()

    async def _drain_and_decide(self, began: float) -> Outcome:
        now_seconds = time()
        reports = self._adapter.drain(now_seconds)
        self._metrics.phase("observe", monotonic() - began)
        self._announce_waiting(reports)
        run = self._cycle.run
        return await self._in_thread(
            "decide", run, reports.events, now_seconds, reports.unconfirmed
        )

    def _announce_waiting(self, reports: Reports) -> None:
        """Announce which groups wait, and why some tasks cannot be considered."""
        try:
            ready = (event.group for event in reports.events if isinstance(event, GroupReady))
            self._announcements.ready(ready)
            self._announcements.held_back(reports.held, reports.machines)
        except Exception:
            # The adapter returns each event once, so the cycle must run even after an error here.
            _log.exception("waiting pods cannot be announced")

    async def _reserve(self, outcome: Outcome) -> Sequence[Placement]:
        """The placements that can be carried out, after the ledger has been written and the cluster
        has agreed.

        If that fails, all placements are given up, so that no task keeps a place without an order.
        """
        try:
            self._announcements.placed(outcome.placements)
            await self._write_ledger(outcome)
            return await self._adapter.reserve(outcome)
        except Exception:
            self._adapter.give_up(outcome.placements, outcome.evictions)
            raise

    def _handle_faults(self, outcome: Outcome) -> None:
        """Log the errors of a cycle and retry the groups and objects that caused them later."""
        shown = self._adapter.register.shown
        for each in outcome.resync_requests[:MAX_LOGGED]:
            error = each.error
            name = shown(each.name) if each.kind == "group" else each.name
            _log.error("%s %s is not used: %r", each.kind, name, error, exc_info=error)
        self._adapter.resync(outcome.resync_requests, self._error_pause_seconds)
        for key, error in islice(outcome.quarantined.items(), MAX_LOGGED):
            _log.error("group %s is quarantined", shown(key), exc_info=error)
        if outcome.quarantined:
            _log.error("%s groups are quarantined after errors", len(outcome.quarantined))
            self._metrics.failed("error", "", [0.0] * len(outcome.quarantined))
        if outcome.wake_up_seconds is not None:
            if self._timer is not None:
                self._timer.cancel()
            # A margin, because `time` and the timer use different clocks.
            pause = max(0.0, outcome.wake_up_seconds - time()) + 0.01
            self._timer = asyncio.get_running_loop().call_later(pause, self._adapter.wake)

    def _log_placements(self, placements: Sequence[Placement]) -> None:
        """Which pods are placed by the same round: they are judged with one another in place."""
        if placements and _log.isEnabledFor(logging.DEBUG):
            self._placing_rounds += 1
            for each in placements:
                _log.debug("round %d: %s on %s", self._placing_rounds, each.task.name, each.machine)

    def _wake_in(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._adapter.wake)

    async def _reasons(self) -> Mapping[str, str]:
        """Why tasks wait. An error of a policy here does not stop placements."""
        if not len(self._cycle.queue):
            return {}
        try:
            return await self._in_thread("explain", self._cycle.explain)
        except Exception:
            _log.exception("the reasons why pods wait cannot be determined")
            return {}

    async def _report_violations(self) -> None:
        """Report which running pods do not meet their requirements any more. An error here does
        not stop placements."""
        if self._violation_announcements is None:
            return
        try:
            found = await self._violation_announcements.update(
                self._cycle.violations, partial(self._in_thread, "explain"), self._wake_in
            )
        except Exception:
            _log.exception("the requirements of running pods cannot be judged")
            return
        if found is not None:
            self._adapter.register.set_violations({each.task.id: each.sentence for each in found})

    async def _write_ledger(self, outcome: Outcome) -> None:
        """Wait until the ledger is written; the watchdog does not count this time."""
        if self._ledger_writer is None:
            self._adapter.register.changes.discard()
            return
        began = monotonic()
        self._watchdog.end()
        await self._ledger_writer.write_decision(outcome)
        self._watchdog.begin()
        self._metrics.phase("commit", monotonic() - began)

    def _report(self, decided: Decision, seconds: float, reasons: Mapping[str, str]) -> None:
        """Update metrics, and announce why tasks still wait."""
        plan = decided.plan
        self._metrics.cycled(
            seconds,
            considered=len(plan.placed) + len(self._cycle.queue),
            placed=len(plan.placed),
            solves=plan.solves,
            gap=plan.gap,
        )
        self._metrics.refused(plan.refused_proposals, plan.cut_searches, plan.untried_sets)
        if plan.cut_searches:
            _log.info(
                "%d searches for pods with constraints between them gave up at a limit; what they"
                " left waiting is decided in the next rounds",
                plan.cut_searches,
            )
        if plan.untried_sets:
            _log.info(
                "%d sets of pods that require each other were not searched for, because the round"
                " had reached a limit of searches; they wait for a round with fewer failing sets"
                " before them",
                plan.untried_sets,
            )
        self._metrics.decided(seconds, max(1, len(plan.placements)))
        self._announcements.decided(
            seconds, reasons, decided.unsatisfiable, decided.reservations, time()
        )
        if self._adapter.register.set_reasons(reasons, decided.unsatisfiable):
            self._adapter.wake()
        if not plan.placed:
            self._idle_pause_seconds = min(seconds, MAX_IDLE_PAUSE_SECONDS)

    def _report_missed_reservations(self, outcome: Outcome) -> None:
        known = sum(each.start_seconds is not None for each in outcome.reservations)
        self._metrics.promised(known, (each.cause for each in outcome.broken))
        for each in islice(outcome.broken, MAX_LOGGED):
            late = time() - each.reserved_start_seconds
            name = self._adapter.register.shown(each.group)
            _log.info(
                "group %s starts %.0f s later than first reserved: %s", name, late, each.cause
            )

    async def _in_thread(
        self, phase: CyclePhase, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        began = monotonic()
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._thread, partial(work, *args, **kwargs))
        self._metrics.phase(phase, monotonic() - began)
        return answer
