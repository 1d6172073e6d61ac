"""Cleaning up: a group whose deadline is over is deleted, with those who would make it anew.

Off unless it is asked for, with a role of its own. It sleeps until the next deadline. What it may
delete is bounded on every side: pods of our scheduler names that belong to the group; their
controllers, as far up as all pods of a controller belong to it; and everything by its uid, so that
another object of the same name is never meant. If a controller cannot be read or deleted, its pods
stay too: it would make them anew. What the API server refuses is told and tried again, less and
less often, for as long as it is there.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from time import time

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import UnreachableError
from afflux.kube.decoding import is_finished, namespace, scheduler_of
from afflux.kube.grouping import claimed_group
from afflux.kube.live.deadlines import Deadlines, Over, controller
from afflux.kube.live.deleting import Deleting, sleep_until_due
from afflux.kube.live.leaving import Leaving, leaving
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.owners import Chain, Owner, Owners, Unknown
from afflux.kube.live.recording import DEADLINE, Recorder
from afflux.kube.live.references import PodRef, of_pod

# So many namespaces are cleaned up at once.
MOST_AT_ONCE = 4
FIRST_PAUSE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 1800.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Above:
    """The highest controller that goes with pods, and what ended the walk if that is unknown."""

    top: Owner | None = None
    unknown: Unknown | None = None

    def why_they_stay(self, refused: Mapping[str, str]) -> str | None:
        """Why the pods have to stay: somebody would make them anew. `refused` are the owners, by
        uid, that could not be deleted."""
        if self.unknown is not None and self.unknown.unread:
            return self.unknown.why
        return None if self.top is None else refused.get(self.top.uid)


@dataclass(slots=True, eq=False)
class _Work:
    """Groups of a namespace that are cleaned up together, until nothing is left of them.

    One is not another, even if both are about the same.

    Where something is refused, controllers make one pod after the other, and each has a deadline:
    those join, so that it is tried no more often for that.
    """

    groups: list[Over] = field(default_factory=list[Over])
    # By uid: who controls them and, by the name of their group, the pods that ran.
    controllers: set[str] = field(default_factory=set[str])
    pods: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def add(self, over: Over) -> None:
        self.groups.append(over)
        self.controllers |= _controllers(over)
        if over.group is not None:
            self.pods.setdefault(over.group, set()).update(over.pods)

    def keep(self, groups: Iterable[Over]) -> None:
        self.groups, self.controllers, self.pods = [], set(), {}
        for over in groups:
            self.add(over)


@dataclass(frozen=True, slots=True)
class _Undone:
    """What an attempt has left: groups, and pods with the reason why each of them stays."""

    why: str
    groups: Sequence[Over]
    pods: Sequence[tuple[objects.Pod, str]] = ()


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
        self._remaining_seconds = remaining_seconds
        self._mirror = mirror
        self._deadlines = deadlines
        self._recorder = recorder
        self._announce = announce
        self._clock = clock
        # By namespace.
        self._under_way: dict[str, list[_Work]] = {}
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await sleep_until_due(self._deadlines, self._clock)
                begun: dict[str, _Work] = {}
                for over in self._deadlines.take(self._clock()):
                    _log.info("the deadline of group %s is over", over.name)
                    self._announce(over.pods)
                    work = self._concerned(over) or begun.setdefault(over.namespace, _Work())
                    work.add(over)
                for space, work in begun.items():
                    self._under_way.setdefault(space, []).append(work)
                    tasks.create_task(self._clean(space, work))

    def _concerned(self, over: Over) -> _Work | None:
        """The work on others of the same controller or group, if there is some.

        A group whose pods are gone has left its name to the next one, which does not wait for what
        else could not be deleted of it.
        """
        controllers, group = _controllers(over), over.group or ""
        for work in self._under_way.get(over.namespace, ()):
            if not work.controllers.isdisjoint(controllers):
                return work
            if self._deadlines.are_there(work.pods.get(group, ())):
                return work
        return None

    async def _clean(self, space: str, work: _Work) -> None:
        pause = FIRST_PAUSE_SECONDS
        while work.groups:
            undone = await self._attempt(space, work)
            if undone is None:
                # Those who have joined meanwhile, if any, have not been tried yet.
                pause = FIRST_PAUSE_SECONDS
                continue
            why = undone.why
            _log.warning("cleaning up in %s: %s; trying again after %.0f s", space, why, pause)
            for pod, why in undone.pods:
                again = f"it could not be cleaned up: {why}; trying again after {pause:.0f} s"
                self._tell(pod, again)
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self._under_way[space].remove(work)
        if not self._under_way[space]:
            del self._under_way[space]

    async def _attempt(self, space: str, work: _Work) -> _Undone | None:
        """Delete what is there of those who have not gone; what is left, None if nothing is."""
        tried = tuple(work.groups)
        undone = await self._undone(space, tried)
        joined = work.groups[len(tried) :]
        work.keep([*(undone.groups if undone else ()), *joined])
        return undone

    async def _undone(self, space: str, groups: Sequence[Over]) -> _Undone | None:
        """The same of these groups, whatever goes wrong."""
        going = Leaving()
        try:
            async with self._turns:
                alive = self._alive(space)
                going = leaving(groups, filter(self._mirror.is_ours, alive))
                return await self._once(space, going, alive)
        except UnreachableError as error:
            why = str(error)
        except Exception as error:
            _log.exception("cleaning up in %s failed", space)
            why = f"an error of the scheduler ({type(error).__name__}), of which its log says more"
        there = [pod for party in going.parties for pod in party.pods.values()]
        return _Undone(why, groups, [(pod, why) for pod in there])

    def _alive(self, space: str) -> list[objects.Pod]:
        return [
            pod
            for pod in self._mirror.pods
            if namespace(pod) == space
            and not is_finished(pod)
            and not pod.metadata.deletion_timestamp
        ]

    async def _once(
        self, space: str, going: Leaving, alive: Sequence[objects.Pod]
    ) -> _Undone | None:
        """Delete owners, then pods, which leave their parties; what was refused."""
        above = await self._walk(space, going, alive)
        deleting = Deleting(self._api, self._remaining_seconds)
        # Owners first, so that nobody makes anew what is deleted next.
        refused: dict[str, str] = {}
        for owner in {each.top.uid: each.top for each in above.values() if each.top}.values():
            why = await deleting.delete(owner.path, owner.uid)
            if why is not None:
                refused[owner.uid] = f"{owner.name} could not be deleted: {why}"
        held = {
            uid: why
            for uid, each in above.items()
            if (why := each.why_they_stay(refused)) is not None
        }
        staying: list[tuple[objects.Pod, str]] = []
        for party in going.parties:
            for uid, pod in list(party.pods.items()):
                owner = controller(pod)
                controlled_by = "" if owner is None else owner.uid or ""
                why = held.get(controlled_by) or await _delete(deleting, space, pod)
                if why is not None:
                    staying.append((pod, why))
                    continue
                del party.pods[uid]
                self._tell_gone(pod, above.get(controlled_by, _Above()))
        # Whether an owner is still there that nobody lets us see is known by its pods alone.
        hidden = {uid for uid in held if (why := above[uid].unknown) and why.refused}
        left = going.left(held.keys() - hidden)
        whys = [*(why for _, why in staying), *held.values()]
        if not left and whys:
            _log.warning("cleaning up in %s: %s; it has no pods any more", space, whys[0])
        return _Undone(whys[0], left, staying) if left else None

    async def _walk(
        self, space: str, going: Leaving, alive: Iterable[objects.Pod]
    ) -> dict[str, _Above]:
        """For every controller of those who go, by uid, the highest one all of whose pods go."""
        owners = Owners(self._api, space)
        refs = {uid: ref for party in going.parties for uid, ref in party.controllers.items()}
        chains = {uid: await owners.chain(ref) for uid, ref in refs.items()}
        staying: set[str] = set()
        unseen = False
        high = any(not owner.makes_pods for chain in chains.values() for owner in chain.owners)
        for pod in alive:
            owner = controller(pod)
            if owner is None or going.is_leaving(pod):
                continue
            staying.add(owner.uid or "")
            if high:
                chain = await owners.chain(owner)
                staying.update(each.uid for each in chain.owners)
                unseen = unseen or chain.unknown is not None
        return {uid: _above(chain, staying, unseen=unseen) for uid, chain in chains.items()}

    def _tell_gone(self, pod: objects.Pod, above: _Above) -> None:
        with_it = [f"deleted with it: {above.top.name}"] if above.top else []
        self._tell(pod, *with_it, *([above.unknown.why] if above.unknown else []))

    def _tell(self, pod: objects.Pod, *more: str) -> None:
        group = claimed_group(pod)
        note = f"The deadline of group {group} is over" if group else "Its deadline is over"
        metadata = pod.metadata
        ref = PodRef(namespace(pod), metadata.name or "", metadata.uid or "")
        note = "; ".join((note, *more))
        self._recorder.event(DEADLINE, of_pod(ref), note, scheduler=scheduler_of(pod))


async def _delete(deleting: Deleting, space: str, pod: objects.Pod) -> str | None:
    name = pod.metadata.name or ""
    path = f"/api/v1/namespaces/{space}/pods/{name}"
    why = await deleting.delete(path, pod.metadata.uid or "")
    return None if why is None else f"pod {space}/{name} could not be deleted: {why}"


def _controllers(over: Over) -> set[str]:
    return {ref.uid or "" for ref in over.controllers}


def _above(chain: Chain, staying: AbstractSet[str], *, unseen: bool) -> _Above:
    """The walk up to the highest one that has no pod which stays and would make pods anew."""
    top: Owner | None = None
    for owner in chain.owners:
        # Who controls a pod is written on the pod; who controls that had to be looked up.
        if owner.uid in staying or (unseen and not owner.makes_pods):
            return _Above(top)
        if not owner.ended:
            top = owner
    if chain.unknown is not None and chain.unknown.unread:
        # Whoever is deleted below might be made anew.
        top = None
    return _Above(top, chain.unknown)
