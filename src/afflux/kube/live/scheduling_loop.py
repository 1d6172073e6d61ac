"""The scheduling loop: runs cycles back to back while there is work and sleeps otherwise.

The cycle runs in a thread of its own, so that watches are read, bindings are sent and the lease is
renewed meanwhile. Everything else happens in the event loop: the cluster reader is drained before a
cycle and gets its placements after it, never during one.
"""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from time import monotonic, time
from typing import Any, ParamSpec, TypeVar

from afflux.cycle.events import Event, GroupReady
from afflux.cycle.loop import Cycle, Outcome
from afflux.kube.live.announcements import Announcements
from afflux.kube.live.bind_steps import DECIDE_AGAIN
from afflux.kube.live.binder import Binder
from afflux.kube.live.cluster_reader import ClusterReader
from afflux.kube.live.half_bound_circles import HalfBoundCircles
from afflux.kube.live.ledger_writer import LedgerWriter
from afflux.kube.live.object_store import ObjectStore
from afflux.kube.live.violation_announcements import ViolationAnnouncements
from afflux.kube.live.volume_binder import VolumeBinder
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.plan.round import Round
from afflux.web.scheduler_metrics import CyclePhase, Metrics
from afflux.web.watchdog import Watchdog

# While bindings wait to be sent, another cycle would only lengthen their queue. The next cycle
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


