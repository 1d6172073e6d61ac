"""Pod notices: write what is told about a task as events and conditions of its pod.

In kube-scheduler's words, where it has any. The event recorder and the pod conditions limit the
rate. What is told, and when, is decided in control/announcements.py.
"""

from collections.abc import Mapping
from types import MappingProxyType

from afflux.control.adapter import NoticeKind
from afflux.kube import objects
from afflux.kube.live.event_recorder import (
    FAILED_SCHEDULING,
    GROUP_REFUSED,
    REQUIREMENT_VIOLATED,
    START_PROMISED,
    UNSATISFIABLE,
    EventReason,
    EventRecorder,
)
from afflux.kube.live.object_refs import pod_ref
from afflux.kube.live.pod_conditions import Condition, PodConditions, scheduler_error, unschedulable
from afflux.kube.pods import scheduler_of
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.model.placement import Placement
from afflux.model.task import Task

_REASONS: Mapping[NoticeKind, EventReason] = MappingProxyType(
    {
        "waits": FAILED_SCHEDULING,
        "in doubt": FAILED_SCHEDULING,
        "refused": GROUP_REFUSED,
        "unsatisfiable": UNSATISFIABLE,
        "reserved": START_PROMISED,
        "violation": REQUIREMENT_VIOLATED,
    }
)


class PodNotices:
    """Implements `control.adapter.Notices`."""

    def __init__(
        self, reader: ClusterReader, recorder: EventRecorder, pod_conditions: PodConditions
    ) -> None:
        self._reader = reader
        self._recorder = recorder
        self._pod_conditions = pod_conditions

    def is_waiting(self, task: Task) -> bool:
        return self._reader.pending_pod(task) is not None

    def status_of(self, task: Task) -> str:
        pod = self._reader.pending_pod(task)
        seen = None if pod is None else _seen(pod)
        return "" if seen is None else seen.message

    def event(self, task: Task, kind: NoticeKind, text: str) -> None:
        pod = self._pod(task)
        if pod is not None:
            self._recorder.failed(pod_ref(pod), text, scheduler_of(pod), _REASONS[kind])

    def status(self, task: Task, text: str, *, order_refused: bool) -> None:
        pod = self._reader.pending_pod(task)
        if pod is not None:
            self._pod_conditions.write(
                pod_ref(pod),
                scheduler_error(text) if order_refused else unschedulable(text),
                _seen(pod),
                generation=pod.metadata.generation or 0,
            )

    def started(self, placement: Placement) -> None:
        pod = self._pod(placement.task)
        if pod is not None:
            self._pod_conditions.forget(pod_ref(pod))
            self._recorder.scheduled(pod_ref(pod), placement.machine, scheduler_of(pod))

    def _pod(self, task: Task) -> objects.Pod | None:
        pod = self._reader.pods.get(task.name)
        return pod if pod is not None and pod.metadata.uid == task.id else None


def _seen(pod: objects.Pod) -> Condition | None:
    """The PodScheduled condition that the pod has."""
    for each in (pod.status and pod.status.conditions) or ():
        if each.type == "PodScheduled":
            return Condition(each.status or "", each.reason or "", each.message or "")
    return None
