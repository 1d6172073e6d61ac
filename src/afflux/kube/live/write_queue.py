"""What is told to the API server beside the work: in the background, latest news only, bounded.

Events and conditions must never hold up a cycle or a bind. So they are put here and forgotten. Per
key there is one job, the latest; a few workers carry jobs out, never two of one key at once; what
finds no room is dropped and counted. Everything happens in the event loop's own thread.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from typing import Generic, TypeVar

from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.api.pacing import Backoff

_Job = TypeVar("_Job")
_Answer = TypeVar("_Answer")

_log = logging.getLogger(__name__)

MOST_TRIES = 12
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 10.0


class Deliveries(Generic[_Job]):
    """Jobs by key, and the workers that carry them out with `deliver`.

    Workers come when there is something to do and leave when there is not. `dropped` is told of
    each job for which there was no room or, at the end, no time.
    """

    def __init__(
        self,
        deliver: Callable[[str, _Job], Awaitable[None]],
        *,
        workers: int,
        room: int,
        dropped: Callable[[], None],
    ) -> None:
        self._deliver = deliver
        self._workers = workers
        self._room = room
        self._dropped = dropped
        # In the order in which they came.
        self._ready: dict[str, _Job] = {}
        # Not before their time. The heap may name keys that were moved or discarded since.
        self._held: dict[str, _Job] = {}
        self._due: list[tuple[float, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._busy: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        """How many wait."""
        return len(self._ready) + len(self._held)

    def waiting(self, key: str) -> _Job | None:
        """The job of this key that has not begun."""
        return self._ready.get(key, self._held.get(key))

    def is_busy(self, key: str) -> bool:
        """Whether a job of this key is being carried out."""
        return key in self._busy

    def put(self, key: str, job: _Job, wait_seconds: float = 0.0) -> None:
        """Carry it out, in so many seconds at the earliest, instead of what waits for this key."""
        if key in self._ready:
            self._ready[key] = job
            return
        if self._closed or (key not in self._held and len(self) >= self._room):
            self._dropped()
            return
        if wait_seconds <= 0:
            self._held.pop(key, None)
            self._ready[key] = job
            self._call_worker()
            return
        if key not in self._held:
            due = asyncio.get_running_loop().time() + wait_seconds
            heappush(self._due, (due, key))
            self._set_timer()
        self._held[key] = job

    def discard(self, key: str) -> None:
        """Forget what waits for this key; what has begun goes on."""
        self._ready.pop(key, None)
        self._held.pop(key, None)

    async def close(self, seconds: float) -> None:
        """Take nothing more, and give what is there so much time."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._ready.update(self._held)
        self._held.clear()
        for _ in range(self._workers):
            self._call_worker()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        unfinished = list(self._tasks)
        for task in unfinished:
            task.cancel()
        if unfinished:
            await asyncio.wait(unfinished)
        for _ in range(len(self._ready) + len(unfinished)):
            self._dropped()
        self._ready.clear()

    def _call_worker(self) -> None:
        if self._ready and len(self._tasks) < self._workers:
            task = asyncio.get_running_loop().create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        while (key := self._next()) is not None:
            job = self._ready.pop(key)
            self._busy.add(key)
            try:
                await self._deliver(key, job)
            except Exception:
                _log.exception("%s could not be delivered", key)
            finally:
                self._busy.discard(key)

    def _next(self) -> str | None:
        # At most as many are skipped as there are workers.
        return next((key for key in self._ready if key not in self._busy), None)

    def _set_timer(self) -> None:
        if self._timer is not None:
            if self._timer.when() <= self._due[0][0]:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(self._due[0][0], self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._due and self._due[0][0] <= now:
            key = heappop(self._due)[1]
            if key in self._held:
                self._ready[key] = self._held.pop(key)
                self._call_worker()
        if self._due:
            self._set_timer()


async def insist(send: Callable[[], Awaitable[_Answer]], *, tries: int = MOST_TRIES) -> _Answer:
    """Send it again while the server is out of reach or out of order; a minute or so.

    The request must be one that does no harm if it is carried out twice.
    """
    backoff = Backoff(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS)
    for _ in range(tries - 1):
        patience = None
        try:
            return await send()
        except UnreachableError as error:
            _log.debug("%s", error)
        except ApiError as error:
            if not error.may_pass:
                raise
            patience = error.retry_after_seconds
        await asyncio.sleep(backoff.wait_seconds(patience))
    return await send()


def shortened(text: str, most_bytes: int, mark: str = " ...") -> str:
    """At most so many bytes of UTF-8, cut between two characters, with a mark if it was cut."""
    if len(text) <= most_bytes and text.isascii():
        return text
    encoded = text.encode(errors="replace")
    if len(encoded) <= most_bytes:
        return encoded.decode()
    return encoded[: most_bytes - len(mark)].decode(errors="ignore") + mark
