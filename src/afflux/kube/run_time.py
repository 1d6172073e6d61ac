"""How long a pod lasts: what its user expects, and when Kubernetes puts an end to it.

`spec.activeDeadlineSeconds` kills: the kubelet stops the pod so long after its start, and it has
its grace period to obey. `afflux.dev/expected-seconds`, a label or an annotation, only plans.
"""

import re
from dataclasses import dataclass

from afflux.kube import objects
from afflux.kube.complaints import shown
from afflux.kube.decoding import started_seconds

EXPECTED = "afflux.dev/expected-seconds"
# What the API server writes where a pod does not say.
USUAL_GRACE_SECONDS = 30

_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")


class ExpectationError(ValueError):
    """An expectation that cannot be understood; the text names it, the value and what would be."""


@dataclass(frozen=True, slots=True)
class Lasting:
    """`run_seconds` is how long the pod is expected to hold its machine from its start on,
    `limit_seconds` what limits of a queue are about: its deadline without the grace period, or what
    is expected if it has none. None: it does not say.
    """

    run_seconds: float | None = None
    limit_seconds: float | None = None


WITHOUT_END = Lasting()


def lasting(pod: objects.Pod) -> Lasting:
    """What the pod says; an ExpectationError if that makes no sense."""
    deadline, expected = pod.spec.active_deadline_seconds, _expected_seconds(pod)
    if deadline is None:
        return Lasting(expected, expected) if expected is not None else WITHOUT_END
    deadline = max(0, deadline)
    killed = float(deadline + _grace_seconds(pod))
    return Lasting(killed if expected is None else min(expected, killed), float(deadline))


def planned_seconds(pod: objects.Pod) -> float | None:
    """How long the pod is expected to hold its machine; who does not make sense says nothing."""
    try:
        return lasting(pod).run_seconds
    except ExpectationError:
        deadline = pod.spec.active_deadline_seconds
        return None if deadline is None else float(max(0, deadline) + _grace_seconds(pod))


def over_seconds(pod: objects.Pod) -> float | None:
    """When the deadline of a pod that has started is over; None if there is none, or no start."""
    deadline, started = pod.spec.active_deadline_seconds, started_seconds(pod)
    return None if deadline is None or started is None else started + max(0, deadline)


def _grace_seconds(pod: objects.Pod) -> int:
    grace = pod.spec.termination_grace_period_seconds
    return USUAL_GRACE_SECONDS if grace is None else max(0, grace)


def _expected_seconds(pod: objects.Pod) -> float | None:
    found = {
        kind: written
        for kind, texts in (
            ("annotation", pod.metadata.annotations),
            ("label", pod.metadata.labels),
        )
        if texts and (written := texts.get(EXPECTED)) is not None
    }
    seconds: float | None = None
    for kind, written in found.items():
        if not _SECONDS.fullmatch(written) or float(written) == 0:
            raise ExpectationError(
                f"{kind} {EXPECTED}: {shown(written)}, expected a number of seconds above 0"
            )
        if seconds is not None and float(written) != seconds:
            raise ExpectationError(
                f"{kind} {EXPECTED}: {shown(written)}, but annotation: "
                f"{shown(found['annotation'])}; expected one of them"
            )
        seconds = float(written)
    return seconds
