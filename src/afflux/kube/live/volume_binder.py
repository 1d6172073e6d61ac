"""Volumes are made ready before their pod is bound.

First they are chosen: a claim that waits for its first consumer gets a volume that exists, or its
provisioner is to make one on the pod's node. What is chosen is assumed at once, so that two pods
are never given one volume. Pods that start together get theirs together: if one of them has none,
all of them are decided about again.

Then it is written, and the pod waits until every claim is bound; only then is it bound itself. Pods
that start together wait for each other: the last volume may fail to be made.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from afflux.kube import objects
from afflux.kube.api.client import MERGE_PATCH, Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.disks import Going
from afflux.kube.live.mirror import Mirror
from afflux.kube.volumes.choosing import Choice, claim_patch, volume_patch
from afflux.kube.volumes.claims import Claim, pod_references
from afflux.kube.volumes.needs import Blocked
from afflux.kube.volumes.together import Short
from afflux.model.group import Group
from afflux.model.placement import Placement

Choices = tuple[Choice, ...]
# Placements that come to nothing, and why; empty if they can be decided about again at once.
GivenBack = list[tuple[Placement, str]]

_log = logging.getLogger(__name__)

# Of so many pods that found no volumes we remember it.
_MOST_REMEMBERED = 10_000
# Pods that leave volumes to those with whom they start do so for so long: what spoke for it may
# have changed without anybody noticing.
LONGEST_CONCESSION_SECONDS = 60.0


@dataclass(slots=True)
class _Company:
    """Pods that wait for each other's volumes: how many more, and what went wrong."""

    left: int
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    why: str | None = None

    async def arrive(self) -> str | None:
        """One of them is ready; what became of the others."""
        self.left -= 1
        if self.left == 0:
            self.settled.set()
        await self.settled.wait()
        return self.why

    def fail(self, name: str, why: str) -> None:
        """One of them never will be: neither will the others."""
        if self.why is None:
            self.why = why and f"group waits for {name}: {why}"
        self.settled.set()


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What was chosen for a pod, for a node with these labels."""

    choices: Choices
    labels: Mapping[str, str]
    company: _Company | None = None


class Preparing:
    """What kube-scheduler does before it binds a pod with claims.

    `remaining_seconds` says how long we may still act, None if there is no end to it: as with
    bindings, nothing is written after that.
    """

    def __init__(
        self,
        api: Api,
        mirror: Mirror,
        timeout_seconds: float,
        remaining_seconds: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._api = api
        self._remaining_seconds = remaining_seconds
        self._mirror = mirror
        self._disks = mirror.disks
        self._timeout_seconds = timeout_seconds
        self._chosen: dict[str, _Chosen] = {}
        # How often pods were given volumes; and how often when a pod last found none left.
        self._given = 0
        self._given_when_lost: dict[str, int] = {}

    # --- Choosing

    async def choose(
        self, placements: Sequence[Placement], groups: Iterable[Group]
    ) -> tuple[Sequence[Placement], GivenBack]:
        """Choose volumes for what was decided: what can be bound, and what comes to nothing.

        For a group either all of it or nothing can be.
        """
        claiming = {each.task.id for each in placements if self._claims(each)}
        if not claiming:
            return placements, []
        kept: list[Placement] = []
        given_back: GivenBack = []
        for name, company in _companies(placements, groups):
            if not any(each.task.id in claiming for each in company):
                kept += company
                continue
            try:
                refused = self._choose_for(name, company)
            except Exception:
                # A defect must not keep the places of all that was decided in this cycle.
                _log.exception("volumes for %s could not be chosen", name)
                why = "volumes could not be chosen because of a defect, which has been logged"
                refused = dict.fromkeys((each.task.id for each in company), why)
            kept += [each for each in company if each.task.id not in refused]
            given_back += [(p, refused[p.task.id]) for p in company if p.task.id in refused]
            # Thousands of disks take a while; others get their turn.
            await asyncio.sleep(0)
        return kept, given_back

    def _claims(self, placement: Placement) -> bool:
        pod = self._mirror.pending(placement.task)
        return pod is not None and bool(pod_references(pod))

    def _choose_for(self, name: str, company: Sequence[Placement]) -> dict[str, str]:
        """Choose for those who start together; who cannot be bound, by id, and why."""
        going: list[Going] = []
        for placement in company:
            pod = self._mirror.pending(placement.task)
            node = self._mirror.nodes.get(placement.machine)
            if pod is None or node is None:
                return dict.fromkeys((each.task.id for each in company), "")
            going.append((pod, placement, node.metadata.labels or {}))
        if len(going) == 1:
            return self._choose_alone(*going[0])
        found = self._disks.choose_together(going)
        if not isinstance(found, Short):
            self._count_given(name)
            together = _Company(len(going))
            for _, placement, labels in going:
                choices = found[placement.task.id]
                self._chosen[placement.task.id] = _Chosen(choices, labels, together)
            return {}
        if found.scattered:
            # No plan knows that some of them have to be in one place: they follow the first.
            refused: dict[str, str] = {}
            for each in going:
                refused |= self._choose_alone(*each)
            return refused
        why = self._why_not(name, found, going)
        return dict.fromkeys((each.task.id for each in company), why)

    def _choose_alone(
        self, pod: objects.Pod, placement: Placement, labels: Mapping[str, str]
    ) -> dict[str, str]:
        choices = self._disks.choose(pod, placement, labels)
        task_id = placement.task.id
        if isinstance(choices, Blocked):
            return {task_id: "" if self._lost_to_others(task_id) else choices.reason}
        self._count_given(task_id)
        self._chosen[task_id] = _Chosen(choices, labels)
        return {}

    def _why_not(self, name: str, short: Short, going: Sequence[Going]) -> str:
        """Why a group has to wait; empty if it can be decided about again at once.

        That is so if others took volumes since, or if some members look elsewhere from now on:
        neither goes on for ever.
        """
        tasks = {placement.task.id: placement.task for _, placement, _ in going}
        lost = self._lost_to_others(name)
        if self._disks.concede(going, short):
            loop = asyncio.get_running_loop()
            loop.call_later(LONGEST_CONCESSION_SECONDS, self._disks.concede_no_more, [*tasks])
            return ""
        self._disks.concede_no_more(tasks)
        if lost:
            return ""
        first = tasks[short.pod].name
        return f"group {name} finds no volumes for all its members at once: {first}: {short.reason}"

    def _count_given(self, who: str) -> None:
        self._given += 1
        self._given_when_lost.pop(who, None)

    def _lost_to_others(self, who: str) -> bool:
        """Whether volumes were given away since this pod or group last found none.

        Pods that are decided together may be sent to the same few volumes. Each time one of them
        gets some, so that the others can be decided about at once and in the end have theirs.
        """
        before = self._given_when_lost.get(who, -1)
        if len(self._given_when_lost) > _MOST_REMEMBERED:
            # Most of them were deleted meanwhile; the others are decided about once more.
            self._given_when_lost.clear()
        self._given_when_lost[who] = self._given
        return self._given > before

    # --- Making it so

    def concerns(self, placement: Placement) -> bool:
        """Whether volumes, the pod's own or of those with whom it starts, have to be waited for."""
        return placement.task.id in self._chosen

    async def prepare(self, placement: Placement) -> str | None:
        """Have every claim bound; why that is impossible, None if it is done.

        Empty if the pod has gone since this was decided.
        """
        chosen = self._chosen.pop(placement.task.id)
        why, company = await self._fulfil(placement, chosen), chosen.company
        if company is None:
            return why
        if why is None:
            return await company.arrive()
        company.fail(placement.task.name, why)
        self._disks.tell()
        return why

    async def _fulfil(self, placement: Placement, chosen: _Chosen) -> str | None:
        choices, company = chosen.choices, chosen.company
        try:
            if company is not None and company.why is not None:
                return company.why
            if self._mirror.pending(placement.task) is None:
                return ""
            async with asyncio.timeout(self._timeout_seconds):
                why = await self._write(choices)
                return await self._bound(chosen) if why is None else why
        except TimeoutError:
            return f"its volumes were not bound within {self._timeout_seconds:g} s"
        finally:
            self._disks.forget(choices)

    async def _write(self, choices: Choices) -> str | None:
        """Say what was chosen; why that failed, None if it did not."""
        for choice in choices:
            claim = self._disks.storage.supply.claims.get(choice.claim)
            if claim is None:
                return f"persistentvolumeclaim {choice.claim} is gone"
            remaining = self._remaining_seconds()
            if remaining is not None and remaining <= 0:
                return ""
            try:
                async with asyncio.timeout(remaining):
                    if choice.volume is None:
                        await self._tell_provisioner(claim, choice.node)
                    else:
                        await self._promise(choice.volume, claim)
            except (ApiError, UnreachableError) as error:
                return f"persistentvolumeclaim {choice.claim}: {error}"
        return None

    async def _tell_provisioner(self, claim: Claim, node: str) -> None:
        space, name = claim.key.split("/")
        written = await self._api.send(
            "PATCH",
            f"/api/v1/namespaces/{space}/persistentvolumeclaims/{name}",
            claim_patch(claim, node),
            answer=objects.PersistentVolumeClaim,
            content_type=MERGE_PATCH,
        )
        self._disks.wrote(self._disks.claims, written)

    async def _promise(self, volume_name: str, claim: Claim) -> None:
        volume = self._disks.storage.supply.volumes.get(volume_name)
        patch = volume_patch(volume, claim) if volume is not None else None
        if patch is None:
            return
        written = await self._api.send(
            "PATCH",
            f"/api/v1/persistentvolumes/{volume_name}",
            patch,
            answer=objects.PersistentVolume,
            content_type=MERGE_PATCH,
        )
        self._disks.wrote(self._disks.volumes, written)

    async def _bound(self, chosen: _Chosen) -> str | None:
        """Wait for the controllers; None once every claim is bound."""
        while True:
            if chosen.company is not None and chosen.company.why is not None:
                return chosen.company.why
            news = self._disks.news
            progress = self._disks.storage.progress(chosen.choices, chosen.labels)
            if isinstance(progress, Blocked):
                return progress.reason
            if progress:
                return None
            await news.wait()


def _companies(
    placements: Sequence[Placement], groups: Iterable[Group]
) -> Iterator[tuple[str, list[Placement]]]:
    """Placements by those who start together, in order, with the name of the group."""
    group_of = {task.id: group.name for group in groups if group.is_gang for task in group.tasks}
    gangs: dict[str, list[Placement]] = {}
    for placement in placements:
        gangs.setdefault(group_of.get(placement.task.id, ""), []).append(placement)
    for placement in placements:
        name = group_of.get(placement.task.id, "")
        if not name:
            yield placement.task.name, [placement]
        elif name in gangs:
            yield name, gangs.pop(name)
