"""The kinds that are watched, and the store of the cluster reader that each watch fills.

Kinds that every cluster has must be listed before the first cycle. Kinds that come with a CRD or
exist only in some versions of Kubernetes are looked for from time to time; their store is empty
until they are found.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from afflux.control.backoff import Backoff
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.api.reflector import Collection, UnreadableError, run_reflector
from afflux.kube.live.disk_writer import GROUP, PLURAL, VERSION
from afflux.kube.pod_ends import essence
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.kube.reader.object_store import ObjectStore

_APPS = "/apis/apps/v1"
_STORAGE = "/apis/storage.k8s.io/v1"
_POD_GROUPS = "podgroups"
DISCOVERY_INTERVAL_SECONDS = 60.0
INITIAL_BACKOFF_SECONDS = 0.2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """A kind that every cluster has. No decision waits for it, if it `may_be_refused`."""

    collection: Collection[Any]
    store: ObjectStore[Any]
    may_be_refused: bool = False


@dataclass(frozen=True, slots=True)
class OptionalKind:
    """A kind that may be missing: its API group and versions, preferred first, and its name in
    paths. With a namespace only the objects there."""

    group: str
    versions: tuple[str, ...]
    item: type[objects.Object]
    store: ObjectStore[Any]
    plural: str = _POD_GROUPS
    namespace: str = ""


def required_kinds(reader: ClusterReader, *, default_constraints: bool) -> list[WatchedKind]:
    """The kinds that must be listed before the first decision. Only `default_constraints` need to
    know which pods belong together.

    Pods are watched without a filter on their phase: when an object leaves a filter, the event has
    its previous state, so that it would be unknown how a pod ended. Of ended pods, only their
    essence is kept while all pods are listed: 10,000 take 20 MB in place of 110.
    """
    kinds: dict[str, type[objects.Object]] = {
        "/api/v1/nodes": objects.Node,
        "/api/v1/pods": objects.Pod,
        "/api/v1/namespaces": objects.Namespace,
        "/api/v1/persistentvolumeclaims": objects.PersistentVolumeClaim,
        "/api/v1/persistentvolumes": objects.PersistentVolume,
        f"{_STORAGE}/storageclasses": objects.StorageClass,
        f"{_STORAGE}/csinodes": objects.CSINode,
        f"{_STORAGE}/csidrivers": objects.CSIDriver,
        f"{_STORAGE}/csistoragecapacities": objects.CSIStorageCapacity,
    }
    if default_constraints:
        kinds |= {
            "/api/v1/services": objects.Service,
            "/api/v1/replicationcontrollers": objects.ReplicationController,
            f"{_APPS}/replicasets": objects.ReplicaSet,
            f"{_APPS}/statefulsets": objects.StatefulSet,
        }
    if objects.PodDisruptionBudget in reader.stores:
        kinds["/apis/policy/v1/poddisruptionbudgets"] = objects.PodDisruptionBudget
    essences = {"/api/v1/pods": essence}
    return [
        WatchedKind(Collection(path, kind, essence=essences.get(path)), reader.stores[kind])
        for path, kind in kinds.items()
    ]


def optional_kinds(reader: ClusterReader) -> list[OptionalKind]:
    """The kinds of PodGroups, which some clusters have."""
    native, coscheduling = objects.NativePodGroup, objects.CoschedulingPodGroup
    versions = ("v1", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1")
    return [
        OptionalKind("scheduling.k8s.io", versions, native, reader.native_groups),
        OptionalKind("scheduling.x-k8s.io", ("v1alpha1",), coscheduling, reader.member_groups),
    ]


def disk_kind(reader: ClusterReader, namespace: str) -> OptionalKind:
    """The objects of the IO drivers, which exist only where their definition is installed."""
    store = reader.cluster_disks.infos
    return OptionalKind(GROUP, (VERSION,), objects.NodeDiskIOInfo, store, PLURAL, namespace)


def config_map_kind(store: ObjectStore[objects.ConfigMap], name: str) -> WatchedKind:
    """One ConfigMap, by its namespace and name."""
    namespace, _, name = name.partition("/")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    selector = f"metadata.name={name}"
    collection = Collection(path, objects.ConfigMap, field_selector=selector)
    return WatchedKind(collection, store, may_be_refused=True)


async def watch_all_kinds(
    api: Api, required: Sequence[WatchedKind], optional: Sequence[OptionalKind]
) -> None:
    """Watch these kinds until cancelled."""
    async with asyncio.TaskGroup() as watches:
        for each in required:
            log = _sync_if_refused if each.may_be_refused else _log_error
            log_error = log(each.store)
            watches.create_task(run_reflector(api, each.collection, each.store, on_error=log_error))
        for kind in optional:
            watches.create_task(_follow_when_found(api, kind))


async def _follow_when_found(api: Api, kind: OptionalKind) -> None:
    # The first decision waits for this lookup, so errors are retried soon.
    backoff = Backoff(INITIAL_BACKOFF_SECONDS, DISCOVERY_INTERVAL_SECONDS)
    while True:
        try:
            path = await _find(api, kind)
        except (ApiError, UnreachableError) as error:
            wait_seconds = backoff.wait_seconds()
            _log_error(kind.store)(error, wait_seconds)
            await asyncio.sleep(wait_seconds)
            continue
        if path is not None:
            found = Collection(path, kind.item)
            await run_reflector(api, found, kind.store, on_error=_sync_if_refused(kind.store))
        kind.store.synced.set()
        backoff.reset()
        await asyncio.sleep(DISCOVERY_INTERVAL_SECONDS)


class _Version(msgspec.Struct, frozen=True):
    version: str


class _Group(msgspec.Struct, frozen=True):
    versions: tuple[_Version, ...] = ()


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()


async def _find(api: Api, kind: OptionalKind) -> str | None:
    """The path of a kind's collection, None if the server does not serve the kind."""
    try:
        served = await api.get(f"/apis/{kind.group}", _Group)
        there = {version.version for version in served.versions}
        for version in kind.versions:
            if version in there:
                listed = await api.get(f"/apis/{kind.group}/{version}", _Resources)
                if any(resource.name == kind.plural for resource in listed.resources):
                    space = f"namespaces/{kind.namespace}/" if kind.namespace else ""
                    return f"/apis/{kind.group}/{version}/{space}{kind.plural}"
    except ApiError as error:
        if not error.is_not_found:
            raise
    return None


def _sync_if_refused(store: ObjectStore[Any]) -> Callable[[Exception, float], None]:
    """Logs errors; a kind that may not be read counts as synced: no decision waits for it."""
    log = _log_error(store)

    def log_error(error: Exception, wait_seconds: float) -> None:
        log(error, wait_seconds)
        if isinstance(error, ApiError) and (error.is_refused or error.is_not_found):
            store.synced.set()

    return log_error


def _log_error(store: ObjectStore[Any]) -> Callable[[Exception, float], None]:
    kind = store.kind

    def log_error(error: Exception, wait_seconds: float) -> None:
        if isinstance(error, UnreadableError):
            _log.warning("%s watch: %s; its last known version stays in use", kind, error)
            return
        _log.warning("%s watch: %s; trying again in %.1f s", kind, error, wait_seconds)

    return log_error
