"""Which collections are followed, and onto which shelf of the mirror each one goes.

Kinds that every cluster has must be there before the first cycle. Kinds that come with an
extension, or only with some versions of Kubernetes, are looked for now and then: until they are
there, their shelf is empty.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.api.pacing import Backoff
from afflux.kube.api.watching import Collection, UnreadableError, follow
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.shelves import Shelf

_STORAGE = "/apis/storage.k8s.io/v1"
# Pods that have ended use nothing: they are left out on the server.
_ALIVE = "status.phase!=Succeeded,status.phase!=Failed"
LOOK_AGAIN_SECONDS = 60.0
FIRST_WAIT_SECONDS = 0.2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Followed:
    """One kind that every cluster has."""

    collection: Collection[Any]
    shelf: Shelf[Any]


@dataclass(frozen=True, slots=True)
class Optional:
    """One kind that may be missing: its API group, its plural, its versions, best first."""

    group: str
    plural: str
    versions: tuple[str, ...]
    item: type[objects.Object]
    shelf: Shelf[Any]


def always_there(mirror: Mirror) -> list[Followed]:
    """What has to be known before anything is decided."""
    return [
        Followed(Collection("/api/v1/nodes", objects.Node), mirror.nodes),
        Followed(Collection("/api/v1/pods", objects.Pod, field_selector=_ALIVE), mirror.pods),
        Followed(Collection("/api/v1/namespaces", objects.Namespace), mirror.namespaces),
        Followed(
            Collection("/api/v1/persistentvolumeclaims", objects.PersistentVolumeClaim),
            mirror.disks.claims,
        ),
        Followed(
            Collection("/api/v1/persistentvolumes", objects.PersistentVolume),
            mirror.disks.volumes,
        ),
        Followed(
            Collection(f"{_STORAGE}/storageclasses", objects.StorageClass), mirror.disks.classes
        ),
        Followed(Collection(f"{_STORAGE}/csinodes", objects.CSINode), mirror.disks.csi_nodes),
        Followed(Collection(f"{_STORAGE}/csidrivers", objects.CSIDriver), mirror.disks.csi_drivers),
        Followed(
            Collection(f"{_STORAGE}/csistoragecapacities", objects.CSIStorageCapacity),
            mirror.disks.capacities,
        ),
    ]


def maybe_there(mirror: Mirror) -> list[Optional]:
    """What makes groups, where the cluster has it."""
    return [
        Optional(
            "scheduling.k8s.io",
            "podgroups",
            ("v1", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"),
            objects.NativeGroup,
            mirror.native_groups,
        ),
        Optional(
            "scheduling.x-k8s.io",
            "podgroups",
            ("v1alpha1",),
            objects.MemberGroup,
            mirror.member_groups,
        ),
    ]


async def follow_all(api: Api, mirror: Mirror) -> None:
    """Follow everything until cancelled."""
    async with asyncio.TaskGroup() as watches:
        for each in always_there(mirror):
            watches.create_task(
                follow(api, each.collection, each.shelf, on_error=_told(each.shelf.kind))
            )
        for kind in maybe_there(mirror):
            watches.create_task(_follow_when_there(api, kind))


async def _follow_when_there(api: Api, kind: Optional) -> None:
    # Nothing is decided before the first look: a server in trouble is asked again soon.
    backoff = Backoff(FIRST_WAIT_SECONDS, LOOK_AGAIN_SECONDS)
    while True:
        try:
            path = await _find(api, kind)
        except (ApiError, UnreachableError) as error:
            wait_seconds = backoff.wait_seconds()
            _told(kind.shelf.kind)(error, wait_seconds)
            await asyncio.sleep(wait_seconds)
            continue
        if path is not None:
            await follow(api, Collection(path, kind.item), kind.shelf, on_error=_excused(kind))
        kind.shelf.filled.set()
        backoff.reset()
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


class _Version(msgspec.Struct, frozen=True):
    version: str


class _Group(msgspec.Struct, frozen=True):
    versions: tuple[_Version, ...] = ()


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()


async def _find(api: Api, kind: Optional) -> str | None:
    """The path of a kind's list, None if the server does not have it."""
    try:
        served = await api.get(f"/apis/{kind.group}", _Group)
        there = {version.version for version in served.versions}
        for version in kind.versions:
            if version in there:
                listed = await api.get(f"/apis/{kind.group}/{version}", _Resources)
                if any(resource.name == kind.plural for resource in listed.resources):
                    return f"/apis/{kind.group}/{version}/{kind.plural}"
    except ApiError as error:
        if not error.is_missing:
            raise
    return None


def _excused(kind: Optional) -> Callable[[Exception, float], None]:
    """Nobody waits for a kind that we may not read; the pods that need it will say so."""
    told = _told(kind.shelf.kind)

    def tell(error: Exception, wait_seconds: float) -> None:
        told(error, wait_seconds)
        if isinstance(error, ApiError) and (error.is_refused or error.is_missing):
            kind.shelf.filled.set()

    return tell


def _told(kind: str) -> Callable[[Exception, float], None]:
    def tell(error: Exception, wait_seconds: float) -> None:
        if isinstance(error, UnreadableError):
            _log.warning("%s watch: %s; what was last known of it holds on", kind, error)
            return
        _log.warning("%s watch: %s; trying again in %.1f s", kind, error, wait_seconds)

    return tell
