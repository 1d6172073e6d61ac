"""ResourceVector messages as resources of the model.

Firmament's clients send thousandths of a core and thousandths of a byte. A request is rounded up
and a capacity down, so that rounding never overcommits a machine.
"""

import math

from afflux.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from afflux.rpc.message_errors import checked_amount
from afflux.rpc.proto.firmament import resources_pb2 as pb

# By field: the name in the model, and how many units of the message are one of the model.
_FIELDS = (
    ("cpu_cores", CPU, 1),
    ("ram_cap", MEMORY, 1000),
    ("ephemeral_storage", EPHEMERAL_STORAGE, 1000),
    ("ram_bw", "ram_bw", 1),
    ("disk_bw", "disk_bw", 1),
    ("disk_cap", "disk_cap", 1),
    ("net_tx_bw", "net_tx_bw", 1),
    ("net_rx_bw", "net_rx_bw", 1),
)


def requested_amounts(vector: pb.ResourceVector, field: str) -> dict[str, int]:
    """What a task asks for; a MessageError names the field below `field`."""
    return {
        name: -(-int(amount) // units) if units > 1 else math.ceil(amount)
        for name, units, amount in _amounts(vector, field)
    }


def offered_amounts(vector: pb.ResourceVector, field: str) -> dict[str, int]:
    """What a machine has."""
    return {name: int(amount) // units for name, units, amount in _amounts(vector, field)}


def _amounts(vector: pb.ResourceVector, field: str) -> list[tuple[str, int, float]]:
    found: list[tuple[str, int, float]] = []
    for wire, name, units in _FIELDS:
        amount: float = getattr(vector, wire)
        if amount:
            found.append((name, units, checked_amount(amount, f"{field}.{wire}")))
    return found
