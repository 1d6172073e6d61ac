"""Volumes are made ready before their pod is bound.

A claim that waits for its first consumer learns here which node that is: a volume that exists is
promised to it, or its provisioner is told the node. Then the pod waits until every claim is bound;
only then is it bound itself. Promises are assumed at once, so that two pods are never given one
volume.
"""

import asyncio

from afflux.kube import objects
from afflux.kube.api.client import MERGE_PATCH, Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.mirror import Mirror
from afflux.kube.volumes.choosing import Choice, claim_patch, volume_patch
from afflux.kube.volumes.claims import Claim, pod_references
from afflux.kube.volumes.needs import Blocked
from afflux.model.placement import Placement

Choices = tuple[Choice, ...]

# Of so many pods that found no volumes we remember it.
_MOST_REMEMBERED = 10_000


class Preparing:
    """What kube-scheduler does before it binds a pod with claims."""

    def __init__(self, api: Api, mirror: Mirror, timeout_seconds: float) -> None:
        self._api = api
        self._mirror = mirror
        self._disks = mirror.disks
        self._timeout_seconds = timeout_seconds
        # How often pods were given volumes; and how often when a pod last found none left.
        self._given = 0
        self._given_when_lost: dict[str, int] = {}

    def concerns(self, pod: objects.Pod) -> bool:
        """Whether the pod has claims."""
        return bool(pod.spec.volumes) and bool(pod_references(pod))

    async def prepare(self, pod: objects.Pod, placement: Placement) -> str | None:
        """Have every claim of the pod bound; why that is impossible, None if it is done.

        Empty if node or volumes have gone since this was decided: then it is decided anew.
        """
        node = self._mirror.nodes.get(placement.machine)
        if node is None:
            return ""
        labels = node.metadata.labels or {}
        choices = self._disks.choose(pod, placement.machine, labels)
        if isinstance(choices, Blocked):
            return "" if self._lost_to_others(placement.task.id) else choices.reason
        self._given += 1
        self._given_when_lost.pop(placement.task.id, None)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._write(choices) or await self._bound(choices, labels)
        except TimeoutError:
            return f"its volumes were not bound within {self._timeout_seconds:g} s"
        finally:
            self._disks.forget(choices)

    def _lost_to_others(self, task_id: str) -> bool:
        """Whether volumes were given away since this pod last found none.

        Pods that are decided together may be sent to the same few volumes. Each time one of them
        gets some, so that the others can be decided about at once and in the end have theirs.
        """
        before = self._given_when_lost.get(task_id, -1)
        if len(self._given_when_lost) > _MOST_REMEMBERED:
            # Most of them were deleted meanwhile; the others are decided about once more.
            self._given_when_lost.clear()
        self._given_when_lost[task_id] = self._given
        return self._given > before

    async def _write(self, choices: Choices) -> str | None:
        """Say what was chosen; why that failed, None if it did not."""
        for choice in choices:
            claim = self._disks.storage.supply.claims.get(choice.claim)
            if claim is None:
                return f"persistentvolumeclaim {choice.claim} is gone"
            try:
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

    async def _bound(self, choices: Choices, labels: objects.Labels) -> str | None:
        """Wait for the controllers; None once every claim is bound."""
        while True:
            news = self._disks.news
            progress = self._disks.storage.progress(choices, labels)
            if isinstance(progress, Blocked):
                return progress.reason
            if progress:
                return None
            await news.wait()