class SchedulingLoop:
    """Runs the cycles of one cluster. With a `ledger_writer`, the ledger is written first; with
    `half_bound_circles`, it follows which pods that require each other are bound."""

    def __init__(
        self,
        reader: ClusterReader,
        cycle: Cycle,
        volume_binder: VolumeBinder,
        binder: Binder,
        announcements: Announcements,
        *,
        metrics: Metrics,
        watchdog: Watchdog,
        violation_announcements: ViolationAnnouncements | None = None,
        ledger_writer: LedgerWriter | None = None,
        half_bound_circles: HalfBoundCircles | None = None,
        error_pause_seconds: float = ERROR_PAUSE_SECONDS,
    ) -> None:
        self._reader = reader
        self._cycle = cycle
        self._volume_binder = volume_binder
        self._binder = binder
        self._announcements = announcements
        self._violation_announcements = violation_announcements
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cycle")
        self._watchdog = watchdog
        self._ledger_writer = ledger_writer
        self._half_bound_circles = half_bound_circles
        self._error_pause_seconds = error_pause_seconds
        self._idle_pause_seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def run(
        self,
        needed: Sequence[ObjectStore[Any]],
        begin: Callable[[Cycle], Awaitable[None]] | None = None,
    ) -> None:
        """Run cycles until cancelled; the first waits for these stores, and for `begin`."""
        for store in needed:
            await store.synced.wait()
        if begin is not None:
            await begin(self._cycle)
        # The objects that exist now live long; the garbage collector need not visit them again.
        gc.collect()
        gc.freeze()
        while True:
            await self._reader.changes.wait()
            await self._pause()
            await self._run_cycle()

    async def _pause(self) -> None:
        if self._idle_pause_seconds:
            await asyncio.sleep(self._idle_pause_seconds)
        if self._binder.backlog:
            try:
                async with asyncio.timeout(MAX_BATCHING_SECONDS):
                    await self._binder.all_sent()
            except TimeoutError:
                pass

    async def _run_cycle(self) -> None:
        began = monotonic()
        self._watchdog.begin()
        try:
            outcome = await self._drain_and_decide(began)
            self._handle_faults(outcome)
            self._reader.assume(outcome.placements)
            if self._half_bound_circles is not None:
                self._half_bound_circles.add(outcome.circles, outcome.placements)
            self._binder.submit(await self._bindable(outcome), outcome.rests_on)
            self._idle_pause_seconds = 0.0
            if outcome.round is not None:
                reasons = await self._reasons()
                if self._ledger_writer is not None:
                    self._ledger_writer.set_reasons(reasons, outcome)
                self._report(outcome.round, monotonic() - began, reasons)
                self._report_missed_reservations(outcome)
            await self._report_violations()
        except Exception:
            # The cluster is unchanged and only the plan is lost; the next cycle plans again.
            _log.exception("a cycle failed; the next one is in %s s", self._error_pause_seconds)
            self._metrics.failed("error", "", [monotonic() - began])
            await asyncio.sleep(self._error_pause_seconds)
            self._wake()
        finally:
            self._watchdog.end()

    async def _drain_and_decide(self, began: float) -> Outcome:
        now_seconds = time()
        events = self._reader.take_events(now_seconds)
        unconfirmed = self._binder.begin_cycle()
        if self._half_bound_circles is not None:
            self._half_bound_circles.update(now_seconds)
        self._metrics.phase("observe", monotonic() - began)
        held = self._reader.live_groups.take_held_back()
        self._announce_waiting(events, held)
        return await self._decide(events, held, now_seconds, unconfirmed)

    def _announce_waiting(self, events: Sequence[Event], held: Sequence[tuple[Task, str]]) -> None:
        """Announce which groups wait, and why some tasks cannot be considered."""
        try:
            ready = (event.group for event in events if isinstance(event, GroupReady))
            self._announcements.ready(ready)
            self._announcements.held_back(held)
        except Exception:
            # The reader returns each event once, so the cycle must run even after an error here.
            _log.exception("waiting pods cannot be announced")

    async def _bindable(self, outcome: Outcome) -> Sequence[Placement]:
        """The placements that can be bound, after the ledger has been written and volumes chosen.

        If that fails, all placements are rejected, so that no pod keeps a place without a binding.
        """
        try:
            self._announcements.placed(outcome.placements)
            await self._write_ledger(outcome)
            groups = outcome.round.placed if outcome.round is not None else ()
            placements, rejected = await self._volume_binder.choose(
                outcome.placements, groups, outcome.circles
            )
            for placement, rejection in rejected:
                self._binder.reject(placement, rejection)
        except Exception:
            for placement in outcome.placements:
                self._binder.reject(placement, DECIDE_AGAIN)
            raise
        return placements

    def _handle_faults(self, outcome: Outcome) -> None:
        """Log the errors of a cycle and retry the groups and objects that caused them later."""
        for each in outcome.resync_requests[:MAX_LOGGED]:
            error = each.error
            _log.error("%s %s is not used: %r", each.kind, each.name, error, exc_info=error)
        self._reader.resync(outcome.resync_requests)
        loop = asyncio.get_running_loop()
        for each in outcome.resync_requests:
            key = ("node", each.name) if each.kind == "machine" else ("cycle", "")
            loop.call_later(self._error_pause_seconds, self._reader.changes.put, key)
        for name, error in islice(outcome.quarantined.items(), MAX_LOGGED):
            _log.error("group %s is quarantined", name, exc_info=error)
        if outcome.quarantined:
            _log.error("%s groups are quarantined after errors", len(outcome.quarantined))
            self._metrics.failed("error", "", [0.0] * len(outcome.quarantined))
        if outcome.wake_up_seconds is not None:
            if self._timer is not None:
                self._timer.cancel()
            # A margin, because `time` and the timer use different clocks.
            pause = max(0.0, outcome.wake_up_seconds - time()) + 0.01
            self._timer = loop.call_later(pause, self._wake)

    def _wake(self) -> None:
        self._reader.changes.put(("cycle", ""))

    def _wake_in(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._wake)

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
        if found is not None and self._ledger_writer is not None:
            self._ledger_writer.set_violations(found)
            # The ledger is written with the next cycle.
            self._wake()

    async def _decide(
        self,
        events: Sequence[Event],
        held: Sequence[tuple[Task, str]],
        now_seconds: float,
        unconfirmed: Collection[str],
    ) -> Outcome:
        """Run the cycle in its thread; meanwhile pass the events to the ledger writer."""
        work = self._in_thread("decide", self._cycle.run, events, now_seconds, unconfirmed)
        deciding = asyncio.create_task(work, name="deciding")
        try:
            # Lets the cycle start in its thread before this thread goes on.
            await asyncio.sleep(0)
            self._pass_to_ledger(events, held)
            return await deciding
        finally:
            deciding.cancel()

    def _pass_to_ledger(self, events: Sequence[Event], held: Sequence[tuple[Task, str]]) -> None:
        try:
            if self._ledger_writer is not None:
                self._ledger_writer.observe(events, held)
        except Exception:
            # The decision is still carried out; an error here must not lose its placements.
            _log.exception("the events of a cycle could not be passed to the ledger")

    async def _write_ledger(self, outcome: Outcome) -> None:
        """Wait until the ledger is written; the watchdog does not count this time."""
        if self._ledger_writer is None:
            return
        began = monotonic()
        self._watchdog.end()
        await self._ledger_writer.write_decision(outcome)
        self._watchdog.begin()
        self._metrics.phase("commit", monotonic() - began)

    def _report(self, decided: Round, seconds: float, reasons: Mapping[str, str]) -> None:
        """Update metrics, and announce why tasks still wait."""
        self._metrics.cycled(
            seconds,
            considered=len(decided.placed) + len(self._cycle.queue),
            placed=len(decided.placed),
            solves=decided.solves,
            gap=decided.gap,
        )
        self._metrics.refused(decided.refused_proposals, decided.cut_searches)
        if decided.cut_searches:
            _log.info(
                "%d searches for pods with constraints between them gave up at a limit; what they"
                " left waiting is decided in the next rounds",
                decided.cut_searches,
            )
        self._metrics.decided(seconds, max(1, len(decided.placements)))
        self._announcements.decided(
            seconds, reasons, decided.unsatisfiable, decided.reservations, time()
        )
        if self._reader.live_groups.set_unsatisfiable(decided.unsatisfiable.keys()):
            self._wake()
        if not decided.placed:
            self._idle_pause_seconds = min(seconds, MAX_IDLE_PAUSE_SECONDS)

    def _report_missed_reservations(self, outcome: Outcome) -> None:
        known = sum(each.start_seconds is not None for each in outcome.reservations)
        self._metrics.promised(known, (each.cause for each in outcome.broken))
        for each in islice(outcome.broken, MAX_LOGGED):
            late = time() - each.reserved_start_seconds
            _log.info(
                "group %s starts %.0f s later than first reserved: %s", each.group, late, each.cause
            )

    async def _in_thread(
        self, phase: CyclePhase, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        began = monotonic()
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._thread, partial(work, *args, **kwargs))
        self._metrics.phase(phase, monotonic() - began)
        return answer
