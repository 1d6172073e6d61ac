"""Resources beside those that people name: host ports, room to attach volumes, volumes to be had.

What only one task at a time may have on a machine is a resource like any other, so that whatever
counts resources (fit, books, repacking, the checker) keeps it exactly without knowing of it.

A host port is taken on one address or on all of them. A task that takes it on all asks for the
whole of it; one that takes it on a single address asks for a sliver of the port and for the whole
of that address. So two tasks clash exactly if they name the same protocol and port, and the same
address or one of them all.

Ports and room to attach every machine has without saying so; one that states an amount has that
amount, even if it is 0. Volumes to be had it has only if it says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from afflux.model.resources import Resources

# The names of extended resources have one slash, so that these can be nobody else's.
_PORT = "port/"
_ATTACHMENT = "attach/csi/"
_VOLUMES = "volume/static/"

# All of a port; more slivers than there can be tasks on a machine.
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
    """What a task that takes these ports asks for; naming one twice is naming it once."""
    asked: dict[str, int] = {}
    taken = set(ports)
    for port in taken:
        name = f"{_PORT}{port.protocol}/{port.port}"
        if port.address is None:
            asked[name] = WHOLE_PORT
        elif HostPort(port.protocol, port.port) not in taken:
            asked[name] = 1
            asked[f"{name}@{port.address}"] = 1
    return asked


def attachments(driver: str) -> str:
    """The resource that counts volumes which a driver attaches to a machine."""
    return f"{_ATTACHMENT}{driver}"


def volumes_for(kind: str) -> str:
    """The resource that counts volumes to be had on a machine by claims of one kind."""
    return f"{_VOLUMES}{kind}"


def is_volume(name: str) -> bool:
    """Whether this resource counts volumes to be had."""
    return name.startswith(_VOLUMES)


def is_port(name: str) -> bool:
    """Whether this resource is a host port."""
    return name.startswith(_PORT)


def is_attachment(name: str) -> bool:
    """Whether this resource counts attached volumes."""
    return name.startswith(_ATTACHMENT)


def implied_capacity(name: str) -> int:
    """How much of a resource a machine has that says nothing about it."""
    if is_port(name):
        return 1 if "@" in name else WHOLE_PORT
    return UNLIMITED_ATTACHMENTS if is_attachment(name) else 0


def capacity_of(capacity: Resources, name: str) -> int:
    """How much of a resource a machine has, by what it states or without saying so."""
    stated = next((amount for key, amount in capacity if key == name), None)
    return implied_capacity(name) if stated is None else stated
