"""Leader election by a Lease: at most one replica acts.

The guarantees are those of client-go. Nobody trusts another machine's clock: a lease counts as
expired when we have not seen it change for its duration. Every write names the resource version
that it replaces, so that of two only one wins. A leader counts from before it asked for a renewal,
a contender from after it saw one: whoever takes over waits longer (the lease's duration) than the
one before may act (the renew deadline).

Two things are stricter than there. A leader that sees another holder stops at once instead of at
its deadline. And every term has a number of its own, also if the same process leads twice: it
fences what an earlier term left behind.

One gap remains, as there: if the Lease is deleted while somebody leads, a replica that has never
seen it takes it for a new one. Those that have seen it wait.
"""

import asyncio
import logging
import math
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.web.metrics import Metrics

_Answer = TypeVar("_Answer")

_log = logging.getLogger(__name__)

# As in client-go: contenders stretch their pauses by up to this much, so as not to meet.
_JITTER = 1.2

# The watchdog's patience with a leader that neither renews nor stops, as kube-scheduler's.
_OVERDUE_SECONDS = 20.0

# Of a lease that nobody holds: it does not matter, but has to be more than nothing.
_RELEASED_SECONDS = 1


class LostLeaseError(Exception):
    """The lease could not be kept; what was done under it has been cancelled."""


def now_seconds() -> float:
    """A clock that never goes back and that, where there is one, goes on while we are suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def own_identity() -> str:
    """A name that no other process has: which machine, and what tells its processes apart."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Term:
    """The time during which we lead. `epoch` is larger than that of every term before."""

    __slots__ = ("_valid_until", "epoch")

    def __init__(self, epoch: int, valid_until: float) -> None:
        self.epoch = epoch
        self._valid_until = valid_until

    def remaining_seconds(self) -> float:
        """How long we may act if no renewal comes through; not positive: no longer. Ask before each
        act that others could see."""
        return self._valid_until - now_seconds()

    def renew(self, valid_until: float) -> None:
        """It goes on, until then at least; not if it has been ended."""
        if self._valid_until != -math.inf:
            self._valid_until = valid_until

    def end(self) -> None:
        """It is over, whatever comes."""
        self._valid_until = -math.inf


class _Object(msgspec.Struct, frozen=True):
    """A Lease, with whatever else is in it: it is written back whole."""

    metadata: dict[str, object]
    spec: dict[str, object] = {}

    @property
    def holder(self) -> str:
        holder = self.spec.get("holderIdentity")
        return holder if isinstance(holder, str) else ""

    @property
    def transitions(self) -> int:
        return _whole(self.spec.get("leaseTransitions"))

    @property
    def duration_seconds(self) -> int:
        return _whole(self.spec.get("leaseDurationSeconds"))


class _TakenError(Exception):
    """Somebody else holds it."""


