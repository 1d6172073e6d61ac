"""The loop: cycles back to back while there is work, asleep when there is none.

The cycle itself runs in a thread of its own, so that watches are read, bindings sent and the lease
renewed while it thinks. Everything else happens in the event loop: the mirror is looked at before
a cycle and told of its placements after it, never during one.
"""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from time import monotonic, time
from typing import Any, ParamSpec, TypeVar

from afflux.cycle.events import Event, GroupReady
from afflux.cycle.loop import Cycle, Outcome
from afflux.kube.live.binding import Binding
from afflux.kube.live.keeping import Keeping
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.preparing import Preparing
from afflux.kube.live.reporting import Reporting
from afflux.kube.live.shelves import Shelf
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.plan.rounds import Round
from afflux.web.metrics import Metrics, Phase
from afflux.web.watchdog import Watchdog

# While bindings wait to be sent, deciding about more would only lengthen their queue: newcomers
# are gathered for so long at most.
LONGEST_GATHERING_SECONDS = 0.1
# A cycle that placed nobody is followed by a rest as long as itself, at most this: room that comes
# free bit by bit while thousands wait must not keep a core busy for nothing.
LONGEST_REST_SECONDS = 1.0
# After a defect of the planner, or of a policy, so long until the next attempt.
PAUSE_AFTER_ERROR_SECONDS = 5.0
# So many of those whom a defect concerns are named in the log at a time.
MOST_TOLD = 10

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)


