"""The owner references of a pod, followed upwards: its controller, the controller of that, etc.

Each owner is read from the API server. Its resource is found by discovery, so that custom
controllers are followed as well. A pod is not followed: its author may name any owner.
"""

import re
from dataclasses import dataclass, field
from functools import partial

import msgspec

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError
from afflux.kube.live.pod_sources import PodSource, built_in_source, custom_source
from afflux.kube.live.write_queue import RETRIES, Retries, send_with_retries
from afflux.kube.pod_claims import PodClaims, controller_of

# The next Job of a CronJob is new work, not a replacement; and a Node is never deleted.
SKIPPED_KINDS = frozenset({"CronJob", "Node"})
# Real chains are shorter: Pod, ReplicaSet, Deployment, and perhaps a custom controller or two.
MAX_CHAIN_LENGTH = 8
# Built-in controllers that create pods and no other controllers.
_POD_CONTROLLERS = frozenset({("batch/v1", "Job"), ("v1", "ReplicationController")}).union(
    ("apps/v1", kind) for kind in ("DaemonSet", "ReplicaSet", "StatefulSet")
)
_PLAIN_SELECTOR_KIND = "ReplicationController"
# An owner reference may hold any text, and it becomes part of a URL path.
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.:]*[A-Za-z0-9])?")
_VERSION = re.compile(rf"(?:{_NAME.pattern}/)?{_NAME.pattern}")
# An owner with one of these conditions creates no more pods.
_SUCCESS_CONDITIONS = frozenset({"Complete", "Completed", "Succeeded"})
_FINAL_CONDITIONS = _SUCCESS_CONDITIONS | {"Failed"}


@dataclass(frozen=True, slots=True)
class Owner:
    """A controller: its name for messages, its uid and path, and the condition with which it has
    finished, empty while it has not.

    If `only_creates_pods` is true, every pod that exists because of this owner names it as its
    controller. Other owners may have pods through further controllers.
    """

    name: str
    uid: str
    path: str
    final_condition: str = ""
    only_creates_pods: bool = False
    controller: objects.OwnerReference | None = None
    source: PodSource = field(default_factory=PodSource)

    @property
    def is_finished(self) -> bool:
        return bool(self.final_condition)

    @property
    def has_succeeded(self) -> bool:
        return self.final_condition in _SUCCESS_CONDITIONS


@dataclass(frozen=True, slots=True)
class UnknownOwner:
    """An owner that does not count or cannot be followed further, with the reason.

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
    spec: msgspec.Raw = msgspec.Raw(b"{}")
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
        # By the whole reference: its author may have written the uid of another object.
        self._owners: dict[objects.OwnerReference, Owner | UnknownOwner | None] = {}

    async def controller(self, ref: objects.OwnerReference) -> Owner | UnknownOwner | None:
        """What a pod names as its controller; None if it does not exist."""
        if ref.kind == "Pod" or ref.kind in SKIPPED_KINDS:
            return UnknownOwner(f"{self._name(ref)} is no controller of pods")
        if ref not in self._owners:
            self._owners[ref] = await self._read(ref) if _has_valid_name(ref) else None
        return self._owners[ref]

    async def unconfirmed(self, claims: PodClaims) -> UnknownOwner | None:
        """Why the controller does not confirm these claims; None if it does."""
        ref = claims.controller
        if ref is None:
            return UnknownOwner("it has no controller")
        owner = await self.controller(ref)
        if owner is None:
            return UnknownOwner(f"{self._name(ref)} does not exist")
        return objection(owner, claims)

    async def chain(self, ref: objects.OwnerReference | None) -> OwnerChain:
        """The chain that begins with this owner."""
        owners: list[Owner] = []
        while ref is not None and ref.kind not in SKIPPED_KINDS:
            if len(owners) == MAX_CHAIN_LENGTH:
                why = f"{self._name(ref)} is above {MAX_CHAIN_LENGTH} other owners"
                return OwnerChain(tuple(owners), UnknownOwner(why))
            owner = await self.controller(ref)
            if isinstance(owner, UnknownOwner):
                return OwnerChain(tuple(owners), owner)
            if owner is None:
                break
            owners.append(owner)
            ref = owner.controller
        return OwnerChain(tuple(owners))

    def _name(self, ref: objects.OwnerReference) -> str:
        return f"{ref.kind} {self._namespace}/{ref.name}"

    async def _read(self, ref: objects.OwnerReference) -> Owner | UnknownOwner | None:
        """The owner, or why it is unknown; None if it does not exist any more."""
        version = ref.api_version or "v1"
        name = self._name(ref)
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
        makes_pods = (version, ref.kind) in _POD_CONTROLLERS
        return Owner(
            name,
            ref.uid or "",
            path,
            final_condition=_final_condition(found.status),
            only_creates_pods=makes_pods,
            controller=controller_of(found),
            source=_pod_source(found.spec, ref.kind if makes_pods else None),
        )

    async def _resource(self, version: str, kind: str) -> _Resource | None:
        if version not in self._resources:
            read = partial(self._api.get, _root(version), _Resources)
            served = await send_with_retries(read, self._retries)
            # The names of subresources contain a slash.
            plain = (each for each in served.resources if "/" not in each.name)
            self._resources[version] = {each.kind: each for each in plain}
        return self._resources[version].get(kind)


def objection(owner: Owner | UnknownOwner, claims: PodClaims) -> UnknownOwner | None:
    """Why this owner does not confirm these claims; None if it does."""
    if isinstance(owner, UnknownOwner):
        return owner
    why = owner.source.objection(owner.name, claims)
    return None if why is None else UnknownOwner(why)


def _has_valid_name(ref: objects.OwnerReference) -> bool:
    """Whether an object of this name can exist."""
    version = _VERSION.fullmatch(ref.api_version or "v1")
    return version is not None and _NAME.fullmatch(ref.name or "") is not None


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _pod_source(spec: msgspec.Raw, built_in_kind: str | None) -> PodSource:
    """The pods that the owner makes; none if its specification is malformed."""
    try:
        if built_in_kind is None:
            return custom_source(spec)
        return built_in_source(spec, has_plain_selector=built_in_kind == _PLAIN_SELECTOR_KIND)
    except (msgspec.MsgspecError, RecursionError):
        return PodSource()


def _final_condition(status: msgspec.Raw) -> str:
    try:
        conditions = msgspec.json.decode(status, type=_Status).conditions or ()
    except msgspec.MsgspecError:
        return ""
    held = {each.type for each in conditions if each.type and each.status == "True"}
    # An owner that has failed has not succeeded, whatever else it says.
    return "Failed" if "Failed" in held else min(held & _FINAL_CONDITIONS, default="")
