"""Cleaning up: a group whose deadline is over is deleted, with those who would make it anew.

Off unless it is asked for, with a role of its own. It sleeps until the next deadline. What it may
delete is bounded on every side: pods of our scheduler names that belong to the group; their
controllers, as far up as all pods of a controller belong to it; and everything by its uid, so that
another object of the same name is never meant. What the API server refuses is told and tried again,
less and less often, for as long as it is there.
"""

import asyncio
import logging
import math
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from time import time

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.decoding import created_seconds, is_finished, namespace, scheduler_of
from afflux.kube.grouping import claimed_group
from afflux.kube.live.deadlines import Deadlines, Over, controller
from afflux.kube.live.deleting import Deleting, sleep_until_due
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.owners import Chain, Owner, Owners
from afflux.kube.live.recording import DEADLINE, Recorder
from afflux.kube.live.references import PodRef, of_pod

# So many namespaces are cleaned up at once.
MOST_AT_ONCE = 4
FIRST_PAUSE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 1800.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Leaving:
    """The pods of a namespace that go, by uid, and those that may go if their controller does."""

    pods: dict[str, objects.Pod] = field(default_factory=dict[str, objects.Pod])
    replacements: set[str] = field(default_factory=set[str])
    controllers: dict[str, objects.OwnerReference] = field(
        default_factory=dict[str, objects.OwnerReference]
    )

    def take(self, over: Over, alive: Iterable[objects.Pod]) -> None:
        """Whoever is in this group."""
        above = {ref.uid or "": ref for ref in over.controllers}
        self.controllers.update(above)
        for pod in alive:
            owner = controller(pod)
            controlled = owner is not None and owner.uid in above
            if _is_member(pod, over, controlled=controlled):
                self.pods[pod.metadata.uid or ""] = pod
                if owner is not None:
                    self.controllers[owner.uid or ""] = owner
            elif _is_replacement(pod, over, controlled=controlled):
                self.replacements.add(pod.metadata.uid or "")

    def is_leaving(self, pod: objects.Pod) -> bool:
        uid = pod.metadata.uid or ""
        return uid in self.pods or uid in self.replacements


