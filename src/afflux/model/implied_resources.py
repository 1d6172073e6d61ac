"""Implied resources: host ports, volume attachments and available volumes, counted like CPU.

No user writes them into a manifest; they follow from other fields of pods and nodes. Everything
that counts resources (fit, the book, repacking, the checker) therefore keeps these limits exactly
without special cases.

A host port is bound on one address or on all of them. A task that binds it on all addresses
requests WHOLE_PORT of the port; a task that binds it on one address requests 1 of the port and
the whole of `port@address`. So two tasks conflict exactly if protocol and port are equal, and the
addresses are equal or one of them means all.

A machine has every port and unlimited attachments by default; an amount that it states replaces
the default, even if it is 0. Of available volumes it has none by default.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from afflux.model.resources import Resources

# The amount of a port: more than there can be tasks on a machine.
WHOLE_PORT = 1 << 20
# A machine without a limit on attached volumes.
UNLIMITED_ATTACHMENTS = 1 << 31


class ResourceKind(Enum):
    """What an implied resource counts; the value is the reason where too little of it is left."""

    PORT = "node(s) didn't have free ports for the requested pod ports"
    ATTACHMENT = "node(s) exceed max volume count"
    VOLUME = "node(s) didn't find available persistent volumes to bind"


class ImpliedResource(str):
    """The name of an implied resource, with its kind and what a machine has by default.

    Names of extended resources have exactly one slash, so these names cannot clash with them.
    """

    __slots__ = ("default_capacity", "kind")

    kind: ResourceKind
    default_capacity: int

    def __new__(cls, name: str, kind: ResourceKind, default_capacity: int) -> "ImpliedResource":
        made = super().__new__(cls, name)
        made.kind, made.default_capacity = kind, default_capacity
        return made


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the machine itself; `address` None stands for all its addresses."""

    protocol: str
    port: int
    address: str | None = None


def port_requests(ports: Iterable[HostPort]) -> dict[str, int]:
    """The requests of a task that binds these ports; duplicates count once."""
    requests: dict[str, int] = {}
    taken = set(ports)
    for port in taken:
        name = f"port/{port.protocol}/{port.port}"
        whole = ImpliedResource(name, ResourceKind.PORT, WHOLE_PORT)
        if port.address is None:
            requests[whole] = WHOLE_PORT
        elif HostPort(port.protocol, port.port) not in taken:
            requests[whole] = 1
            requests[ImpliedResource(f"{name}@{port.address}", ResourceKind.PORT, 1)] = 1
    return requests


def attachment_resource(driver: str) -> str:
    """The name of the resource that counts volumes which a driver attaches to a machine."""
    name = f"attach/csi/{driver}"
    return ImpliedResource(name, ResourceKind.ATTACHMENT, UNLIMITED_ATTACHMENTS)


def volume_resource(kind: str) -> str:
    """The name of the resource that counts volumes available to claims of one kind."""
    return ImpliedResource(f"volume/static/{kind}", ResourceKind.VOLUME, 0)


def kind_of(name: str) -> ResourceKind | None:
    """The kind of an implied resource, None for one that a manifest names."""
    return name.kind if isinstance(name, ImpliedResource) else None


def is_volume(name: str) -> bool:
    """Whether this resource counts available volumes."""
    return kind_of(name) is ResourceKind.VOLUME


def default_capacity(name: str) -> int:
    """How much of a resource a machine has if it states no amount."""
    return name.default_capacity if isinstance(name, ImpliedResource) else 0


def capacity_of(capacity: Resources, name: str) -> int:
    """How much of a resource a machine has: the stated amount, else the default."""
    stated = next((amount for key, amount in capacity if key == name), None)
    return default_capacity(name) if stated is None else stated
