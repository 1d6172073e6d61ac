"""A recorder of the events and conditions that announcements request."""

from dataclasses import dataclass, field
from typing import Any

from afflux.kube.live.event_recorder import FAILED_SCHEDULING, EventReason
from afflux.kube.live.object_refs import PodRef
from afflux.kube.live.pod_conditions import Condition


@dataclass
class Recorded:
    """Events as (pod, reason, note), and conditions with the pods' names, in order."""

    events: list[tuple[str, str, str]] = field(default_factory=list)
    conditions: list[tuple[str, Condition]] = field(default_factory=list)

    def failed(
        self,
        pod: PodRef,
        why: str,
        scheduler: str | None = None,
        reason: EventReason = FAILED_SCHEDULING,
    ) -> None:
        self.events.append((pod.name, reason.name, why))

    def write(self, pod: PodRef, wanted: Condition, seen: Any, **more: Any) -> None:
        self.conditions.append((pod.name, wanted))

    def condition(self, pod_name: str) -> Condition:
        """The last condition of a pod."""
        return dict(self.conditions)[pod_name]

    def messages(self) -> list[tuple[str, str]]:
        """The messages of all conditions, with the pods' names."""
        return [(name, condition.message) for name, condition in self.conditions]