class Cleaning:
    """Deletes what is over; `remaining_seconds` says how long we may act, None without end.

    `announce` is told the uids of the pods of each group before anything of it is deleted.
    """

    def __init__(
        self,
        api: Api,
        mirror: Mirror,
        deadlines: Deadlines,
        recorder: Recorder,
        *,
        remaining_seconds: Callable[[], float | None] = lambda: None,
        announce: Callable[[Collection[str]], None] = lambda _: None,
        clock: Callable[[], float] = time,
    ) -> None:
        self._api = api
        self._deleting = Deleting(api, remaining_seconds)
        self._mirror = mirror
        self._deadlines = deadlines
        self._recorder = recorder
        self._announce = announce
        self._clock = clock
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as work:
            while True:
                await sleep_until_due(self._deadlines, self._clock)
                by_namespace: dict[str, list[Over]] = {}
                for over in self._deadlines.take(self._clock()):
                    by_namespace.setdefault(over.namespace, []).append(over)
                for space, groups in by_namespace.items():
                    work.create_task(self._clean(space, groups))

    async def _clean(self, space: str, groups: Sequence[Over]) -> None:
        for over in groups:
            _log.info("the deadline of group %s is over", over.name)
            self._announce(over.pods)
        pause = FIRST_PAUSE_SECONDS
        while (why := await self._left_undone(space, groups)) is not None:
            _log.warning("cleaning up in %s: %s; trying again after %.0f s", space, why, pause)
            again = f"it could not be cleaned up: {why}; trying again after {pause:.0f} s"
            for pod in self._leaving(groups, self._alive(space)).pods.values():
                self._tell(pod, (), [again])
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _left_undone(self, space: str, groups: Sequence[Over]) -> str | None:
        """One attempt; why something is left that should have gone, None if nothing is."""
        try:
            async with self._turns:
                refusals = await self._once(space, groups)
        except (ApiError, UnreachableError) as error:
            return str(error)
        except Exception as error:
            _log.exception("cleaning up in %s failed", space)
            return f"an error of the scheduler ({type(error).__name__}), of which its log says more"
        return refusals[0] if refusals else None

    def _alive(self, space: str) -> list[objects.Pod]:
        return [
            pod
            for pod in self._mirror.pods
            if namespace(pod) == space
            and not is_finished(pod)
            and not pod.metadata.deletion_timestamp
        ]

    def _leaving(self, groups: Sequence[Over], alive: Iterable[objects.Pod]) -> _Leaving:
        ours = [pod for pod in alive if self._mirror.is_ours(pod)]
        leaving = _Leaving()
        for over in groups:
            leaving.take(over, ours)
        return leaving

    async def _once(self, space: str, groups: Sequence[Over]) -> list[str]:
        """Delete what is there; what was refused."""
        alive = self._alive(space)
        leaving = self._leaving(groups, alive)
        owners, complaints = await self._owners(space, leaving, alive)
        deleted: list[str] = []
        refusals: list[str] = []
        # Owners first, so that nobody makes anew what is deleted next.
        for owner in owners:
            why = await self._deleting.delete(owner.path, owner.uid)
            if why is None:
                deleted.append(owner.name)
            else:
                refusals.append(f"{owner.name} could not be deleted: {why}")
        for pod in leaving.pods.values():
            name = pod.metadata.name or ""
            why = await self._deleting.delete(
                f"/api/v1/namespaces/{space}/pods/{name}", pod.metadata.uid or ""
            )
            if why is None:
                self._tell(pod, deleted, [*complaints, *refusals[:1]])
            else:
                refusals.append(f"pod {space}/{name} could not be deleted: {why}")
        return refusals

    async def _owners(
        self, space: str, leaving: _Leaving, alive: Iterable[objects.Pod]
    ) -> tuple[list[Owner], list[str]]:
        """The highest controllers all of whose pods leave, and what could not be found out."""
        owners = Owners(self._api, space)
        chains = [await owners.chain(ref) for ref in leaving.controllers.values()]
        complaints = [chain.why for chain in chains if chain.why is not None]
        if not any(chain.owners for chain in chains):
            return [], complaints
        staying: set[str] = set()
        unseen = False
        high = any(not owner.makes_pods for chain in chains for owner in chain.owners)
        for pod in alive:
            owner = controller(pod)
            if owner is None or leaving.is_leaving(pod):
                continue
            staying.add(owner.uid or "")
            if high:
                chain = await owners.chain(owner)
                staying.update(each.uid for each in chain.owners)
                unseen = unseen or chain.why is not None
        found = {
            top.uid: top
            for chain in chains
            if chain.why is None and (top := _top(chain, staying, unseen=unseen)) is not None
        }
        return list(found.values()), complaints

    def _tell(self, pod: objects.Pod, deleted: Sequence[str], complaints: Sequence[str]) -> None:
        group = claimed_group(pod)
        note = f"The deadline of group {group} is over" if group else "Its deadline is over"
        if deleted:
            note += f"; deleted with it: {', '.join(deleted)}"
        if complaints:
            note += f"; {'; '.join(complaints)}"
        metadata = pod.metadata
        ref = PodRef(namespace(pod), metadata.name or "", metadata.uid or "")
        self._recorder.event(DEADLINE, of_pod(ref), note, scheduler=scheduler_of(pod))


def _top(chain: Chain, staying: set[str], *, unseen: bool) -> Owner | None:
    """The highest controller that has no pod which stays and that would make pods anew."""
    found: Owner | None = None
    for owner in chain.owners:
        # Who controls a pod is written on the pod; who controls that had to be looked up.
        if owner.uid in staying or (unseen and not owner.makes_pods):
            break
        if not owner.ended:
            found = owner
    return found


def _is_member(pod: objects.Pod, over: Over, *, controlled: bool) -> bool:
    """Whether the pod belongs to the group; who came later under its name is of the next one."""
    if over.group is None:
        return pod.metadata.uid in over.pods
    if claimed_group(pod) != over.group:
        return False
    return controlled or created_seconds(pod) <= over.at_seconds


def _is_replacement(pod: objects.Pod, over: Over, *, controlled: bool) -> bool:
    """Whether a pod without a group was made because the one of this deadline had been stopped."""
    return (
        over.group is None
        and controlled
        and claimed_group(pod) is None
        and created_seconds(pod) >= math.floor(over.at_seconds)
    )
