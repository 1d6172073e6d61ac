"""Keeping a ledger: what a leader decides is written before it is done.

Every cycle makes a turn: what has changed about groups, what is about to be bound, what became of
the last binds. A cycle that placed somebody waits until its turn is written. What became of binds,
and who has ended, goes with the next turn, if one comes soon. If the ledger is away,
turns are kept and merged, and written when it is back; whether binding waits for that is
configured. A new leader first reads what is there, and then asks the API server, which is right
wherever the two disagree.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import monotonic, time
from typing import Literal

from afflux.cycle.entries import (
    EventEntry,
    GroupEntry,
    Intent,
    Recovered,
    Turn,
    Verdict,
    merged,
)
from afflux.cycle.events import Event
from afflux.cycle.loop import Cycle, Outcome
from afflux.cycle.ports import DeposedError, Ledger, LedgerError
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.decoding import scheduler_of
from afflux.kube.live.leasing import Term
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.records import Records
from afflux.model.placement import Placement
from afflux.model.promise import Promise
from afflux.model.task import Task
from afflux.web.seldom import Seldom

WhenAway = Literal["wait", "continue"]

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
# Rights do not come back by themselves.
LONGEST_REFUSAL_SECONDS = 60.0
# Who goes on without a ledger that is away first has to notice that it is.
LONGEST_PATIENCE_SECONDS = 10.0
# What nobody waits for, and is not about anybody's place in the queue, is written after so long.
LONGEST_LINGER_SECONDS = 0.1
# At the end, so long for the last turn.
LONGEST_GOODBYE_SECONDS = 3.0
# Pods that are read back at the same time.
MOST_AT_ONCE = 16
# So many disagreements are told one by one.
MOST_TOLD = 20

_log = logging.getLogger(__name__)


class Keeping:
    """One leader's ledger. Everything but `begin` and `run` belongs to the loop of cycles."""

    def __init__(
        self,
        ledger: Ledger,
        mirror: Mirror,
        api: Api,
        *,
        scheduler_names: Collection[str],
        when_away: WhenAway = "wait",
        now_seconds: Callable[[], float] = time,
    ) -> None:
        self._ledger = ledger
        self._mirror = mirror
        self._api = api
        self._when_away = when_away
        self._now_seconds = now_seconds
        self._records = Records(
            mirror.pods,
            lambda: mirror.gathering.pod_groups,
            lambda pod: scheduler_of(pod) in scheduler_names,
        )
        mirror.pods.heard_last = self._records.ended
        self._events: list[EventEntry] = []
        self._promises: tuple[Promise, ...] = ()
        # What was offered to the ledger and not taken yet, and what came after it.
        self._offered: Turn | None = None
        self._kept = Turn()
        self._has_work = asyncio.Event()
        self._is_urgent = asyncio.Event()
        self._is_written = asyncio.Event()
        self._is_written.set()
        self._is_answered = asyncio.Event()
        self._away_since: float | None = None
        # Many pods may have the same trouble.
        self._seldom = Seldom(_log)

    # --- Taking over

    async def begin(self, cycle: Cycle, term: Term | None, lease_seconds: float) -> None:
        """Become the one who writes, and go on where the last one stopped.

        The mirror has to be filled. A ledger that is away is waited for, however it is configured:
        only the ledger knows the order.
        """
        recovered = await self._taken_over(term, lease_seconds)
        self._promises = recovered.promises
        await self._read_back(recovered.intents)
        self._events += self._differences(recovered)
        self._records.restore(recovered.groups)
        self._settle(recovered.intents)
        self._restore_positions(recovered.groups)
        entries = {entry.name: entry for entry in recovered.groups}
        held = [
            each for each in recovered.promises if self._still_holds(each, entries.get(each.group))
        ]
        cycle.restore(held)
        _log.info(
            "epoch %s of the ledger: %s groups, %s promises of which %s hold, %s open intents",
            recovered.epoch,
            len(recovered.groups),
            len(recovered.promises),
            len(held),
            len(recovered.intents),
        )

    async def _taken_over(self, term: Term | None, lease_seconds: float) -> Recovered:
        epoch = None if term is None else term.epoch
        pause, refused_at = FIRST_PAUSE_SECONDS, None
        while True:
            try:
                return await self._ledger.take_over(epoch)
            except DeposedError as error:
                # A rival would have ended our term by now. So the Lease was made anew, and counts
                # from the beginning, while the ledger remembers.
                refused_at = refused_at or monotonic()
                if monotonic() - refused_at > lease_seconds:
                    _log.warning("%s, but the lease is ours: taking the next epoch", error)
                    epoch = None
            except LedgerError as error:
                _log.error("the ledger cannot be taken over: %s", error)
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _restore_positions(self, entries: Iterable[GroupEntry]) -> None:
        for entry in entries:
            if entry.ready_seconds is not None:
                there = [each.uid for each in entry.members if self._records.is_there(each)]
                alone = [each.name for each in entry.members] == [entry.name]
                self._mirror.gathering.restore(there, entry.ready_seconds, alone=alone)
                bound = sum(bool(each.machine) for each in entry.members)
                if there and bound:
                    self._mirror.gathering.restore_begun(entry.name, bound)

    def _still_holds(self, promise: Promise, entry: GroupEntry | None) -> bool:
        """Whether all those still wait to whom a machine was promised."""
        there = {
            each.uid
            for each in (entry.members if entry else ())
            if self._records.is_there(each) and not self._node_of(each.uid, each.name)
        }
        return bool(there) and all(uid in there for uid, _ in promise.machines)

    async def _read_back(self, intents: Sequence[Intent]) -> None:
        """Ask about the pods of which the last leader did not see the end, and we do not either."""
        some = asyncio.Semaphore(MOST_AT_ONCE)

        async def look(intent: Intent) -> None:
            if self._node_of(intent.uid, intent.pod) == "":
                async with some:
                    await self._read(intent)

        await asyncio.gather(*(look(intent) for intent in intents))

    def _settle(self, intents: Sequence[Intent]) -> None:
        """What became of what the last leader meant to bind."""
        for intent in intents:
            node = self._node_of(intent.uid, intent.pod)
            if node:
                self._records.bound(intent.uid, node)
            else:
                self._records.not_bound(intent.uid, "it was not bound when its leader ended")

    async def _read(self, intent: Intent) -> None:
        """Bring the mirror's knowledge of one pod up to date.

        Until that is known nobody is scheduled: a pod that was bound without our knowledge would
        be decided about a second time.
        """
        space, _, name = intent.pod.partition("/")
        pause, longest = FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
        while True:
            try:
                pod = await self._api.get(f"/api/v1/namespaces/{space}/pods/{name}", objects.Pod)
            except ApiError as error:
                known = self._mirror.pods.get(intent.pod)
                if error.is_missing:
                    if known is not None and known.metadata.uid == intent.uid:
                        self._mirror.pods.deleted(known)
                    return
                if error.is_refused:
                    longest = LONGEST_REFUSAL_SECONDS
                    self._seldom.error(
                        "nothing is scheduled until pod %s, which the last leader was about to"
                        " bind, can be read: %s; expected the right to get pods, which the chart"
                        " grants",
                        intent.pod,
                        error,
                    )
                else:
                    self._seldom.warning("%s cannot be read back: %s", intent.pod, error)
            except UnreachableError as error:
                self._seldom.warning("%s cannot be read back: %s", intent.pod, error)
            else:
                self._mirror.pods.changed(pod)
                return
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, longest)

    def _node_of(self, uid: str, name: str) -> str | None:
        """Where the API server says this pod is: empty if nowhere yet, None if it is gone."""
        pod = self._mirror.pods.get(name)
        if pod is None or pod.metadata.uid != uid:
            return None
        return pod.spec.node_name or ""

    def _differences(self, recovered: Recovered) -> list[EventEntry]:
        """Where ledger and API server disagree: the API server wins, and it is logged."""
        intended = {intent.uid for intent in recovered.intents}
        found: list[EventEntry] = []
        for entry in recovered.groups:
            there = 0
            for member in entry.members:
                node = self._node_of(member.uid, member.name)
                there += node is not None
                if node is None or node == member.machine or member.uid in intended:
                    continue
                where = f"on {node}" if node else "not bound"
                ours = f"on {member.machine}" if member.machine else "not bound"
                said = f"pod {member.name} is {where}; the ledger says that it is {ours}"
                found.append(EventEntry(entry.name, "Corrected", said))
            if not there:
                found.append(EventEntry(entry.name, "Corrected", "none of its pods is there"))
        if found:
            _log.warning(
                "the ledger and the API server disagree %s times; the API server wins", len(found)
            )
        for each in found[:MOST_TOLD]:
            _log.warning("group %s: %s", each.group, each.message)
        return found

    # --- From the loop

    def observe(self, events: Iterable[Event], held: Iterable[tuple[Task, str]]) -> None:
        """What the cycle hears, and which pods it may not consider, with the reasons."""
        self._records.observe(events, held, self._now_seconds())

    async def decided(self, outcome: Outcome) -> None:
        """A cycle has decided; returns when its placements may be bound."""
        self._records.intend(outcome.placements)
        self._keep(self._turn(outcome.promises))
        if not outcome.placements or self._is_written.is_set():
            return
        self._is_urgent.set()
        if self._when_away == "wait":
            await self.written()
            return
        try:
            async with asyncio.timeout(LONGEST_PATIENCE_SECONDS):
                await self._is_answered.wait()
        except TimeoutError:
            self._went_away(f"no answer within {LONGEST_PATIENCE_SECONDS:g} s")

    def explained(self, reasons: Mapping[str, str], outcome: Outcome) -> None:
        """Why those wait, by task, who do; the next turn says so."""
        self._records.explain(reasons, outcome.unsatisfiable)

    # --- From the bindings

    def settled(self, placement: Placement, verdict: Verdict, why: str = "") -> None:
        """What became of one bind; the next turn says so."""
        match verdict:
            case "bound":
                self._records.bound(placement.task.id, placement.machine)
            case "unknown":
                self._records.in_doubt(placement.task.id, why)
            case "failed":
                group = self._records.not_bound(placement.task.id, why)
                if group is not None and why:
                    said = f"pod {placement.task.name} was not bound: {why}"
                    self._events.append(EventEntry(group, "NotBound", said))

    # --- From whoever cleans up

    def over_deadline(self, pods: Collection[str]) -> None:
        """These pods, by uid, are being deleted because the time of their group is over."""
        self._records.over_deadline(pods)

    def taken_back(self, group: str, pods: Collection[str], why: str) -> None:
        """A group's bound pods are being deleted because the rest could not be bound."""
        self._records.taken_back(pods)
        self._events.append(EventEntry(group, "TakenBack", why))

    # --- Writing

    async def run(self) -> None:
        """Write what there is until cancelled; a DeposedError if somebody else leads."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            await self._has_work.wait()
            await self._linger()
            try:
                await self._write()
            except DeposedError:
                raise
            except LedgerError as error:
                self._went_away(str(error))
                await asyncio.sleep(pause * random.uniform(0.8, 1.2))
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                pause = FIRST_PAUSE_SECONDS

    async def end(self) -> None:
        """Write what is left, if that is possible soon."""
        self._keep(self._turn(None))
        try:
            async with asyncio.timeout(LONGEST_GOODBYE_SECONDS):
                await self._write()
        except (LedgerError, TimeoutError) as error:
            _log.warning("the last turn was not written: %s", str(error) or "no time left")

    async def written(self) -> None:
        """Wait until the ledger has everything."""
        if not self._is_written.is_set():
            self._is_urgent.set()
        await self._is_written.wait()

    async def _linger(self) -> None:
        """Every turn costs a round trip and a write to the disk, however little it says."""
        try:
            async with asyncio.timeout(LONGEST_LINGER_SECONDS):
                await self._is_urgent.wait()
        except TimeoutError:
            pass

    async def _write(self) -> None:
        while self._offered is not None or not self._kept.is_empty():
            if self._offered is None:
                self._offered, self._kept = self._kept, Turn()
            await self._ledger.commit(self._offered)
            self._offered = None
        self._has_work.clear()
        self._is_urgent.clear()
        self._is_written.set()
        self._is_answered.set()
        if self._away_since is not None:
            _log.info("the ledger is back after %.1f s", monotonic() - self._away_since)
            self._away_since = None

    def _went_away(self, why: str) -> None:
        if self._away_since is None:
            self._away_since = monotonic()
            doing = "goes on" if self._when_away == "continue" else "waits"
            _log.error("the ledger is away, scheduling %s: %s", doing, why)
        self._is_answered.set()

    def _keep(self, turn: Turn) -> None:
        if turn.is_empty():
            return
        self._kept = merged(self._kept, turn)
        self._has_work.set()
        if self._records.gave_places:
            self._is_urgent.set()
        self._is_written.clear()
        if self._away_since is None:
            self._is_answered.clear()

    def _turn(self, promises: tuple[Promise, ...] | None) -> Turn:
        groups, gone = self._records.take(self._now_seconds(), self._mirror.gathering.refused)
        if promises == self._promises:
            promises = None
        elif promises is not None:
            self._promises = promises
        events, self._events = self._events, []
        return Turn(tuple(gone), tuple(groups), promises, tuple(events))
