"""Owners: who controls a pod, who controls that, and so on up, as the API server has it now.

Kinds are found by discovery, so that a controller which nobody has heard of here is walked as well.
"""

import re
from dataclasses import dataclass
from functools import partial

import msgspec

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError
from afflux.kube.live.deadlines import controller
from afflux.kube.live.delivering import insist

# What a CronJob makes next is new work and not a replacement; and nobody deletes a machine.
NOT_WALKED = frozenset({"CronJob", "Node"})
# Longer chains than this are not made by people.
LONGEST_CHAIN = 8
# Those of Kubernetes itself that make pods and nothing else: no pod of theirs is of somebody below.
_MAKES_PODS = frozenset(
    {
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "Job"),
        ("v1", "ReplicationController"),
    }
)
# A reference may hold any text, of which a path would be made.
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.:]*[A-Za-z0-9])?")
_VERSION = re.compile(rf"(?:{_NAME.pattern}/)?{_NAME.pattern}")
# Conditions, if they are true, of things that will not make any more pods.
_ENDED = frozenset({"Complete", "Completed", "Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Owner:
    """A controller: what people call it, where it is, and whether it has ended already.

    With `makes_pods` all its pods name it themselves; others may have some by way of somebody else.
    """

    name: str
    uid: str
    path: str
    ended: bool = False
    makes_pods: bool = False
    above: objects.OwnerReference | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """An owner of which we know too little, and why.

    With `unread` the server did not tell: who is above is unknown, and may make anew what is
    deleted. With `refused` it will not tell, not even whether the owner is still there.
    """

    why: str
    unread: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """The controllers of something, from the nearest up, and who comes next if that is unknown."""

    owners: tuple[Owner, ...] = ()
    unknown: Unknown | None = None


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


class Owners:
    """Reads owners in one namespace, each once: made for one look at the cluster."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._kinds: dict[str, dict[str, _Resource]] = {}
        self._known: dict[str, Owner | Unknown | None] = {}

    async def chain(self, ref: objects.OwnerReference | None) -> Chain:
        """From this controller up to the last one."""
        found: list[Owner] = []
        while ref is not None and ref.kind not in NOT_WALKED and len(found) < LONGEST_CHAIN:
            uid = ref.uid or ""
            if uid not in self._known:
                self._known[uid] = await self._read(ref) if _has_name(ref) else None
            owner = self._known[uid]
            if isinstance(owner, Unknown):
                return Chain(tuple(found), owner)
            if owner is None:
                break
            found.append(owner)
            ref = owner.above
        return Chain(tuple(found))

    async def _read(self, ref: objects.OwnerReference) -> Owner | Unknown | None:
        """The owner; why it is unknown; None if it is gone."""
        version = ref.api_version or "v1"
        name = f"{ref.kind} {self._namespace}/{ref.name}"
        try:
            kind = await self._kind(version, ref.kind or "")
            if kind is None:
                return Unknown(f"{name}: kind {ref.kind} of {ref.api_version} is not served")
            if not kind.namespaced:
                # Here only the pods of one namespace are looked at.
                why = f"{ref.kind} {ref.name} is of no namespace and may have pods in others"
                return Unknown(why)
            path = f"{_root(version)}/namespaces/{self._namespace}/{kind.name}/{ref.name}"
            held = await insist(partial(self._api.get, path, _Object))
        except ApiError as error:
            if error.is_missing:
                return None
            why = f"{name} could not be read: {error.message}"
            return Unknown(why, unread=True, refused=error.is_refused)
        if held.metadata.uid != ref.uid:
            return None
        return Owner(
            name,
            ref.uid or "",
            path,
            ended=_has_ended(held.status),
            makes_pods=(version, ref.kind) in _MAKES_PODS,
            above=controller(held),
        )

    async def _kind(self, version: str, kind: str) -> _Resource | None:
        if version not in self._kinds:
            served = await insist(partial(self._api.get, _root(version), _Resources))
            # Subresources have a slash in their name.
            plain = (each for each in served.resources if "/" not in each.name)
            self._kinds[version] = {each.kind: each for each in plain}
        return self._kinds[version].get(kind)


def _has_name(ref: objects.OwnerReference) -> bool:
    """Whether there can be such an object at all."""
    version = _VERSION.fullmatch(ref.api_version or "v1")
    return version is not None and _NAME.fullmatch(ref.name or "") is not None


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _has_ended(status: msgspec.Raw) -> bool:
    try:
        conditions = msgspec.json.decode(status, type=_Status).conditions or ()
    except msgspec.MsgspecError:
        return False
    return any(each.type in _ENDED and each.status == "True" for each in conditions)
