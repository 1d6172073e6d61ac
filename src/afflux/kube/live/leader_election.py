"""Leader election by a Lease: at most one replica acts.

The guarantees are those of client-go. No replica trusts another machine's clock: a lease counts as
expired when this process has not seen it change for its duration. Every write names the resource
version that it replaces, so only one of two writers succeeds. A leader counts from before it sent a
renewal, a candidate from after it saw one: a candidate therefore waits longer (the lease duration)
than the leader may act (the renew deadline).

Two rules are stricter than in client-go. A leader that sees another holder stops at once instead of
at its deadline. And every term has a number, the epoch, even if the same process leads twice; it
fences writes of earlier terms.

One gap remains, as in client-go: if the Lease is deleted while a replica leads, a candidate that
has never seen it creates a new one and leads as well. Candidates that have seen it wait.
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
from afflux.web.scheduler_metrics import Metrics

_Answer = TypeVar("_Answer")

_log = logging.getLogger(__name__)

# As in client-go: candidates extend their pauses by up to this factor, so as not to collide.
_JITTER = 1.2

# How long a leader may neither renew nor stop before it is unhealthy, as in kube-scheduler.
_UNHEALTHY_AFTER_SECONDS = 20.0

# The duration of a released lease, which the API server requires to be positive.
_RELEASED_DURATION_SECONDS = 1


class LostLeaseError(Exception):
    """The lease was lost; the work of its term has been cancelled."""


def boottime_seconds() -> float:
    """A monotonic clock that, where the system has one, also counts while it is suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def own_identity() -> str:
    """An identity that no other process has: the host name and a UUID."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeadershipTerm:
    """A term as leader. Its `epoch` is larger than that of every earlier term."""

    __slots__ = ("_valid_until", "epoch")

    def __init__(self, epoch: int, valid_until: float) -> None:
        self.epoch = epoch
        self._valid_until = valid_until

    def remaining_seconds(self) -> float:
        """How long this process may act if no renewal succeeds; not positive: it may not act. To be
        called before every write to the API server."""
        return self._valid_until - boottime_seconds()

    def renew(self, valid_until: float) -> None:
        """Extend the term until this time, unless it has ended."""
        if self._valid_until != -math.inf:
            self._valid_until = valid_until

    def end(self) -> None:
        """End the term for good."""
        self._valid_until = -math.inf


_Work = Callable[[LeadershipTerm], Awaitable[None]]


class _Object(msgspec.Struct, frozen=True):
    """A Lease with all its fields, because it is written back whole."""

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
    """Another candidate holds the lease."""


class LeaderElection:
    """A candidate for one Lease object.

    It needs an API client of its own: a renewal must not queue behind a thousand bindings.
    `announce` is called with "became leader" and "stopped leading".
    """

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str,
        metrics: Metrics,
        lease_duration_seconds: float = 15.0,
        renew_deadline_seconds: float = 10.0,
        retry_period_seconds: float = 2.0,
        identity: str | None = None,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        if not lease_duration_seconds > renew_deadline_seconds > retry_period_seconds * _JITTER > 0:
            raise ValueError(
                f"lease {lease_duration_seconds} s, renew {renew_deadline_seconds} s,"
                f" retry {retry_period_seconds} s;"
                f" expected lease > renew > {_JITTER} * retry > 0"
            )
        self.identity = own_identity() if identity is None else identity
        self._api = api
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._name = name
        self._described = f"{namespace}/{name}"
        self._metrics = metrics
        self._lease_duration_seconds = lease_duration_seconds
        self._renew_deadline_seconds = renew_deadline_seconds
        self._retry_period_seconds = retry_period_seconds
        self._announce = announce
        # The lease as it was last read or written, and when its spec was first seen in this state.
        self._seen: _Object | None = None
        self._seen_at = 0.0
        self._term: LeadershipTerm | None = None
        self._renewed_at = 0.0
        metrics.leads(name, False)

    @property
    def holder(self) -> str:
        """The identity of the current leader as last seen; empty if there is none."""
        return "" if self._seen is None else self._seen.holder

    def complaint(self) -> str | None:
        """For the health check: an error if the lease was lost long ago and work goes on."""
        unhealthy_after = self._lease_duration_seconds + _UNHEALTHY_AFTER_SECONDS
        if self._term is None or boottime_seconds() - self._renewed_at <= unhealthy_after:
            return None
        return f"failed election to renew leadership on lease {self._described}"

    async def lead(self, work: _Work) -> None:
        """Wait until elected, then run `work` for as long as this process holds the lease.

        When the work returns or is cancelled, the lease is released. Raises LostLeaseError if the
        lease was lost first. The work has always ended before this returns or raises.
        """
        term = await self._elected()
        lost = False
        try:
            await self._hold(term, work)
        except LostLeaseError:
            lost = True
            raise
        finally:
            # Before another candidate can acquire the lease.
            term.end()
            self._term = None
            self._metrics.leads(self._name, False)
            self._report("stopped leading")
            if not lost:
                await self._release(term)

    # --- Acquiring

    async def _elected(self) -> LeadershipTerm:
        _log.info("waiting for lease %s as %s", self._described, self.identity)
        while True:
            started = boottime_seconds()
            epoch = await self._attempt(self._acquire)
            if epoch is not None:
                self._renewed_at = started
                self._term = term = LeadershipTerm(epoch, started + self._renew_deadline_seconds)
                self._metrics.leads(self._name, True)
                self._report("became leader")
                return term
            await asyncio.sleep(self._retry_period_seconds * (1 + random.random() * _JITTER))

    async def _acquire(self) -> int | None:
        """The epoch if the lease was acquired."""
        lease = await self._read()
        if lease is None:
            return await self._create()
        if lease.holder not in {"", self.identity} and not self._has_expired(lease):
            return None
        # If the lease names this process as its holder, that is from an earlier term or from an
        # attempt whose answer was lost. This term gets an epoch of its own.
        epoch = lease.transitions + 1
        await self._write(lease, self._record(self.identity, epoch, acquired=True))
        return epoch

    async def _create(self) -> int | None:
        """Create the lease, which does not exist or was deleted; the epoch if that succeeded."""
        if self._seen is None:
            epoch = 0
        elif self._seen.holder in {"", self.identity} or self._has_expired(self._seen):
            epoch = self._seen.transitions + 1
        else:
            return None
        await self._write(None, self._record(self.identity, epoch, acquired=True))
        return epoch

    def _has_expired(self, lease: _Object) -> bool:
        duration_seconds = lease.duration_seconds or self._lease_duration_seconds
        return boottime_seconds() > self._seen_at + duration_seconds

    # --- Renewing

    async def _hold(self, term: LeadershipTerm, work: _Work) -> None:
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

    async def _renew_until_lost(self, term: LeadershipTerm) -> str:
        """Renew the lease until it is lost; returns why."""
        while True:
            await asyncio.sleep(self._retry_period_seconds)
            try:
                async with asyncio.timeout(term.remaining_seconds()):
                    while not await self._renewed(term):
                        await asyncio.sleep(self._retry_period_seconds)
            except TimeoutError:
                return f"not renewed for {self._renew_deadline_seconds:g} s"
            except _TakenError:
                term.end()
                return f"held by {self.holder or 'no replica'}"

    async def _renewed(self, term: LeadershipTerm) -> bool:
        started = boottime_seconds()
        if not await self._attempt(lambda: self._renew(term)):
            return False
        self._renewed_at = started
        term.renew(started + self._renew_deadline_seconds)
        return True

    async def _renew(self, term: LeadershipTerm) -> bool:
        record = self._record(self.identity, term.epoch)
        # Usually the lease has not changed since the last write, so it need not be read first.
        if self._seen is not None:
            try:
                await self._write(self._seen, record)
            except ApiError as error:
                if not (error.is_conflict or error.is_not_found):
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

    # --- Releasing

    async def _release(self, term: LeadershipTerm) -> None:
        """Release the lease if this process still holds it; try for a limited time only."""
        try:
            async with asyncio.timeout(self._renew_deadline_seconds):
                while not await self._attempt(lambda: self._try_release(term)):
                    await asyncio.sleep(self._retry_period_seconds / 4)
        except TimeoutError:
            _log.warning("lease %s could not be released; it will expire", self._described)

    async def _try_release(self, term: LeadershipTerm) -> bool:
        lease = await self._read()
        if lease is None or lease.holder != self.identity or lease.transitions != term.epoch:
            return True
        record = self._record("", term.epoch, acquired=True)
        await self._write(lease, {**record, "leaseDurationSeconds": _RELEASED_DURATION_SECONDS})
        return True

    # --- The Lease object

    async def _attempt(self, step: Callable[[], Awaitable[_Answer | None]]) -> _Answer | None:
        """One attempt, limited to half the renew deadline; None if it failed."""
        try:
            async with asyncio.timeout(self._renew_deadline_seconds / 2):
                return await step()
        except ApiError as error:
            # A conflict means that another candidate was faster, which is normal.
            level = logging.DEBUG if error.is_conflict else logging.WARNING
            _log.log(level, "lease %s: %s", self._described, error)
        except UnreachableError as error:
            _log.warning("lease %s: %s", self._described, error)
        except TimeoutError:
            _log.warning("lease %s: no answer in time", self._described)
        return None

    async def _read(self) -> _Object | None:
        lease = await self._api.find(self._path, _Object)
        if lease is not None:
            self._remember(lease)
        return lease

    async def _write(self, replaced: _Object | None, record: dict[str, object]) -> None:
        """Replace the lease as it was read, or create it."""
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
        # Compares the spec, not the resource version: a changed label is not a renewal.
        if self._seen is None or lease.spec != self._seen.spec:
            self._seen_at = boottime_seconds()
            if lease.holder != self.holder:
                _log.info("lease %s is held by %s", self._described, lease.holder or "no replica")
        self._seen = lease

    def _record(self, holder: str, epoch: int, acquired: bool = False) -> dict[str, object]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        record: dict[str, object] = {
            "holderIdentity": holder,
            "leaseDurationSeconds": math.ceil(self._lease_duration_seconds),
            "renewTime": now,
            "leaseTransitions": epoch,
        }
        if acquired:
            record["acquireTime"] = now
        return record

    def _report(self, what: str) -> None:
        _log.info("%s %s (lease %s)", self.identity, what, self._described)
        if self._announce is not None:
            self._announce(what)


async def _stopped(task: asyncio.Task[None] | asyncio.Task[str]) -> None:
    """Cancel a task and wait until it has ended; its result is only logged."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is not None:
        _log.info("%s ended with %r", task.get_name(), task.exception())


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
