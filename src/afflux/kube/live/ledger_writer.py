"""LedgerWriter: writes every decision to the ledger before it is carried out.

Every cycle makes a batch: changed groups, intended binds, results of earlier binds. A cycle with
placements waits until its batch is written. Results of binds and ended groups are written with the
next batch. While the ledger is away, batches are merged and written when it is back; the
configuration says whether binding waits for that. A new leader first reads the ledger, then the
API server, which is authoritative where the two disagree.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic, time
from typing import Literal

from afflux.cycle.events import Event
from afflux.cycle.interfaces import DeposedError, Ledger, LedgerError
from afflux.cycle.ledger_entries import (
    BindIntent,
    BindOutcome,
    EventEntry,
    GroupEntry,
    LedgerBatch,
    RecoveredLedger,
    merged,
)
from afflux.cycle.loop import Cycle, Outcome
from afflux.kube import objects
from afflux.kube.api.backoff import Backoff
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.bind_confirmation import PodState
from afflux.kube.live.cluster_reader import ClusterReader
from afflux.kube.live.group_records import GroupRecords
from afflux.kube.live.leader_election import LeadershipTerm
from afflux.kube.live.object_refs import pod_path
from afflux.kube.pods import scheduler_of
from afflux.model.placement import Placement
from afflux.model.reservation import Reservation
from afflux.model.task import Task
from afflux.plan.standing_violations import Violation
from afflux.web.rate_limited_log import RateLimitedLog

WhenAway = Literal["wait", "continue"]

# When taking over: pods read from the API server at the same time.
MAX_CONCURRENT_READS = 16
# Further differences between ledger and API server are only counted.
MAX_LOGGED_DIFFERENCES = 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LedgerTiming:
    """Pauses and time limits of a ledger writer."""

    initial_backoff_seconds: float = 0.2
    max_backoff_seconds: float = 5.0
    # While the API server refuses a request: permissions change only when an administrator acts.
    max_refused_backoff_seconds: float = 60.0
    # With `when_away: continue`: how long a cycle waits before the ledger counts as away.
    answer_timeout_seconds: float = 10.0
    # A batch that no cycle waits for, and that changes no position in the queue, is written after
    # this time, together with what has come meanwhile.
    linger_seconds: float = 0.1
    # For the last batch, when the process ends.
    last_batch_timeout_seconds: float = 3.0


DEFAULT_TIMING = LedgerTiming()


class LedgerWriter:
    """Writes one leader's ledger. The scheduling loop calls all methods except `take_over` and
    `run`."""

    def __init__(
        self,
        ledger: Ledger,
        reader: ClusterReader,
        api: Api,
        *,
        scheduler_names: Collection[str],
        when_away: WhenAway = "wait",
        now_seconds: Callable[[], float] = time,
        timing: LedgerTiming = DEFAULT_TIMING,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ledger = ledger
        self._reader = reader
        self._api = api
        self._when_away = when_away
        self._now_seconds = now_seconds
        self._timing = timing
        self._sleep = sleep
        self._records = GroupRecords(
            reader.pods,
            lambda: reader.live_groups.pod_groups,
            lambda pod: scheduler_of(pod) in scheduler_names,
        )
        reader.pods.on_delete = self._records.record_gone
        self._events: list[EventEntry] = []
        self._reservations: tuple[Reservation, ...] = ()
        # The batch being written, and the changes since.
        self._in_flight: LedgerBatch | None = None
        self._pending = LedgerBatch()
        self._has_work = asyncio.Event()
        self._is_urgent = asyncio.Event()
        self._is_written = asyncio.Event()
        self._is_written.set()
        self._is_answered = asyncio.Event()
        self._away_since: float | None = None
        self._rate_limited_log = RateLimitedLog(_log)

    # --- Taking over from the last leader

    async def take_over(
        self, cycle: Cycle, term: LeadershipTerm | None, lease_seconds: float
    ) -> None:
        """Become the writer of the ledger and continue where the last leader stopped.

        The reader must have synced. This waits for a ledger that is away, even with `when_away:
        continue`: only the ledger knows the order of the queue.
        """
        recovered = await self._take_over_ledger(term, lease_seconds)
        self._reservations = recovered.reservations
        await self._read_back_pods(recovered.intents)
        self._events += self._find_differences(recovered)
        self._records.restore(recovered.groups)
        self._resolve_intents(recovered.intents)
        self._restore_positions(recovered.groups)
        entries = {entry.name: entry for entry in recovered.groups}
        reservations = [
            each for each in recovered.reservations if self._is_valid(each, entries.get(each.group))
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

    async def _take_over_ledger(
        self, term: LeadershipTerm | None, lease_seconds: float
    ) -> RecoveredLedger:
        epoch = None if term is None else term.epoch
        backoff, refused_at = self._backoff(), None
        while True:
            try:
                return await self._ledger.take_over(epoch)
            except DeposedError as error:
                # Another leader would have ended our term by now. So the Lease was recreated and
                # its transitions count from zero again, while the ledger keeps its epoch.
                refused_at = refused_at or monotonic()
                if monotonic() - refused_at > lease_seconds:
                    _log.warning("%s, but the lease is ours: taking the next epoch", error)
                    epoch = None
            except LedgerError as error:
                _log.error("the ledger cannot be taken over: %s", error)
            await self._sleep(backoff.wait_seconds())

    def _backoff(self) -> Backoff:
        return Backoff(self._timing.initial_backoff_seconds, self._timing.max_backoff_seconds)

    def _restore_positions(self, entries: Iterable[GroupEntry]) -> None:
        for entry in entries:
            if entry.ready_seconds is not None:
                live = [each.uid for each in entry.members if self._records.is_live(each)]
                single = [each.name for each in entry.members] == [entry.name]
                self._reader.live_groups.restore_positions(live, entry.ready_seconds, single=single)
                bound = sum(bool(each.machine) for each in entry.members)
                if live and bound:
                    self._reader.live_groups.restore_bound_count(entry.name, bound)

    def _is_valid(self, reservation: Reservation, entry: GroupEntry | None) -> bool:
        """Whether all pods with a reserved machine still wait."""
        pending = {
            each.uid
            for each in (entry.members if entry else ())
            if self._records.is_live(each) and not self._observed(each.uid, each.name).node
        }
        return bool(pending) and all(uid in pending for uid, _ in reservation.machines)

    async def _read_back_pods(self, intents: Sequence[BindIntent]) -> None:
        """Read the pods that the last leader was about to bind and that are not bound yet."""
        slots = asyncio.Semaphore(MAX_CONCURRENT_READS)

        async def read(intent: BindIntent) -> None:
            pod = self._observed(intent.uid, intent.pod)
            if pod.exists and pod.node is None:
                async with slots:
                    await self._read_until_known(intent)

        await asyncio.gather(*(read(intent) for intent in intents))

    def _resolve_intents(self, intents: Sequence[BindIntent]) -> None:
        """Record the results of the last leader's intended binds."""
        for intent in intents:
            node = self._observed(intent.uid, intent.pod).node
            if node is not None:
                self._records.record_bound(intent.uid, node)
            else:
                self._records.record_not_bound(intent.uid, "it was not bound when its leader ended")

    async def _read_until_known(self, intent: BindIntent) -> None:
        """Read one pod from the API server, with retries. Nothing is scheduled until this has
        succeeded: otherwise a pod bound by the last leader could be placed a second time."""
        timing = self._timing
        after_refusal = Backoff(timing.initial_backoff_seconds, timing.max_refused_backoff_seconds)
        after_error = self._backoff()
        while True:
            backoff = after_error
            try:
                pod = await self._api.get(pod_path(intent.pod), objects.Pod)
            except ApiError as error:
                known = self._reader.pods.get(intent.pod)
                if error.is_not_found:
                    if known is not None and known.metadata.uid == intent.uid:
                        self._reader.pods.deleted(known)
                    return
                if error.is_refused:
                    backoff = after_refusal
                    self._rate_limited_log.error(
                        "nothing is scheduled until pod %s, which the last leader was about to"
                        " bind, can be read: %s; expected the right to get pods, which the chart"
                        " grants",
                        intent.pod,
                        error,
                    )
                else:
                    self._rate_limited_log.warning("%s cannot be read back: %s", intent.pod, error)
            except UnreachableError as error:
                self._rate_limited_log.warning("%s cannot be read back: %s", intent.pod, error)
            else:
                self._reader.pods.changed(pod)
                return
            await self._sleep(backoff.wait_seconds())

    def _observed(self, uid: str, name: str) -> PodState:
        pod = self._reader.pods.get(name)
        if pod is None or pod.metadata.uid != uid:
            return PodState(exists=False)
        return PodState(exists=True, node=pod.spec.node_name or None)

    def _find_differences(self, recovered: RecoveredLedger) -> list[EventEntry]:
        """Log where ledger and API server disagree; the API server is authoritative."""
        intended = {intent.uid for intent in recovered.intents}
        found: list[EventEntry] = []
        for entry in recovered.groups:
            any_exists = False
            for member in entry.members:
                pod = self._observed(member.uid, member.name)
                any_exists = any_exists or pod.exists
                agrees = pod.node == (member.machine or None)
                if not pod.exists or agrees or member.uid in intended:
                    continue
                where = f"on {pod.node}" if pod.node else "not bound"
                ours = f"on {member.machine}" if member.machine else "not bound"
                said = f"pod {member.name} is {where}; the ledger says that it is {ours}"
                found.append(EventEntry(entry.name, "Corrected", said))
            if not any_exists:
                found.append(EventEntry(entry.name, "Corrected", "none of its pods is there"))
        if found:
            _log.warning(
                "the ledger and the API server disagree %s times; the API server wins", len(found)
            )
        for each in found[:MAX_LOGGED_DIFFERENCES]:
            _log.warning("group %s: %s", each.group, each.message)
        return found

    # --- Calls of the scheduling loop

    def observe(self, events: Iterable[Event], held_back: Iterable[tuple[Task, str]]) -> None:
        """The events for the cycle, and the pods held back from it with the reasons."""
        self._records.observe(events, held_back, self._now_seconds())

    async def write_decision(self, outcome: Outcome) -> None:
        """Write the decision of a cycle; returns when its placements may be bound."""
        self._records.record_intents(outcome.placements)
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

    def set_reasons(self, reasons: Mapping[str, str], outcome: Outcome) -> None:
        """Why pods wait, by uid; written with the next batch."""
        self._records.set_reasons(reasons, outcome.unsatisfiable)

    def set_violations(self, violations: Iterable[Violation]) -> None:
        """The running pods that do not meet their requirements; written with the next batch."""
        self._events += self._records.set_violations(violations)

    # --- Calls of the binder

    def settled(self, placement: Placement, verdict: BindOutcome, why: str = "") -> None:
        """Record the result of one bind; written with the next batch."""
        match verdict:
            case "bound":
                self._records.record_bound(placement.task.id, placement.machine)
            case "unknown":
                self._records.record_unknown(placement.task.id, why)
            case "failed":
                group = self._records.record_not_bound(placement.task.id, why)
                if group is not None and why:
                    said = f"pod {placement.task.name} was not bound: {why}"
                    self._events.append(EventEntry(group, "NotBound", said))

    # --- Calls of the cleanup

    def record_deadline(self, pods: Collection[str]) -> None:
        """These pods, by uid, are deleted because the deadline of their group has passed."""
        self._records.record_deadline(pods)

    def record_rollback(self, group: str, pods: Collection[str], why: str) -> None:
        """The bound pods of a group are deleted because the rest could not be bound."""
        self._records.record_rollback(pods)
        self._events.append(EventEntry(group, "TakenBack", why))

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

    def _queue(self, batch: LedgerBatch) -> None:
        if batch.is_empty():
            return
        self._pending = merged(self._pending, batch)
        self._has_work.set()
        if self._records.changed_positions:
            self._is_urgent.set()
        self._is_written.clear()
        if self._away_since is None:
            self._is_answered.clear()

    def _make_batch(self, reservations: tuple[Reservation, ...] | None) -> LedgerBatch:
        refused = self._reader.live_groups.refused
        groups, gone = self._records.take_changes(self._now_seconds(), refused)
        if reservations == self._reservations:
            reservations = None
        elif reservations is not None:
            self._reservations = reservations
        events, self._events = self._events, []
        return LedgerBatch(tuple(gone), tuple(groups), reservations, tuple(events))
