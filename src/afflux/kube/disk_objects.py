"""NodeDiskIOInfo objects and pods, of files or of a live cluster, for people who look at them."""

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.client_config import ClientConfig
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.disks.disk_overview import NodeView, disk_overview
from afflux.kube.object_files import read

_INFOS = "/apis/ioi.intel.com/v1/nodediskioinfos"
_PODS = "/api/v1/pods"

T = TypeVar("T", bound=objects.Object)


class NoDisksError(Exception):
    """Why the objects of a cluster cannot be read."""


class _List(msgspec.Struct, Generic[T], frozen=True):
    items: list[T] | None = None


def disks_of_files(sources: Sequence[tuple[str, bytes]]) -> list[NodeView]:
    """The disks by the objects in these (file name, content) pairs."""
    found = read(sources)
    infos = [each.value for each in found.of(objects.NodeDiskIOInfo).values()]
    return disk_overview(infos, [each.value for each in found.of(objects.Pod).values()])


async def disks_of_cluster(config: ClientConfig) -> list[NodeView]:
    """The disks by the objects of a cluster; a NoDisksError if they cannot be read."""
    async with Api(config) as api:
        try:
            infos = await api.get(_INFOS, _List[objects.NodeDiskIOInfo])
            pods = await api.get(_PODS, _List[objects.Pod])
        except ApiError as error:
            if error.is_not_found:
                raise NoDisksError(
                    "the cluster has no NodeDiskIOInfo objects: their definition is not installed"
                ) from None
            raise NoDisksError(str(error)) from None
        except UnreachableError as error:
            raise NoDisksError(str(error)) from None
    return disk_overview(infos.items or (), pods.items or ())
