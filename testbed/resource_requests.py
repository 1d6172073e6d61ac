"""The resources that a pod requests and that a machine has, read from the manifests.

This is independent of afflux's own computation of requests, so that tests can find errors in it.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from testbed.api import Manifest

ResourceTable = dict[str, Decimal]

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


def of_pod(pod: Manifest) -> ResourceTable:
    """The requests of a pod: the maximum over its init phase and its run, its overhead, one pod."""
    spec = pod["spec"]
    run = total(_requests(container) for container in spec["containers"])
    sidecars: ResourceTable = {}
    start: ResourceTable = {}
    for container in spec.get("initContainers", ()):
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = total((sidecars, asked))
            asked = sidecars
        else:
            asked = total((sidecars, asked))
        start = _larger(start, asked)
    needed = _larger(total((run, sidecars)), start)
    # Pod-level requests replace the sum over the containers.
    needed |= _read(spec.get("resources", {}).get("requests", {}))
    return total((needed, _read(spec.get("overhead", {})), {"pods": Decimal(1)}))


def of_node(node: Manifest) -> ResourceTable:
    """The allocatable resources of a machine."""
    return _read(node["status"]["allocatable"])


def _requests(container: Manifest) -> ResourceTable:
    resources = container.get("resources", {})
    return _read(resources.get("requests", {}))


def _read(amounts: Mapping[str, str]) -> ResourceTable:
    return {name: quantity(text) for name, text in amounts.items()}


def total(parts: Iterable[ResourceTable]) -> ResourceTable:
    """The sum of several tables."""
    added: ResourceTable = {}
    for part in parts:
        for name, amount in part.items():
            added[name] = added.get(name, Decimal(0)) + amount
    return added


def _larger(one: ResourceTable, other: ResourceTable) -> ResourceTable:
    return {
        name: max(one.get(name, Decimal(0)), other.get(name, Decimal(0)))
        for name in one.keys() | other.keys()
    }