class Lease:
    """Our candidacy for one Lease object.

    Give it a client of its own: a renewal must not queue behind a thousand binds. `announce` is
    told "became leader" and "stopped leading".
    """

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str,
        metrics: Metrics,
        lease_seconds: float = 15.0,
        renew_seconds: float = 10.0,
        retry_seconds: float = 2.0,
        identity: str | None = None,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        if not lease_seconds > renew_seconds > retry_seconds * _JITTER > 0:
            raise ValueError(
                f"lease {lease_seconds} s, renew {renew_seconds} s, retry {retry_seconds} s;"
                f" expected lease > renew > {_JITTER} * retry > 0"
            )
        self.identity = own_identity() if identity is None else identity
        self._api = api
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._name = name
        self._described = f"{namespace}/{name}"
        self._metrics = metrics
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._retry_seconds = retry_seconds
        self._announce = announce
        # The lease as it was last read or written, and when we first saw it say what it says.
        self._seen: _Object | None = None
        self._seen_at = 0.0
        self._term: Term | None = None
        self._renewed_at = 0.0
        metrics.leads(name, False)

    @property
    def holder(self) -> str:
        """Who leads, as far as we know; empty if nobody does."""
        return "" if self._seen is None else self._seen.holder

    def complaint(self) -> str | None:
        """For a watchdog: we lead, have long lost the lease, and have still not stopped."""
        overdue = now_seconds() - self._renewed_at - self._lease_seconds - _OVERDUE_SECONDS
        if self._term is None or overdue <= 0:
            return None
        return f"failed election to renew leadership on lease {self._described}"

    async def lead(self, work: Callable[[Term], Awaitable[None]]) -> None:
        """Wait until elected, then do the work for as long as the lease is ours.

        Returns when the work does, and gives the lease back; the same if it is cancelled. A
        LostLeaseError if the lease was lost first. However it ends, the work has ended before.
        """
        term = await self._elected()
        lost = False
        try:
            await self._hold(term, work)
        except LostLeaseError:
            lost = True
            raise
        finally:
            # Before anybody else can get it.
            term.end()
            self._term = None
            self._metrics.leads(self._name, False)
            self._tell("stopped leading")
            if not lost:
                await self._release(term)

    # --- Getting it

    async def _elected(self) -> Term:
        _log.info("waiting for lease %s as %s", self._described, self.identity)
        while True:
            started = now_seconds()
            epoch = await self._attempt(self._acquire)
            if epoch is not None:
                self._renewed_at = started
                self._term = term = Term(epoch, started + self._renew_seconds)
                self._metrics.leads(self._name, True)
                self._tell("became leader")
                return term
            await asyncio.sleep(self._retry_seconds * (1 + random.random() * _JITTER))

    async def _acquire(self) -> int | None:
        """The epoch if we got it."""
        lease = await self._read()
        if lease is None:
            return await self._create()
        if lease.holder not in {"", self.identity} and not self._has_expired(lease):
            return None
        # Also if it says that we hold it: that is from an earlier term, or from an attempt whose
        # answer never came. This term gets a number of its own.
        epoch = lease.transitions + 1
        await self._write(lease, self._record(self.identity, epoch, acquired=True))
        return epoch

    async def _create(self) -> int | None:
        """There is no lease, or no longer."""
        if self._seen is None:
            epoch = 0
        elif self._seen.holder in {"", self.identity} or self._has_expired(self._seen):
            epoch = self._seen.transitions + 1
        else:
            return None
        await self._write(None, self._record(self.identity, epoch, acquired=True))
        return epoch

    def _has_expired(self, lease: _Object) -> bool:
        duration_seconds = lease.duration_seconds or self._lease_seconds
        return now_seconds() > self._seen_at + duration_seconds

    # --- Keeping it

    async def _hold(self, term: Term, work: Callable[[Term], Awaitable[None]]) -> None:
        async def working() -> None:
            await work(term)

        work_task = asyncio.create_task(working(), name=f"work under lease {self._described}")
        renew_task = asyncio.create_task(self._renew_until_lost(term), name="renewing the lease")
        try:
            await asyncio.wait((work_task, renew_task), return_when=asyncio.FIRST_COMPLETED)
            if work_task.done():
                work_task.result()
                return
            raise LostLeaseError(f"lease {self._described}: {renew_task.result()}")
        finally:
            if not work_task.done():
                term.end()
                await _stopped(work_task)
            await _stopped(renew_task)

    async def _renew_until_lost(self, term: Term) -> str:
        """Why it was lost."""
        while True:
            await asyncio.sleep(self._retry_seconds)
            try:
                async with asyncio.timeout(term.remaining_seconds()):
                    while not await self._renewed(term):
                        await asyncio.sleep(self._retry_seconds)
            except TimeoutError:
                return f"not renewed for {self._renew_seconds:g} s"
            except _TakenError:
                term.end()
                return f"held by {self.holder or 'nobody'}"

    async def _renewed(self, term: Term) -> bool:
        started = now_seconds()
        if not await self._attempt(lambda: self._renew(term)):
            return False
        self._renewed_at = started
        term.renew(started + self._renew_seconds)
        return True

    async def _renew(self, term: Term) -> bool:
        record = self._record(self.identity, term.epoch)
        # Most of the time nobody has touched it since we wrote it.
        if self._seen is not None:
            try:
                await self._write(self._seen, record)
            except ApiError as error:
                if not (error.is_conflict or error.is_missing):
                    raise
            else:
                return True
        self._metrics.renewed_slowly(self._name)
        lease = await self._read()
        if lease is None:
            await self._write(None, self._record(self.identity, term.epoch, acquired=True))
            return True
        if lease.holder != self.identity or lease.transitions != term.epoch:
            raise _TakenError
        await self._write(lease, record)
        return True

    # --- Giving it back

    async def _release(self, term: Term) -> None:
        """If it is still ours. Nobody must be kept waiting, so it is tried for a while only."""
        try:
            async with asyncio.timeout(self._renew_seconds):
                while not await self._attempt(lambda: self._given_back(term)):
                    await asyncio.sleep(self._retry_seconds / 4)
        except TimeoutError:
            _log.warning("lease %s could not be given back; it will expire", self._described)

    async def _given_back(self, term: Term) -> bool:
        lease = await self._read()
        if lease is None or lease.holder != self.identity or lease.transitions != term.epoch:
            return True
        record = self._record("", term.epoch, acquired=True)
        await self._write(lease, {**record, "leaseDurationSeconds": _RELEASED_SECONDS})
        return True

    # --- The object

    async def _attempt(self, step: Callable[[], Awaitable[_Answer | None]]) -> _Answer | None:
        """One try, which may not take all the time there is; None if it failed."""
        try:
            async with asyncio.timeout(self._renew_seconds / 2):
                return await step()
        except ApiError as error:
            # A conflict is somebody who was faster: that is what elections are about.
            level = logging.DEBUG if error.is_conflict else logging.WARNING
            _log.log(level, "lease %s: %s", self._described, error)
        except UnreachableError as error:
            _log.warning("lease %s: %s", self._described, error)
        except TimeoutError:
            _log.warning("lease %s: no answer in time", self._described)
        return None

    async def _read(self) -> _Object | None:
        try:
            lease = await self._api.get(self._path, _Object)
        except ApiError as error:
            if error.is_missing:
                return None
            raise
        self._remember(lease)
        return lease

    async def _write(self, replaced: _Object | None, record: dict[str, object]) -> None:
        """Replace the lease as it was read, or make the first one."""
        if replaced is None:
            body = {"metadata": {"name": self._name}, "spec": record}
            method, path = "POST", self._collection
        else:
            spec = {**replaced.spec, **record}
            body = {"metadata": replaced.metadata, "spec": spec}
            method, path = "PUT", self._path
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body}
        self._remember(await self._api.send(method, path, body, answer=_Object))

    def _remember(self, lease: _Object) -> None:
        # The spec, not the resource version: a label that changes is no sign of life.
        if self._seen is None or lease.spec != self._seen.spec:
            self._seen_at = now_seconds()
            if lease.holder != self.holder:
                _log.info("lease %s is held by %s", self._described, lease.holder or "nobody")
        self._seen = lease

    def _record(self, holder: str, epoch: int, acquired: bool = False) -> dict[str, object]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        record: dict[str, object] = {
            "holderIdentity": holder,
            "leaseDurationSeconds": math.ceil(self._lease_seconds),
            "renewTime": now,
            "leaseTransitions": epoch,
        }
        if acquired:
            record["acquireTime"] = now
        return record

    def _tell(self, what: str) -> None:
        _log.info("%s %s (lease %s)", self.identity, what, self._described)
        if self._announce is not None:
            self._announce(what)


async def _stopped(task: asyncio.Task[None] | asyncio.Task[str]) -> None:
    """Cancelled if need be, and at an end; how it ended does not matter here."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is not None:
        _log.info("%s ended with %r", task.get_name(), task.exception())


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
