"""Cleanup of groups that completed: deletes their pods and the root owners of these pods.

Off by default. The rules of ownership are those of the deadline cleanup: a controller counts only
if its own pod template confirms what its pods claim. A root owner is deleted only if it and all
controllers below it have succeeded, by their own conditions, and no pod of them is left to run.
Otherwise a controller that is not done would recreate what is deleted below it. The garbage
collector deletes what is below the root owner. Pods without a controller are deleted one by one.

A controller completes a moment after its last pod. So what is not done, or refused, is tried again
with growing pauses, but only a few times: a Job with further pods completes with a later group.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from afflux.control.backoff import Backoff
from afflux.groups.entries import EndedGroup, MemberEntry
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.deletion import Deletion
from afflux.kube.live.event_recorder import GROUP_FINISHED, EventRecorder
from afflux.kube.live.kept_owners import kept_owners, live_pods
from afflux.kube.live.object_refs import PodRef, pod_object_ref, pod_path
from afflux.kube.live.owner_chain import Owner, OwnerChain, OwnerReader, objection
from afflux.kube.live.write_queue import RETRIES, Retries
from afflux.kube.objects import OwnerReference
from afflux.kube.pod_claims import controller_of, pod_claims
from afflux.kube.pods import scheduler_of
from afflux.kube.reader.cluster_reader import ClusterReader

MAX_CONCURRENT_GROUPS = 4
# About five minutes in all.
MAX_TRIES = 8
INITIAL_BACKOFF_SECONDS = 2.0
MAX_BACKOFF_SECONDS = 120.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Stay:
    """Why something stays; `may_change`: it is worth trying again."""

    reason: str
    may_change: bool = True


@dataclass(frozen=True, slots=True)
class _Pod:
    """A member that has succeeded, with its pod."""

    member: MemberEntry
    pod: objects.Pod


@dataclass(frozen=True, slots=True)
class _Remainder:
    """Members that stay after one attempt, and why. They have one controller, or none."""

    members: Sequence[MemberEntry]
    stay: _Stay
    scheduler: str | None = None


class FinishedCleanup:
    """Deletes completed groups. `remaining_seconds` says how long this replica may act as leader,
    None for without limit."""

    def __init__(
        self,
        api: Api,
        reader: ClusterReader,
        recorder: EventRecorder,
        *,
        remaining_seconds: Callable[[], float | None] = lambda: None,
        retries: Retries = RETRIES,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._reader = reader
        self._recorder = recorder
        self._remaining_seconds = remaining_seconds
        self._retries = retries
        self._sleep = sleep
        self._finished: asyncio.Queue[EndedGroup] = asyncio.Queue()
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_GROUPS)
        self._in_progress = 0

    @property
    def is_busy(self) -> bool:
        return self._in_progress > 0 or not self._finished.empty()

    def finished(self, group: EndedGroup) -> None:
        """A group has ended, and none of its members is left to run. It is deleted if they have
        succeeded. If some have failed, its controller says whether it has replaced them."""
        if group.how in {"succeeded", "failed"}:
            self._finished.put_nowait(group)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                group = await self._finished.get()
                self._in_progress += 1
                tasks.create_task(self._clean(group))

    async def _clean(self, group: EndedGroup) -> None:
        backoff = Backoff(INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
        members: Sequence[MemberEntry]
        members = [each for each in group.members if each.how == "succeeded"]
        for number in range(1, MAX_TRIES + 1):
            again: list[MemberEntry] = []
            for each in await self._attempt(group, members):
                if each.stay.may_change and number < MAX_TRIES:
                    again += each.members
                elif group.how == "succeeded":
                    why = f"it stays: {each.stay.reason}"
                    self._report(group, each.members[0], why, each.scheduler)
            members = again
            if not members:
                break
            await self._sleep(backoff.wait_seconds())
        self._in_progress -= 1

    async def _attempt(self, group: EndedGroup, members: Sequence[MemberEntry]) -> list[_Remainder]:
        """Delete these members once. Returns what stays. Does not raise."""
        try:
            async with self._slots:
                pods = [_Pod(each, pod) for each in members if (pod := await self._pod(each))]
                return await self._delete(group, pods)
        except (ApiError, UnreachableError) as error:
            stay = _Stay(str(error))
        except Exception as error:
            _log.exception("cleaning up group %s failed", group.entry.id.shown)
            why = f"an error of the scheduler ({type(error).__name__}), see its log"
            stay = _Stay(why, may_change=False)
        return [_Remainder(members, stay)]

    async def _pod(self, member: MemberEntry) -> objects.Pod | None:
        """The pod of this member, if it still exists and has succeeded."""
        try:
            pod = await self._api.get(pod_path(member.name), objects.Pod)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise
        is_member = pod.metadata.uid == member.uid and self._reader.is_ours(pod)
        has_succeeded = pod.status is not None and pod.status.phase == "Succeeded"
        is_there = not pod.metadata.deletion_timestamp
        return pod if is_member and has_succeeded and is_there else None

    async def _delete(self, group: EndedGroup, pods: Iterable[_Pod]) -> list[_Remainder]:
        owner_reader = OwnerReader(self._api, group.entry.id.namespace, self._retries)
        deletion = Deletion(self._api, self._remaining_seconds, self._retries)
        by_controller: dict[OwnerReference | None, list[_Pod]] = {}
        for each in pods:
            by_controller.setdefault(controller_of(each.pod), []).append(each)
        remainders: list[_Remainder] = []
        for ref, theirs in by_controller.items():
            if ref is not None:
                remainders += await self._delete_root(group, deletion, owner_reader, ref, theirs)
            elif group.how == "succeeded":
                remainders += await self._delete_pods(group, deletion, theirs)
        return remainders

    async def _delete_pods(
        self, group: EndedGroup, deletion: Deletion, pods: Iterable[_Pod]
    ) -> list[_Remainder]:
        """Delete pods without a controller."""
        remainders: list[_Remainder] = []
        for each in pods:
            error = await deletion.delete(pod_path(each.member.name), each.member.uid)
            if error is None:
                self._report(group, each.member, "deleted", scheduler_of(each.pod))
            else:
                remainders.append(_remainder([each], _Stay(f"it could not be deleted: {error}")))
        return remainders

    async def _delete_root(
        self,
        group: EndedGroup,
        deletion: Deletion,
        owner_reader: OwnerReader,
        ref: OwnerReference,
        pods: Iterable[_Pod],
    ) -> list[_Remainder]:
        """Delete the root owner of the pods of one controller."""
        controller = await owner_reader.controller(ref)
        if controller is None:
            # It does not exist any more: the garbage collector deletes its pods.
            return []
        confirmed: list[_Pod] = []
        remainders: list[_Remainder] = []
        for each in pods:
            why = objection(controller, pod_claims(each.pod))
            if why is None:
                confirmed.append(each)
            else:
                stay = _Stay(why.reason, may_change=why.read_failed)
                remainders.append(_remainder([each], stay))
        if not confirmed:
            return remainders
        root = await self._root_owner(owner_reader, await owner_reader.chain(ref), group)
        if isinstance(root, Owner):
            error = await deletion.delete(root.path, root.uid)
            if error is None:
                first = confirmed[0]
                what = f"deleted: {root.name}"
                self._report(group, first.member, what, scheduler_of(first.pod))
                return remainders
            root = _Stay(f"{root.name} could not be deleted: {error}")
        return [*remainders, _remainder(confirmed, root)]

    async def _root_owner(
        self, owner_reader: OwnerReader, chain: OwnerChain, group: EndedGroup
    ) -> Owner | _Stay:
        """The last owner of the chain, or why it may not be deleted."""
        for owner in chain.owners:
            if not owner.has_succeeded:
                return _Stay(f"{owner.name} has not succeeded", may_change=not owner.is_finished)
        if chain.unknown is not None:
            return _Stay(chain.unknown.reason, may_change=chain.unknown.read_failed)
        live = live_pods(self._reader, group.entry.id.namespace)
        kept = await kept_owners(owner_reader, [chain], live)
        for owner in chain.owners:
            if kept.contains(owner):
                return _Stay(f"{owner.name} has other pods")
        return chain.owners[-1]

    def _report(
        self, group: EndedGroup, member: MemberEntry, what: str, scheduler: str | None
    ) -> None:
        note = f"Group {group.entry.id.shown} has completed; {what}"
        _log.info("%s (pod %s)", note, member.name)
        space, _, name = member.name.partition("/")
        ref = pod_object_ref(PodRef(space, name, member.uid))
        self._recorder.event(GROUP_FINISHED, ref, note, scheduler=scheduler)


def _remainder(pods: Sequence[_Pod], stay: _Stay) -> _Remainder:
    return _Remainder([each.member for each in pods], stay, scheduler_of(pods[0].pod))
