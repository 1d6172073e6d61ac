"""The owner references of a pod, followed upwards: its controller, the controller of that, etc.

Each owner is read from the API server. Its resource is found by discovery, so that custom
controllers are followed as well.
"""

import re
from dataclasses import dataclass
from functools import partial

import msgspec

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError
from afflux.kube.live.group_deadlines import controller_of
from afflux.kube.live.write_queue import RETRIES, Retries, send_with_retries

# The next Job of a CronJob is new work, not a replacement; and a Node is never deleted.
SKIPPED_KINDS = frozenset({"CronJob", "Node"})
# Real chains are shorter: Pod, ReplicaSet, Deployment, and perhaps a custom controller or two.
MAX_CHAIN_LENGTH = 8
# Built-in controllers that create pods and no other controllers.
_POD_CONTROLLERS = frozenset({("batch/v1", "Job"), ("v1", "ReplicationController")}).union(
    ("apps/v1", kind) for kind in ("DaemonSet", "ReplicaSet", "StatefulSet")
)
# An owner reference may hold any text, and it becomes part of a URL path.
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.:]*[A-Za-z0-9])?")
_VERSION = re.compile(rf"(?:{_NAME.pattern}/)?{_NAME.pattern}")
# An owner with one of these conditions creates no more pods.
_FINAL_CONDITIONS = frozenset({"Complete", "Completed", "Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Owner:
    """A controller: its name for messages, its uid and path, and whether it has finished.

    If `only_creates_pods` is true, every pod that exists because of this owner names it as its
    controller. Other owners may have pods through further controllers.
    """

    name: str
    uid: str
    path: str
    is_finished: bool = False
    only_creates_pods: bool = False
    controller: objects.OwnerReference | None = None


@dataclass(frozen=True, slots=True)
class UnknownOwner:
    """An owner that cannot be followed further, with the reason.

    `read_failed`: the server did not return the owner, so its own controller is unknown and may
    recreate what is deleted below it. `forbidden`: the server refuses access, so that it is not
    even known whether the owner exists.
    """

    reason: str
    read_failed: bool = False
    forbidden: bool = False


@dataclass(frozen=True, slots=True)
class OwnerChain:
    """The controllers of an object, the nearest first; `unknown` if the chain breaks off."""

    owners: tuple[Owner, ...] = ()
    unknown: UnknownOwner | None = None


class _Resource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = True


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()


class _Object(objects.Object, frozen=True, gc=False):
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[objects.Condition, ...] | None = None


class OwnerReader:
    """Reads the owners in one namespace, each of them once. Make a new one for each attempt."""

    def __init__(self, api: Api, namespace: str, retries: Retries = RETRIES) -> None:
        self._api = api
        self._namespace = namespace
        self._retries = retries
        self._resources: dict[str, dict[str, _Resource]] = {}
        self._owners: dict[str, Owner | UnknownOwner | None] = {}

    async def chain(self, ref: objects.OwnerReference | None) -> OwnerChain:
        """The chain that begins with this owner."""
        owners: list[Owner] = []
        while ref is not None and ref.kind not in SKIPPED_KINDS and len(owners) < MAX_CHAIN_LENGTH:
            uid = ref.uid or ""
            if uid not in self._owners:
                self._owners[uid] = await self._read(ref) if _has_valid_name(ref) else None
            owner = self._owners[uid]
            if isinstance(owner, UnknownOwner):
                return OwnerChain(tuple(owners), owner)
            if owner is None:
                break
            owners.append(owner)
            ref = owner.controller
        return OwnerChain(tuple(owners))

    async def _read(self, ref: objects.OwnerReference) -> Owner | UnknownOwner | None:
        """The owner, or why it is unknown; None if it does not exist any more."""
        version = ref.api_version or "v1"
        name = f"{ref.kind} {self._namespace}/{ref.name}"
        try:
            resource = await self._resource(version, ref.kind or "")
            if resource is None:
                return UnknownOwner(f"{name}: kind {ref.kind} of {ref.api_version} is not served")
            if not resource.namespaced:
                # Cleanup looks at the pods of one namespace only.
                why = "is cluster-scoped and may have pods in other namespaces"
                return UnknownOwner(f"{ref.kind} {ref.name} {why}")
            path = f"{_root(version)}/namespaces/{self._namespace}/{resource.name}/{ref.name}"
            found = await send_with_retries(partial(self._api.get, path, _Object), self._retries)
        except ApiError as error:
            if error.is_not_found:
                return None
            reason = f"{name} could not be read: {error.message}"
            return UnknownOwner(reason, read_failed=True, forbidden=error.is_refused)
        if found.metadata.uid != ref.uid:
            return None
        return Owner(
            name,
            ref.uid or "",
            path,
            is_finished=_is_finished(found.status),
            only_creates_pods=(version, ref.kind) in _POD_CONTROLLERS,
            controller=controller_of(found),
        )

    async def _resource(self, version: str, kind: str) -> _Resource | None:
        if version not in self._resources:
            read = partial(self._api.get, _root(version), _Resources)
            served = await send_with_retries(read, self._retries)
            # The names of subresources contain a slash.
            plain = (each for each in served.resources if "/" not in each.name)
            self._resources[version] = {each.kind: each for each in plain}
        return self._resources[version].get(kind)


def _has_valid_name(ref: objects.OwnerReference) -> bool:
    """Whether an object of this name can exist."""
    version = _VERSION.fullmatch(ref.api_version or "v1")
    return version is not None and _NAME.fullmatch(ref.name or "") is not None


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _is_finished(status: msgspec.Raw) -> bool:
    try:
        conditions = msgspec.json.decode(status, type=_Status).conditions or ()
    except msgspec.MsgspecError:
        return False
    return any(each.type in _FINAL_CONDITIONS and each.status == "True" for each in conditions)
