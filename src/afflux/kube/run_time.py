"""The run time of a pod: the time its user expects, and the deadline at which Kubernetes ends it.

`spec.activeDeadlineSeconds` is enforced: the kubelet stops the pod that long after its start, plus
a grace period. `afflux.dev/expected-seconds`, a label or an annotation, is only used for planning.
"""

import re
from dataclasses import dataclass

from afflux.kube import objects
from afflux.kube.input_errors import shown
from afflux.kube.pods import started_seconds

EXPECTED_SECONDS_KEY = "afflux.dev/expected-seconds"
# The default of the API server.
DEFAULT_GRACE_SECONDS = 30

_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")


class ExpectedRunTimeError(ValueError):
    """An invalid expected run time; the message names source, value and what was expected."""


@dataclass(frozen=True, slots=True)
class RunTime:
    """The run time that a pod declares; None where it declares nothing.

    `run_seconds` is how long the pod is expected to occupy its machine. `limit_seconds` is what the
    limits of a queue apply to: the deadline without the grace period, else the expected time.
    """

    run_seconds: float | None = None
    limit_seconds: float | None = None


UNKNOWN_RUN_TIME = RunTime()


def run_time(pod: objects.Pod) -> RunTime:
    """The run time that the pod declares; an ExpectedRunTimeError if that is invalid."""
    deadline, expected = pod.spec.active_deadline_seconds, _expected_seconds(pod)
    if deadline is None:
        return RunTime(expected, expected) if expected is not None else UNKNOWN_RUN_TIME
    deadline = max(0, deadline)
    killed = float(deadline + _grace_seconds(pod))
    return RunTime(killed if expected is None else min(expected, killed), float(deadline))


def declared_run_seconds(pod: objects.Pod) -> float | None:
    """The expected time on its machine; an invalid declaration counts as none."""
    try:
        return run_time(pod).run_seconds
    except ExpectedRunTimeError:
        deadline = pod.spec.active_deadline_seconds
        return None if deadline is None else float(max(0, deadline) + _grace_seconds(pod))


def deadline_ends_seconds(pod: objects.Pod) -> float | None:
    """When the deadline of a started pod ends, in seconds since 1970; None without one."""
    deadline, started = pod.spec.active_deadline_seconds, started_seconds(pod)
    return None if deadline is None or started is None else started + max(0, deadline)


def _grace_seconds(pod: objects.Pod) -> int:
    grace = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_SECONDS if grace is None else max(0, grace)


def _expected_seconds(pod: objects.Pod) -> float | None:
    found = {
        kind: written
        for kind, texts in (
            ("annotation", pod.metadata.annotations),
            ("label", pod.metadata.labels),
        )
        if texts and (written := texts.get(EXPECTED_SECONDS_KEY)) is not None
    }
    seconds: float | None = None
    for kind, written in found.items():
        if not _SECONDS.fullmatch(written) or float(written) == 0:
            raise ExpectedRunTimeError(
                f"{kind} {EXPECTED_SECONDS_KEY}: {shown(written)}, "
                "expected a number of seconds above 0"
            )
        if seconds is not None and float(written) != seconds:
            raise ExpectedRunTimeError(
                f"{kind} {EXPECTED_SECONDS_KEY}: {shown(written)}, but annotation: "
                f"{shown(found['annotation'])}; expected one of them"
            )
        seconds = float(written)
    return seconds
