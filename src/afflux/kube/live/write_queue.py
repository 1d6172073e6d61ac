"""Write queue: writes to the API server in the background, the latest per key, bounded.

Events and conditions must not delay a cycle or a binding, so the caller queues them and does not
wait. There is one job per key, the latest. A few workers carry jobs out, never two of one key at
once. A job for which there is no room is dropped and counted. Use from one event loop only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, TypeVar

from afflux.control.backoff import Backoff
from afflux.kube.api.errors import ApiError, UnreachableError

_Job = TypeVar("_Job")
_Answer = TypeVar("_Answer")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a request is sent at most, and the pauses in between: about a minute in all."""

    max_tries: int = 12
    initial_backoff_seconds: float = 0.5
    max_backoff_seconds: float = 10.0


RETRIES = Retries()


class WriteQueue(Generic[_Job]):
    """Jobs by key, and the workers that carry them out with `write`.

    A worker is started when there is a job and ends when there is none. `on_drop` is called for
    each job for which there was no room or, on closing, no time.
    """

    def __init__(
        self,
        write: Callable[[str, _Job], Awaitable[None]],
        *,
        workers: int,
        max_waiting: int,
        on_drop: Callable[[], None],
    ) -> None:
        self._write = write
        self._workers = workers
        self._max_waiting = max_waiting
        self._on_drop = on_drop
        # In order of arrival.
        self._ready: dict[str, _Job] = {}
        # Jobs whose time has not come. The heap may name keys that were moved or discarded since.
        self._delayed: dict[str, _Job] = {}
        self._due: list[tuple[float, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._busy: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._ready) + len(self._delayed)

    def waiting(self, key: str) -> _Job | None:
        """The job of this key that has not been started."""
        return self._ready.get(key, self._delayed.get(key))

    def is_busy(self, key: str) -> bool:
        return key in self._busy

    def put(self, key: str, job: _Job, wait_seconds: float = 0.0) -> None:
        """Queue a job, to be started after `wait_seconds`; it replaces a waiting one."""
        if key in self._ready:
            self._ready[key] = job
            return
        if self._closed or (key not in self._delayed and len(self) >= self._max_waiting):
            self._on_drop()
            return
        if wait_seconds <= 0:
            self._delayed.pop(key, None)
            self._ready[key] = job
            self._start_worker()
            return
        if key not in self._delayed:
            due = asyncio.get_running_loop().time() + wait_seconds
            heappush(self._due, (due, key))
            self._set_timer()
        self._delayed[key] = job

    def discard(self, key: str) -> None:
        """Remove the waiting job of this key; a job that was started is not stopped."""
        self._ready.pop(key, None)
        self._delayed.pop(key, None)

    async def close(self, seconds: float) -> None:
        """Take no more jobs; finish those that are there within this time and drop the rest."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._ready.update(self._delayed)
        self._delayed.clear()
        for _ in range(self._workers):
            self._start_worker()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        unfinished = list(self._tasks)
        for task in unfinished:
            task.cancel()
        if unfinished:
            await asyncio.wait(unfinished)
        for _ in range(len(self._ready) + len(unfinished)):
            self._on_drop()
        self._ready.clear()

    def _start_worker(self) -> None:
        if self._ready and len(self._tasks) < self._workers:
            task = asyncio.get_running_loop().create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        while (key := self._next()) is not None:
            job = self._ready.pop(key)
            self._busy.add(key)
            try:
                await self._write(key, job)
            except Exception:
                _log.exception("%s could not be written", key)
            finally:
                self._busy.discard(key)

    def _next(self) -> str | None:
        # Skips at most as many keys as there are workers.
        return next((key for key in self._ready if key not in self._busy), None)

    def _set_timer(self) -> None:
        if self._timer is not None:
            if self._timer.when() <= self._due[0][0]:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(self._due[0][0], self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._due and self._due[0][0] <= now:
            key = heappop(self._due)[1]
            if key in self._delayed:
                self._ready[key] = self._delayed.pop(key)
                self._start_worker()
        if self._due:
            self._set_timer()


async def send_with_retries(
    send: Callable[[], Awaitable[_Answer]], retries: Retries = RETRIES
) -> _Answer:
    """Send a request again while the server cannot be reached or answers with a passing error. The
    request must be idempotent."""
    backoff = Backoff(retries.initial_backoff_seconds, retries.max_backoff_seconds)
    for _ in range(retries.max_tries - 1):
        retry_after = None
        try:
            return await send()
        except UnreachableError as error:
            _log.debug("%s", error)
        except ApiError as error:
            if not error.is_temporary:
                raise
            retry_after = error.retry_after_seconds
        await asyncio.sleep(backoff.wait_seconds(retry_after))
    return await send()


def shortened(text: str, max_bytes: int, mark: str = " ...") -> str:
    """The text in at most `max_bytes` of UTF-8, cut between characters and marked if too long."""
    if len(text) <= max_bytes and text.isascii():
        return text
    encoded = text.encode(errors="replace")
    if len(encoded) <= max_bytes:
        return encoded.decode()
    return encoded[: max_bytes - len(mark)].decode(errors="ignore") + mark