class Scheduling:
    """One cluster's cycles; with `keeping`, a ledger hears of them before anybody else does."""

    def __init__(
        self,
        mirror: Mirror,
        cycle: Cycle,
        preparing: Preparing,
        binding: Binding,
        reporting: Reporting,
        *,
        metrics: Metrics,
        watchdog: Watchdog,
        keeping: Keeping | None = None,
    ) -> None:
        self._mirror = mirror
        self._cycle = cycle
        self._preparing = preparing
        self._binding = binding
        self._reporting = reporting
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cycle")
        self._watchdog = watchdog
        self._keeping = keeping
        self._rest_seconds = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    async def run(
        self, needed: Sequence[Shelf[Any]], begin: Callable[[Cycle], Awaitable[None]] | None = None
    ) -> None:
        """Work until cancelled. The first cycle waits until these shelves are filled, and until
        whatever else has to be done before has been done."""
        for shelf in needed:
            await shelf.filled.wait()
        if begin is not None:
            await begin(self._cycle)
        # What was there at the start stays: nothing of it is garbage, and looking costs time.
        gc.collect()
        gc.freeze()
        while True:
            await self._mirror.changes.wait()
            await self._gather()
            await self._once()

    async def _gather(self) -> None:
        if self._rest_seconds:
            await asyncio.sleep(self._rest_seconds)
        if self._binding.backlog:
            try:
                async with asyncio.timeout(LONGEST_GATHERING_SECONDS):
                    await self._binding.caught_up()
            except TimeoutError:
                pass

    async def _once(self) -> None:
        began = monotonic()
        self._watchdog.begin()
        try:
            outcome = await self._decided(began)
            self._hear_of(outcome)
            self._mirror.assume(outcome.placements)
            self._binding.start(await self._carried_on(outcome))
            self._rest_seconds = 0.0
            if outcome.round is not None:
                reasons = await self._reasons()
                if self._keeping is not None:
                    self._keeping.explained(reasons, outcome)
                self._account(outcome.round, monotonic() - began, reasons)
                self._account_for_promises(outcome)
        except Exception:
            # The cluster is as it was; only the plan is lost. It is made anew.
            _log.exception("a cycle failed; the next one is in %s s", PAUSE_AFTER_ERROR_SECONDS)
            self._metrics.failed("error", "", [monotonic() - began])
            await asyncio.sleep(PAUSE_AFTER_ERROR_SECONDS)
            self._wake()
        finally:
            self._watchdog.end()

    async def _decided(self, began: float) -> Outcome:
        """What has happened is told to the cycle, which decides."""
        now_seconds = time()
        events = self._mirror.drain(now_seconds)
        self._metrics.phase("observe", monotonic() - began)
        held = self._mirror.gathering.take_held_back()
        self._tell(events, held)
        return await self._decide(events, held, now_seconds)

    def _tell(self, events: Sequence[Event], held: Sequence[tuple[Task, str]]) -> None:
        """Who waits, and why some may not even be considered."""
        try:
            self._reporting.ready(event.group for event in events if isinstance(event, GroupReady))
            self._reporting.held_back(held)
        except Exception:
            # The mirror says everything once: whatever is wrong here, the cycle has to hear it.
            _log.exception("who waits, and why, cannot be said")

    async def _carried_on(self, outcome: Outcome) -> Sequence[Placement]:
        """What can be bound, after everybody has heard of it. If that fails, nobody keeps a place
        for which nobody works."""
        try:
            self._reporting.placed(outcome.placements)
            await self._keep(outcome)
            groups = outcome.round.placed if outcome.round is not None else ()
            placements, given_back = await self._preparing.choose(outcome.placements, groups)
            for placement, why in given_back:
                self._binding.give_back(placement, why)
        except Exception:
            for placement in outcome.placements:
                self._binding.give_back(placement, "")
            raise
        return placements

    def _hear_of(self, outcome: Outcome) -> None:
        """Those whom a defect concerns wait for another attempt; the others do not notice."""
        for each in outcome.unheard[:MOST_TOLD]:
            _log.error(
                "%s %s is not used: %r", each.what, each.name, each.error, exc_info=each.error
            )
        self._mirror.tell_again(outcome.unheard)
        loop = asyncio.get_running_loop()
        for each in outcome.unheard:
            key = ("node", each.name) if each.what == "machine" else ("cycle", "")
            loop.call_later(PAUSE_AFTER_ERROR_SECONDS, self._mirror.changes.put, key)
        for name, error in islice(outcome.set_aside.items(), MOST_TOLD):
            _log.error("group %s is set aside", name, exc_info=error)
        if outcome.set_aside:
            _log.error("%s groups are set aside after errors", len(outcome.set_aside))
            self._metrics.failed("error", "", [0.0] * len(outcome.set_aside))
        if outcome.again_seconds is not None:
            if self._alarm is not None:
                self._alarm.cancel()
            # Not before the time has come, as the other clock counts it.
            pause = max(0.0, outcome.again_seconds - time()) + 0.01
            self._alarm = loop.call_later(pause, self._wake)

    def _wake(self) -> None:
        self._mirror.changes.put(("cycle", ""))

    async def _reasons(self) -> Mapping[str, str]:
        """Why those wait who do. A policy that cannot say so keeps nobody from being placed."""
        if not len(self._cycle.queue):
            return {}
        try:
            return await self._in_thread("explain", self._cycle.explain)
        except Exception:
            _log.exception("why pods wait cannot be said")
            return {}

    async def _decide(
        self, events: Sequence[Event], held: Sequence[tuple[Task, str]], now_seconds: float
    ) -> Outcome:
        """The cycle thinks; meanwhile the ledger's part is made ready."""
        deciding = asyncio.create_task(
            self._in_thread("decide", self._cycle.run, events, now_seconds), name="deciding"
        )
        try:
            # Once it has begun: the optimiser needs this thread no longer.
            await asyncio.sleep(0)
            self._keep_observed(events, held)
            return await deciding
        finally:
            deciding.cancel()

    def _keep_observed(self, events: Sequence[Event], held: Sequence[tuple[Task, str]]) -> None:
        try:
            if self._keeping is not None:
                self._keeping.observe(events, held)
        except Exception:
            # What is being decided holds: without it those who are placed would be nowhere.
            _log.exception("the ledger's part of a cycle failed")

    async def _keep(self, outcome: Outcome) -> None:
        """Nothing is bound that is not in the ledger. To wait for it is not to be stuck."""
        if self._keeping is None:
            return
        began = monotonic()
        self._watchdog.end()
        await self._keeping.decided(outcome)
        self._watchdog.begin()
        self._metrics.phase("commit", monotonic() - began)

    def _account(self, decided: Round, seconds: float, reasons: Mapping[str, str]) -> None:
        """Figures, and reasons for those who still wait."""
        self._metrics.cycled(
            seconds,
            considered=len(decided.placed) + len(self._cycle.queue),
            placed=len(decided.placed),
            solves=decided.solves,
            gap=decided.gap,
        )
        self._metrics.decided(seconds, max(1, len(decided.placements)))
        self._reporting.decided(seconds, reasons, decided.unsatisfiable, decided.promises, time())
        if self._mirror.gathering.pass_over(decided.unsatisfiable.keys()):
            self._wake()
        if not decided.placed:
            self._rest_seconds = min(seconds, LONGEST_REST_SECONDS)

    def _account_for_promises(self, outcome: Outcome) -> None:
        known = sum(each.start_seconds is not None for each in outcome.promises)
        self._metrics.promised(known, (each.cause for each in outcome.broken))
        for each in islice(outcome.broken, MOST_TOLD):
            late = time() - each.promised_seconds
            _log.info(
                "group %s starts %.0f s later than first promised: %s", each.group, late, each.cause
            )

    async def _in_thread(
        self, phase: Phase, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        began = monotonic()
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._thread, partial(work, *args, **kwargs))
        self._metrics.phase(phase, monotonic() - began)
        return answer
