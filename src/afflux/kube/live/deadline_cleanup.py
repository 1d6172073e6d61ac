"""Cleanup of groups whose deadline has passed: deletes their pods and the owners of these pods.

Off by default; it needs a role of its own. It sleeps until the next deadline. It deletes only pods
with our scheduler names that belong to the group, and their controllers, up to the highest one all
of whose pods belong to the group; every object by its uid. A controller counts only if its own pod
template confirms what the pods claim; otherwise it and they stay. If a controller cannot be read or
deleted, its pods stay as well, because the controller would recreate them. What the API server
refuses is reported and tried again with growing backoff, as long as the object exists.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import time

from afflux.control.backoff import Backoff
from afflux.groups.group_id import GroupKey
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import UnreachableError
from afflux.kube.group_claims import claimed_group
from afflux.kube.group_deadlines import GroupDeadlines, OverdueGroup
from afflux.kube.live.deadline_victims import (
    DeadlineVictims,
    find_victims,
    withdraw_unconfirmed,
)
from afflux.kube.live.deletion import Deletion
from afflux.kube.live.due_times import sleep_until_due
from afflux.kube.live.event_recorder import DEADLINE_OVER, EventRecorder
from afflux.kube.live.kept_owners import KeptOwners, kept_owners, live_pods
from afflux.kube.live.object_refs import PodRef, pod_object_ref, pod_path
from afflux.kube.live.owner_chain import (
    Owner,
    OwnerChain,
    OwnerReader,
    UnknownOwner,
    objection,
)
from afflux.kube.live.write_queue import RETRIES, Retries
from afflux.kube.objects import OwnerReference
from afflux.kube.pod_claims import PodClaims, controller_of
from afflux.kube.pods import namespace, scheduler_of
from afflux.kube.reader.cluster_reader import ClusterReader

MAX_CONCURRENT_NAMESPACES = 4
INITIAL_BACKOFF_SECONDS = 30.0
MAX_BACKOFF_SECONDS = 1800.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _TopOwner:
    """The highest owner that is deleted with a pod; `unknown` if the chain above breaks off."""

    owner: Owner | None = None
    unknown: UnknownOwner | None = None

    def blocking_reason(self, undeleted: Mapping[str, str]) -> str | None:
        """Why the pods must stay: a controller would recreate them. `undeleted` are the owners
        that could not be deleted, by uid, with the reasons."""
        if self.unknown is not None and self.unknown.read_failed:
            return self.unknown.reason
        return None if self.owner is None else undeleted.get(self.owner.uid)


@dataclass(slots=True, eq=False)
class _CleanupJob:
    """Groups of one namespace that are cleaned up together, until nothing is left of them.

    While a deletion is refused, a controller keeps creating pods, each with a deadline of its own.
    These pods join the job of the earlier ones, so that they do not cause additional attempts.
    Jobs are compared by identity.
    """

    groups: list[OverdueGroup] = field(default_factory=list[OverdueGroup])
    # The controllers of the groups, and the uids of their pods by group.
    controllers: set[OwnerReference] = field(default_factory=set[OwnerReference])
    pods: dict[GroupKey, set[str]] = field(default_factory=dict[GroupKey, set[str]])

    def add(self, overdue: OverdueGroup) -> None:
        self.groups.append(overdue)
        self.controllers |= overdue.controllers
        self.pods.setdefault(overdue.id.key, set()).update(overdue.pods)

    def replace(self, groups: Iterable[OverdueGroup]) -> None:
        self.groups, self.controllers, self.pods = [], set(), {}
        for overdue in groups:
            self.add(overdue)


@dataclass(frozen=True, slots=True)
class _Remainder:
    """What one attempt has not deleted: groups, and pods with the reason for each of them."""

    reason: str
    groups: Sequence[OverdueGroup]
    pods: Sequence[tuple[objects.Pod, str]] = ()


class DeadlineCleanup:
    """Deletes overdue groups.

    `remaining_seconds` says how long this replica may act as leader, None for without limit.
    `announce` is called with the uids of a group's pods before any of them is deleted.
    """

    def __init__(
        self,
        api: Api,
        reader: ClusterReader,
        deadlines: GroupDeadlines,
        recorder: EventRecorder,
        *,
        remaining_seconds: Callable[[], float | None] = lambda: None,
        announce: Callable[[Collection[str]], None] = lambda _: None,
        clock: Callable[[], float] = time,
        initial_backoff_seconds: float = INITIAL_BACKOFF_SECONDS,
        max_backoff_seconds: float = MAX_BACKOFF_SECONDS,
        retries: Retries = RETRIES,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._remaining_seconds = remaining_seconds
        self._reader = reader
        self._deadlines = deadlines
        self._recorder = recorder
        self._announce = announce
        self._clock = clock
        self._initial_backoff_seconds = initial_backoff_seconds
        self._max_backoff_seconds = max_backoff_seconds
        self._retries = retries
        self._sleep = sleep
        # By namespace.
        self._jobs: dict[str, list[_CleanupJob]] = {}
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_NAMESPACES)

    @property
    def is_busy(self) -> bool:
        return bool(self._jobs)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                await sleep_until_due(self._deadlines, self._clock, self._deadlines.changed)
                jobs: dict[str, _CleanupJob] = {}
                for overdue in self._deadlines.take(self._clock()):
                    _log.info("the deadline of group %s has passed", overdue.id.shown)
                    self._announce(overdue.pods)
                    space = overdue.id.namespace
                    job = self._job_of(overdue) or jobs.setdefault(space, _CleanupJob())
                    job.add(overdue)
                for space, job in jobs.items():
                    self._jobs.setdefault(space, []).append(job)
                    tasks.create_task(self._clean(space, job))

    def _job_of(self, overdue: OverdueGroup) -> _CleanupJob | None:
        """The running job on the same controller or group, if there is one. Pods that a group gets
        after all its earlier ones do not wait for what is left of the earlier ones."""
        controllers = overdue.controllers
        for job in self._jobs.get(overdue.id.namespace, ()):
            if not job.controllers.isdisjoint(controllers):
                return job
            if self._deadlines.any_reported(job.pods.get(overdue.id.key, ())):
                return job
        return None

    async def _clean(self, space: str, job: _CleanupJob) -> None:
        backoff = Backoff(self._initial_backoff_seconds, self._max_backoff_seconds)
        while job.groups:
            remainder = await self._attempt(space, job)
            if remainder is None:
                # Groups that have joined during the attempt have not been tried yet.
                backoff.reset()
                continue
            wait = backoff.wait_seconds()
            again = f"trying again after {wait:.0f} s"
            _log.warning("cleaning up in %s: %s; %s", space, remainder.reason, again)
            for pod, reason in remainder.pods:
                self._report(pod, f"it could not be cleaned up: {reason}; {again}")
            await self._sleep(wait)
        self._jobs[space].remove(job)
        if not self._jobs[space]:
            del self._jobs[space]

    async def _attempt(self, space: str, job: _CleanupJob) -> _Remainder | None:
        """Delete the groups of the job once. Returns what is left, None if nothing is."""
        tried = tuple(job.groups)
        remainder = await self._delete_groups(space, tried)
        joined = job.groups[len(tried) :]
        job.replace([*(remainder.groups if remainder else ()), *joined])
        return remainder

    async def _delete_groups(self, space: str, groups: Sequence[OverdueGroup]) -> _Remainder | None:
        """Does not raise: after an exception all groups are left."""
        victims = DeadlineVictims()
        try:
            async with self._slots:
                live = live_pods(self._reader, space)
                victims = find_victims(groups, filter(self._reader.is_ours, live))
                return await self._delete_victims(space, victims, live)
        except UnreachableError as error:
            reason = str(error)
        except Exception as error:
            _log.exception("cleaning up in %s failed", space)
            reason = f"an error of the scheduler ({type(error).__name__}), see its log"
        pods = [pod for group in victims.groups for pod in group.pods.values()]
        return _Remainder(reason, groups, [(pod, reason) for pod in pods])

    async def _delete_victims(
        self, space: str, victims: DeadlineVictims, live: Sequence[objects.Pod]
    ) -> _Remainder | None:
        """Delete owners, then pods; removes the deleted pods from `victims`."""
        owner_reader = OwnerReader(self._api, space, self._retries)
        controllers = {
            ref: await owner_reader.controller(ref)
            for group in victims.groups
            for ref in group.controllers
        }
        for pod, reason in withdraw_unconfirmed(victims, partial(_objection, controllers)):
            self._report(pod, f"it stays: {reason}")
        top_owners = await self._top_owners(owner_reader, victims, live)
        deletion = Deletion(self._api, self._remaining_seconds, self._retries)
        # Owners first, so that no controller recreates the pods deleted next.
        undeleted: dict[str, str] = {}
        owners = {top.owner.uid: top.owner for top in top_owners.values() if top.owner}
        for owner in owners.values():
            error = await deletion.delete(owner.path, owner.uid)
            if error is not None:
                undeleted[owner.uid] = f"{owner.name} could not be deleted: {error}"
        blocked = {
            ref: reason
            for ref, top in top_owners.items()
            if (reason := top.blocking_reason(undeleted)) is not None
        }
        staying: list[tuple[objects.Pod, str]] = []
        for group in victims.groups:
            for uid, pod in list(group.pods.items()):
                ref = controller_of(pod)
                reason = None if ref is None else blocked.get(ref)
                reason = reason or await _delete(deletion, space, pod)
                if reason is not None:
                    staying.append((pod, reason))
                    continue
                del group.pods[uid]
                self._report_deleted(pod, _TopOwner() if ref is None else top_owners[ref])
        # Whether an owner that we may not read still exists is known by its pods only.
        hidden = {ref for ref in blocked if (top := top_owners[ref].unknown) and top.forbidden}
        remaining = victims.remaining(blocked.keys() - hidden)
        reasons = [*(reason for _, reason in staying), *blocked.values()]
        if not remaining and reasons:
            _log.warning("cleaning up in %s: %s; no pods are left", space, reasons[0])
        return _Remainder(reasons[0], remaining, staying) if remaining else None

    async def _top_owners(
        self, owner_reader: OwnerReader, victims: DeadlineVictims, live: Iterable[objects.Pod]
    ) -> dict[OwnerReference, _TopOwner]:
        """By controller of a victim: its highest owner all of whose pods are victims."""
        refs = {ref for group in victims.groups for ref in group.controllers}
        chains = {ref: await owner_reader.chain(ref) for ref in refs}
        staying = (pod for pod in live if not victims.contains(pod))
        kept = await kept_owners(owner_reader, chains.values(), staying)
        return {ref: _top_owner(chain, kept) for ref, chain in chains.items()}

    def _report_deleted(self, pod: objects.Pod, top: _TopOwner) -> None:
        deleted_owner = [f"deleted with it: {top.owner.name}"] if top.owner else []
        self._report(pod, *deleted_owner, *([top.unknown.reason] if top.unknown else []))

    def _report(self, pod: objects.Pod, *details: str) -> None:
        group = claimed_group(pod)
        note = f"The deadline of group {group} has passed" if group else "Its deadline has passed"
        metadata = pod.metadata
        ref = PodRef(namespace(pod), metadata.name or "", metadata.uid or "")
        note = "; ".join((note, *details))
        self._recorder.event(DEADLINE_OVER, pod_object_ref(ref), note, scheduler=scheduler_of(pod))


async def _delete(deletion: Deletion, space: str, pod: objects.Pod) -> str | None:
    name = pod.metadata.name or ""
    error = await deletion.delete(pod_path(f"{space}/{name}"), pod.metadata.uid or "")
    return None if error is None else f"pod {space}/{name} could not be deleted: {error}"


def _objection(
    controllers: Mapping[OwnerReference, Owner | UnknownOwner | None], claims: PodClaims
) -> str | None:
    """Why the controller does not confirm these claims; None if it does, if it does not exist any
    more, or if it could not be read, so that its pods stay until it can be."""
    ref = claims.controller
    controller = None if ref is None else controllers[ref]
    why = None if controller is None else objection(controller, claims)
    return None if why is None or why.read_failed else why.reason


def _top_owner(chain: OwnerChain, kept: KeptOwners) -> _TopOwner:
    """The highest owner in the chain that has no pod that stays and that would create new pods. A
    suspended owner creates none."""
    top: Owner | None = None
    for owner in chain.owners:
        if kept.contains(owner) or owner.source.is_suspended:
            return _TopOwner(top)
        if not owner.is_finished:
            top = owner
    if chain.unknown is not None and chain.unknown.read_failed:
        # The unread controller could recreate an owner deleted below it.
        top = None
    return _TopOwner(top, chain.unknown)
