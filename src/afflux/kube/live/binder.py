"""Bindings: what the cycle decided is carried out, a few dozen at a time.

A binding names the pod's uid, so that a pod of the same name that was made anew is never bound by
mistake, and the API server refuses a second binding of the same pod. So a binding whose answer
was lost can be sent again, to the same node, until there is an answer: meanwhile the pod keeps its
place. Only what did not happen, and cannot happen any more, is given up: a refusal of the second
request says nothing about the first, which may still be on its way.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import Literal, Protocol

from afflux.cycle.entries import Verdict
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.api.pacing import LONGEST_PATIENCE_SECONDS
from afflux.kube.decoding import is_closed
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.reading_back import ReadingBack
from afflux.model.placement import Placement
from afflux.web.metrics import Metrics

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
# A server that keeps answering with errors of its own is asked so often for one pod in a row.
MOST_FAILURES = 6
# What got no answer may be carried out for so long: then an API server gives a request up.
LONGEST_REQUEST_SECONDS = 60.0
# So many of those that failed once are tried again at the same time. They must not take all
# connections: what hangs, hangs for long.
MOST_AGAIN = 16
# So long, at the end, for the answers to what is under way.
LONGEST_GOODBYE_SECONDS = 3.0
# A pod whose binding was refused waits, longer each time.
FIRST_REFUSAL_SECONDS = 1.0
LONGEST_REFUSAL_SECONDS = 60.0


_AT_ONCE = nullcontext()
_OVERTAKEN = "overtaken by events"


class Preparing(Protocol):
    """What has to be done for a pod on its node before it is bound."""

    def concerns(self, placement: Placement) -> bool:
        """Whether there is anything to do for this pod."""
        ...

    async def prepare(self, placement: Placement) -> str | None:
        """Do it; why it is impossible, None if it is done; empty if others were faster."""
        ...


class Listener(Protocol):
    """Who wants to know how bindings end."""

    def bound(self, placement: Placement, seconds: float) -> None:
        """The pod has its node."""
        ...

    def not_bound(self, placement: Placement, seconds: float) -> None:
        """The binding was refused."""
        ...

    def in_doubt(self, placement: Placement, why: str) -> None:
        """Nobody can find out whether the pod has its node."""
        ...


class Outcomes(Protocol):
    """Who keeps a ledger of binds."""

    def settled(self, placement: Placement, verdict: Verdict, why: str = "") -> None:
        """What became of one; unknown is not the last word."""
        ...


@dataclass(frozen=True, slots=True)
class _Reply:
    """What became of one request."""

    verdict: Literal["bound", "refused", "conflict", "busy", "failed", "lost"]
    why: str | None = None
    pause_seconds: float = 0.0
    # Whether it may be carried out later.
    is_open: bool = False


@dataclass(slots=True)
class _Hand:
    """One of so many that bind at once, until it has to wait for one placement in particular."""

    free: bool = True


class Binding:
    """Binds, `parallelism` at once.

    `remaining_seconds` says how long we may still act, None if there is no end to it. No request
    outlives that: a process that was suspended must not send one when it wakes up.
    """

    def __init__(
        self,
        api: Api,
        mirror: Mirror,
        listener: Listener,
        *,
        metrics: Metrics,
        remaining_seconds: Callable[[], float | None],
        parallelism: int,
        timeout_seconds: float,
        preparing: Preparing,
        outcomes: Outcomes | None = None,
    ) -> None:
        self._api = api
        self._mirror = mirror
        self._listener = listener
        self._metrics = metrics
        self._remaining_seconds = remaining_seconds
        self._timeout_seconds = timeout_seconds
        self._preparing = preparing
        self._reading_back = ReadingBack(api, mirror, metrics, listener.in_doubt)
        self._outcomes = outcomes
        # Sent, and perhaps bound, although nobody has said so.
        self._uncertain: set[str] = set()
        self._parallelism = parallelism
        self._waiting: deque[Placement] = deque()
        self._hands: asyncio.TaskGroup | None = None
        self._busy_hands = 0
        self._again = asyncio.Semaphore(MOST_AGAIN)
        self._under_way = 0
        self._caught_up = asyncio.Event()
        self._caught_up.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as hands:
            self._hands = hands
            self.start(())
            try:
                await asyncio.Event().wait()
            finally:
                await self._finish()

    async def _finish(self) -> None:
        """Send nothing more, and hear what became of what was sent: whoever is next has to know."""
        for placement in self._waiting:
            self._settled(placement, "failed", "not sent before the end")
        self._waiting.clear()
        deadline = monotonic() + LONGEST_GOODBYE_SECONDS
        while self._under_way and monotonic() < deadline:
            await asyncio.sleep(0.01)

    def start(self, placements: Sequence[Placement]) -> None:
        """Bind these, in this order, as soon as there are hands free."""
        self._waiting.extend(placements)
        if self._waiting:
            self._caught_up.clear()
        if self._hands is not None:
            free = self._parallelism - self._busy_hands
            for _ in range(min(free, len(self._waiting))):
                self._busy_hands += 1
                self._hands.create_task(self._work(self._hands))

    @property
    def backlog(self) -> int:
        """How many wait for a free hand."""
        return len(self._waiting)

    async def caught_up(self) -> None:
        """Wait until every binding has at least been sent."""
        await self._caught_up.wait()

    async def _work(self, hands: asyncio.TaskGroup) -> None:
        """Bind one after the other until none is left, or one has to be waited for."""
        hand = _Hand()
        while self._waiting and hand.free:
            placement = self._waiting.popleft()
            if not self._waiting:
                self._caught_up.set()
            if self._preparing.concerns(placement):
                # Disks may take minutes to be made; nobody else waits for that.
                hands.create_task(self._prepare_and_bind(placement))
            else:
                await self._bind(placement, hand)
        if hand.free:
            self._busy_hands -= 1

    def _let_go(self, hand: _Hand) -> None:
        """This one may take long: another hand does the rest."""
        if hand.free:
            hand.free = False
            self._busy_hands -= 1
            self.start(())

    async def _prepare_and_bind(self, placement: Placement) -> None:
        began = monotonic()
        why = await self._preparing.prepare(placement)
        if why is None:
            await self._bind(placement, _Hand(free=False))
        else:
            self.give_back(placement, why, monotonic() - began)

    def give_back(self, placement: Placement, why: str, seconds: float = 0.0) -> None:
        """It came to nothing before it could be sent; without a reason it is decided anew."""
        if why:
            self._refused(placement, why, seconds)
        else:
            self._settled(placement, "failed", _OVERTAKEN)
            self._mirror.unplaced(placement)

    async def _bind(self, placement: Placement, hand: _Hand) -> None:
        """One placement, until its outcome is known."""
        self._metrics.bind_sent()
        began = monotonic()
        why = await self._outcome(placement, hand)
        seconds = monotonic() - began
        if why is None:
            self._metrics.bind_answered("bound", seconds)
            self._settled(placement, "bound")
            self._listener.bound(placement, seconds)
        elif why:
            self._metrics.bind_answered("refused", seconds)
            self._refused(placement, why, seconds)
        else:
            # The pod was deleted or bound by somebody else, its node has gone or was cordoned:
            # normal life.
            self._metrics.bind_answered("overtaken", seconds)
            if placement.task.id not in self._uncertain:
                self._settled(placement, "failed", _OVERTAKEN)
            self._mirror.unplaced(placement)
        self._uncertain.discard(placement.task.id)

    async def _outcome(self, placement: Placement, hand: _Hand) -> str | None:
        """None: bound. Empty: overtaken by events. Otherwise why the API server refused."""
        pause = FIRST_PAUSE_SECONDS
        uncertain, failures, open_until = False, 0, 0.0
        while True:
            async with self._again if uncertain else _AT_ONCE:
                if self._mirror.node_of(placement.task) == placement.machine:
                    return None
                remaining = self._remaining_seconds()
                over = remaining is not None and remaining <= 0
                if over or not (uncertain or self._is_sensible(placement)):
                    return ""
                reply = await self._send(placement, remaining)
            if reply.verdict == "bound" or (reply.verdict == "refused" and not uncertain):
                return reply.why
            if reply.is_open:
                open_until = monotonic() + LONGEST_REQUEST_SECONDS
            failures += reply.verdict == "failed"
            if failures >= MOST_FAILURES:
                await self._wait_for(placement, open_until)
            is_no = reply.verdict in {"conflict", "refused"} or failures >= MOST_FAILURES
            may_come = monotonic() < open_until
            if reply.verdict == "conflict" or (is_no and not may_come):
                node = await self._reading_back.node_of(placement)
                if node is not None or not may_come:
                    self._uncertain.discard(placement.task.id)
                    if node is None:
                        return reply.why or ""
                    return None if node == placement.machine else ""
            if reply.verdict in {"lost", "failed"}:
                # An answer that was lost, or an error of the server's own, may hide a success. It
                # may also be about this pod alone, and come again.
                if not uncertain:
                    self._uncertain.add(placement.task.id)
                    self._settled(placement, "unknown", reply.why or "no answer")
                uncertain = True
                self._let_go(hand)
            await asyncio.sleep(max(pause, reply.pause_seconds) * random.uniform(0.8, 1.2))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _wait_for(self, placement: Placement, moment: float) -> None:
        """Until then, or until the pod has a node; nothing more is sent."""
        while monotonic() < moment and self._mirror.node_of(placement.task) is None:
            await asyncio.sleep(min(LONGEST_PAUSE_SECONDS, max(moment - monotonic(), 0.0)))

    async def _send(self, placement: Placement, remaining_seconds: float | None) -> _Reply:
        space, _, name = placement.task.name.partition("/")
        path = f"/api/v1/namespaces/{space}/pods/{name}/binding"
        self._under_way += 1
        try:
            async with asyncio.timeout(remaining_seconds):
                await self._api.send(
                    "POST",
                    path,
                    _binding(name, placement),
                    timeout_seconds=self._timeout_seconds,
                )
        except TimeoutError:
            return _Reply("lost", is_open=True)
        except UnreachableError as error:
            return _Reply("lost", is_open=True) if error.sent else _Reply("busy")
        except ApiError as error:
            why = f"binding to {placement.machine} was refused: {error.message}"
            if error.is_conflict or error.is_missing:
                return _Reply("conflict", why)
            if error.is_busy:
                lost = error.may_have_happened
                patience = min(error.retry_after_seconds or 0.0, LONGEST_PATIENCE_SECONDS)
                return _Reply("lost" if lost else "busy", why, patience, is_open=lost)
            failed = error.status >= 500 or error.may_have_happened
            return _Reply("failed" if failed else "refused", why, is_open=error.may_be_under_way)
        finally:
            self._under_way -= 1
        return _Reply("bound")

    def _is_sensible(self, placement: Placement) -> bool:
        """Whether pod and node are still there, and the node still lets the pod in."""
        node = self._mirror.nodes.get(placement.machine)
        return (
            self._mirror.pending(placement.task) is not None
            and node is not None
            and not is_closed(node, placement.task.shape.tolerations)
        )

    def _settled(self, placement: Placement, verdict: Verdict, why: str = "") -> None:
        if self._outcomes is not None:
            self._outcomes.settled(placement, verdict, why)

    def _refused(self, placement: Placement, why: str, seconds: float) -> None:
        self._settled(placement, "failed", why)
        self._listener.not_bound(placement, seconds)
        times = self._mirror.refusals(placement.task.name)
        pause = min(LONGEST_REFUSAL_SECONDS, FIRST_REFUSAL_SECONDS * 2 ** min(times, 20))
        self._mirror.unplaced(placement, f"{why}; trying again after {pause:.0f} s")
        loop = asyncio.get_running_loop()
        loop.call_later(pause, self._mirror.try_again, placement.task.name)


def _binding(name: str, placement: Placement) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "uid": placement.task.id},
        "target": {"apiVersion": "v1", "kind": "Node", "name": placement.machine},
    }
