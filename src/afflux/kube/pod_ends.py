"""How and when a pod ended, from its last version."""

from msgspec.structs import replace

from afflux.groups.states import EndReason
from afflux.kube import objects
from afflux.kube.pods import deleted_seconds, is_bound, is_finished, seconds_of

DEADLINE_EXCEEDED = "DeadlineExceeded"


def how_ended(pod: objects.Pod, *, deleted: bool) -> EndReason:
    """How a pod ended that has a final phase, or was `deleted` with this as its last version.

    A pod that is deleted while it runs gets a final phase too, when its containers have stopped: it
    counts as deleted.
    """
    status = pod.status or _NO_STATUS
    if status.reason == DEADLINE_EXCEEDED:
        return "deadline"
    match status.phase:
        case "Succeeded" if not _was_deleted_first(pod):
            return "succeeded"
        case "Failed" if not _was_deleted_first(pod):
            return "rejected" if _is_rejected(pod, status) else "failed"
        case "Succeeded" | "Failed":
            return "deleted"
        case phase:
            if not deleted:
                raise ValueError(f"status.phase: {phase!r}, expected Succeeded or Failed")
            return "deleted"


def finished_seconds(pod: objects.Pod) -> float | None:
    """When the last container of an ended pod ended, None if the pod does not say."""
    status = pod.status or _NO_STATUS
    found = [
        seconds
        for each in status.container_statuses or status.init_container_statuses or ()
        if each.state is not None
        and each.state.terminated is not None
        and (written := each.state.terminated.finished_at)
        and (seconds := seconds_of(written)) is not None
    ]
    return max(found, default=None)


def essence(pod: objects.Pod) -> objects.Pod:
    """The pod itself; of one that has ended, what says which pod it was and how it ended."""
    status = pod.status
    if status is None or not is_finished(pod):
        return pod
    return objects.Pod(
        replace(pod.metadata, labels=None, annotations=None, owner_references=None),
        objects.PodSpec(node_name=pod.spec.node_name, scheduler_name=pod.spec.scheduler_name),
        replace(status, conditions=None),
    )


_NO_STATUS = objects.PodStatus()


def _is_rejected(pod: objects.Pod, status: objects.PodStatus) -> bool:
    """Whether the kubelet refused to start the pod (OutOfcpu, NodeAffinity, NodeShutdown,
    UnexpectedAdmissionError and others). It states a reason and clears the containers' statuses.
    """
    has_containers = status.container_statuses or status.init_container_statuses
    return bool(status.reason) and is_bound(pod) and not has_containers


def _was_deleted_first(pod: objects.Pod) -> bool:
    """Whether the pod was deleted before it ended: then its deletion had a grace period. A pod that
    had ended before is deleted without one."""
    grace = pod.metadata.deletion_grace_period_seconds or 0
    latest = deleted_seconds(pod)
    if latest is None:
        return False
    finished = finished_seconds(pod)
    if finished is None:
        return grace > 0
    requested = latest - grace
    return finished > requested or (finished == requested and grace > 0)
