"""How much one object may name.

Whatever pods name becomes a column over all machines: a port of the host, a resource, a kind of
volume. Kubernetes bounds none of it, so that a single pod could use up the scheduler's memory. Far
more than anybody needs is allowed; a pod that names even more waits, and is told which field. Of
pods that run, as much is counted as is allowed. What all pods name together is not bounded here.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from afflux.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

MOST_HOST_PORTS = 128
MOST_RESOURCES = 64
MOST_VOLUME_KINDS = 64
# Machines are described by their owners: there it is an error of somebody whom we trust.
MOST_OFFERED = 1024

_ALWAYS = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})

T = TypeVar("T")


def too_many(field: str, found: int, most: int, what: str) -> str:
    """What a pod is told that names more."""
    return f"{field}: {found} {what}, expected at most {most}"


def first(found: Iterable[T], most: int) -> list[T]:
    """As many of them as are allowed."""
    return list(islice(found, most))


def first_resources(asked: Resources) -> tuple[Resources, str | None]:
    """As many of them as are allowed, what every pod uses among them; and what a pod is told."""
    if len(asked) <= MOST_RESOURCES:
        return asked, None
    field, what = "spec.containers[*].resources", "different resources"
    others = first((each for each in asked if each[0] not in _ALWAYS), MOST_RESOURCES)
    kept = tuple(sorted([*(each for each in asked if each[0] in _ALWAYS), *others]))
    return kept, too_many(field, len(asked), MOST_RESOURCES, what)


def first_volumes(asked: Resources) -> tuple[Resources, str | None]:
    """The same for what a pod asks for because of its volumes."""
    if len(asked) <= MOST_VOLUME_KINDS:
        return asked, None
    said = too_many("spec.volumes", len(asked), MOST_VOLUME_KINDS, "kinds of volumes")
    return tuple(first(asked, MOST_VOLUME_KINDS)), said
