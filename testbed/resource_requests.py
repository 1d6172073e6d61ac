"""What a pod takes of a machine, worked out from its manifest alone.

A second opinion on purpose: afflux has its own reading of requests, and a test that used it could
not find it wrong.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from testbed.api import Manifest

Amounts = dict[str, Decimal]

SUFFIXES = {
    "": Decimal(1),
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{letter: Decimal(1000) ** -power for power, letter in enumerate("mun", start=1)},
}
QUANTITY = re.compile(
    r"(?P<number>[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)(?P<suffix>[KMGTPE]i|[kMGTPEmun]|)"
)


def quantity(text: str | int | float) -> Decimal:
    """`1500m`, `2Gi`, `1e3` as a number."""
    match = QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"quantity is {text!r}, want a number and a suffix such as m, k, Gi or e3")
    return Decimal(match["number"]) * SUFFIXES[match["suffix"]]


def of_pod(pod: Manifest) -> Amounts:
    """Requests of a pod: the larger of its start and its run, its overhead, and one of `pods`."""
    spec = pod["spec"]
    run = total(_requests(container) for container in spec["containers"])
    sidecars: Amounts = {}
    start: Amounts = {}
    for container in spec.get("initContainers", ()):
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = total((sidecars, asked))
            asked = sidecars
        else:
            asked = total((sidecars, asked))
        start = _larger(start, asked)
    needed = _larger(total((run, sidecars)), start)
    # Stated for the pod as a whole, they stand in place of what its containers say.
    needed |= _read(spec.get("resources", {}).get("requests", {}))
    return total((needed, _read(spec.get("overhead", {})), {"pods": Decimal(1)}))


def of_node(node: Manifest) -> Amounts:
    """What a machine has to give."""
    return _read(node["status"]["allocatable"])


def _requests(container: Manifest) -> Amounts:
    resources = container.get("resources", {})
    return _read(resources.get("requests", {}))


def _read(amounts: Mapping[str, str]) -> Amounts:
    return {name: quantity(text) for name, text in amounts.items()}


def total(parts: Iterable[Amounts]) -> Amounts:
    """Amounts of several, added up."""
    added: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            added[name] = added.get(name, Decimal(0)) + amount
    return added


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {
        name: max(one.get(name, Decimal(0)), other.get(name, Decimal(0)))
        for name in one.keys() | other.keys()
    }
