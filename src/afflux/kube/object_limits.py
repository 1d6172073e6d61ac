"""Limits on what one object may name.

Each host port and kind of volume that a waiting pod names becomes a column over all machines; other
names take memory and time for the pod alone. Kubernetes limits only the size of an object, to 1.5
or 2 MB, so that a single pod could use up the scheduler's memory and time. The limits are far above
common use. A pending pod that exceeds one waits, with a message that names the field; of a running
pod, only the allowed number is counted. The limits on all waiting pods together are in
tenant_limits.py.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from afflux.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

MAX_HOST_PORTS = 128
MAX_RESOURCES = 64
MAX_VOLUME_KINDS = 64
# Of nodeSelector and node affinity together. Common pods have up to a dozen expressions on a few
# keys, and name up to some hundreds of nodes. A pod at all limits takes about 0.7 MB.
MAX_EXPRESSIONS = 512
MAX_EXPRESSION_VALUES = 4_096
MAX_LABEL_KEYS = 128
MAX_AFFINITY_CHARACTERS = 262_144
# Common pods have up to a dozen.
MAX_TOLERATIONS = 256
# Of terms of pod affinity and anti-affinity, and topology spread constraints, together. Common pods
# have up to five, with one or two topology keys. Of expressions, values and characters in them, as
# many are allowed as in node affinity. Each is compared with the labels of all pods.
MAX_POD_TERMS = 64
MAX_TOPOLOGY_KEYS = 16
# Common pods have up to a dozen. Each selector looks at all of them.
MAX_POD_LABELS = 512
# Selectors of different Services with which a pod is compared for its default constraints. Each has
# a label in common with the pod; common pods have one or two.
MAX_SERVICES_COMPARED = 256
# Only administrators write nodes: exceeding this limit is an error in the input.
MAX_NODE_RESOURCES = 1024

_ALWAYS = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})

T = TypeVar("T")


def limit_exceeded(field: str, found: int, most: int, what: str) -> str:
    return f"{field}: {found} {what}, expected at most {most}"


def first(found: Iterable[T], most: int) -> list[T]:
    return list(islice(found, most))


def first_resources(asked: Resources) -> tuple[Resources, str | None]:
    """The allowed number of resources, with those of every pod first; and the message if cut."""
    if len(asked) <= MAX_RESOURCES:
        return asked, None
    field, what = "spec.containers[*].resources", "different resources"
    others = first((each for each in asked if each[0] not in _ALWAYS), MAX_RESOURCES)
    kept = tuple(sorted([*(each for each in asked if each[0] in _ALWAYS), *others]))
    return kept, limit_exceeded(field, len(asked), MAX_RESOURCES, what)


def first_volumes(asked: Resources) -> tuple[Resources, str | None]:
    """The same for the resources that a pod requests because of its volumes."""
    if len(asked) <= MAX_VOLUME_KINDS:
        return asked, None
    message = limit_exceeded("spec.volumes", len(asked), MAX_VOLUME_KINDS, "kinds of volumes")
    return tuple(first(asked, MAX_VOLUME_KINDS)), message
