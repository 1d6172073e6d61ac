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

from afflux.model.resources import Resources

# Names of extended resources have exactly one slash, so these names cannot clash with them.
_PORT = "port/"
_ATTACHMENT = "attach/csi/"
_VOLUMES = "volume/static/"

# The amount of a port: more than there can be tasks on a machine.
WHOLE_PORT = 1 << 20
# A machine without a limit on attached volumes.
UNLIMITED_ATTACHMENTS = 1 << 31


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
        name = f"{_PORT}{port.protocol}/{port.port}"
        if port.address is None:
            requests[name] = WHOLE_PORT
        elif HostPort(port.protocol, port.port) not in taken:
            requests[name] = 1
            requests[f"{name}@{port.address}"] = 1
    return requests


def attachment_resource(driver: str) -> str:
    """The name of the resource that counts volumes which a driver attaches to a machine."""
    return f"{_ATTACHMENT}{driver}"


def volume_resource(kind: str) -> str:
    """The name of the resource that counts volumes available to claims of one kind."""
    return f"{_VOLUMES}{kind}"


def is_volume(name: str) -> bool:
    """Whether this resource counts available volumes."""
    return name.startswith(_VOLUMES)


def is_port(name: str) -> bool:
    return name.startswith(_PORT)


def is_attachment(name: str) -> bool:
    """Whether this resource counts attached volumes."""
    return name.startswith(_ATTACHMENT)


def default_capacity(name: str) -> int:
    """How much of a resource a machine has if it states no amount."""
    if is_port(name):
        return 1 if "@" in name else WHOLE_PORT
    return UNLIMITED_ATTACHMENTS if is_attachment(name) else 0


def capacity_of(capacity: Resources, name: str) -> int:
    """How much of a resource a machine has: the stated amount, else the default."""
    stated = next((amount for key, amount in capacity if key == name), None)
    return default_capacity(name) if stated is None else stated
