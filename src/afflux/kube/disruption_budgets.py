"""PodDisruptionBudgets: which pods they select, and how many of these may be disrupted now.

The controller of Kubernetes writes that number into the status. Files may have no status: then it
is computed from the specification, with every selected pod on a node as a healthy one.
"""

import math
import re
from collections.abc import Iterable

from afflux.kube import objects
from afflux.kube.label_selectors import selects
from afflux.kube.objects import IntOrString
from afflux.kube.pods import namespace
from afflux.model.errors import InputError

_PERCENT = re.compile(r"([0-9]{1,9})%")


def budget_selects(budget: objects.PodDisruptionBudget, pod: objects.Pod) -> bool:
    """Whether a pod counts towards a budget: of the same namespace, with the labels asked for."""
    same = (budget.metadata.namespace or "default") == namespace(pod)
    return same and selects(budget.spec.selector, pod.metadata.labels or {})


def disruptions_allowed(budget: objects.PodDisruptionBudget, pods: Iterable[objects.Pod]) -> int:
    """How many of its pods may be disrupted now; `pods` are those that it selects."""
    status, spec = budget.status, budget.spec
    if status is not None and status.disruptions_allowed is not None:
        return max(0, status.disruptions_allowed)
    expected = healthy = 0
    for pod in pods:
        expected += 1
        healthy += bool(pod.spec.node_name) and not pod.metadata.deletion_timestamp
    if spec.max_unavailable is not None:
        most = _scaled(spec.max_unavailable, expected, "spec.maxUnavailable")
        desired = max(0, expected - most)
    elif spec.min_available is not None:
        desired = _scaled(spec.min_available, expected, "spec.minAvailable")
    else:
        return healthy
    return max(0, healthy - desired)


def _scaled(stated: IntOrString, total: int, path: str) -> int:
    """A number of pods, or a share of them rounded up."""
    if isinstance(stated, int):
        return max(0, stated)
    found = _PERCENT.fullmatch(stated)
    if found is None:
        raise InputError(f"{path}: {stated!r}, expected a number of pods or a percentage")
    return math.ceil(int(found[1]) * total / 100)
